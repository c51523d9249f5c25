// SPDX-License-Identifier: Apache-2.0
//! An engine with a clock, and short forms of events and actions.

use hindsight_trace_format::container::Consent;
use hindsight_trace_format::protocol::{
    Configuration, DetectorRules, FromProcess, FromService, Hello, TakeOutcome, Trigger,
    TriggerSeverity, VERSIONS,
};
use hindsight_trace_format::shared::SHARED_VERSION;

use crate::engine::{Action, Connection, Engine, Event, Facts, Now, Peer, ProcessReport, Status};
use crate::limits::Limiter;
use crate::policy::{Level, Person, Policy, UserType};

pub(super) const MIB: u64 = 1 << 20;
pub(super) const SECOND: u64 = 1_000_000_000;

pub(super) fn agreed() -> Person {
    Person {
        user: UserType::Internal,
        agreed: Some(Level::Full),
        ..Person::default()
    }
}

pub(super) fn hello(name: &str) -> Hello {
    Hello {
        versions: VERSIONS,
        memory_version: SHARED_VERSION,
        name: name.into(),
        ring_bytes: 8 * MIB,
        other_bytes: 2 * MIB,
        ..Hello::default()
    }
}

pub(super) fn trigger(detector: &str, severity: TriggerSeverity) -> FromProcess {
    trigger_at(detector, severity, 5)
}

/// Noticed at this time, ns.
pub(super) fn trigger_at(
    detector: &str,
    severity: TriggerSeverity,
    at_boottime_ns: u64,
) -> FromProcess {
    FromProcess::Trigger(Trigger {
        severity,
        detector: detector.into(),
        reason: "a message took 900 ms".into(),
        tid: 7,
        at_boottime_ns,
    })
}

/// An engine with a clock.
pub(super) struct Bench {
    pub(super) engine: Engine,
    pub(super) now_ns: u64,
    /// The last wish.
    pub(super) wake_ns: Option<u64>,
    /// Configurations that no process has answered.
    unanswered: Vec<(Connection, u32)>,
    /// Rules of detectors that were sent.
    pub(super) rules: Vec<(Connection, DetectorRules)>,
    /// Reports whose peers are wanted, and their connections.
    pub(super) looks: Vec<(u64, Connection)>,
}

impl Bench {
    pub(super) fn new(policy: Policy) -> Self {
        let facts = Facts {
            person: agreed(),
            ..Facts::default()
        };
        Bench::with(policy, Limiter::fresh("boot"), facts)
    }

    pub(super) fn with(policy: Policy, limiter: Limiter, facts: Facts) -> Self {
        Bench {
            engine: Engine::new(policy, limiter, facts),
            now_ns: 1000 * SECOND,
            wake_ns: None,
            unanswered: Vec::new(),
            rules: Vec::new(),
            looks: Vec::new(),
        }
    }

    /// With the built-in policy and these lines.
    pub(super) fn of(lines: &str) -> Self {
        Bench::new(Policy::parse(&format!("version = 1\n{lines}")).unwrap())
    }

    pub(super) fn status(&self) -> Status {
        self.engine.status(self.now())
    }

    pub(super) fn now(&self) -> Now {
        Now {
            boottime_ns: self.now_ns,
            realtime_ns: self.now_ns,
        }
    }

    /// With the built-in policy and these lines; the service needs 8 MiB beside its copy to write a report, as the program does.
    pub(super) fn with_report_bytes(lines: &str) -> Self {
        let policy = Policy::parse(&format!("version = 1\n{lines}")).unwrap();
        let facts = Facts {
            person: agreed(),
            report_bytes: 8 * MIB,
            ..Facts::default()
        };
        Bench::with(policy, Limiter::fresh("boot"), facts)
    }

    /// All actions but wishes, lists of limits and rules of detectors, which are kept apart.
    pub(super) fn seen(&mut self, actions: Vec<Action>) -> Vec<Action> {
        let mut seen = Vec::new();
        for action in actions {
            match action {
                Action::WakeAt(wake_ns) => self.wake_ns = wake_ns,
                Action::SaveLimits(_) | Action::Log(_) => {}
                Action::FindPeers { report, connection } => self.looks.push((report, connection)),
                Action::Send {
                    connection,
                    message: FromService::Detectors(rules),
                } => self.rules.push((connection, rules)),
                action => seen.push(action),
            }
        }
        for (connection, configuration) in configurations(&seen) {
            self.unanswered.push((connection, configuration.call_rings));
        }
        seen
    }

    pub(super) fn handle(&mut self, event: Event) -> Vec<Action> {
        let actions = self.engine.handle(self.now(), event);
        self.seen(actions)
    }

    pub(super) fn set_policy(&mut self, lines: &str) -> Vec<Action> {
        let policy = Policy::parse(&format!("version = 1\n{lines}")).unwrap();
        let actions = self.engine.set_policy(self.now(), policy);
        self.seen(actions)
    }

    pub(super) fn join(&mut self, connection: Connection, hello: Hello) -> Vec<Action> {
        self.join_as(connection, 10_000 + connection as u32, hello)
    }

    pub(super) fn join_as(
        &mut self,
        connection: Connection,
        uid: u32,
        hello: Hello,
    ) -> Vec<Action> {
        let pid = 100 + connection as u32;
        let peer = Peer { pid, uid };
        self.handle(Event::Joined {
            connection,
            peer,
            hello,
            crash: None,
        })
    }

    pub(super) fn said(&mut self, connection: Connection, message: FromProcess) -> Vec<Action> {
        self.handle(Event::Said {
            connection,
            message,
        })
    }

    pub(super) fn foreground(
        &mut self,
        connection: Connection,
        is_foreground: bool,
    ) -> Vec<Action> {
        self.said(
            connection,
            FromProcess::Foreground {
                is_foreground,
                tid: 1,
            },
        )
    }

    /// One answer to a configuration.
    pub(super) fn held(&mut self, connection: Connection, rings: u32) -> Vec<Action> {
        let mut unanswered = self.unanswered.iter();
        if let Some(at) = unanswered.position(|(to, _)| *to == connection) {
            self.unanswered.remove(at);
        }
        self.said(connection, FromProcess::Held { rings })
    }

    /// All processes do what they were told. Returns how often one got a ring.
    pub(super) fn answer_all(&mut self) -> usize {
        let mut granted = 0;
        while let Some((connection, rings)) = self.unanswered.first().copied() {
            let actions = self.held(connection, rings);
            granted += configured(&actions)
                .iter()
                .filter(|(_, rings)| *rings != 0)
                .count();
        }
        granted
    }

    pub(super) fn taken(&mut self, connection: Connection, report: u64) -> Vec<Action> {
        let outcome = TakeOutcome::Taken;
        self.said(connection, FromProcess::Taken { report, outcome })
    }

    pub(super) fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    /// Time passes until the engine wants to be told.
    pub(super) fn wake(&mut self) -> Vec<Action> {
        let wake_ns = self.wake_ns.take().expect("nothing waits");
        self.now_ns = self.now_ns.max(wake_ns);
        self.handle(Event::Woke)
    }

    /// Rings granted and held, by connection's pid.
    pub(super) fn rings(&self, connection: Connection) -> (u32, u32) {
        let status = self.status();
        let pid = 100 + connection as u32;
        let found = status.processes.iter().find(|p| p.pid == pid);
        found.map_or((0, 0), |p| (p.rings_granted, p.rings_held))
    }
}

pub(super) fn take(connection: Connection, report: u64) -> Action {
    Action::Send {
        connection,
        message: FromService::Take { report },
    }
}

pub(super) fn release(connection: Connection, report: u64) -> Action {
    Action::Send {
        connection,
        message: FromService::Release { report },
    }
}

/// Connection and number of rings of all configurations.
pub(super) fn configured(actions: &[Action]) -> Vec<(Connection, u32)> {
    configurations(actions)
        .into_iter()
        .map(|(connection, c)| (connection, c.call_rings))
        .collect()
}

/// A connection, and its configuration.
pub(super) type Configured = (Connection, Configuration);

pub(super) fn configurations(actions: &[Action]) -> Vec<Configured> {
    let configuration = |action: &Action| match action {
        Action::Send {
            connection,
            message: FromService::Configure(configuration),
        } => Some((*connection, *configuration)),
        _ => None,
    };
    actions.iter().filter_map(configuration).collect()
}

/// Connection, report, detector, consent, and whether the process has ended, of all reports that are written.
pub(super) fn writes(actions: &[Action]) -> Vec<(Connection, u64, &str, Consent, bool)> {
    let write = |action| match action {
        &Action::Write {
            report,
            connection,
            ref about,
            has_ended,
            ..
        } => Some((
            connection,
            report,
            about.detector.as_str(),
            about.consent,
            has_ended,
        )),
        _ => None,
    };
    actions.iter().filter_map(write).collect()
}

pub(super) fn kept(report: u64) -> Event {
    Event::Written {
        report,
        is_kept: true,
    }
}

pub(super) fn ended(connection: Connection) -> Event {
    Event::Ended { connection }
}

pub(super) fn forget(connection: Connection) -> Action {
    Action::Forget { connection }
}

/// A trigger of the second severity.
pub(super) fn slow() -> FromProcess {
    trigger("slow-message", TriggerSeverity::Slow)
}

/// A process in the foreground with a ring.
pub(super) fn seen(lines: &str) -> Bench {
    let mut bench = Bench::of(lines);
    bench.join(1, hello("com.example.notes"));
    bench.foreground(1, true);
    bench.answer_all();
    bench
}

/// The line about a report of an app that is written.
pub(super) fn written(report: u64, pid: u32) -> ProcessReport {
    ProcessReport {
        report: Some(report),
        process: "com.example.notes".into(),
        pid,
        problem: None,
    }
}
