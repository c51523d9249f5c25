// SPDX-License-Identifier: Apache-2.0
//! `hindsight device`, with a program adb that answers as a device's hindsightd does; errors of `hindsight record`, too.

mod common;

use std::fs;
use std::path::Path;

use predicates::prelude::*;

use common::{has, Lab};

#[test]
fn status_and_reports_are_tables_or_json() {
    let lab = Lab::new();
    let status = lab.run(&["device", "status"]).success();
    for text in [
        "com.example.notes",
        "8 MiB",
        "512 KiB of 1 MiB",
        "closed for 9 s: the list of reports was lost",
        "ring size",
        "other memory",
        "for 4 s more",
        "128 processes",
        "2 kept",
    ] {
        assert!(
            String::from_utf8_lossy(&status.get_output().stdout).contains(text),
            "{text}"
        );
    }
    let json = lab
        .run(&["device", "-s", "emulator-5554", "status", "--json"])
        .success();
    let json: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert_eq!(json["engine"]["processes"][0]["pid"], 7);
    assert!(lab
        .log()
        .contains("-s emulator-5554 exec-out hindsightd --command --framed 'status'"));
    lab.run(&["device", "reports"])
        .success()
        .stdout(has("killed").and(has("2026-11-18")));
    lab.run(&["device", "dump"])
        .success()
        .stdout(has("hindsightd 0.1.0").and(has("policy: revision 4")));
    lab.run(&["device", "consent"])
        .success()
        .stdout(has("internal"));
}

#[test]
fn a_report_has_its_name_only_when_all_of_it_is_there() {
    let lab = Lab::new();
    lab.run(&["device", "pull", "3"]).success();
    let first = lab.path().join("3-com.example.notes.hindsight");
    assert_eq!(fs::read(&first).unwrap(), b"body");
    let context = fs::read_to_string(first.with_extension("context")).unwrap();
    assert_eq!(context, "version = 1\n[device]\nmodel = \"Phone 3\"\n");
    lab.run(&["device", "context", "3"])
        .success()
        .stdout(has("model = \"Phone 3\""));
    lab.run(&["device", "pull", "3", "-o", "mine.hindsight"])
        .success();
    assert_eq!(
        fs::read(lab.path().join("mine.hindsight")).unwrap(),
        b"body"
    );
    let cut = lab.run(&["device", "pull", "4"]).failure();
    cut.stderr(has("report 4 was cut: 3 of 5 bytes"));
    lab.run(&["device", "pull", "9"])
        .failure()
        .stderr(has("no report 9"));
    lab.run(&["device", "pull", "--all", "-o", "all"]).failure();
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(
        names(&lab.path().join("all")),
        [
            "3-com.example.notes.context",
            "3-com.example.notes.hindsight"
        ]
    );
    assert_eq!(
        names(lab.path()),
        [
            "3-com.example.notes.context",
            "3-com.example.notes.hindsight",
            "adb",
            "all",
            "log",
            "mine.context",
            "mine.hindsight",
            "traces"
        ]
    );
}

#[test]
fn a_bad_policy_is_refused_with_its_file_and_line() {
    let lab = Lab::new();
    fs::write(
        lab.path().join("bad.toml"),
        "version = 1\nenabled = 'it''s'\n",
    )
    .unwrap();
    for command in ["load", "check"] {
        let refused = lab
            .run(&["device", "policy", command, "bad.toml"])
            .failure();
        refused.stderr(has("bad.toml").and(has("line 2")));
    }
    // Linux takes no longer argument: nothing of it is sent.
    let long = format!("version = 1\n# {}\n", "x".repeat(130_000));
    fs::write(lab.path().join("long.toml"), long).unwrap();
    let refused = lab
        .run(&["device", "policy", "load", "long.toml"])
        .failure();
    refused.stderr(has("long.toml").and(has("adb push")));
    // The device's shell gets the text as it is.
    assert!(
        lab.log().contains("enabled = '\\''it'\\'''\\''s'\\''"),
        "{}",
        lab.log()
    );
    lab.run(&["device", "policy", "show"])
        .success()
        .stdout("version = 1\n");
    lab.run(&["device", "policy", "load", "none.toml"])
        .failure()
        .stderr(has("cannot read none.toml"));
    lab.run(&["device", "switch", "off"]).success();
}

#[test]
fn errors_of_adb_and_of_devices_without_the_service_are_told() {
    let lab = Lab::new();
    lab.run(&["device", "remove", "3"])
        .failure()
        .stderr(has("no devices/emulators"));
    lab.run(&["record", "-a", "com.example.old"])
        .failure()
        .stderr(has("has no hindsightd"));
    let older = lab.run(&["record", "-a", "com.example.before"]).failure();
    older.stderr(has("of different versions").and(has("device reports")));
    lab.run(&["device", "report", "com.example.notes"])
        .success()
        .stdout("report 3 of com.example.notes (pid 7): written\n");
    lab.run(&["record", "-a", "com.example.bank"])
        .failure()
        .stderr(has("no consent"));
    lab.run(&["record", "-a", "a b"])
        .failure()
        .stderr(has("no name of a package"));
    lab.run(&["record", "-a", "a", "-t", "1h"])
        .failure()
        .stderr(has("s, ms or min"));
    let words = ["record", "-a", "a", "--mapping", "none.txt"];
    lab.run(&words)
        .failure()
        .stderr(has("cannot read none.txt"));
    let words = ["record", "-a", "a", "-r", "--lab", "."];
    lab.run(&words)
        .failure()
        .stderr(has("--restart starts the app by adb"));
    let words = ["record", "-a", "a", "--system", "--lab", "."];
    lab.run(&words)
        .failure()
        .stderr(has("--system asks the Perfetto of a device"));
    let words = ["record", "-a", "a", "--lab", "none"];
    lab.run(&words)
        .failure()
        .stderr(has("no answer of hindsightd"));
    // Before the command or after it.
    for words in [
        ["device", "--lab", "none", "status"],
        ["device", "status", "--lab", "none"],
    ] {
        let remedy = has("no answer of hindsightd").and(has("cargo xtask lab device --folder"));
        lab.run(&words).failure().stderr(remedy);
    }
    let words = ["device", "policy", "show", "--lab", "none"];
    lab.run(&words).failure().stderr(has("cargo xtask"));
    let words = ["device", "consent", "show", "--lab", "none"];
    lab.run(&words).failure().stderr(has("cargo xtask"));
    assert!(!lab.log().contains("'consent'"), "{}", lab.log());
}

#[test]
fn no_context_of_an_earlier_trace_stays() {
    let lab = Lab::new();
    let pull = || lab.run(&["device", "pull", "3", "-o", "mine.hindsight"]);
    let context = lab.path().join("mine.context");
    for why in ["no-context", "old"] {
        pull().success();
        assert!(context.exists());
        fs::write(lab.path().join(why), "").unwrap();
        pull().success();
        assert!(!context.exists(), "{why}");
        fs::remove_file(lab.path().join(why)).unwrap();
    }
    pull().success();
    fs::write(lab.path().join("offline"), "").unwrap();
    let failed = pull().failure();
    failed.stderr(has("mine.hindsight is there, but not its context").and(has("device offline")));
    assert!(!context.exists());
}

#[test]
fn reports_of_another_device_with_the_same_numbers_are_not_replaced() {
    let lab = Lab::new();
    let device = |pid: u32| {
        let mut script = hindsight_testkit::stall();
        script.process.pid = pid;
        script.process.name = "com.example.notes".into();
        let bytes = script.encode();
        let list = format!(
            "{{\"report\":3,\"process\":\"com.example.notes\",\"pid\":{pid},\"bytes\":{}}}\n",
            bytes.len()
        );
        fs::write(lab.path().join("list"), list).unwrap();
        fs::write(lab.path().join("body"), bytes).unwrap();
    };
    let all = ["device", "pull", "--all", "-o", "all"];
    let one = ["device", "pull", "3", "-o", "all"];
    fs::create_dir(lab.path().join("all")).unwrap();
    let file = lab.path().join("all/3-com.example.notes.hindsight");
    device(70);
    lab.run(&all).success();
    let first = fs::read(&file).unwrap();
    lab.run(&all).success().stdout(has("is there already"));
    lab.run(&one).success();
    device(71);
    for words in [&all[..], &one] {
        let refused = lab.run(words).failure();
        refused
            .stderr(has("is no copy of report 3 of this device").and(has("another folder by -o")));
        assert_eq!(fs::read(&file).unwrap(), first);
    }
    // A file that is named is replaced.
    let named = [
        "device",
        "pull",
        "3",
        "-o",
        "all/3-com.example.notes.hindsight",
    ];
    lab.run(&named).success();
    assert_ne!(fs::read(&file).unwrap(), first);
}
