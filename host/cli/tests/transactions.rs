// SPDX-License-Identifier: Apache-2.0
//! `hindsight transactions` and `hindsight crashes`; docs/causality.md has their text.

use assert_cmd::Command;
use hindsight_testkit::{stall, taps};
use predicates::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    taps().write(&folder.path().join("taps.hindsight")).unwrap();
    stall()
        .write(&folder.path().join("stall.hindsight"))
        .unwrap();
    folder
}

fn hindsight(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("hindsight").unwrap();
    command.current_dir(folder.path()).args(arguments);
    command
}

fn json(folder: &TempDir, arguments: &[&str]) -> Value {
    let output = hindsight(folder, arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn sum(components: &Value) -> u64 {
    let all = components.as_object().unwrap().values();
    all.map(|ns| ns.as_u64().unwrap()).sum()
}

#[test]
fn components_of_json_add_up() {
    let folder = folder();
    let arguments = [
        "transactions",
        "taps.hindsight",
        "--group",
        "--critical-path",
        "13",
    ];
    let found = json(&folder, &arguments);
    let transactions = found["transactions"].as_array().unwrap();
    assert_eq!(transactions.len(), 17);
    for transaction in transactions {
        assert_eq!(
            sum(&transaction["components"]),
            transaction["path_ns"],
            "{transaction}"
        );
    }
    let path = &found["critical_path"];
    let length = path["end_ns"].as_u64().unwrap() - path["begin_ns"].as_u64().unwrap();
    assert_eq!(sum(&path["components"]), length);
    let steps = path["steps"].as_array().unwrap();
    assert_eq!(
        steps.iter().map(|s| sum(&s["components"])).sum::<u64>(),
        length
    );
    let lock = steps
        .iter()
        .find(|s| s["components"]["lock"].is_u64())
        .unwrap();
    assert_eq!(lock["by"]["thread"], "notes-saver");

    let groups = found["groups"]["groups"].as_array().unwrap();
    assert_eq!(groups[0]["transactions"].as_array().unwrap().len(), 12);
    let parts = groups[0]["variance"].as_object().unwrap().values();
    let parts: f64 = parts.map(|p| p.as_f64().unwrap()).sum();
    assert!((parts - 1.0).abs() < 1e-9, "{parts}");
    assert_eq!(groups[0]["outliers"][0]["blamed"][0], "network");
}

#[test]
fn crashes_have_their_causes_in_json() {
    let found = json(&folder(), &["crashes", "taps.hindsight"]);
    let crash = &found["crashes"][0];
    assert_eq!(crash["exception"], "java.lang.IllegalStateException");
    let works: Vec<&str> = (crash["causes"].as_array().unwrap().iter())
        .map(|c| c["work"].as_str().unwrap())
        .collect();
    assert_eq!(works[1], "task com.example.notes.LoadNote");
    assert_eq!(crash["causes"][1]["by"], "task");
    assert_eq!(crash["frames_are"], "not_recorded");
    assert_eq!(found["groups"][0]["crashes"][0], 0);
}

#[test]
fn what_is_not_recorded_is_said() {
    let folder = folder();
    hindsight(&folder, &["transactions", "stall.hindsight"])
        .assert()
        .success()
        .stdout(predicate::str::contains("0 transactions in 1 trace."))
        .stdout(predicate::str::contains(
            "transactions need the events messages and tasks",
        ))
        .stdout(predicate::str::contains("No input is recorded"));
    hindsight(&folder, &["crashes", "stall.hindsight"])
        .assert()
        .success()
        .stdout(predicate::str::starts_with(
            "0 uncaught exceptions in 1 trace.\n\nNo events are recorded: crashes need the events runtime",
        ));
    let missing = &json(&folder, &["crashes", "stall.hindsight"])["missing"];
    assert_eq!(missing.as_array().unwrap().len(), 1, "{missing}");
    // They are recorded here.
    hindsight(&folder, &["crashes", "taps.hindsight"])
        .assert()
        .success()
        .stdout(predicate::str::contains("crashes need the events").not())
        .stdout(predicate::str::contains("not recorded: if").not());
}

#[test]
fn wrong_numbers_are_refused() {
    let folder = folder();
    let refused = |arguments: &[&str], message: &str| {
        hindsight(&folder, arguments)
            .assert()
            .code(1)
            .stderr(predicate::str::contains(message));
    };
    let path = ["transactions", "taps.hindsight", "--critical-path"];
    refused(
        &[&path[..], &["99"]].concat(),
        "they have the numbers 0 to 16",
    );
    refused(
        &[&path[..], &["13", "--layout", "2"]].concat(),
        "--layout takes 1 to 1",
    );
    refused(
        &[&path[..], &["16", "--layout", "1"]].concat(),
        "leave out --layout",
    );
    let none = ["transactions", "stall.hindsight", "--critical-path", "0"];
    refused(&none, "none was found");
    refused(
        &["transactions", "taps.hindsight", "-o", "a.folded"],
        ".parquet or .pftrace",
    );
    refused(
        &["transactions", "missing.hindsight"],
        "no trace can be read",
    );
}

#[test]
fn other_tools_get_tables_and_flows() {
    let folder = folder();
    let write = |arguments: &[&str]| {
        hindsight(
            &folder,
            &[&["transactions", "taps.hindsight"], arguments].concat(),
        )
        .assert()
        .success();
    };
    write(&["-o", "t.parquet"]);
    for table in ["transactions", "edges", "critical_paths", "exceptions"] {
        let file = folder
            .path()
            .join("t.parquet")
            .join(format!("{table}.parquet"));
        assert!(file.is_file(), "{}", file.display());
    }
    let size = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
    write(&["-o", "one.pftrace", "--critical-path", "13"]);
    write(&["-o", "two.pftrace", "--limit", "2"]);
    assert!(size("one.pftrace") < size("two.pftrace"));
}
