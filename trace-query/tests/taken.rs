// SPDX-License-Identifier: Apache-2.0
//! Answers about rings that were taken long after their newest event.

use hindsight_testkit::{Script, EPOCH};
use hindsight_trace_format::container::Epochs;
use hindsight_trace_format::slot::Extension;
use hindsight_trace_query::{Answer, Other};

const MS: u64 = 1_000_000;
/// Kinds of waits.
const LOCK: u64 = 0;
const SLEEP: u64 = 2;

#[test]
fn a_thread_that_records_events_only_waits_since_its_newest_event() {
    let mut script = Script::new("com.example");
    script.process.pid = 7;
    let run = script.method("com.example.run", "()V");
    let main = script.thread(7, "main");
    script
        .at(main, 2000 * MS)
        .enter(run)
        .event(Extension::LockWait, &[("held by", 8), ("lock", 0xf0)])
        .event(Extension::WaitBegin, &[("kind", LOCK), ("number", 2)])
        .after(9000 * MS)
        .full_time(2000 * MS)
        .event(Extension::WokenBy, &[("by", 8)])
        .event(Extension::WaitEnd, &[("number", 2)])
        .exit();
    let saver = script.events_thread(8, "saver", 2);
    script
        .at(saver, 1000 * MS)
        .event(Extension::WaitBegin, &[("kind", SLEEP), ("number", 1)])
        .anchor();
    // More than two wraps of the counter's low bits later.
    script.stop_at(11_500 * MS);
    let answer = Answer::of(&script.encode(), &[], 10).unwrap();
    let causes: Vec<_> = answer.causes.iter().map(|c| (c.kind, c.ns / MS)).collect();
    assert_eq!(causes, [("lock", 9000), ("sleep", 9000)]);
    assert_eq!(answer.causes[0].other, Other::HeldTheLock);
}

#[test]
fn a_call_runs_until_its_ring_is_taken_not_only_until_the_epoch_of_its_newest_event_ends() {
    let mut script = Script::new("com.example");
    script.process.pid = 7;
    let run = script.method("com.example.run", "()V");
    let main = script.thread(7, "main");
    script.at(main, 1000 * MS).enter(run);
    script.header(main).epochs = Some(Epochs {
        epoch: ((EPOCH + 1000 * MS) >> 32) as u32,
        ..Epochs::default()
    });
    script.stop_at(11_000 * MS);
    let answer = Answer::of(&script.encode(), &[], 10).unwrap();
    assert_eq!(answer.chain[0].ns, 10_000 * MS);
}
