// SPDX-License-Identifier: Apache-2.0
//! The graph of causes and effects of any events of two processes, changed by any rules: events before the first byte `[`,
//! rules from there on.

#![no_main]

use hindsight_causality::{Graph, Rules, Session};
use hindsight_decoder::{Extension, Trace};
use hindsight_testkit::Script;
use libfuzzer_sys::fuzz_target;

/// An event takes so many bytes: thread, time, kind, and the numbers of its fields.
const EVENT_BYTES: usize = 8;
/// The most events: a graph of more shows nothing new.
const MOST_EVENTS: usize = 2_000;

fuzz_target!(|data: &[u8]| {
    let rules_at = data.iter().position(|&b| b == b'[').unwrap_or(data.len());
    let (events, rules) = data.split_at(rules_at);
    let session = session(events);
    let rules = Rules::parse(&String::from_utf8_lossy(rules));
    if let Err(error) = &rules {
        assert!(error.line > 0 && !error.message.is_empty());
    }
    let graph = Graph::build_with(&session, &rules.unwrap_or_default()).expect("few events");
    graph.check(&session).expect("what holds for every graph");
});

fn session(bytes: &[u8]) -> Session {
    let all: Vec<Extension> = Extension::all().collect();
    let mut scripts = ["one", "other"].map(Script::new);
    let threads = scripts.each_mut().map(|s| {
        s.string("a.name");
        s.method("a.b.C.run", "()V");
        [1, 2, 3].map(|tid| s.events_thread(tid, "thread", u64::from(tid)))
    });
    let mut now = [[0_u64; 3]; 2];
    for event in bytes.chunks_exact(EVENT_BYTES).take(MOST_EVENTS) {
        let (process, thread) = (usize::from(event[0] & 1), usize::from(event[0] >> 1) % 3);
        let kind = all[usize::from(event[2]) % all.len()];
        if kind == Extension::FullTime {
            continue;
        }
        let at = &mut now[process][thread];
        *at += u64::from(event[1]);
        let numbers = event[3..].iter().cycle().map(|&n| u64::from(n));
        let fields = kind.spec().fields.iter().map(|f| f.name).zip(numbers);
        let fields: Vec<(&str, u64)> = fields.collect();
        let mut recorder = scripts[process].at(threads[process][thread], *at);
        recorder.event(kind, &fields);
    }
    let traces = scripts.iter().map(|script| {
        let trace = Trace::decode("fuzz".as_ref(), &script.encode());
        ("fuzz".into(), trace.expect("a sound file"))
    });
    Session::of(traces.collect())
}
