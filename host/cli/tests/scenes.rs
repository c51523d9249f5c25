// SPDX-License-Identifier: Apache-2.0
//! Output of the commands for traces that are not ideal: wrapped rings, threads that were not traced, repeated ids,
//! no stall, a busy thread, damaged files.

use std::path::Path;

use assert_cmd::Command;
use hindsight_testkit::SCENES;
use predicates::prelude::*;
use tempfile::TempDir;

/// A folder with all scenes.
fn scenes() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, scene) in SCENES {
        let path = folder.path().join(format!("{name}.hindsight"));
        std::fs::write(path, scene()).unwrap();
    }
    folder
}

fn hindsight(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("hindsight").unwrap();
    command.current_dir(folder.path()).args(arguments);
    command
}

/// Standard output and, where there is any, standard error and the exit code.
fn run(folder: &TempDir, arguments: &[&str]) -> String {
    let output = hindsight(folder, arguments).output().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    if !notes.is_empty() {
        text += &format!("--- standard error\n{notes}");
    }
    match output.status.code() {
        Some(0) => text,
        code => format!("{text}--- exit code {}\n", code.unwrap_or(-1)),
    }
}

fn json(folder: &TempDir, arguments: &[&str]) -> serde_json::Value {
    let arguments = [arguments, &["--json"]].concat();
    let output = hindsight(folder, &arguments).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

const SIGNATURES: &str = r#"
[[signature]]
name = "note file written"
stack = ["*.NoteFile.writeNote"]
when = { calls = ">= 1" }
"#;

/// Each command about each scene, one file a scene.
#[test]
fn each_command_tells_the_truth_about_each_scene() {
    let folder = scenes();
    std::fs::write(folder.path().join("s.toml"), SIGNATURES).unwrap();
    for (name, _) in SCENES {
        let file = format!("{name}.hindsight");
        let commands: [&[&str]; 6] = [
            &["info", &file],
            &["why", &file, "--limit", "2"],
            &["top", &file, "--limit", "5"],
            &["match", &file, "-s", "s.toml"],
            &["summary", &file, "--limit", "3"],
            &["diff", "stall.hindsight", &file, "--limit", "3"],
        ];
        let mut all = String::new();
        for command in commands {
            let output = run(&folder, command);
            all += &format!("$ hindsight {}\n{output}\n", command.join(" "));
        }
        insta::assert_snapshot!(format!("scene_{name}"), all);
    }
}

/// The waiting thread is not the culprit, even if no other thread is in the trace.
#[test]
fn an_owner_that_was_not_traced_is_named_and_the_victim_is_not() {
    let folder = scenes();
    let why = json(&folder, &["why", "untraced-owner.hindsight"]);
    let chain = &why["chains"][0];
    assert_eq!(why["stall"], true);
    assert!(chain["culprit"].is_null() && chain["suspect"].is_null());
    assert_eq!(chain["culprit_reason"], "owner_not_traced");
    assert_eq!(chain["lock_owner"]["tid"], 4217);
    assert_eq!(chain["lock_owner"]["traced"], false);
    hindsight(&folder, &["why", "untraced-owner.hindsight"])
        .assert()
        .success()
        .stdout(predicate::str::contains(
            "Culprit: unknown: thread 4217 owned the lock",
        ));
    let summary = json(&folder, &["summary", "untraced-owner.hindsight"]);
    assert_eq!(summary["stalls"].as_array().unwrap().len(), 1);
    assert!(summary["stalls"][0]["culprit"].is_null());
}

/// No stall is an answer.
#[test]
fn a_trace_without_a_stall_is_said_to_have_none() {
    let folder = scenes();
    let why = json(&folder, &["why", "no-stall.hindsight"]);
    assert_eq!(why["stall"], false);
    assert_eq!(why["chains"].as_array().unwrap().len(), 0);
    for thread in ["main", "HeapTaskDaemon"] {
        hindsight(&folder, &["why", "no-stall.hindsight", "-t", thread])
            .assert()
            .success()
            .stdout(predicate::str::contains("No stall: "))
            .stdout(predicate::str::contains("held").not());
    }
    let busy = json(&folder, &["why", "cpu-bound.hindsight"]);
    let chain = &busy["chains"][0];
    assert_eq!(chain["activity"], "busy");
    assert!(chain["culprit"].is_null());
}

/// A name, or a ring, is one thread although its id repeats.
#[test]
fn a_thread_is_not_mistaken_for_another_of_the_same_id() {
    let folder = scenes();
    let file = "repeated-tid.hindsight";
    let names = |thread: &str| -> Vec<String> {
        let info = json(&folder, &["info", file, "-t", thread]);
        let threads = info["threads"].as_array().unwrap().iter();
        threads
            .map(|t| t["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names("Shutdown thread"), ["Shutdown thread"]);
    assert_eq!(names("main"), ["main"]);
    assert_eq!(names("4200"), ["main", "Shutdown thread"]);
    assert_eq!(names("http-*"), ["http-1", "http-2"]);
    let info = json(&folder, &["info", file]);
    for thread in info["threads"].as_array().unwrap() {
        let ring = format!("ring:{}", thread["ring"]);
        assert_eq!(names(&ring), [thread["name"].as_str().unwrap()]);
        assert_eq!(thread["main"], thread["name"] == "main");
    }
    let top = json(&folder, &["top", file, "-t", "Shutdown thread"]);
    assert_eq!(top["rings"].as_array().unwrap().len(), 1);
    let rows = top["rows"].as_array().unwrap();
    assert!(rows.iter().all(|r| r["name"] != "android.os.Looper.loop"));
    let nanoscope = ["export", file, "-f", "nanoscope", "-o", "-"];
    hindsight(
        &folder,
        &[&nanoscope[..], &["-t", "Shutdown thread"]].concat(),
    )
    .assert()
    .success()
    .stdout(predicate::str::starts_with(
        "0:+java.lang.Shutdown.shutdown",
    ));
    // why is about one thread, and says which.
    hindsight(&folder, &["why", file, "-t", "4200"])
        .assert()
        .success()
        .stderr(predicate::str::contains("\"Shutdown thread\" (tid 4200"));
}

/// A file that cannot be read does not silence the others.
#[test]
fn one_bad_file_does_not_silence_the_others() {
    let folder = scenes();
    std::fs::write(folder.path().join("s.toml"), SIGNATURES).unwrap();
    std::fs::write(folder.path().join("bad.hindsight"), "nonsense").unwrap();
    let files = ["bad.hindsight", "stall.hindsight", "no-stall.hindsight"];
    let ask = [&["match", "-s", "s.toml"], &files[..]].concat();
    hindsight(&folder, &ask)
        .assert()
        .code(2)
        .stdout(predicate::str::contains("stall.hindsight\nMATCH"))
        .stdout(predicate::str::contains("no-stall.hindsight\n"))
        .stderr(predicate::str::contains("bad.hindsight"));
    let reports = json(&folder, &ask);
    let reports = reports.as_array().unwrap();
    assert_eq!(reports.len(), 3);
    assert!(reports[0]["error"].is_string());
    assert_eq!(reports[1]["matched"], true);

    let ask = [&["summary"], &files[..]].concat();
    let summary = json(&folder, &ask);
    assert_eq!(summary["traces"], 2);
    hindsight(&folder, &ask)
        .assert()
        .code(1)
        .stdout(predicate::str::contains("com.example.notes (2)"))
        .stderr(predicate::str::contains("bad.hindsight"));
    hindsight(&folder, &["summary", "bad.hindsight"])
        .assert()
        .code(1)
        .stdout("");

    std::fs::create_dir(folder.path().join("before")).unwrap();
    for file in files {
        let to = folder.path().join("before").join(file);
        std::fs::copy(folder.path().join(file), to).unwrap();
    }
    let ask = ["diff", "before", "stall.hindsight"];
    hindsight(&folder, &ask)
        .assert()
        .code(1)
        .stdout(predicate::str::contains("before: 2 traces"))
        .stderr(predicate::str::contains("bad.hindsight"));
    let diff = json(&folder, &ask);
    assert_eq!(diff["failed"].as_array().unwrap().len(), 1);
    hindsight(&folder, &["diff", "bad.hindsight", "stall.hindsight"])
        .assert()
        .code(1)
        .stdout("");
}

/// The sound parts of a damaged file are read, and the others are listed; with --strict the file is refused.
#[test]
fn damaged_parts_are_listed_or_refused() {
    let folder = scenes();
    std::fs::write(folder.path().join("s.toml"), SIGNATURES).unwrap();
    for file in ["damaged-ring.hindsight", "cut-file.hindsight"] {
        for command in ["info", "why", "top"] {
            hindsight(&folder, &[command, file])
                .assert()
                .success()
                .stdout(predicate::str::contains("Not in the trace"))
                .stdout(predicate::str::contains("notes-sync"));
            let report = json(&folder, &[command, file]);
            let damaged = report["damaged"].as_array().unwrap();
            assert!(damaged.iter().any(|d| d["part"] == "ring"), "{report}");
            hindsight(&folder, &[command, file, "--strict"])
                .assert()
                .code(1)
                .stdout("")
                .stderr(predicate::str::contains(file));
        }
        let found = json(&folder, &["match", file, "-s", "s.toml"]);
        assert!(!found[0]["damaged"].as_array().unwrap().is_empty());
        let summary = json(&folder, &["summary", file]);
        assert!(summary["damaged"].as_u64().unwrap() > 0);
        assert!(!summary.to_string().contains("notes-sync"));
        let diff = json(&folder, &["diff", "stall.hindsight", file]);
        assert!(!diff["damaged"].as_array().unwrap().is_empty());
        for command in ["export", "convert"] {
            let output: &[&str] = match command {
                "export" => &["-o", "out.folded"],
                _ => &["out.hindsight"],
            };
            hindsight(&folder, &[&[command, file], output].concat())
                .assert()
                .success()
                .stderr(predicate::str::contains("not in the trace"));
        }
    }
}

/// A limit of 0 would hide every answer.
#[test]
fn a_limit_of_zero_is_refused() {
    let folder = scenes();
    for command in ["top", "why", "summary"] {
        hindsight(&folder, &[command, "stall.hindsight", "-n", "0"])
            .assert()
            .code(2)
            .stderr(predicate::str::contains("0 is not in 1.."));
    }
    let diff = ["diff", "stall.hindsight", "stall.hindsight", "-n", "0"];
    hindsight(&folder, &diff).assert().code(2);
}

/// Only an error of the output is called one.
#[test]
fn an_input_that_cannot_be_read_is_no_failure_to_write() {
    let folder = scenes();
    let wrong = |arguments: &[&str], expected: &str| {
        hindsight(&folder, arguments)
            .assert()
            .code(1)
            .stderr(predicate::str::contains("cannot write the result").not())
            .stderr(predicate::str::contains(expected));
    };
    wrong(&["open", "nope.hindsight"], "cannot open nope.hindsight");
    wrong(&["info", "nope.hindsight"], "cannot open nope.hindsight");
    wrong(
        &["man", "/proc/nowhere"],
        "cannot write manual pages into /proc/nowhere",
    );
    let full = Path::new("/dev/full");
    if !full.exists() {
        println!("SKIPPED: this system has no /dev/full");
        return;
    }
    let commands: [&[&str]; 5] = [
        &["info", "stall.hindsight"],
        &["why", "stall.hindsight"],
        &["top", "stall.hindsight", "--json"],
        &["export", "stall.hindsight", "-o", "-"],
        &["completions", "bash"],
    ];
    for command in commands {
        let output = std::process::Command::new(assert_cmd::cargo::cargo_bin("hindsight"))
            .current_dir(folder.path())
            .args(command)
            .stdout(std::fs::File::options().write(true).open(full).unwrap())
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            error.contains("cannot write the result") && !output.status.success(),
            "{command:?}: {error}"
        );
    }
}

/// A full ring that covers little time is said to, with the numbers.
#[test]
fn info_says_how_short_the_history_of_a_fast_ring_is() {
    let folder = scenes();
    let info = json(&folder, &["info", "busy.hindsight"]);
    let thread = &info["threads"][0];
    let short = &thread["short"];
    let span_s = thread["span_ns"].as_f64().unwrap() / 1e9;
    let expected = thread["points"].as_f64().unwrap() / span_s;
    let got = short["points_per_second"].as_f64().unwrap();
    assert!((got / expected - 1.0).abs() < 0.001, "{got} {expected}");
    // The scene fills the ring twice.
    assert_eq!(short["kept"], 0.5);
    assert_eq!(short["frequent"].as_array().unwrap().len(), 10);
    hindsight(&folder, &["info", "busy.hindsight"])
        .assert()
        .stdout(predicate::str::contains("50.0 % of all slots"));
    let whole = json(&folder, &["info", "stall.hindsight"]);
    assert!(whole["threads"][0].get("short").is_none());
}

/// Where calls may be missing, a signature that is not found is no all-clear.
#[test]
fn a_damaged_trace_without_a_match_does_not_pass() {
    let folder = scenes();
    let missing = SIGNATURES.replace("writeNote", "noSuchMethod");
    std::fs::write(folder.path().join("s.toml"), missing).unwrap();
    let ask = |arguments: &[&str]| {
        let file = ["match", "damaged-ring.hindsight", "-s", "s.toml"];
        hindsight(&folder, &[&file, arguments].concat()).assert()
    };
    ask(&[])
        .code(2)
        .stdout(predicate::str::contains("unknown   note file written"));
    // The ring of the main thread is sound.
    ask(&["--thread", "main"]).code(0);
    let why = [
        "why",
        "damaged-ring.hindsight",
        "-t",
        "notes-sync",
        "--stall",
        "1h",
    ];
    hindsight(&folder, &why)
        .assert()
        .success()
        .stdout(predicate::str::contains(
            "No stall in the part that could be read (",
        ))
        .stdout(predicate::str::contains("cannot be told"));
    assert!(json(&folder, &why)["stall"].is_null());
}
