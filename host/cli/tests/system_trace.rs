// SPDX-License-Identifier: Apache-2.0
//! Commands with a Perfetto trace of the whole device beside .hindsight files.

use std::path::Path;

use assert_cmd::Command;
use hindsight_testkit::device::{DeviceTrace, Layout, SLEEPS};
use hindsight_testkit::server;
use serde_json::Value;

fn write(folder: &Path) {
    let (app, device) = server();
    app.write(&folder.join("app.hindsight")).unwrap();
    std::fs::write(folder.join("device.pftrace"), device.encode()).unwrap();
}

/// Standard output and standard error, and whether it succeeded.
fn run(folder: &Path, arguments: &[&str]) -> (String, String, bool) {
    let output = Command::cargo_bin("hindsight")
        .unwrap()
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
        output.status.success(),
    )
}

#[test]
fn all_questions_on_the_graph_take_it() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    for command in ["diagnose", "transactions", "crashes"] {
        let (out, err, _) = run(
            folder.path(),
            &[command, "app.hindsight", "device.pftrace", "--json"],
        );
        let json: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(json["system"]["file"], "device.pftrace", "{command} {err}");
        assert_eq!(json["system"]["missing"], Value::Array(vec![]), "{command}");
        assert_eq!(json["failed"], Value::Array(vec![]), "{command}");
    }
    let (out, _, _) = run(
        folder.path(),
        &["transactions", "app.hindsight", "device.pftrace", "--json"],
    );
    let json: Value = serde_json::from_str(&out).unwrap();
    let parts = &json["transactions"][0]["components"];
    assert_eq!(parts["io"], 1_000_000, "{out}");
    assert_eq!(parts["runnable"], 1_000_010, "{out}");
    std::fs::write(folder.path().join("script"), "chain\nthreads\n").unwrap();
    let (out, err, _) = run(
        folder.path(),
        &[
            "debug",
            "app.hindsight",
            "device.pftrace",
            "--script",
            "script",
        ],
    );
    assert!(out.contains("surfaceflinger"), "{out}{err}");
}

#[test]
fn a_trace_that_cannot_be_used_is_named_and_the_answer_is_without_it() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let mut other = DeviceTrace::new(Layout::Compact);
    other
        .switch(0, 0, 0, 0, 4_200)
        .switch(0, 9, 4_200, SLEEPS, 0);
    other.realtime_shift = -86_400_000_000_000;
    std::fs::write(folder.path().join("other.pftrace"), other.encode()).unwrap();
    let (out, err, _) = run(
        folder.path(),
        &["diagnose", "app.hindsight", "other.pftrace", "--json"],
    );
    assert!(
        err.contains("other.pftrace") && err.contains("another boot"),
        "{err}"
    );
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["failed"][0]["file"], "other.pftrace");
    assert!(json.get("system").is_none(), "{out}");
    let (_, err, success) = run(folder.path(), &["diagnose", "device.pftrace"]);
    assert!(
        !success && err.contains("name the .hindsight files"),
        "{err}"
    );
    let two = [
        "diagnose",
        "app.hindsight",
        "device.pftrace",
        "other.pftrace",
    ];
    let (_, err, success) = run(folder.path(), &two);
    assert!(!success && err.contains("a second Perfetto trace"), "{err}");
    // Commands on one process say who takes it.
    let (_, err, success) = run(folder.path(), &["info", "device.pftrace"]);
    assert!(!success && err.contains("hindsight diagnose"), "{err}");
}

#[test]
fn what_is_missing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (app, mut device) = server();
    app.write(&folder.path().join("app.hindsight")).unwrap();
    device.lost(1, 100_000_000);
    let mut bytes = device.encode();
    bytes.truncate(bytes.len() - 5);
    std::fs::write(folder.path().join("device.pftrace"), bytes).unwrap();
    let (out, _, _) = run(
        folder.path(),
        &["diagnose", "app.hindsight", "device.pftrace"],
    );
    assert!(
        out.contains("Not in the system trace device.pftrace"),
        "{out}"
    );
    assert!(out.contains("cut off"), "{out}");
}
