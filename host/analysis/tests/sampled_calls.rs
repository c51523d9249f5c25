// SPDX-License-Identifier: Apache-2.0
//! Calls that stacks show are not counted where numbers of calls matter.

use hindsight_analysis::{top, By, Summary};
use hindsight_decoder::{Extension, Trace};
use hindsight_testkit::Script;

#[test]
fn summaries_have_exact_calls_only() {
    let mut script = Script::new("test");
    let [exact, sampled] = ["A.exact", "A.sampled"].map(|name| script.method(name, "()V"));
    let main = script.thread(100, "main");
    script.at(main, 1_000).enter(exact).after(1_000).exit();
    let other = script.events_thread(101, "other", 2);
    let payload = script.stack(&[(sampled, 1)]);
    for at in [0, 5_000] {
        script.at(other, at).extension(Extension::Stack, &payload);
    }
    let trace = Trace::decode("test".as_ref(), &script.encode()).unwrap();
    assert_eq!(trace.threads[1].calls.len(), 1);
    let summary = Summary::of(&trace, 10);
    let names = |part: &hindsight_analysis::Part| {
        let methods = part.methods.iter().map(|m| m.method.clone());
        methods.collect::<Vec<_>>()
    };
    assert_eq!(names(&summary.main), ["A.exact"]);
    assert!(names(&summary.others).is_empty());
    assert_eq!(summary.others.threads, 1);
}

#[test]
fn rankings_say_which_calls_are_sampled_and_how_long_they_took_at_most() {
    let mut script = Script::new("test");
    let [a, b] = ["A.a", "B.b"].map(|name| script.method(name, "()V"));
    let main = script.thread(100, "main");
    script.at(main, 0).call(a, 1_000);
    let other = script.events_thread(101, "other", 2);
    let stacks = [&[(a, 1)][..], &[(a, 1), (b, 1)], &[(a, 1)]].map(|frames| script.stack(frames));
    for (i, stack) in stacks.iter().enumerate() {
        script
            .at(other, 1_000 * i as u64)
            .extension(Extension::Stack, stack);
    }
    script.stop_at(5_000);
    let trace = Trace::decode("test".as_ref(), &script.encode()).unwrap();
    let rows = top(&trace.methods, &trace.threads, By::Method);
    let row = |name: &str| {
        let row = rows.iter().find(|r| r.name == name).unwrap();
        (row.calls, row.sampled, row.total_ns, row.total_error_ns)
    };
    // The stacks before and after the one with b are 1000 ns away; after the last stack, 2990 ns follow.
    assert_eq!(row("A.a"), (2, 1, 1_000 + 2_010, 2_990));
    assert_eq!(row("B.b"), (1, 1, 10, 1_990));
}
