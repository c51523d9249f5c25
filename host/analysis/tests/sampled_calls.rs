// SPDX-License-Identifier: Apache-2.0
//! Calls that stacks show are not counted where numbers of calls matter.

use hindsight_analysis::Summary;
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
