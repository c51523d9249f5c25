// SPDX-License-Identifier: Apache-2.0
//! `hindsight watch` with a socket that answers as a process does.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use assert_cmd::cargo::cargo_bin;
use assert_cmd::Command;
use hindsight_decoder::Extension;
use hindsight_testkit::{Script, EPOCH};
use predicates::prelude::*;
use rustix::time::{clock_gettime, ClockId};
use serde_json::{json, Value};
use tempfile::TempDir;

/// CLOCK_BOOTTIME after the beginning of the testkit's traces, ns.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    ns.saturating_sub(EPOCH)
}

/// What a process answers.
#[derive(Clone)]
struct Answers {
    categories: &'static [&'static str],
    switched_off: bool,
    /// State and message of the rules whose names contain a text; others are on.
    state: (&'static str, &'static str, &'static str),
    /// The command before which another client ends all rules.
    ended_before: &'static str,
}

impl Default for Answers {
    fn default() -> Self {
        Answers {
            categories: &["recording", "waits", "rules"],
            switched_off: false,
            state: ("none", "", ""),
            ended_before: "none",
        }
    }
}

struct State {
    answers: Answers,
    folder: PathBuf,
    started: u64,
    file: Option<PathBuf>,
    text: String,
    /// The commands so far, and the text of the rules files that they named.
    log: Vec<String>,
}

impl State {
    fn answer(&mut self, line: &str) -> String {
        let (command, argument) = line.split_once(' ').unwrap_or((line, ""));
        if command == self.answers.ended_before {
            self.file = None;
            self.text.clear();
        }
        match command {
            "status" => format!("ok {}", self.status()),
            "snapshot" => {
                self.log.push(line.to_owned());
                let path = self.folder.join("p-1-1.hindsight");
                trace(self.started).write(&path).unwrap();
                format!("ok {}", path.display())
            }
            "rules" if argument == "off" => {
                self.log.push(line.to_owned());
                self.file = None;
                self.text.clear();
                "ok".to_owned()
            }
            "rules" => {
                self.text = fs::read_to_string(argument).unwrap();
                self.file = Some(argument.into());
                self.log.push(format!("rules: {}", self.text));
                match self.text.contains(self.answers.state.0) && self.answers.state.1 == "failed" {
                    true => format!("error {argument}:1: {}", self.answers.state.2),
                    false => "ok".to_owned(),
                }
            }
            _ => panic!("{line}"),
        }
    }

    fn status(&self) -> Value {
        let (of, state, message) = self.answers.state;
        let rule = |line: &str| {
            let name = line
                .rsplit_once("name=")
                .map_or("Flag.await", |(_, name)| name);
            let (state, message) = match name.contains(of) {
                true => (state, message),
                false => ("on", ""),
            };
            json!({"line": 1, "name": name, "state": state, "message": message})
        };
        let rules: Vec<_> = self.text.lines().map(rule).collect();
        json!({
            "pid": 4711,
            "switched_off": self.answers.switched_off,
            "events": {"categories": self.answers.categories},
            "rules": {"file": self.file, "error": "", "rules": rules},
        })
    }
}

/// Accesses to `a.Flag.done`: a write long before the watch, then 3 writes of one thread and a read of another one.
fn trace(started: u64) -> Script {
    let mut s = Script::new("p");
    let done = s.string("a.Flag.done");
    let writer = s.events_thread(10, "writer", 1);
    let set = s.method("a.Flag.set", "()V");
    let written = [
        ("name", done),
        ("object", 0x77),
        ("method", set),
        ("dex pc", 0x1a),
        ("type", 5),
        ("value", -3_i64 as u64),
    ];
    let before = started.saturating_sub(1_000_000_000);
    let now = now();
    s.at(writer, before)
        .event(Extension::FieldWritten, &written)
        .at(now)
        .event(Extension::FieldWritten, &written)
        .after(10)
        .event(Extension::FieldWritten, &written)
        .after(10)
        .event(Extension::FieldWritten, &written);
    let reader = s.events_thread(20, "reader", 1);
    s.at(reader, now + 1_000)
        .event(Extension::FieldRead, &[("name", done), ("object", 0x78)]);
    let (name, method) = (s.string("Flag.await"), s.method("a.Flag.await", "(I)V"));
    let waiter = s.events_thread(30, "waiter", 1);
    let branch = [
        ("name", name),
        ("times", 8),
        ("from", 6),
        ("to", 0),
        ("method", method),
    ];
    s.at(waiter, now).event(Extension::BranchTaken, &branch);
    s.stop_at(now + 2_000_000);
    s
}

/// A process with a control socket.
struct Process {
    folder: TempDir,
    state: Arc<Mutex<State>>,
}

impl Process {
    /// It has the rules of the file `before.txt`, which has this text, unless that is empty.
    fn new(answers: Answers, before: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("before.txt");
        fs::write(&file, before).unwrap();
        let state = Arc::new(Mutex::new(State {
            answers,
            folder: folder.path().to_owned(),
            started: now(),
            file: Some(file).filter(|_| !before.is_empty()),
            text: before.to_owned(),
            log: Vec::new(),
        }));
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let served = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                serve(client.unwrap(), &served);
            }
        });
        Process { folder, state }
    }

    fn socket(&self) -> String {
        let path = self.folder.path().join("socket");
        path.display().to_string()
    }

    fn watch(&self, arguments: &[&str]) -> assert_cmd::assert::Assert {
        let mut command = Command::cargo_bin("hindsight").unwrap();
        command.current_dir(self.folder.path());
        command.args(["watch", "--lab", &self.socket()]);
        command.args(arguments).assert()
    }

    fn log(&self) -> Vec<String> {
        self.state.lock().unwrap().log.clone()
    }

    fn file(&self) -> Option<PathBuf> {
        self.state.lock().unwrap().file.clone()
    }
}

fn serve(mut client: UnixStream, state: &Mutex<State>) {
    let mut line = String::new();
    let mut reader = BufReader::new(client.try_clone().unwrap());
    while reader.read_line(&mut line).unwrap() != 0 {
        let answer = state.lock().unwrap().answer(line.trim_end());
        writeln!(client, "{answer}").unwrap();
        line.clear();
    }
}

const ADDED: &str = "field a.Flag.done access=both name=a.Flag.done\n";

#[test]
fn the_last_accesses_of_each_thread_are_shown_and_the_rules_restored() {
    let before = "method a.B.c name=c\n";
    let process = Process::new(Answers::default(), before);
    process
        .watch(&["a.Flag.done", "--time", "10ms", "-o", "out.hindsight"])
        .success()
        .stdout(
            predicate::str::contains("a.Flag.done in p (10)")
                .and(predicate::str::contains(
                    "Last written by writer (10), 2.00 ms before the end of the trace; 3 writes by 1 thread.",
                ))
                .and(predicate::str::contains(
                    "Last read by reader (20), 2.00 ms before the end of the trace; 1 read by 1 thread.",
                ))
                .and(predicate::str::contains("0x77    -3     a.Flag.set at 0x001a"))
                .and(predicate::str::contains("Saved in out.hindsight.")),
        );
    let log = process.log();
    let expected = [
        &format!("rules: {before}{ADDED}"),
        "snapshot watch a.Flag.done",
        &format!("rules: {before}"),
    ];
    assert_eq!(log, expected);
    assert_eq!(
        process.file(),
        Some(process.folder.path().join("before.txt"))
    );
    let files = |name: &str| process.folder.path().join(name).exists();
    assert!(files("out.hindsight") && !files("p-1-1.hindsight"));
}

#[test]
fn json_has_the_same() {
    let process = Process::new(Answers::default(), "");
    let output = process
        .watch(&["a.Flag.done", "--time", "10ms", "--json"])
        .success();
    let report: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let accesses = report["fields"][0]["accesses"].as_array().unwrap();
    let facts = |i: usize| {
        let a: &Value = &accesses[i];
        (a["kind"].as_str(), a["tid"].as_u64(), a["count"].as_u64())
    };
    assert_eq!(facts(0), (Some("written"), Some(10), Some(3)));
    assert_eq!(facts(1), (Some("read"), Some(20), Some(1)));
    // Without -o the snapshot stays where the process wrote it.
    assert!(Path::new(report["file"].as_str().unwrap()).exists());
    assert_eq!(process.log().last().unwrap(), "rules off");
}

#[test]
fn ctrl_c_ends_it_and_restores_the_rules() {
    let process = Process::new(Answers::default(), "");
    let mut child = std::process::Command::new(cargo_bin("hindsight"))
        .args(["watch", "--lab", &process.socket(), "a.Flag.done"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "note: watching a.Flag.done until Ctrl-C\n");
    assert!(process.file().is_some());
    let pid = child.id().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(killed.unwrap().success());
    let mut shown = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut shown)
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert!(shown.contains("Last written by writer (10)"), "{shown}");
    assert_eq!(process.file(), None);
}

#[test]
fn a_rule_that_fails_is_an_error_and_the_rules_are_restored() {
    let answers = Answers {
        state: ("Flag", "failed", "a.Flag declares no field done"),
        ..Answers::default()
    };
    let process = Process::new(answers, "");
    process
        .watch(&["a.Flag.done", "--time", "10ms"])
        .code(1)
        .stderr(predicate::str::contains(
            "a.Flag declares no field done: name the class that declares it",
        ));
    assert_eq!(process.log()[1..], ["rules off"]);
}

#[test]
fn other_rules_may_fail_as_before() {
    let answers = Answers {
        state: ("broken", "failed", "no such method"),
        ..Answers::default()
    };
    let process = Process::new(answers, "method a.B.c name=broken\n");
    process
        .watch(&["a.Flag.done", "--time", "10ms"])
        .success()
        .stdout(predicate::str::contains("Last written by"));
    assert!(process.file().unwrap().ends_with("before.txt"));
}

#[test]
fn a_class_that_is_not_loaded_is_waited_for() {
    let answers = Answers {
        state: ("Flag", "waits", ""),
        ..Answers::default()
    };
    let process = Process::new(answers, "");
    process
        .watch(&["a.Flag.done", "--time", "10ms"])
        .success()
        .stderr(predicate::str::contains(
            "the class of a.Flag.done is not loaded yet",
        ))
        .stdout(predicate::str::contains(
            "Its class was not loaded while it was watched",
        ));
}

#[test]
fn what_a_rules_events_miss_is_said() {
    let answers = Answers {
        state: ("Flag", "on", "it may have been inlined into 2 calls"),
        ..Answers::default()
    };
    let process = Process::new(answers, "");
    process
        .watch(&["a.Flag.done", "--time", "10ms"])
        .success()
        .stdout(predicate::str::contains(
            "Note: it may have been inlined into 2 calls.",
        ));
}

#[test]
fn rules_that_another_client_changes_meanwhile_stay() {
    let answers = Answers {
        ended_before: "snapshot",
        ..Answers::default()
    };
    let process = Process::new(answers, "method a.B.c name=c\n");
    process
        .watch(&["a.Flag.done", "--time", "10ms"])
        .code(1)
        .stdout(predicate::str::contains("Last written by"))
        .stderr(predicate::str::contains(
            "the rules before were not restored: another client put none into force meanwhile",
        ));
    assert_eq!(process.file(), None);
}

#[test]
fn a_process_that_cannot_be_watched_says_why_and_what_to_do() {
    let refused = |answers: Answers, message: &str| {
        let process = Process::new(answers, "");
        process
            .watch(&["a.Flag.done", "--time", "10ms"])
            .code(1)
            .stderr(predicate::str::contains(message));
        assert!(process.log().is_empty(), "{message}");
    };
    refused(
        Answers {
            categories: &["recording", "waits"],
            ..Answers::default()
        },
        "the socket's command 'events waits+rules', or start the process with events=waits+rules",
    );
    refused(
        Answers {
            switched_off: true,
            ..Answers::default()
        },
        "tracing of this process is off after several starts that failed",
    );
    let folder = tempfile::tempdir().unwrap();
    let no_socket = folder.path().join("none").display().to_string();
    for (process, message) in [
        ("4194305", "there is no process 4194305"),
        (
            &std::process::id().to_string(),
            "was started without HINDSIGHT in its environment",
        ),
        (&no_socket, "no process listens there"),
        (
            "app",
            "'app' is neither a process's id nor the path of a control socket",
        ),
    ] {
        let mut command = Command::cargo_bin("hindsight").unwrap();
        command
            .args(["watch", "--lab", process, "a.Flag.done"])
            .assert()
            .code(1)
            .stderr(predicate::str::contains(message));
    }
}

#[test]
fn an_answer_that_is_none_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            // A connection that ends before the question is another error.
            let mut question = String::new();
            BufReader::new(&client).read_line(&mut question).unwrap();
            client.write_all(b"ok {\"pid\":\n").unwrap();
        }
    });
    let mut command = Command::cargo_bin("hindsight").unwrap();
    command
        .args(["watch", "--lab"])
        .arg(&path)
        .arg("a.Flag.done");
    command.assert().code(1).stderr(predicate::str::contains(
        "the process sent no valid answer to 'status'",
    ));
}

#[test]
fn branches_of_methods_are_counted_too() {
    let process = Process::new(
        Answers::default(),
        "method a.Flag.await(int)  identity=none\n",
    );
    process
        .watch(&["--branches", "a.Flag.await", "--time", "10ms"])
        .success()
        .stdout(
            predicate::str::contains("a.Flag.await in waiter (30)")
                .and(predicate::str::contains(
                    "The loop at 0x0000 went round 8 times",
                ))
                .and(predicate::str::contains(
                    "the call was running at the end of the trace",
                ))
                .and(predicate::str::contains(
                    "Give the app with --dex to see which field ends it.",
                ))
                .and(predicate::str::contains("a.Flag.done").not()),
        );
    assert_eq!(
        process.log()[0],
        "rules: trace a.Flag.await(int)  identity=none\n"
    );
    process.watch(&["--time", "10ms"]).code(2);
}
