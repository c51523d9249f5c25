// SPDX-License-Identifier: Apache-2.0
//! `hindsight device` and `hindsight record`, with a program adb that answers as a device's hindsightd does, and with a socket.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use assert_cmd::cargo::cargo_bin;
use assert_cmd::Command;
use predicates::prelude::*;
use tempfile::TempDir;

/// The device's answers, by the last word of adb's arguments; its log of commands is in `log`.
const ADB: &str = r#"#!/bin/sh
folder=$(dirname "$0")
for line; do :; done
echo "$*" >> "$folder/log"
case "$*" in
  *force-stop*) touch "$folder/stopped" ;;
  *monkey*) touch "$folder/started" ;;
esac
case "$line" in
  *"'status'"*)
    # The old process is still there when it is asked for the first time after it was killed.
    if test -e "$folder/stopped"; then
      process='{"name":"com.example.notes:x","pid":7,"connection":"connected"}'; recording=
      if test -e "$folder/gone"; then process='{"name":"com.example.notes2","pid":8,"connection":"connected"}'; fi
      if test -e "$folder/recording"; then recording='{"package":"com.example.notes","left_ns":1}'; fi
      printf 'ok\n{"engine":{"processes":[%s],"recordings":[%s]}}\n' "$process" "$recording"; touch "$folder/gone"; exit
    fi
    printf 'ok\n%s\n' '{"service":"0.1","up_s":9,"store":{"reports":2,"bytes":8},"engine":{"policy_revision":4,"enabled":true,"processes":[{"name":"com.example.notes","pid":7,"uid":10123,"connection":"connected","is_foreground":true,"rings_held":2,"ring_bytes":8388608,"other_bytes":2097152,"consent":"full","report":0}],"refused_processes":1,"refusals":["com.example.maps (pid 8): 128 processes are there already (processes in the policy)"],"recordings":[{"package":"com.example.notes","left_ns":4000000000}],"memory":{"budget_bytes":1048576,"demand_bytes":524288,"rings":2,"rings_held":2},"reports":{"kept":2},"limits":{"reports":2,"reports_limit":20,"uploads":0,"uploads_limit":3,"closed_for_ns":0}}}' ;;
  *"'reports'"*) printf 'ok\n%s\n%s\n' '{"report":3,"process":"com.example.notes","pid":7,"bytes":4,"realtime_s":1795000000,"severity":"fatal","detector":"killed","reason":"the process was killed"}' '{"report":4,"process":"a/b","pid":9,"bytes":5,"realtime_s":1795000001,"severity":"slow","detector":"x","reason":"y"}' ;;
  *"'get' '3'"*) printf 'ok\n%s\nbody' '{"report":3,"bytes":4}' ;;
  *"'get' '4'"*) printf 'ok\n%s\nbod' '{"report":4,"bytes":5}' ;;
  *"'context' '3'"*) printf 'ok\nversion = 1\n[device]\nmodel = "Phone 3"\n' ;;
  *"'policy' 'show'"*) printf 'ok\nversion = 1\n' ;;
  *"'policy' '-'"*|*"'policy' 'check' '-'"*) printf 'error the policy is refused: line 2, column 11, enabled: invalid type: string "its", expected a boolean\n' ;;
  *"'switch' 'off'"*) printf 'ok\n' ;;
  *"'consent' 'show'"*) printf 'ok\n{"user_type":"internal","region":"","choices":{"device":null,"users":{},"are_lost":false},"levels":{"0":"full"}}\n' ;;
  *"'dump'"*) printf 'ok\nhindsightd 0.1.0, running for 9 s\npolicy: revision 4, recording is on\n' ;;
  *"'record' 'com.example.notes' '1'"*)
    printf 'ok\n'
    # A process that is there when the recording begins is in it, with what it did before it was killed.
    if test -e "$folder/stopped" && ! test -e "$folder/gone"; then echo '{"report":4,"process":"com.example.notes","pid":6,"problem":null}'; fi
    touch "$folder/recording"
    for n in $(seq 1200); do test -e "$folder/started" && break; sleep 0.1; done
    echo '{"report":3,"process":"com.example.notes","pid":7,"problem":null}'
    echo '{"report":null,"process":"com.example.notes:x","pid":9,"problem":"it got no ring of calls: raise budget-mib or call-rings in the policy, or close other traced apps"}' ;;
  *"'record' 'com.example.before' '5'"*) printf 'ok\nreport 3 of com.example.before (pid 7): written\n' ;;
  *"'report' 'com.example.notes'"*) printf 'ok\n%s\n' '{"report":3,"process":"com.example.notes","pid":7,"problem":null}' ;;
  *"'record' 'com.example.bank' '5'"*) printf 'error "com.example.bank" is not recorded: the policy is off for it (enabled), or there is no consent: '"'consent show'"' tells\n' ;;
  *"'record' 'com.example.old' '5'"*) printf '/system/bin/sh: hindsightd: not found\n' ;;
  *"'remove' '3'"*) printf 'adb: no devices/emulators found\n' >&2; exit 1 ;;
esac
"#;

struct Lab(TempDir);

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let adb = folder.path().join("adb");
        fs::write(&adb, ADB).unwrap();
        fs::set_permissions(&adb, fs::Permissions::from_mode(0o755)).unwrap();
        Lab(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, words: &[&str]) -> assert_cmd::assert::Assert {
        let path = format!(
            "{}:{}",
            self.path().display(),
            std::env::var("PATH").unwrap()
        );
        let mut command = Command::new(cargo_bin("hindsight"));
        command
            .args(words)
            .current_dir(self.path())
            .env("PATH", path);
        command.env_remove("ANDROID_SERIAL").assert()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }
}

fn has(text: &str) -> predicates::str::ContainsPredicate {
    predicate::str::contains(text)
}

#[test]
fn status_and_reports_are_tables_or_json() {
    let lab = Lab::new();
    let status = lab.run(&["device", "status"]).success();
    for text in [
        "com.example.notes",
        "8 MiB",
        "512 KiB of 1 MiB",
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
            "mine.hindsight"
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
    let words = ["record", "-a", "a", "--lab", "none"];
    lab.run(&words)
        .failure()
        .stderr(has("no answer of hindsightd"));
    let words = ["device", "--lab", "none", "status"];
    lab.run(&words)
        .failure()
        .stderr(has("no answer of hindsightd"));
}

#[test]
fn a_recording_is_copied_and_the_app_is_started_once_the_service_records() {
    let lab = Lab::new();
    let words = [
        "record",
        "-a",
        "com.example.notes",
        "-t",
        "1s",
        "-o",
        "out.hindsight",
        "-r",
    ];
    let recorded = lab.run(&words).success();
    recorded
        .stderr(has("it got no ring of calls"))
        .stdout("out.hindsight\n");
    assert_eq!(fs::read(lab.path().join("out.hindsight")).unwrap(), b"body");
    let log = lab.log();
    let at = |text: &str| {
        log.find(text)
            .unwrap_or_else(|| panic!("{text} is not in {log}"))
    };
    // The old process is gone before the recording begins, and the new one starts after that.
    assert!(at("force-stop com.example.notes") < at("'record'"), "{log}");
    assert!(at("'record'") < at("monkey -p com.example.notes"), "{log}");
}

/// A service that ends in mid-recording, and comes back.
#[test]
fn a_service_that_is_started_again_is_asked_for_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("commands");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let mut recordings = 0;
        // Kept until the client knows that the service records.
        let mut first = None;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            match line.split(' ').next().unwrap() {
                "record" => {
                    recordings += 1;
                    if recordings == 2 {
                        stream
                            .write_all(b"error no process of \"com.example\" was recorded: is it installed, started with tracing, and connected? The status lists all that are\n")
                            .unwrap();
                        return line;
                    }
                    first = Some(stream);
                }
                _ => {
                    let recording = first.is_some();
                    let recordings = if recording {
                        "{\"package\":\"com.example\"}"
                    } else {
                        ""
                    };
                    let status = format!("ok\n{{\"engine\":{{\"recordings\":[{recordings}]}}}}\n");
                    stream.write_all(status.as_bytes()).unwrap();
                    first = None;
                }
            }
        }
        String::new()
    });
    let mut command = Command::new(cargo_bin("hindsight"));
    command
        .args(["record", "-a", "com.example", "-t", "60s", "--lab"])
        .arg(&path);
    let ended = command.assert().failure();
    ended.stderr(has("it is asked again").and(has("no process of \"com.example\" was recorded")));
    let last = server.join().unwrap();
    let seconds: u64 = last.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{last}");
}
