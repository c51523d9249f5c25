// SPDX-License-Identifier: Apache-2.0
//! The engine's promises, by random sequences of events: processes are honest, silent or lying, come back, and die at any time;
//! the service is started again, the clock jumps, policy and consent change.

use std::collections::BTreeMap;

use hindsight_trace_format::protocol::{FromProcess, TakeOutcome, TriggerSeverity};
use hindsight_trace_format::shared::{Crash, CrashKind, Served};
use proptest::prelude::*;

use super::actor::Actor;
use super::checker::{Checker, NAMES, REPORT_BYTES};
use super::random_step::{steps, Step, POLICIES, SLOTS};
use super::support::{trigger, trigger_at, MIB, SECOND};
use crate::engine::{
    Action, Asked, Connection, Engine, Event, Facts, Now, Peer, Pressure, Service,
};
use crate::limits::Limiter;
use crate::policy::{Level, Person, Policy, UserType};

/// Processes, and the service.
struct World {
    engine: Engine,
    checker: Checker,
    actors: BTreeMap<usize, Actor>,
    /// Processes by connection, also of earlier connections.
    of: BTreeMap<Connection, u32>,
    now_ns: u64,
    jump: i64,
    next_connection: Connection,
    next_pid: u32,
    asked: u64,
    /// Of them, those of earlier instances of the service.
    asked_before: u64,
    /// What processes say about whom they serve.
    services: Vec<Service>,
}

fn policy(number: usize) -> Policy {
    Policy::parse(&format!("version = 1\n{}", POLICIES[number])).unwrap()
}

fn person(level: Level) -> Person {
    Person {
        user: UserType::EndUser,
        agreed: Some(level),
        ..Person::default()
    }
}

impl World {
    fn new(number: usize) -> Self {
        let facts = Facts {
            person: person(Level::Full),
            report_bytes: REPORT_BYTES,
            ..Facts::default()
        };
        let limiter = Limiter::fresh("boot");
        let mut checker = Checker::default();
        checker.policy = policy(number);
        checker.person = facts.person.clone();
        checker.list = limiter.save(0);
        World {
            engine: Engine::new(policy(number), limiter, facts),
            checker,
            actors: BTreeMap::new(),
            of: BTreeMap::new(),
            now_ns: 100 * SECOND,
            jump: 0,
            next_connection: 1,
            next_pid: 1,
            asked: 0,
            asked_before: 0,
            services: Vec::new(),
        }
    }

    fn now(&self) -> Now {
        Now {
            boottime_ns: self.now_ns,
            realtime_ns: self.now_ns.wrapping_add_signed(self.jump),
        }
    }

    fn handle(&mut self, event: Event) {
        self.checker.at(self.now_ns);
        self.checker.before(&event);
        let actions = self.engine.handle(self.now(), event);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in &actions {
            let (connection, message) = match action {
                Action::Send {
                    connection,
                    message,
                } => (connection, Some(message.clone())),
                Action::Disconnect { connection } => (connection, None),
                _ => continue,
            };
            let mut actors = self.actors.values_mut();
            let Some(actor) = actors.find(|a| a.connection == Some(*connection)) else {
                continue;
            };
            match message {
                Some(message) => actor.receive(message),
                None => actor.lose(),
            }
        }
        self.checker.after(&actions);
        self.check_truth();
        for action in actions {
            if let Action::FindPeers { report, connection } = action {
                self.handle(Event::Serving {
                    report,
                    connection,
                    services: self.services.clone(),
                });
            }
        }
    }

    /// Honest processes that the service counts are within number and budget.
    fn check_truth(&self) {
        let honest = self.actors.values().filter(|actor| {
            let is_known = actor.connection.is_some_and(|c| self.checker.is_known(c));
            actor.is_honest && is_known
        });
        let rings: u32 = honest.map(Actor::rings).sum();
        assert!(rings <= self.checker.rings_at_most(), "{rings} rings");
        let status = self.engine.status(self.now());
        assert!(status.processes.len() <= 128);
        assert!(status.memory.rings_held >= status.processes.iter().map(|p| p.rings_granted).sum());
    }

    fn connection(&self, slot: usize) -> Option<Connection> {
        let connection = self.actors.get(&slot)?.connection?;
        self.checker.is_connected(connection).then_some(connection)
    }

    fn say(&mut self, slot: usize, message: FromProcess) {
        if let Some(connection) = self.connection(slot) {
            self.handle(Event::Said {
                connection,
                message,
            });
        }
    }

    fn start(&mut self, slot: usize, uid: u32, kind: u8) {
        let pid = self.next_pid;
        self.next_pid += 1;
        let actor = self.actors.entry(slot).or_insert_with(|| {
            let sizes = match kind {
                0 => (32 * MIB, 3 * MIB),
                1 => (u64::MAX, 1),
                _ => (MIB << kind, MIB * u64::from(kind)),
            };
            let mut actor = Actor::new(Peer { pid, uid }, NAMES[slot % 4], sizes, kind % 3 != 0);
            actor.is_unnamed = pid % 2 == 0;
            actor
        });
        if actor.connection.is_some() {
            return;
        }
        let connection = self.next_connection;
        self.next_connection += 1;
        actor.connect(connection);
        let (peer, mut hello) = (actor.peer, actor.hello());
        if !actor.is_honest {
            (hello.held, hello.taken) = (slot as u32, u64::from(kind));
        }
        self.of.insert(connection, peer.pid);
        let crash = (kind == 4).then_some(Crash {
            kind: CrashKind::UncaughtException,
            tid: 5,
            at_boottime_ns: self.now_ns - SECOND,
        });
        self.handle(Event::Joined {
            connection,
            peer,
            hello,
            crash,
        });
    }

    fn work(&mut self, slot: usize, messages: u8) {
        for _ in 0..messages {
            let answer = self.actors.get_mut(&slot).and_then(Actor::step);
            if let Some(message) = answer {
                self.say(slot, message);
            }
        }
    }

    fn serve(&mut self, slot: usize, client: usize, ns: u64) {
        let client = self.actors.get(&client).map(|actor| actor.peer);
        let (Some(connection), Some(client)) = (self.connection(slot), client) else {
            return;
        };
        if self.services.len() >= 8 {
            self.services.remove(0);
        }
        self.services.push(Service {
            connection,
            served: Served {
                pid: client.pid,
                uid: client.uid,
                tid: 5,
                began_ns: self.now_ns - ns,
                ended_ns: Some(self.now_ns).filter(|_| ns % 2 == 0),
            },
        });
    }

    fn lose(&mut self, slot: usize) {
        if let Some(connection) = self.connection(slot) {
            self.actors.get_mut(&slot).unwrap().lose();
            self.handle(Event::Lost { connection });
        }
    }

    fn end(&mut self, slot: usize, has_crashed: bool) {
        let Some(actor) = self.actors.remove(&slot) else {
            return;
        };
        let of = self.of.iter().filter(|(_, pid)| **pid == actor.peer.pid);
        let connections: Vec<Connection> = of.map(|(connection, _)| *connection).collect();
        for connection in connections {
            self.of.remove(&connection);
            if has_crashed {
                let crash = Crash {
                    kind: CrashKind::Signal(11),
                    tid: 5,
                    at_boottime_ns: self.now_ns + 1,
                };
                self.handle(Event::Crashed { connection, crash });
            }
            self.handle(Event::Ended { connection });
        }
    }

    /// Time passes; the engine is woken when it wants to be.
    fn pass(&mut self, ns: u64) {
        let until_ns = self.now_ns + ns;
        while let Some(wake_ns) = self.checker.wake_ns.filter(|wake_ns| *wake_ns <= until_ns) {
            self.now_ns = wake_ns;
            self.handle(Event::Woke);
        }
        self.now_ns = until_ns;
    }

    fn written(&mut self, is_kept: bool) {
        if let Some((report, _, _)) = self.checker.writing {
            self.handle(Event::Written { report, is_kept });
        }
    }

    fn set_policy(&mut self, number: usize) {
        self.checker.at(self.now_ns);
        let lower = policy(number).memory.budget_bytes < self.checker.policy.memory.budget_bytes;
        self.checker.set_policy(policy(number), lower);
        let actions = self.engine.set_policy(self.now(), policy(number));
        self.carry_out(actions);
    }

    fn set_person(&mut self, level: usize) {
        let person = person(Level::ALL[level]);
        self.checker.at(self.now_ns);
        self.checker.set_person(person.clone());
        let actions = self.engine.set_person(self.now(), person);
        self.carry_out(actions);
    }

    /// Another instance of the service knows what is on disk.
    fn restart(&mut self, jump: i64) {
        self.jump = jump;
        self.checker.restart();
        self.asked_before = self.asked;
        self.of.clear();
        let facts = Facts {
            person: self.checker.person.clone(),
            is_restart: true,
            first_report: 1,
            report_bytes: REPORT_BYTES,
            ..Facts::default()
        };
        let limiter = Limiter::load(&self.checker.list, "boot", self.now_ns).unwrap();
        self.engine = Engine::new(self.checker.policy.clone(), limiter, facts);
        for actor in self.actors.values_mut() {
            actor.lose();
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Start { slot, uid, kind } => self.start(slot, uid, kind),
            Step::Work { slot, messages } => self.work(slot, messages),
            Step::Foreground {
                slot,
                is_foreground,
            } => {
                if let Some(actor) = self.actors.get_mut(&slot) {
                    actor.is_foreground = is_foreground;
                }
                self.say(
                    slot,
                    FromProcess::Foreground {
                        is_foreground,
                        tid: 1,
                    },
                );
            }
            Step::Activities { slot, are_started } => {
                self.say(slot, FromProcess::Activities { are_started });
            }
            Step::Trigger {
                slot,
                severity,
                detector,
            } => {
                let detector = ["slow-message", "late-frames", "../\n"][usize::from(detector)];
                let severity = TriggerSeverity::ALL[severity];
                self.say(slot, trigger_at(detector, severity, self.now_ns));
            }
            Step::LieHeld { slot, rings } => self.lie(slot, FromProcess::Held { rings }),
            Step::LieTaken {
                slot,
                report,
                outcome,
            } => {
                let all = [
                    TakeOutcome::Taken,
                    TakeOutcome::Nothing,
                    TakeOutcome::Refused,
                ];
                let outcome = all[usize::from(outcome)];
                self.lie(slot, FromProcess::Taken { report, outcome });
            }
            Step::Needs { slot, bytes } => self.say(slot, FromProcess::Needs { bytes }),
            Step::Name { slot } => {
                if let Some(actor) = self.actors.get_mut(&slot) {
                    actor.is_unnamed = false;
                    let name = actor.name.clone();
                    self.say(slot, FromProcess::Name { name });
                }
            }
            Step::Farewell { slot } => self.say(slot, FromProcess::Farewell),
            Step::Lose { slot } => self.lose(slot),
            Step::Serve { slot, client, ns } => {
                // Most of the time there are no two.
                self.start(client, 10_000 + (ns % 4) as u32, 2);
                self.start(
                    slot,
                    [10_000, 10_003, 1000, 1_010_001][(ns / 4 % 4) as usize],
                    2,
                );
                self.serve(slot, client, ns);
                self.say(client, trigger("slow-message", TriggerSeverity::Slow));
                // Whoever is honest answers, and what can be written is.
                for slot in [client, slot] {
                    self.work(slot, 9);
                    self.written(true);
                }
            }
            Step::End { slot, has_crashed } => self.end(slot, has_crashed),
            Step::Written { is_kept } => self.written(is_kept),
            Step::Ask { slot } => {
                let process = self
                    .actors
                    .get(&slot)
                    .map_or("nobody".into(), |a| a.name.clone());
                self.asked += 1;
                let what = match self.asked % 4 {
                    1 if self.asked % 8 == 1 => Asked::EndRecording { package: process },
                    0 => Asked::Record {
                        package: process,
                        seconds: (self.asked % 7) as u32,
                    },
                    _ => Asked::Report {
                        process,
                        reason: "a\nb".into(),
                    },
                };
                self.handle(Event::Asked {
                    reply: self.asked,
                    what,
                });
            }
            Step::Pressure { level } => {
                let all = [Pressure::None, Pressure::Some, Pressure::Full];
                self.handle(Event::Pressure(all[usize::from(level)]));
            }
            Step::Pass { ns } => self.pass(ns),
            Step::Sleep { ns } => {
                self.now_ns += ns;
                self.handle(Event::Slept(ns));
            }
            Step::Policy { number } => self.set_policy(number),
            Step::Person { level } => self.set_person(level),
            Step::Restart { jump } => self.restart(jump),
        }
    }

    fn lie(&mut self, slot: usize, message: FromProcess) {
        if self.actors.get(&slot).is_some_and(|actor| !actor.is_honest) {
            self.say(slot, message);
        }
    }

    /// Everybody ends, and all that is begun is finished.
    fn finish(&mut self) {
        for slot in 0..SLOTS {
            self.end(slot, false);
        }
        while self.checker.writing.is_some() {
            self.written(true);
        }
        self.pass(100 * SECOND);
        self.checker.check_end();
        let asked = self.checker.answers.len() as u64;
        assert_eq!(asked, self.asked - self.asked_before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_events_breaks_a_promise(
        number in 0..POLICIES.len(),
        steps in prop::collection::vec(steps(), 1..150),
    ) {
        let mut world = World::new(number);
        let asks = steps.iter().any(|step| matches!(step, Step::Ask { .. }));
        for step in steps {
            world.step(step);
        }
        world.finish();
        // All policies here have these limits, and all steps take less than a window. They do not count peers.
        let Checker { written, peers, not_kept, .. } = &mut world.checker;
        written.retain(|report, _| !peers.contains(report) && !not_kept.contains(report));
        if !asks {
            prop_assert!(world.checker.written.len() <= 6);
            for uid in world.checker.written.values() {
                let of_uid = world.checker.written.values().filter(|other| *other == uid);
                prop_assert!(of_uid.count() <= 3);
            }
        }
    }
}
