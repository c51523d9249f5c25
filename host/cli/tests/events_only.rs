// SPDX-License-Identifier: Apache-2.0
//! Answers from traces of threads that recorded events only.

use assert_cmd::Command;
use hindsight_decoder::Extension;
use hindsight_testkit::{events_only, stall, Script, ThreadIndex};
use predicates::prelude::*;
use tempfile::TempDir;

/// `events.hindsight`: threads with events only; `stacks.hindsight`: a thread with events and stacks; `calls.hindsight`:
/// threads with calls.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, script: &Script| script.write(&folder.path().join(name)).unwrap();
    write("events.hindsight", &events_only());
    write("stacks.hindsight", &stacks());
    write("calls.hindsight", &stall());
    folder
}

/// `C.f` in two stacks, half a second apart, and a thread that waits.
fn stacks() -> Script {
    let mut script = Script::new("p");
    let f = script.method("C.f", "()V");
    let t = script.events_thread(1, "main", 1);
    let payload = script.stack(&[(f, 1)]);
    script
        .at(t, 0)
        .extension(Extension::Stack, &payload)
        .at(500_000_000)
        .extension(Extension::Stack, &payload);
    let other = script.events_thread(2, "other", 1);
    script
        .at(other, 0)
        .event(Extension::WaitBegin, &[("kind", 1), ("number", 1)]);
    script
}

fn hindsight(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("hindsight").unwrap();
    command.current_dir(folder.path()).args(arguments);
    command
}

#[test]
fn a_summary_has_the_stall_and_says_which_threads_have_no_calls() {
    let folder = folder();
    hindsight(&folder, &["summary", "events.hindsight"])
        .assert()
        .success()
        .stdout(
            predicate::str::contains("1 thread recorded events only: its calls are not counted.")
                .and(predicate::str::contains(
                    "message com.example.notes.NoteListScreen",
                ))
                .and(predicate::str::contains("of time").not()),
        );
    hindsight(&folder, &["summary", "calls.hindsight"])
        .assert()
        .success()
        .stdout(predicate::str::contains("events only").not());
}

#[test]
fn a_diff_with_events_only_compares_nothing() {
    let folder = folder();
    let diff = |after: &str, extra: &[&str]| {
        let arguments = [&["diff", "calls.hindsight", after], extra].concat();
        hindsight(&folder, &arguments).assert()
    };
    let nothing = "nothing could be compared: events.hindsight recorded events only";
    diff("events.hindsight", &["--exit-code"])
        .code(2)
        .stderr(predicate::str::contains(nothing));
    diff("events.hindsight", &[]).code(1);
    // In a folder such traces are no samples.
    let set = folder.path().join("set");
    std::fs::create_dir(&set).unwrap();
    for name in ["events.hindsight", "calls.hindsight"] {
        std::fs::copy(folder.path().join(name), set.join(name)).unwrap();
    }
    diff("set", &["--exit-code"]).code(0).stdout(
        predicate::str::contains("after   set: 1 trace,").and(predicate::str::contains(
            "set: 1 other trace recorded events only and is not compared.",
        )),
    );
}

#[test]
fn a_match_does_not_take_the_times_of_stacks_for_times_of_calls() {
    let folder = folder();
    let find = |when: &str| {
        let toml = format!("[[signature]]\nname = 'slow'\nstack = ['C.f']\nwhen = {{ {when} }}\n");
        std::fs::write(folder.path().join("s.toml"), toml).unwrap();
        hindsight(&folder, &["match", "stacks.hindsight", "-s", "s.toml"]).assert()
    };
    find("max = '> 100 ms'").code(2).stdout(
        predicate::str::contains("unknown")
            .and(predicate::str::contains("its calls were found in stacks")),
    );
    find("calls = '>= 1'").code(1).stdout(
        predicate::str::contains("1 call found in stacks (>= 1).").and(predicate::str::contains(
            "The longest: about 500 ms on thread \"main\"",
        )),
    );
}

/// `export` and `convert` say the same about a format of one thread.
#[test]
fn a_format_of_one_thread_says_what_it_lacks() {
    let folder = folder();
    let one = "note: this format holds one thread, which --thread chooses; left out: 1 other thread with 0 calls";
    let sampled = "note: 1 of the calls are made of stacks";
    let nanoscope = ["stacks.hindsight", "-o", "o.nanoscope.txt"];
    let export = |extra: &[&str]| {
        let arguments = [&["export"], &nanoscope[..], extra].concat();
        let output = hindsight(&folder, &arguments).assert().success();
        output.stderr(predicate::str::contains(one).and(predicate::str::contains(sampled)))
    };
    export(&[]);
    let json = export(&["--json"]).get_output().stdout.clone();
    let report: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(report["threads_left_out"], 1);
    assert_eq!(report["events_left_out"], 2);
    assert_eq!(report["unmarked_sampled_calls"], 1);
    let convert = |to: &str| hindsight(&folder, &["convert", "stacks.hindsight", to]).assert();
    convert("c.nanoscope.txt")
        .success()
        .stderr(predicate::str::contains(one).and(predicate::str::contains(sampled)));
    convert("c.ring").success().stderr(
        predicate::str::contains("c.ring: 0 calls of 1 thread,")
            .and(predicate::str::contains(one))
            .and(predicate::str::contains("so are calls made of stacks")),
    );
}

/// `info` counts the events of a part that `events` lists, also the ones that are moved to its beginning, and whatever the
/// depth.
#[test]
fn info_counts_the_events_that_are_listed() {
    let folder = folder();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let output = hindsight(&folder, arguments).assert().success();
        serde_json::from_slice(&output.get_output().stdout).unwrap()
    };
    let mut counts = Vec::new();
    for file in ["events.hindsight", "stacks.hindsight", "calls.hindsight"] {
        for part in [
            &["--from", "100ms", "--to", "300ms"][..],
            &["--from=-1ms"],
            &[],
        ] {
            let listed = json(&[&["events", file, "--json", "-n", "100000"], part].concat());
            let listed = listed["events"].as_array().unwrap();
            for depth in [&[][..], &["--depth", "1"]] {
                let info = json(&[&["info", file, "--json"], part, depth].concat());
                for thread in info["threads"].as_array().unwrap() {
                    let of_thread = listed
                        .iter()
                        .filter(|e| e["ring"] == thread["ring"])
                        .count();
                    assert_eq!(thread["events"], of_thread, "{file} {part:?} {depth:?}");
                    counts.push(of_thread);
                }
            }
        }
    }
    assert!(counts.iter().any(|&n| n > 1));
    hindsight(&folder, &["info", "events.hindsight", "--from", "1ms"])
        .assert()
        .stdout(predicate::str::contains(
            "are of the selected part, all others of the whole recording.",
        ));
}

/// A message of a second on the main thread, in which this happens, and a thread 7.
fn message(record: impl FnOnce(&mut Script, [ThreadIndex; 2])) -> Script {
    let mut s = Script::new("p");
    let threads = [
        s.events_thread(1, "main", 1),
        s.events_thread(7, "worker", 2),
    ];
    s.at(threads[0], 0)
        .event(Extension::MessageDispatched, &[("message", 1)]);
    record(&mut s, threads);
    s.at(threads[0], 1_000 * MS)
        .event(Extension::MessageDone, &[("message", 1)]);
    s
}

const MS: u64 = 1_000_000;
/// Index of the kind of waits for a lock.
const LOCK: u64 = 0;

/// A wait of this kind and result of the thread, for thread 7.
fn wait(s: &mut Script, t: ThreadIndex, kind: u64, result: u64, (from, to): (u64, u64)) {
    const TIMED_OUT: u64 = 1;
    let of = [("kind", kind), ("number", from), ("result", result)];
    let mut r = s.at(t, from * MS);
    if kind == LOCK {
        r.event(Extension::LockWait, &[("held by", 7)]);
    }
    r.event(Extension::WaitBegin, &of[..2]).at(to * MS);
    if kind != LOCK && result != TIMED_OUT {
        r.event(Extension::WokenBy, &[("by", 7)]);
    }
    r.event(Extension::WaitEnd, &of);
}

fn why(script: &Script, says: &str) {
    let folder = tempfile::tempdir().unwrap();
    script.write(&folder.path().join("t.hindsight")).unwrap();
    hindsight(&folder, &["why", "t.hindsight"])
        .assert()
        .success()
        .stdout(predicate::str::contains(says));
}

#[test]
fn who_held_a_thread_up_for_a_part_of_its_time_is_said() {
    const SLEEP: u64 = 2;
    const INTERRUPTED: u64 = 2;
    let alone = message(|s, [main, _]| wait(s, main, SLEEP, 1, (1, 999)));
    why(&alone, "No other thread held it up: it slept for a time");
    let slept = message(|s, [main, _]| {
        wait(s, main, SLEEP, 1, (1, 600));
        wait(s, main, LOCK, 0, (601, 999));
    });
    why(
        &slept,
        "It slept for a time that it chose. But it also waited 398 ms for a lock that thread \"worker\" (tid 7) held.",
    );
    // Others may have held the locks later.
    let twice = message(|s, [main, _]| {
        wait(s, main, SLEEP, 1, (1, 600));
        wait(s, main, LOCK, 0, (601, 751));
        wait(s, main, LOCK, 0, (761, 991));
    });
    why(
        &twice,
        "But it also waited 380 ms for locks that thread \"worker\" (tid 7) held when the waits began.",
    );
    let interrupted = message(|s, [main, _]| wait(s, main, SLEEP, INTERRUPTED, (1, 999)));
    why(
        &interrupted,
        "it slept until thread \"worker\" (tid 7) interrupted it.",
    );
    let two = message(|s, [main, _]| {
        wait(s, main, LOCK, 0, (1, 481));
        wait(s, main, 3, 0, (501, 981));
    });
    why(
        &two,
        "No wait took most of the time: it waited 480 ms for a lock that thread \"worker\" (tid 7) held, and 480 ms parked \
         until thread \"worker\" (tid 7) ended it. For more: hindsight why --thread 7",
    );
}

/// A wait of the main thread from 1 to 999 ms, for a worker that was itself parked from 2 to 901 ms.
fn chain(woken_by: &[(&str, u64)]) -> Script {
    const PARK: u64 = 3;
    message(|s, [main, worker]| {
        wait(s, main, LOCK, 0, (1, 999));
        let of = [("kind", PARK), ("number", 1)];
        s.at(worker, 0)
            .event(Extension::TaskBegin, &[("task", 4)])
            .at(2 * MS)
            .event(Extension::WaitBegin, &of)
            .at(901 * MS);
        if !woken_by.is_empty() {
            s.at(worker, 901 * MS).event(Extension::WokenBy, woken_by);
        }
        s.at(worker, 901 * MS).event(Extension::WaitEnd, &of);
        let slow = s.method("com.example.Slow.run", "()V");
        let third = s.events_thread(8, "third", 3);
        s.at(third, 0)
            .event(Extension::TaskBegin, &[("task", 5), ("class", slow)])
            .at(990 * MS)
            .event(Extension::TaskEnd, &[("task", 5)]);
    })
}

#[test]
fn whom_the_owner_waited_for_is_said() {
    why(
        &chain(&[("by", 8)]),
        "Culprit: task com.example.Slow, on thread \"third\", which ended the wait of thread \"worker\" (tid 7).",
    );
    why(
        &chain(&[("by", 9)]),
        "Culprit: unknown: thread 9 ended the wait of thread \"worker\" (tid 7), and is not in the trace: to learn what it \
         did, record with more rings (event-rings=) or a larger spool (event-spool=).",
    );
    why(
        &chain(&[]),
        "Culprit: unknown: thread \"worker\" (tid 7) held the lock when the wait began, but waited itself for most of that \
         time, and who ended that wait is not recorded.",
    );
}

/// A wait of the main thread for a lock that the first of these threads holds, each of which is parked until the next one wakes
/// it; the last one runs a task.
fn long_chain(threads: u32) -> Script {
    const PARK: u64 = 3;
    let mut s = Script::new("p");
    let main = s.events_thread(1, "main", 1);
    s.at(main, 0)
        .event(Extension::MessageDispatched, &[("message", 1)]);
    wait(&mut s, main, LOCK, 0, (1, 999));
    s.at(main, 1_000 * MS)
        .event(Extension::MessageDone, &[("message", 1)]);
    let slow = s.method("com.example.Slow.run", "()V");
    for i in 0..threads {
        let (tid, number) = (7 + i, u64::from(i));
        let t = s.events_thread(tid, &format!("worker-{i}"), u64::from(tid));
        let task = [("task", 100 + number), ("class", slow)];
        if i + 1 == threads {
            s.at(t, 0).event(Extension::TaskBegin, &task);
            s.at(t, 998 * MS).event(Extension::TaskEnd, &task[..1]);
            break;
        }
        let of = [("kind", PARK), ("number", 1)];
        s.at(t, 0)
            .event(Extension::TaskBegin, &task[..1])
            .at((2 + number) * MS)
            .event(Extension::WaitBegin, &of)
            .at((998 - number) * MS)
            .event(Extension::WokenBy, &[("by", u64::from(tid) + 1)])
            .event(Extension::WaitEnd, &of);
    }
    s
}

/// What these commands answer about a trace.
fn answers(script: &Script, commands: &[&str]) -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().unwrap();
    script.write(&folder.path().join("t.hindsight")).unwrap();
    let answer = |command: &&str| {
        let mut command = hindsight(&folder, &[command, "t.hindsight", "--json"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    commands.iter().map(answer).collect()
}

#[test]
fn why_follows_as_many_threads_as_diagnose_does() {
    let script = long_chain(12);
    let [why_says, diagnose_says] = &answers(&script, &["why", "diagnose"])[..] else {
        unreachable!()
    };
    let pair = serde_json::json!(["task com.example.Slow", "worker-11"]);
    assert_eq!(why_says["told"][0]["culprit"], pair);
    assert_eq!(why_says["told"][0]["culprit_reason"], "waker");
    assert_eq!(
        why_says["diagnoses"][0]["culprit"],
        diagnose_says["culprit"]
    );
    assert_eq!(why_says["diagnoses"][0]["chain"], diagnose_says["chain"]);
    why(
        &script,
        "Culprit: task com.example.Slow, on thread \"worker-11\" (tid 18), which ended the wait.",
    );
    why(&script, "  - Thread \"worker-10\" (tid 17) was parked");
}

#[test]
fn a_thread_that_slept_itself_is_named_and_one_that_waited_is_not() {
    const SLEEP: u64 = 2;
    let of_class = |kind| {
        let mut s = Script::new("p");
        let class = s.method("com.example.Sleepy.handleMessage", "()V");
        let main = s.events_thread(1, "main", 1);
        let message = [("message", 1), ("class", class)];
        s.at(main, 0).event(Extension::MessageDispatched, &message);
        wait(&mut s, main, kind, 1, (1, 999));
        s.at(main, 1_000 * MS)
            .event(Extension::MessageDone, &message[..1]);
        s
    };
    let slept = &answers(&of_class(SLEEP), &["why"])[0]["told"][0];
    let pair = serde_json::json!(["message com.example.Sleepy", "main"]);
    assert_eq!(
        (&slept["culprit"], &slept["culprit_reason"]),
        (&pair, &"slept".into())
    );
    const OBJECT: u64 = 1;
    let waited = &answers(&of_class(OBJECT), &["why"])[0]["told"][0];
    assert!(waited["culprit"].is_null(), "{waited}");
    why(&of_class(OBJECT), "Culprit: unknown: ");
}

#[test]
fn without_a_stall_a_wait_between_messages_has_its_culprit() {
    let mut s = Script::new("p");
    let slow = s.method("com.example.Slow.run", "()V");
    let main = s.events_thread(1, "main", 1);
    s.at(main, 0)
        .event(Extension::MessageDispatched, &[("message", 1)])
        .at(MS)
        .event(Extension::MessageDone, &[("message", 1)]);
    wait(&mut s, main, LOCK, 0, (2, 3_002));
    let worker = s.events_thread(7, "worker", 7);
    let task = [("task", 1), ("class", slow)];
    s.at(worker, 0).event(Extension::TaskBegin, &task);
    s.at(worker, 3_002 * MS)
        .event(Extension::TaskEnd, &task[..1]);
    why(
        &s,
        "No stall: the longest message on thread \"main\" (tid 1) took 1.00 ms.",
    );
    why(
        &s,
        "Culprit: task com.example.Slow, on thread \"worker\" (tid 7), which held the lock.",
    );
}

#[test]
fn pauses_of_all_threads_are_named() {
    let paused = message(|s, [_, worker]| {
        s.at(worker, 100 * MS)
            .event(Extension::GcPauseBegin, &[])
            .at(900 * MS)
            .event(Extension::GcPauseEnd, &[]);
    });
    why(
        &paused,
        "All threads were suspended for 800 ms of the time, by a garbage collection on thread \"worker\" (tid 7).",
    );
    why(
        &paused,
        "Culprit: a garbage collection on thread \"worker\", which suspended all threads.",
    );
}

#[test]
fn a_deadlock_and_a_wait_outside_of_messages_are_named() {
    let deadlock = {
        let mut s = Script::new("p");
        for (tid, other) in [(1, 2), (2, 1)] {
            let t = s.events_thread(tid, ["main", "worker"][tid as usize - 1], 1);
            s.at(t, 0)
                .event(Extension::MessageDispatched, &[("message", 1)])
                .event(Extension::LockWait, &[("held by", other)])
                .event(Extension::WaitBegin, &[("number", 1)]);
        }
        s.stop_at(1_000 * MS);
        s
    };
    why(
        &deadlock,
        "Deadlock: thread \"main\" (tid 1) and thread \"worker\" (tid 2) wait for each other's locks.",
    );
    let outside = {
        let mut s = Script::new("p");
        let main = s.events_thread(1, "main", 1);
        s.at(main, 0)
            .event(Extension::MessageDispatched, &[("message", 1)])
            .at(MS)
            .event(Extension::MessageDone, &[("message", 1)]);
        wait(&mut s, main, LOCK, 0, (2, 3_002));
        s
    };
    why(
        &outside,
        "But outside of its messages it waited 3.00 s for the lock, which thread 7 held when the wait began",
    );
}

#[test]
fn of_a_converted_part_a_message_took_at_least_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let script = message(|s, [main, _]| wait(s, main, LOCK, 0, (1, 999)));
    script.write(&folder.path().join("t.hindsight")).unwrap();
    why(&script, "One message took 1.00 s on");
    let part = [
        "t.hindsight",
        "c.hindsight",
        "--from",
        "100ms",
        "--to",
        "650ms",
    ];
    hindsight(&folder, &[&["convert"], &part[..]].concat())
        .assert()
        .success();
    hindsight(&folder, &["why", "c.hindsight"])
        .assert()
        .success()
        .stdout(predicate::str::contains(
            "One message had run for at least 550 ms",
        ));
}

#[test]
fn of_an_owner_whose_ring_is_too_small_the_remedy_is_named() {
    let script = message(|s, [main, worker]| {
        s.ring_log2_bytes(12);
        let mut r = s.at(worker, 0);
        r.event(Extension::TaskBegin, &[("task", 1)]);
        for i in 0..10_000 {
            r.at(2 * MS + i).event(Extension::CheckpointBegin, &[]);
        }
        wait(s, main, LOCK, 0, (1, 999));
    });
    why(
        &script,
        "but its ring does not reach back to the beginning of the wait",
    );
    why(
        &script,
        "but its ring does not reach back so far: its earlier events were overwritten, are in an earlier file, or fell out of \
         the spool. Record with larger rings (event-ring=) or a larger spool (event-spool=).",
    );
}
