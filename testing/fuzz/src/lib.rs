// SPDX-License-Identifier: Apache-2.0
//! What must hold for every trace that a reader lets pass.

use hindsight_decoder::{Flags, Trace, NO_PARENT};

/// Calls are nested, and no longer than what they are in; names can be had.
pub fn check(trace: &Trace) {
    for thread in &trace.threads {
        let slices = &thread.slices;
        let mut open = (0, 0);
        for (i, slice) in slices.iter().enumerate() {
            assert!(slice.start_ns <= slice.end_ns);
            match slices.parent_of(i) {
                None => assert_eq!((slice.parent, slice.depth), (NO_PARENT, 0)),
                Some(caller) => {
                    assert!(caller < i);
                    let caller = slices.get(caller);
                    assert!(caller.start_ns <= slice.start_ns && slice.end_ns <= caller.end_ns);
                    assert_eq!(caller.depth + 1, slice.depth);
                }
            }
            open.0 += u64::from(slice.flags.contains(Flags::OPEN_START));
            open.1 += u64::from(slice.flags.contains(Flags::OPEN_END));
        }
        assert_eq!(open.0, thread.stats.open_starts);
        assert_eq!(open.1, thread.stats.open_ends);
        assert_eq!(slices.self_ns().len(), slices.len());
    }
    for (id, method) in trace.methods.iter() {
        assert!(!trace.methods.name(id).is_empty());
        let _ = (method.readable(), method.parameters());
    }
}
