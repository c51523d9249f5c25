// SPDX-License-Identifier: Apache-2.0
//! An app of the device: see `lab/device/com/example/device/DeviceApp.java`.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::error::{Error, IoContext as _, Result};

/// A running app. It is killed when this is dropped.
#[derive(Debug)]
pub struct DeviceApp {
    child: Child,
    /// The lines that it prints, until it ends.
    lines: Receiver<String>,
    log: PathBuf,
    /// Commands that it has not answered.
    unanswered: u64,
}

impl Drop for DeviceApp {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The longest time that an app takes for one thing, on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(300);

impl DeviceApp {
    pub(super) fn spawn(mut command: Command, logs: &Path) -> Result<DeviceApp> {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let log = logs.join(format!("app-{number}.txt"));
        let errors = File::create(&log).context("write", &log)?;
        let program = PathBuf::from(command.get_program());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .context("run", &program)?;
        let (sender, lines) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(DeviceApp {
            child,
            lines,
            log,
            unanswered: 0,
        })
    }

    pub(super) fn wait_until_ready(&mut self) -> Result<()> {
        self.expect("ready").map(drop)
    }

    /// The kernel's id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Tells the app to do something, and does not wait for it.
    ///
    /// # Errors
    /// If it has ended.
    pub fn tell(&mut self, command: &str) -> Result<()> {
        let input = self.child.stdin.as_mut();
        let sent = input.map_or(Ok(()), |input| writeln!(input, "{command}"));
        sent.context("tell the app with the log", &self.log)?;
        self.unanswered += 1;
        Ok(())
    }

    /// Tells the app to do something, and waits until it has done so, and all that it was told before.
    ///
    /// # Errors
    /// If it ends, cannot do it, or does not answer.
    pub fn ask(&mut self, command: &str) -> Result<()> {
        self.ask_for(command).map(drop)
    }

    /// Tells the app to do something, and returns the line that it answers.
    ///
    /// # Errors
    /// If it ends, or does not answer.
    pub fn question(&mut self, command: &str) -> Result<String> {
        self.tell(command)?;
        let line = self.lines.recv_timeout(LIMIT).map_err(|fault| {
            let log = self.log.display();
            Error::Other(format!(
                "an app does not answer '{command}': {fault} (its log is {log})"
            ))
        })?;
        self.unanswered -= 1;
        Ok(line)
    }

    /// As [`ask`](Self::ask); returns the lines before the answer, without those on stalls.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ask_for(&mut self, command: &str) -> Result<Vec<String>> {
        self.tell(command)?;
        let mut data = Vec::new();
        while self.unanswered != 0 {
            let answer = self.expect("ok");
            // An error is an answer, too; nothing else comes for this command.
            self.unanswered -= 1;
            data = answer?;
        }
        Ok(data)
    }

    /// Waits for this line. Reports of stalls are passed over; data before it is returned.
    fn expect(&mut self, expected: &str) -> Result<Vec<String>> {
        let mut data = Vec::new();
        let fault = loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) if line == expected => return Ok(data),
                Ok(line) if line.starts_with("stall ") => {}
                Ok(line) if line.starts_with("data ") => data.push(line),
                Ok(line) => break format!("it said '{line}'"),
                Err(RecvTimeoutError::Disconnected) => break "it has ended".to_owned(),
                Err(RecvTimeoutError::Timeout) => break "it does not answer".to_owned(),
            }
        };
        let log = self.log.display();
        Err(Error::Other(format!(
            "an app was to say '{expected}': {fault} (its log is {log})"
        )))
    }

    /// Kills it by SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends it a signal, and waits for its end.
    ///
    /// # Errors
    /// If the system cannot tell.
    pub fn end_by(&mut self, signal: i32) -> Result<ExitStatus> {
        // SAFETY: takes numbers; the process is a child that was not waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
        self.wait()
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// If the system cannot tell.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        // Not closed before the end, as `Child::wait` does: an app whose input ends ends by itself.
        let input = self.child.stdin.take();
        let ended = self.child.wait();
        drop(input);
        ended.context("wait for the app of", &self.log)
    }
}
