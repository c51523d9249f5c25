// SPDX-License-Identifier: Apache-2.0
//! Answers about rings in which recording stops and starts again.

use hindsight_testkit::Script;
use hindsight_trace_format::slot::Extension;
use hindsight_trace_query::{Answer, Condition, Link, Other, Signature};

const MS: u64 = 1_000_000;
/// Kinds of waits.
const LOCK: u64 = 0;
const SLEEP: u64 = 2;

/// Names and times in ms.
fn told(links: &[Link]) -> Vec<(&str, u64)> {
    let links = links.iter();
    links.map(|l| (l.name.as_str(), l.ns / MS)).collect()
}

#[test]
fn a_call_that_was_open_when_recording_started_again_ends_there() {
    let before = vec![("com.example.run", 40), ("com.example.work", 30)];
    for (late_ms, longest) in [(300, vec![("com.example.late", 300)]), (20, before)] {
        let mut script = Script::new("com.example");
        script.process.pid = 7;
        let run = script.method("com.example.run", "()V");
        let work = script.method("com.example.work", "()V");
        let late = script.method("com.example.late", "()V");
        let main = script.thread(7, "main");
        let mut at = script.at(main, 0);
        at.enter(run).after(10 * MS).enter(work).after(20 * MS);
        // It sleeps, and nobody knows for how long.
        at.event(Extension::WaitBegin, &[("kind", SLEEP), ("number", 1)])
            .after(10 * MS)
            .extension(Extension::Stopped, &[])
            .after(1000 * MS)
            // As the runtime records it after a pause.
            .full_time(40 * MS)
            .extension(Extension::Started, &[0])
            // The two calls from before end, and a third one.
            .exit()
            .exit()
            .exit()
            .after(100 * MS)
            .call(late, late_ms * MS);
        script.stop_at(2000 * MS);
        let stack = ["com.example.run", "com.example.work"].map(str::to_owned);
        let signatures = [Signature::new("work", &stack, Condition::default()).unwrap()];
        let answer = Answer::of(&script.encode(), &signatures, 10).unwrap();
        assert_eq!(told(&answer.chain), longest);
        assert_eq!(answer.threads.begun_before, 3);
        let of = |name: &str| answer.methods.iter().find(|m| m.name == name).unwrap();
        let spent = |name| {
            (
                of(name).calls,
                of(name).longest_ns / MS,
                of(name).self_ns / MS,
            )
        };
        assert_eq!(spent("com.example.run"), (1, 40, 10));
        assert_eq!(spent("com.example.work"), (1, 30, 30));
        let found = answer.signatures[0].clone();
        assert_eq!((found.calls, found.total_ns / MS), (1, 30));
        assert_eq!(answer.causes, []);
    }
}

#[test]
fn what_another_thread_began_before_recording_started_again_explains_no_wait() {
    let mut script = Script::new("com.example");
    script.process.pid = 7;
    let run = script.method("com.example.run", "()V");
    let save = script.method("com.example.save", "()V");
    let late = script.method("com.example.late", "()V");
    let main = script.thread(7, "main");
    script
        .at(main, 1000 * MS)
        .enter(run)
        .event(Extension::LockWait, &[("held by", 8), ("lock", 0xf0)])
        .event(Extension::WaitBegin, &[("kind", LOCK), ("number", 2)])
        .after(600 * MS)
        .event(Extension::WokenBy, &[("by", 8)])
        .event(Extension::WaitEnd, &[("number", 2)])
        .exit();
    let saver = script.thread(8, "saver");
    script
        .at(saver, 0)
        .enter(save)
        .event(Extension::WaitBegin, &[("kind", SLEEP), ("number", 1)])
        .after(10 * MS)
        .extension(Extension::Stopped, &[])
        .after(900 * MS)
        .extension(Extension::Started, &[0])
        .after(200 * MS)
        .call(late, 100 * MS);
    script.stop_at(2000 * MS);
    let answer = Answer::of(&script.encode(), &[], 10).unwrap();
    let [cause] = answer.causes.as_slice() else {
        panic!("{:?}", answer.causes);
    };
    let wait = (cause.kind, cause.ns / MS, cause.other);
    assert_eq!(wait, ("lock", 600, Other::HeldTheLock));
    assert_eq!(told(&cause.meanwhile), [("com.example.late", 100)]);
}

#[test]
fn calls_that_were_noted_before_recording_started_again_have_no_part_after_it() {
    // After how many calls recording starts again, and how many there are: in the newest lap, in the lap before, with the ring's
    // oldest slot, and so that the start has begun when the calls are noted.
    let cases = [
        (300, 400, true),
        (160, 400, false),
        (146, 400, false),
        (255, 509, false),
    ];
    for (calls, all, has_noted) in cases {
        let mut script = Script::new("com.example");
        script.process.pid = 7;
        script.ring_log2_bytes(12);
        let run = script.method("com.example.run", "()V");
        let work = script.method("com.example.work", "()V");
        let main = script.thread(7, "main");
        let mut at = script.at(main, 0);
        at.enter(run);
        for call in 0..all {
            if call == calls {
                at.extension(Extension::Started, &[0]);
            }
            at.call(work, MS).after(MS);
        }
        at.call(work, 100 * MS);
        // It is within one more call then.
        script.open_calls(main, 2, &[run]);
        script.stop_at(2000 * MS);
        let answer = Answer::of(&script.encode(), &[], 10).unwrap();
        let run = answer.methods.iter().find(|m| m.name.ends_with("run"));
        // From the oldest slot, of the call 146, to the start.
        let expected = has_noted.then_some((1, (2 * (300 - 146) - 1)));
        let found = run.map(|run| (run.calls, run.longest_ns / MS));
        assert_eq!(found, expected, "{calls}");
    }
}
