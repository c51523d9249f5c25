// SPDX-License-Identifier: Apache-2.0
//! `hindsight events`: the list of events as text and as JSON.

use assert_cmd::Command;
use hindsight_testkit::{events_only, stall, Script};
use tempfile::TempDir;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, script: Script| script.write(&folder.path().join(name)).unwrap();
    write("events.hindsight", events_only());
    write("stall.hindsight", stall());
    let mut every = Script::new("every");
    every.method("a.Task.run", "()V");
    every.string("a mark");
    let thread = every.events_thread(100, "main", 1);
    every.at(thread, 10).every_event(1_000).anchor();
    write("every.hindsight", every);
    folder
}

fn events(folder: &TempDir, arguments: &[&str]) -> String {
    let mut command = Command::cargo_bin("hindsight").unwrap();
    let command = command.current_dir(folder.path()).arg("events");
    let output = command.args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{arguments:?}");
    text
}

#[test]
fn events_are_listed_with_their_fields_and_pairs() {
    let folder = folder();
    let list = |arguments: &[&str]| events(&folder, &[&["events.hindsight"], arguments].concat());
    insta::assert_snapshot!("events", list(&["--from", "70ms"]));
    insta::assert_snapshot!(
        "events_of_categories",
        list(&["--category", "tasks,messages", "--width", "100", "-n", "8"])
    );
    insta::assert_snapshot!("events_of_a_thread", list(&["-t", "pool-*"]));
    insta::assert_snapshot!("events_json", list(&["-c", "tasks", "--json"]));
}

/// The main thread waits for a lock all of the time.
#[test]
fn what_was_going_on_when_the_selected_time_began_is_listed() {
    let folder = folder();
    let window = [
        "events.hindsight",
        "-t",
        "main",
        "--from",
        "100ms",
        "--to",
        "200ms",
    ];
    insta::assert_snapshot!("events_going_on", events(&folder, &window));
    let json = events(&folder, &[&window[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let shown = json["events"].as_array().unwrap().iter();
    let shown: Vec<_> = shown.map(|e| e["event"].as_str().unwrap()).collect();
    assert_eq!(shown, ["MessageDispatched", "LockWait", "WaitBegin"]);
    let mut command = Command::cargo_bin("hindsight").unwrap();
    let help = command.args(["events", "--help"]).output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    assert!(!help.contains("--depth"), "{help}");
    assert!(help.contains("Only events from this time on"), "{help}");
    assert!(
        help.contains("a .memory file that a process left"),
        "{help}"
    );
    // Only files of the runtime have branches.
    let mut command = Command::cargo_bin("hindsight").unwrap();
    let help = command.args(["loops", "--help"]).output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    assert!(help.contains(".memory file"), "{help}");
    assert!(!help.contains("Nanoscope"), "{help}");
}

#[test]
fn every_event_of_the_catalogue_is_shown() {
    let folder = folder();
    insta::assert_snapshot!("every_event", events(&folder, &["every.hindsight"]));
    let json = events(&folder, &["every.hindsight", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let shown = json["events"].as_array().unwrap();
    let is_shown = |name: &str| shown.iter().any(|e| e["event"] == name);
    for name in ["BinderServe", "UserMark", "InputBegin", "Stack"] {
        assert!(is_shown(name), "{name}");
    }
}

#[test]
fn a_trace_without_events_says_so() {
    let folder = folder();
    let text = events(&folder, &["stall.hindsight"]);
    assert_eq!(text, "No events are recorded in this part of the trace.\n");
}
