// SPDX-License-Identifier: Apache-2.0
//! Answers about generated traces.

use hindsight_testkit::Script;
use hindsight_trace_query::{Answer, Condition, Signature, MAX_DEPTH, MAX_METHODS};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn signature(name: &str, stack: &[&str], longest_ns: u64) -> Signature {
    let stack: Vec<String> = stack.iter().map(|s| (*s).to_owned()).collect();
    let condition = Condition {
        longest_ns,
        ..Condition::default()
    };
    Signature::new(name, &stack, condition).unwrap()
}

/// A stall of 600 ms inside one of three messages, on the main thread.
fn stall() -> Script {
    let mut script = Script::new("com.example");
    script.process.pid = 7;
    let run = script.method("android.os.Looper.loop", "()V");
    let message = script.method("android.os.Handler.dispatchMessage", "()V");
    let find = script.method("com.example.Store.find", "()V");
    let sync = script.method("com.example.File.sync", "()V");
    let main = script.thread(7, "main");
    script.at(main, 0).enter(run);
    for n in 0..3 {
        let ns = if n == 1 { 600 * MS } else { 2 * MS };
        let mut at = script.at(main, 1000 * MS * (n + 1));
        at.enter(message)
            .after(MS)
            .enter(find)
            .after(MS)
            .call(sync, ns);
        at.after(MS).exit().after(MS).exit();
    }
    let other = script.thread(8, "pool-1");
    script.at(other, 0).call(sync, 2500 * MS);
    script.stop_at(4_000 * MS);
    script
}

#[test]
fn the_longest_call_of_the_main_thread_is_told_with_what_it_called() {
    let signatures = [
        signature(
            "slow",
            &["*.dispatchMessage", "...", "com.example.File.*"],
            100 * MS,
        ),
        signature("direct", &["*.dispatchMessage", "com.example.File.*"], 0),
        signature("never as long", &["com.example.Store.find"], 700 * MS),
    ];
    let answer = Answer::of(&stall().encode(), &signatures, 10).unwrap();
    let chain: Vec<_> = answer
        .chain
        .iter()
        .map(|l| (l.name.as_str(), l.ns / MS))
        .collect();
    assert_eq!(
        chain,
        [
            ("android.os.Looper.loop", 4_000),
            ("android.os.Handler.dispatchMessage", 604),
            ("com.example.Store.find", 602),
            ("com.example.File.sync", 600)
        ]
    );
    let of = |name: &str| answer.methods.iter().find(|m| m.name == name).unwrap();
    assert_eq!(
        (
            of("com.example.File.sync").calls,
            of("com.example.File.sync").self_ns / MS
        ),
        (4, 3104)
    );
    assert_eq!(of("com.example.Store.find").self_ns / MS, 6);
    assert_eq!(
        of("android.os.Handler.dispatchMessage").longest_ns / MS,
        604
    );
    let found: Vec<_> = answer
        .signatures
        .iter()
        .map(|s| (s.calls, s.is_matched))
        .collect();
    assert_eq!(found, [(3, true), (0, false), (3, false)]);
    let text = answer.to_string();
    assert!(
        text.contains("  yes  3  604.000 ms  600.000 ms  slow\n"),
        "{text}"
    );
    assert!(!text.contains("pool-1") && !text.contains("main"), "{text}");
    // Fewer methods one by one: the sums stay.
    let short = Answer::of(&stall().encode(), &[], 1).unwrap();
    let sum = |a: &Answer| a.others.self_ns + a.methods.iter().map(|m| m.self_ns).sum::<u64>();
    assert_eq!(short.methods.len(), 1);
    assert_eq!(sum(&short), sum(&answer));
}

#[test]
fn depth_and_number_of_methods_are_bounded() {
    let mut script = Script::new("x");
    let main = script.thread(1, "main");
    let methods: Vec<u64> = (0..MAX_METHODS + 10)
        .map(|n| script.method(&format!("a.B.m{n}"), "()V"))
        .collect();
    let mut at = script.at(main, 0);
    for method in &methods {
        at.enter(*method).after(1000);
    }
    for _ in &methods {
        at.exit();
    }
    for method in &methods {
        at.call(*method, 1000);
    }
    let answer = Answer::of(&script.encode(), &[], usize::MAX).unwrap();
    assert_eq!(answer.threads.too_deep, (methods.len() - MAX_DEPTH) as u64);
    assert_eq!(answer.methods.len(), MAX_METHODS);
    let calls: u64 = answer.methods.iter().map(|m| m.calls).sum();
    assert_eq!(
        calls + answer.others.calls,
        (methods.len() + MAX_DEPTH) as u64
    );
    assert_eq!(answer.others.calls, 10);
}

#[test]
fn an_exception_that_leaves_more_methods_than_there_are_costs_no_time() {
    let mut script = Script::new("x");
    let main = script.thread(1, "main");
    let work = script.method("a.B.work", "()V");
    for n in 0..1000 {
        script
            .at(main, n * 1000)
            .enter(work)
            .after(10)
            .unwind(u64::MAX);
    }
    let answer = Answer::of(&script.encode(), &[], 10).unwrap();
    assert_eq!(answer.methods[0].calls, 1000);
    assert!(answer.threads.begun_before > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is in the file: an answer or an error.
    #[test]
    fn no_file_makes_it_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40), cut in any::<prop::sample::Index>()) {
        let mut bytes = stall().encode();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = Answer::of(&bytes, &[signature("s", &["*"], 0)], 10);
        let _ = Answer::of(&bytes[..cut.index(bytes.len())], &[], 10);
    }
}
