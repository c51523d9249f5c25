// SPDX-License-Identifier: Apache-2.0
//! The program without a file of conditions: it waits until hindsightd allows uploads, sends, and waits for the next permission.
//! hindsightd's side is a small stand-in that is asked one question after the other.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Ends the program with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path) -> Program {
    // A certificate is not needed: there is nothing to send.
    let ca = folder.join("ca.pem");
    let collector = hindsight_collector::Collector::start(hindsight_collector::Mode::Honest);
    collector.unwrap().write_authority(&ca).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_hindsight-upload"))
        .arg("--service")
        .arg(folder.join("uploads"))
        .args(["--collector", "localhost:1", "--wait-s", "1", "--ca"])
        .arg(&ca)
        .stdin(Stdio::null())
        .spawn();
    Program(child.unwrap())
}

/// The next question of the program, and where to answer it.
fn question(listener: &UnixListener) -> (String, UnixStream) {
    let (stream, _) = listener.accept().unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    (line.trim_end().to_owned(), stream)
}

#[test]
fn each_permission_is_used_once_and_a_new_service_is_asked_anew() {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("uploads")).unwrap();
    let _program = start(folder.path());
    let answer = |expected: &str, text: &str| {
        let (asked, mut stream) = question(&listener);
        assert_eq!(asked, expected);
        stream.write_all(text.as_bytes()).unwrap();
    };
    answer("wait 0", "ok\nallowed 7\n");
    answer("next", "ok\nnothing no report\n");
    answer("wait 7", "ok\nallowed 9\n");
    // The permission has ended in the meantime.
    answer("next", "ok\nnothing uploads are not allowed now\n");
    // The service ends: without an answer.
    answer("wait 9", "");
    answer("wait 9", "error nobody allows uploads\n");
    answer("wait 9", "ok\nallowed 12\n");
    // A permission that could not be used is used after the failure.
    answer("next", "error busy\n");
    answer("wait 9", "ok\nallowed 12\n");
    answer("next", "ok\nnothing no report\n");
    assert_eq!(question(&listener).0, "wait 12");
}
