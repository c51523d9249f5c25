// SPDX-License-Identifier: Apache-2.0
//! Further processes: children that run an ignored test of the same program.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::wait::wait_for;

/// A child of the test's own program that runs one of its ignored tests.
pub(crate) struct Peer {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Peer {
    pub(crate) fn start(test: &str, folder: &Path, more: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", test])
            .env("HINDSIGHT_TEST_FOLDER", folder)
            .env("HINDSIGHT_TEST_MORE", more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Peer { child, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line with this text.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "the child ended before it said '{text}'");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Sends the child a line.
    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn wait(mut self) -> bool {
        let ended = wait_for("the child ends", || self.child.try_wait().unwrap());
        ended.success()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder of a child, and what else it was told; `None`: this is no child.
pub(crate) fn as_child() -> Option<(PathBuf, String)> {
    let folder = std::env::var_os("HINDSIGHT_TEST_FOLDER")?;
    let more = std::env::var("HINDSIGHT_TEST_MORE").unwrap_or_default();
    Some((folder.into(), more))
}

/// Waits for a line of the parent; the end of the parent ends this process, too.
pub(crate) fn parents_line() -> String {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).unwrap_or(0) == 0 {
        std::process::exit(1);
    }
    line.trim().to_owned()
}

/// Says something to the parent.
pub(crate) fn say(text: &str) {
    println!("{text}");
    std::io::stdout().flush().unwrap();
}
