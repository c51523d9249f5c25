// SPDX-License-Identifier: Apache-2.0
//! Perfetto traces with events of the scheduler: any bytes are an answer whose times add up, or an error.

#![no_main]

use hindsight_system_trace::SystemTrace;
use libfuzzer_sys::fuzz_target;

/// The most threads that are asked about: more show nothing new.
const MOST_THREADS: usize = 64;

fuzz_target!(|data: &[u8]| {
    let Ok(trace) = SystemTrace::read(data) else {
        return;
    };
    let (start, end) = (trace.start_ns(), trace.end_ns());
    let (middle, after) = (start + (end - start) / 2, end.saturating_add(1_000));
    for (number, about) in trace.threads().take(MOST_THREADS) {
        for (from, to) in [(0, u64::MAX), (start, end), (middle, after)] {
            let mut at_ns = from;
            for slice in trace.slices(number, from, to) {
                assert!(slice.from_ns == at_ns && slice.to_ns > at_ns);
                at_ns = slice.to_ns;
            }
            assert_eq!(at_ns, to.max(from));
            assert_eq!(trace.times(number, from, to).total_ns(), to - from);
        }
        for sent in trace.transactions(about.tid, start, end) {
            assert_eq!(sent.from, about.tid);
        }
        assert!(trace.thread_at(about.tid, middle).is_some());
    }
    let _ = (trace.missing().words(), trace.missing_ns(start, end));
});
