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
