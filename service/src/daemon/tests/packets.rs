// SPDX-License-Identifier: Apache-2.0
//! How many packets a process may send: the dispatcher and the engine, without a socket.

use hindsight_trace_format::protocol::{FromProcess, FromService, Hello, TakeOutcome, VERSIONS};
use hindsight_trace_format::shared::SHARED_VERSION;

use super::super::{Decider, Dispatcher, Limits, Memory, Verdict};
use super::Noted;
use crate::engine::{Asked, Connection, Engine, Event, Facts, Now, Peer};
use crate::limits::Limiter;
use crate::policy::{Level, Person, Policy, UserType};

const NOW: Now = Now {
    boottime_ns: 1_000_000_000_000,
    realtime_ns: 1_000_000_000_000,
};

/// A process that is connected; time stands still, so that it earns no packets.
struct Process {
    dispatcher: Dispatcher<Decider>,
    outlet: Noted,
    connection: Connection,
    limits: Limits,
}

impl Process {
    fn join() -> Self {
        let limits = Limits::default();
        let person = Person {
            user: UserType::Internal,
            agreed: Some(Level::Full),
            ..Person::default()
        };
        let facts = Facts {
            person,
            ..Facts::default()
        };
        let engine = Engine::new(Policy::default(), Limiter::fresh("boot"), facts);
        let mut dispatcher = Dispatcher::new(Decider::new(engine, String::new()), limits);
        let peer = Peer {
            pid: 7,
            uid: 10_001,
        };
        let connection = dispatcher.connect(NOW, peer, true).unwrap();
        let mut process = Process {
            dispatcher,
            outlet: Noted::default(),
            connection,
            limits,
        };
        let hello = FromProcess::Hello(Hello {
            versions: VERSIONS,
            memory_version: SHARED_VERSION,
            name: "com.example".into(),
            ring_bytes: 8 << 20,
            other_bytes: 2 << 20,
            ..Hello::default()
        });
        assert_eq!(process.say(&hello), Verdict::KeepMemory);
        process
    }

    fn say(&mut self, message: &FromProcess) -> Verdict {
        let Process {
            dispatcher,
            outlet,
            connection,
            ..
        } = self;
        let packet = message.encode();
        let verdict = dispatcher.receive(NOW, *connection, &packet, Memory::Good, outlet);
        dispatcher.drain(NOW, outlet);
        verdict
    }

    fn happens(&mut self, event: Event) {
        self.dispatcher.push(event);
        self.dispatcher.drain(NOW, &mut self.outlet);
    }

    /// What it was sent since the last call.
    fn read(&mut self) -> Vec<FromService> {
        let sent = std::mem::take(&mut self.outlet.sent);
        sent.into_iter().map(|(_, message)| message).collect()
    }

    /// A user asks for a report: the process gives its rings for it, and takes them back; `says_held`: it says so.
    fn report(&mut self, says_held: bool) {
        let what = Asked::Report {
            process: "com.example".into(),
            reason: "why".into(),
        };
        self.read();
        self.happens(Event::Asked { reply: 1, what });
        let taken = self.read().into_iter().find_map(|message| match message {
            FromService::Take { report } => Some(report),
            _ => None,
        });
        let report = taken.expect("the service asks for rings");
        let outcome = TakeOutcome::Taken;
        let verdict = self.say(&FromProcess::Taken { report, outcome });
        assert_eq!(verdict, Verdict::Keep, "report {report}");
        let is_kept = true;
        self.happens(Event::Written { report, is_kept });
        assert!(self.read().contains(&FromService::Release { report }));
        if says_held {
            let verdict = self.say(&FromProcess::Held { rings: 0 });
            assert_eq!(verdict, Verdict::Keep, "report {report} is released");
        }
    }

    /// How many packets it may send now that nobody asks for.
    fn left(mut self) -> u32 {
        let said = FromProcess::Foreground {
            is_foreground: false,
            tid: 7,
        };
        let mut count = 0;
        while self.say(&said) == Verdict::Keep {
            count += 1;
            assert!(count <= self.limits.burst, "there is no limit");
        }
        assert!(self
            .outlet
            .log
            .last()
            .unwrap()
            .contains("it sends too many packets"));
        count
    }
}

#[test]
fn answers_to_the_service_are_no_flood_and_give_no_room_for_one() {
    // The hello is one of a burst.
    let burst = Process::join().limits.burst;
    assert_eq!(Process::join().left(), burst - 1);
    let mut process = Process::join();
    for _ in 0..4 * burst {
        process.report(true);
    }
    assert_eq!(process.left(), burst - 1);
    // Who does not answer all of them cannot save more than a burst.
    let mut process = Process::join();
    for _ in 0..burst {
        process.report(false);
    }
    assert_eq!(process.left(), burst);
}
