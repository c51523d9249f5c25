// SPDX-License-Identifier: Apache-2.0
//! The answers that a device computes in bounded memory are those of the decoder, on a recorded trace.

use std::collections::{BTreeMap, BTreeSet};

use hindsight_analysis::{top, By};
use hindsight_decoder::{Flags, Mode, Thread, Trace};
use hindsight_trace_query::Answer;

/// Calls, self time and longest call by name.
type Sums = BTreeMap<String, (u64, u64, u64)>;

/// Equal but for the counter's rate, which the decoder corrects by all samples of the clocks.
fn is_near(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= a.max(b) / 1000 + 1000
}

#[test]
fn sums_of_a_recorded_stall_are_those_of_the_decoder() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../samples/notes-stall.hindsight"
    );
    let bytes = std::fs::read(path).unwrap();
    let trace = Trace::decode(path.as_ref(), &bytes).unwrap();
    let mut expected = Sums::new();
    // Of threads that recorded events only, the decoder knows the calls on their stacks.
    let of_calls = |thread: &&Thread| thread.mode != Mode::Events;
    let threads = trace.threads.iter().filter(of_calls);
    for totals in top(&trace.methods, threads, By::Method) {
        if totals.sampled == 0 && totals.calls > 0 {
            let sum = expected.entry(totals.name).or_default();
            sum.0 += totals.calls;
            sum.1 += totals.self_ns;
            sum.2 = totals.max_ns.max(sum.2);
        }
    }
    let answer = Answer::of(&bytes, &[], usize::MAX).unwrap();
    assert_eq!(answer.threads.left_out, 0);
    // The decoder may know the names of calls that began before the trace; the device does not look for them.
    let begun_before: BTreeSet<String> = trace
        .threads
        .iter()
        .flat_map(|thread| (0..thread.calls.len()).map(move |i| (&thread.calls, i)))
        .filter(|(calls, i)| calls.flags[*i].contains(Flags::OPEN_START))
        .filter_map(|(calls, i)| trace.methods.get(calls.method[i]))
        .map(|method| method.full_name())
        .collect();
    let mut compared = 0;
    for method in &answer.methods {
        let Some((calls, self_ns, max_ns)) = expected.get(&method.name) else {
            panic!("the decoder has no {}", method.name);
        };
        if begun_before.contains(&method.name) {
            continue;
        }
        compared += 1;
        assert_eq!(method.calls, *calls, "{}", method.name);
        assert!(is_near(method.self_ns, *self_ns), "{method:?}, {self_ns}");
        assert!(is_near(method.longest_ns, *max_ns), "{method:?}, {max_ns}");
    }
    assert!(compared > 20, "{compared} of {}", answer.methods.len());
    // The stall of 617 ms is told down to the method that waited.
    let last = answer.chain.last().unwrap();
    assert_eq!(last.name, "com.example.notes.NoteStore.find");
    assert!((600_000_000..650_000_000).contains(&last.ns), "{last:?}");
    println!("{answer}");
}
