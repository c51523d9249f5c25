// SPDX-License-Identifier: Apache-2.0
//! What the commands say of threads whose earlier rings are not in the file.

use std::path::Path;

use assert_cmd::Command;
use hindsight_decoder::{Extension, RingMode};
use hindsight_testkit::{Script, ThreadIndex, EPOCH};

const MS: u64 = 1_000_000;
const POLL: u64 = 5;

fn hindsight(script: &Script, folder: &Path, arguments: &[&str]) -> String {
    script.write(&folder.join("t.hindsight")).unwrap();
    let mut command = Command::cargo_bin("hindsight").unwrap();
    let output = command
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A thread that records nothing into its fourth ring, the only one in the file.
fn silent(mode: RingMode) -> Script {
    let mut s = Script::new("p");
    let t = s.events_thread(7, "main", 1);
    let header = s.header(t);
    (header.part, header.mode) = (3, mode);
    s.stop_at(4_400 * MS);
    s
}

#[test]
fn a_thread_that_recorded_nothing_since_its_ring_was_exchanged_may_be_stuck() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [RingMode::Calls, RingMode::Events] {
        let s = silent(mode);
        let of = |arguments: &[&str]| hindsight(&s, folder.path(), arguments);
        let why = of(&["why", "t.hindsight"]);
        let sentence = "Whether there was a stall cannot be told: thread \"main\" (tid 7) recorded nothing for 4.40 s, since its \
                        ring was exchanged";
        assert!(why.contains(sentence), "{why}");
        assert!(!why.contains("No stall"), "{why}");
        let json: serde_json::Value =
            serde_json::from_str(&of(&["why", "t.hindsight", "--json"])).unwrap();
        assert!(json["stall"].is_null() && json["silent"] == true, "{json}");
        let info = of(&["info", "t.hindsight"]);
        let sentence = "1 thread recorded nothing since its ring was exchanged, as for an earlier report: main (7).";
        assert!(info.contains(sentence), "{info}");
        assert!(!info.contains("Nothing was lost"), "{info}");
        let row = info.lines().find(|line| line.trim_start().starts_with('7'));
        assert!(row.unwrap().contains("4.40 s"), "{info}");
    }
    // A thread that has only just begun has no earlier ring.
    let mut s = silent(RingMode::Calls);
    s.header(ThreadIndex::FIRST).part = 0;
    let info = hindsight(&s, folder.path(), &["info", "t.hindsight"]);
    assert!(info.contains("Nothing was lost"), "{info}");
}

/// A thread that has recorded nothing since its ring began with these open calls, outermost first.
fn in_calls(names: &[&str]) -> Script {
    let mut s = silent(RingMode::Calls);
    let methods: Vec<u64> = names.iter().map(|name| s.method(name, "()V")).collect();
    let mut r = s.at(ThreadIndex::FIRST, 0);
    r.extension(Extension::PartBegins, &[]);
    for method in methods {
        r.extension(Extension::EnteredBefore, &[method, 0]);
    }
    r.anchor();
    s
}

#[test]
fn the_calls_that_a_ring_begins_with_are_the_stall() {
    let folder = tempfile::tempdir().unwrap();
    let of = |names: &[&str]| hindsight(&in_calls(names), folder.path(), &["why", "t.hindsight"]);
    let message = "android.os.Handler.dispatchMessage";
    let why = of(&["android.os.Looper.loop", message, "a.Store.read"]);
    let sentence = "One message had run for at least 4.40 s on thread \"main\" (tid 7) when the trace was taken:";
    assert!(
        why.contains(sentence) && why.contains("a.Store.read"),
        "{why}"
    );
    // It waits for messages.
    let poll = "android.os.MessageQueue.nativePollOnce";
    let why = of(&["android.os.Looper.loop", poll]);
    assert!(why.contains("No stall"), "{why}");
}

#[test]
fn a_message_before_a_gap_is_no_stall_and_one_in_the_gap_is_not_ruled_out() {
    let mut s = Script::new("p");
    let first = s.events_thread(7, "main", 1);
    s.at(first, 0)
        .event(Extension::MessageDispatched, &[("message", 1)]);
    let third = s.next_part(first, RingMode::Events, 12 * MS);
    let header = s.header(third);
    (header.part, header.started_counter) = (2, EPOCH + 7_000 * MS);
    let poll = [("kind", POLL), ("number", 9)];
    s.at(third, 7_800 * MS).event(Extension::WaitEnd, &poll);
    s.stop_at(7_900 * MS);
    let folder = tempfile::tempdir().unwrap();
    let why = hindsight(&s, folder.path(), &["why", "t.hindsight"]);
    let sentence = "No stall in the part that is recorded (912 ms): the longest message on thread \"main\" (tid 7) took at \
                    least 12.0 ms.";
    assert!(why.contains(sentence), "{why}");
    let sentence = "What this thread did in another 6.99 s is not known";
    assert!(why.contains(sentence), "{why}");
    let json = hindsight(&s, folder.path(), &["why", "t.hindsight", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["stall"].is_null(), "{json}");
    assert_eq!(json["unrecorded_ns"], 6_988 * MS);
}

/// A thread that stood still for 4 s after its ring was exchanged, in a wait of this kind or in an unknown one, and then ran two
/// short messages.
fn stood_still(kind: Option<u64>) -> Script {
    let mut s = silent(RingMode::Calls);
    let f = s.method("a.Store.read", "()V");
    let mut r = s.at(ThreadIndex::FIRST, 4_000 * MS);
    r.event(Extension::CheckpointBegin, &[])
        .event(Extension::CheckpointEnd, &[]);
    if let Some(kind) = kind {
        r.event(Extension::WaitEnd, &[("kind", kind), ("number", 9)]);
    }
    r.exit()
        .exit()
        .after(MS)
        .call(f, MS)
        .after(MS)
        .call(f, 2 * MS);
    s
}

#[test]
fn a_call_from_before_the_ring_is_no_stall_and_none_is_ruled_out_unless_it_waited_for_work() {
    let folder = tempfile::tempdir().unwrap();
    for kind in [Some(0), None] {
        let why = hindsight(&stood_still(kind), folder.path(), &["why", "t.hindsight"]);
        let sentence = "What this thread did in another 4.00 s is not known";
        assert!(
            why.contains("No stall in the part that is recorded (400 ms)"),
            "{why}"
        );
        assert!(why.contains(sentence), "{why}");
    }
    let idle = stood_still(Some(POLL));
    let why = hindsight(&idle, folder.path(), &["why", "t.hindsight"]);
    assert!(why.starts_with("No stall: "), "{why}");
}
