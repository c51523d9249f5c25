// SPDX-License-Identifier: Apache-2.0
//! Answers from traces of threads that recorded events only.

use assert_cmd::Command;
use hindsight_decoder::Extension;
use hindsight_testkit::{events_only, stall, Script};
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
