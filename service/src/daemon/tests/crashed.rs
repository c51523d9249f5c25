// SPDX-License-Identifier: Apache-2.0
//! A process that has noted a crash, and comes back to a service that was started again.

use hindsight_trace_format::protocol::{FromProcess, Hello, VERSIONS};
use hindsight_trace_format::shared::{Crash, CrashKind, SHARED_VERSION};

use super::super::{Decider, Dispatcher, Limits, Memory};
use super::Noted;
use crate::engine::{Engine, Facts, Now, Peer};
use crate::limits::Limiter;
use crate::policy::{Level, Person, Policy, UserType};

#[test]
fn its_memory_says_what_its_rings_were_taken_for() {
    let now = Now {
        boottime_ns: 1_000_000_000_000,
        realtime_ns: 1_000_000_000_000,
    };
    let noted = Crash {
        kind: CrashKind::UncaughtException,
        tid: 9,
        at_boottime_ns: now.boottime_ns - 1,
    };
    for (crash, expected) in [
        (None, ("unfinished", 0)),
        (Some(noted), ("uncaught-exception", 9)),
    ] {
        let facts = Facts {
            person: Person {
                user: UserType::Internal,
                agreed: Some(Level::Full),
                ..Person::default()
            },
            is_restart: true,
            first_report: 5,
            ..Facts::default()
        };
        let engine = Engine::new(Policy::default(), Limiter::fresh("boot"), facts);
        let decider = Decider::new(engine, String::new());
        let mut dispatcher = Dispatcher::new(decider, Limits::default());
        let mut outlet = Noted {
            crash,
            ..Noted::default()
        };
        let (pid, uid) = (7, 10_001);
        let connection = dispatcher.connect(now, Peer { pid, uid }, true).unwrap();
        let hello = FromProcess::Hello(Hello {
            versions: VERSIONS,
            memory_version: SHARED_VERSION,
            name: "com.example".into(),
            ring_bytes: 8 << 20,
            other_bytes: 2 << 20,
            held: 2,
            taken: 4,
            ..Hello::default()
        });
        let packet = hello.encode();
        dispatcher.receive(now, connection, &packet, Memory::Good, &mut outlet);
        dispatcher.drain(now, &mut outlet);
        let found: Vec<_> = outlet
            .writes
            .iter()
            .map(|a| (a.detector.as_str(), a.tid))
            .collect();
        assert_eq!(found, [expected]);
    }
}
