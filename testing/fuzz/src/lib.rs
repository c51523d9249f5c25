// SPDX-License-Identifier: Apache-2.0
//! Invariants of every trace that a reader accepts.

use hindsight_decoder::{Flags, Trace, NO_PARENT};

/// Checks that calls are nested and within their callers, that events are in the order of time, and that every method has a
/// name.
pub fn check(trace: &Trace) {
    for thread in &trace.threads {
        let calls = &thread.calls;
        let mut open = (0, 0);
        for (i, call) in calls.iter().enumerate() {
            assert!(call.start_ns <= call.end_ns);
            match calls.parent_of(i) {
                None => assert_eq!((call.parent, call.depth), (NO_PARENT, 0)),
                Some(caller) => {
                    assert!(caller < i);
                    let caller = calls.get(caller);
                    assert!(caller.start_ns <= call.start_ns && call.end_ns <= caller.end_ns);
                    assert_eq!(caller.depth + 1, call.depth);
                }
            }
            open.0 += u64::from(call.flags.contains(Flags::OPEN_START));
            open.1 += u64::from(call.flags.contains(Flags::OPEN_END));
        }
        assert!(thread.events.windows(2).all(|e| e[0].at_ns <= e[1].at_ns));
        assert_eq!(open.0, thread.stats.open_starts);
        assert_eq!(open.1, thread.stats.open_ends);
        assert_eq!(calls.self_ns().len(), calls.len());
    }
    let pairs = hindsight_analysis::pairs(trace);
    for pair in &pairs.pairs {
        let at = |end: hindsight_analysis::End| {
            let thread = trace.threads.iter().find(|t| t.key == end.thread);
            thread.expect("a thread of the trace").events[end.event].at_ns
        };
        assert!(at(pair.from) <= at(pair.to));
    }
    for thread in &trace.threads {
        for span in hindsight_analysis::spans(thread).spans {
            assert!(span.start_ns <= span.end_ns && span.end_ns <= thread.end_ns);
        }
    }
    if let Some(main) = trace.main_thread() {
        let _ = hindsight_analysis::stalls(trace, main, &hindsight_analysis::Question::default());
    }
    for (id, method) in trace.methods.iter() {
        assert!(!trace.methods.name(id).is_empty());
        let _ = (method.readable(), method.parameters());
    }
}
