// SPDX-License-Identifier: Apache-2.0
//! `hindsight record`, with a program adb that answers as a device does, and with a socket.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{channel, Sender};
use std::thread::JoinHandle;

use assert_cmd::cargo::cargo_bin;
use predicates::prelude::*;

use common::{has, Lab};

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

/// Records for a second, with the whole device.
const WITH_SYSTEM: [&str; 9] = [
    "record",
    "-a",
    "com.example.notes",
    "-t",
    "1s",
    "-o",
    "out.hindsight",
    "-r",
    "--system",
];

#[test]
fn the_whole_device_is_recorded_meanwhile() {
    for is_older in [false, true] {
        let lab = Lab::new();
        let (_, device) = hindsight_testkit::server();
        let trace = device.encode();
        fs::write(lab.path().join("device.pftrace"), &trace).unwrap();
        if is_older {
            fs::write(lab.path().join("older"), "").unwrap();
        }
        let recorded = lab.run(&WITH_SYSTEM).success();
        recorded.stdout("out.hindsight\nout.pftrace\n");
        assert_eq!(fs::read(lab.path().join("out.pftrace")).unwrap(), trace);
        let config = fs::read_to_string(lab.path().join("config")).unwrap();
        assert!(config.starts_with("duration_ms: 121000\n"), "{config}");
        assert!(config.contains("\"binder/binder_transaction\""), "{config}");
        let left = fs::read_dir(lab.path().join("traces")).unwrap().count();
        assert_eq!(left, 0, "the device's file is removed");
        let log = lab.log();
        let at = |text: &str| log.find(text).unwrap();
        assert!(at("perfetto --background") < at("'record'"), "{log}");
        assert!(at("monkey") < at("kill -TERM 4242"), "{log}");
    }
}

#[test]
fn a_device_that_cannot_be_recorded_is_named_before_the_app_is() {
    let lab = Lab::new();
    fs::write(lab.path().join("no-traced"), "").unwrap();
    let failed = lab.run(&WITH_SYSTEM).failure();
    failed.stderr(has("Could not connect to the traced socket").and(has("persist.traced.enable")));
    assert!(!lab.log().contains("'record'"), "{}", lab.log());

    // The service refuses: nothing is left on the device.
    let lab = Lab::new();
    fs::write(lab.path().join("device.pftrace"), "").unwrap();
    let words = ["record", "-a", "com.example.bank", "-t", "5s", "--system"];
    lab.run(&words).failure().stderr(has("no consent"));
    let left = fs::read_dir(lab.path().join("traces")).unwrap().count();
    assert_eq!((left, lab.path().join("ended").exists()), (0, true));

    // What came is no trace, and stays for whoever wants to look.
    let lab = Lab::new();
    fs::write(lab.path().join("device.pftrace"), "no trace").unwrap();
    let recorded = lab.run(&WITH_SYSTEM).success();
    recorded.stderr(has("cannot use out.pftrace"));
}

#[test]
fn the_whole_device_is_copied_also_if_a_report_cannot_be() {
    let lab = Lab::new();
    let (_, device) = hindsight_testkit::server();
    fs::write(lab.path().join("device.pftrace"), device.encode()).unwrap();
    // In the way of the file.
    fs::create_dir(lab.path().join("out.hindsight")).unwrap();
    let recorded = lab.run(&WITH_SYSTEM).failure();
    recorded
        .stdout(has("out.pftrace"))
        .stderr(has("out.hindsight"));
    assert_eq!(
        fs::read(lab.path().join("out.pftrace")).unwrap(),
        device.encode()
    );
}

/// A service that records `com.example` until somebody ends it, and says when it has been asked to. `comes`: a process of it is
/// there from the second status on. Returns the commands but `status`.
fn service(socket: &Path, comes: bool, asked: Sender<()>) -> JoinHandle<Vec<String>> {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let (mut said, mut looks) = (Vec::new(), 0);
        let mut recording: Option<UnixStream> = None;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let line = line.trim().to_owned();
            if line == "status" {
                looks += 1;
                let process = match comes && looks > 1 {
                    true => r#"{"name":"com.example","pid":7,"connection":"connected"}"#,
                    false => "",
                };
                let status = format!(
                    "ok\n{{\"engine\":{{\"recordings\":[{{\"package\":\"com.example\"}}],\"processes\":[{process}]}}}}\n"
                );
                stream.write_all(status.as_bytes()).unwrap();
                continue;
            }
            said.push(line.clone());
            if line == "record com.example end" {
                stream.write_all(b"ok\n").unwrap();
                let answer = b"error it was ended\n";
                recording.take().unwrap().write_all(answer).unwrap();
                return said;
            }
            assert!(recording.replace(stream).is_none());
            // Not all tests wait for it.
            let _ = asked.send(());
        }
        said
    })
}

/// `hindsight record -a com.example` with these words, at the service of this socket.
fn start(socket: &Path, words: &[&str]) -> Child {
    let mut command = std::process::Command::new(cargo_bin("hindsight"));
    command.args(["record", "-a", "com.example"]).args(words);
    command.arg("--lab").arg(socket).stderr(Stdio::piped());
    command.stdin(Stdio::null()).spawn().unwrap()
}

fn error_of(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn ctrl_c_ends_a_recording_and_its_answer_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("commands");
    let (asked, is_asked) = channel();
    let service = service(&path, false, asked);
    let child = start(&path, &["-t", "600s"]);
    is_asked.recv().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(error_of(child).contains("it was ended"));
    let said = service.join().unwrap();
    assert_eq!(said, ["record com.example 600", "record com.example end"]);
}

#[test]
fn enter_ends_a_recording_at_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("commands");
    let service = service(&path, false, channel().0);
    let program = cargo_bin("hindsight");
    let command = format!(
        "{} record -a com.example --lab {}",
        program.display(),
        path.display()
    );
    // A terminal of its own.
    let mut script = std::process::Command::new("script")
        .args(["-qefc", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    script.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let output = script.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("Enter or Ctrl-C ends it"), "{shown}");
    assert!(shown.contains("it was ended"), "{shown}");
    let said = service.join().unwrap();
    assert_eq!(said, ["record com.example 600", "record com.example end"]);
}

#[test]
fn the_time_counts_from_when_the_app_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("commands");
    let service = service(&path, true, channel().0);
    let child = start(&path, &["-t", "1s", "--wait"]);
    assert!(error_of(child).contains("it was ended"));
    // The recording is asked for 600 s, as nobody knows when the app comes; its own second begins then.
    let said = service.join().unwrap();
    assert_eq!(said, ["record com.example 600", "record com.example end"]);
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
    let mut command = assert_cmd::Command::new(cargo_bin("hindsight"));
    command
        .args(["record", "-a", "com.example", "-t", "60s", "--lab"])
        .arg(&path);
    let ended = command.assert().failure();
    ended.stderr(has("it is asked again").and(has("no process of \"com.example\" was recorded")));
    let last = server.join().unwrap();
    let seconds: u64 = last.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{last}");
}
