// SPDX-License-Identifier: Apache-2.0
//! What the commands say of calls that threads took back.

use std::path::Path;

use assert_cmd::Command;
use hindsight_testkit::{stall, Script, ThreadIndex};
use tempfile::TempDir;

fn hindsight(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::cargo_bin("hindsight").unwrap();
    let output = command
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    // A match has the exit code 1.
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{arguments:?}: {output:?}"
    );
    String::from_utf8(output.stdout).unwrap()
}

/// `plain.hindsight` has all calls, the main thread of `short.hindsight` took 1 234 of them back.
fn traces() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |script: &Script, name: &str| script.write(&folder.path().join(name)).unwrap();
    let mut script = stall();
    write(&script, "plain.hindsight");
    script.taken_back(ThreadIndex::FIRST, 50_000, 1_234);
    write(&script, "short.hindsight");
    let signature = "[[signature]]\nname = \"find\"\nstack = [\"*.NoteStore.find\"]\nwhen = { calls = \">= 1\" }\n";
    std::fs::write(folder.path().join("s.toml"), signature).unwrap();
    folder
}

const NOTE: &str = "1 234 calls shorter than 50.0 µs, in which nothing longer was called and no event happened, were left \
                    out since recording into these rings began (rewind=).";

#[test]
fn every_report_says_that_short_calls_were_left_out() {
    let folder = traces();
    for command in [
        &["info"][..],
        &["top"],
        &["why"],
        &["match", "-s", "s.toml"],
        &["diff", "plain.hindsight"],
        &["summary"],
    ] {
        let of = |file| hindsight(folder.path(), &[command, &[file]].concat());
        assert!(
            of("short.hindsight").contains(NOTE),
            "{command:?}: {}",
            of("short.hindsight")
        );
        assert!(
            !of("plain.hindsight").contains("left out since"),
            "{command:?}"
        );
    }
}

#[test]
fn info_has_them_in_json_by_thread_and_a_converted_file_keeps_them() {
    let folder = traces();
    let main = |file| {
        let json = hindsight(folder.path(), &["info", file, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(json["threads"][1].get("taken_back").is_none());
        json["threads"][0]["taken_back"].clone()
    };
    let expected = serde_json::json!({"calls": 1_234, "shorter_than_ns": 50_000});
    assert_eq!(main("short.hindsight"), expected);
    hindsight(
        folder.path(),
        &["convert", "short.hindsight", "again.hindsight"],
    );
    assert_eq!(main("again.hindsight"), expected);
}

#[test]
fn why_does_not_say_that_a_thread_without_long_calls_waited() {
    let folder = traces();
    let why = hindsight(folder.path(), &["why", "short.hindsight"]);
    let sentence = "com.example.notes.NoteStore.find called nothing that took 50.0 µs or longer for 702 ms. It computed, made \
                    calls shorter than 50.0 µs, or waited: events=waits+resources records which.";
    assert!(why.contains(sentence), "{why}");
    assert!(
        !why.contains("Suspect") && !why.contains("Meanwhile"),
        "{why}"
    );
    assert!(hindsight(folder.path(), &["why", "plain.hindsight"]).contains("Suspect"));
}

#[test]
fn diff_warns_if_the_limits_of_the_sides_differ() {
    let folder = traces();
    let diff = |before, after| hindsight(folder.path(), &["diff", before, after]);
    let warning = "(before: none, after: none to 50.0 µs)";
    assert!(diff("plain.hindsight", "short.hindsight").contains(warning));
    assert!(!diff("short.hindsight", "short.hindsight").contains("different lengths"));
}

#[test]
fn nothing_is_said_if_no_call_was_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut script = stall();
    script.taken_back(ThreadIndex::FIRST, 50_000, 0);
    script.write(&folder.path().join("none.hindsight")).unwrap();
    for command in ["info", "top", "why", "summary"] {
        let said = hindsight(folder.path(), &[command, "none.hindsight"]);
        assert!(!said.contains("left out since"), "{command}: {said}");
    }
}
