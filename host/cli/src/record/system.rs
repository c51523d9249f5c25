// SPDX-License-Identifier: Apache-2.0
//! The whole device, recorded by its own Perfetto meanwhile.

use std::path::Path;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{ensure, Context as _, Result};
use hindsight_control::{adb_command, shell_word};

use super::adb;
use crate::output::write_file;

/// What is recorded: docs/causality.md explains each line.
const CONFIGURATION: &str = include_str!("device.cfg");
/// If nobody ends the session, because the cable is gone perhaps, it ends so much later than the recording, s.
const LATER: u64 = 120;

/// A session of the device's Perfetto. Unless it is fetched, it is ended and its file removed.
pub(super) struct SystemSession<'a> {
    serial: Option<&'a str>,
    /// Of the program perfetto, on the device.
    pid: u32,
    /// On the device.
    file: String,
    is_ended: bool,
}

impl<'a> SystemSession<'a> {
    /// Begins a session that ends by itself some time after so many seconds.
    pub(super) fn begin(serial: Option<&'a str>, seconds: u64) -> Result<Self> {
        let file = format!("/data/misc/perfetto-traces/hindsight-{}.pftrace", unique());
        let duration_ms = (seconds + LATER) * 1000;
        let text = shell_word(&format!("duration_ms: {duration_ms}\n{CONFIGURATION}"));
        // Perfetto of Android 12 and later waits until all is recorded before it goes to the background.
        let perfetto =
            |option: &str| format!("printf %s {text} | perfetto {option} --txt -c - -o {file}");
        let (newer, older) = (perfetto("--background-wait"), perfetto("--background"));
        let said = shell(serial, &format!("{newer} 2> /dev/null || {older}"))
            .context("the device's Perfetto records nothing; 'adb shell setprop persist.traced.enable 1' switches it on")?;
        let pid = said.lines().rev().find_map(|line| line.trim().parse().ok());
        let pid = pid.with_context(|| {
            format!(
                "the device's perfetto did not name its process, but said '{}'",
                said.trim()
            )
        })?;
        Ok(SystemSession {
            serial,
            pid,
            file,
            is_ended: false,
        })
    }

    /// Ends the session, and waits until its file is complete.
    pub(super) fn end(&mut self) -> Result<()> {
        let pid = self.pid;
        let is_there = format!("kill -0 {pid} 2> /dev/null");
        // A session that has ended by itself has a complete file, too.
        let line = format!(
            "kill -TERM {pid} 2> /dev/null; n=0; while {is_there} && [ $n -lt 600 ]; do sleep 0.1; n=$((n+1)); done; ! {is_there}"
        );
        shell(self.serial, &line)
            .with_context(|| format!("perfetto, process {pid} of the device, does not end"))?;
        self.is_ended = true;
        Ok(())
    }

    /// Copies the file; [`Drop`] removes it from the device.
    pub(super) fn fetch(&self, path: &Path) -> Result<()> {
        ensure!(self.is_ended, "the session goes on");
        let size = shell(self.serial, &format!("stat -c %s {}", self.file))?;
        let size: u64 = size.trim().parse().with_context(|| {
            format!(
                "{} on the device has no size, but '{}'",
                self.file,
                size.trim()
            )
        })?;
        write_file(path, |out| {
            let mut child = adb_command(self.serial)
                .args(["exec-out", &format!("cat {}", self.file)])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()?;
            let copied = match child.stdout.take() {
                Some(mut from) => std::io::copy(&mut from, out)?,
                None => 0,
            };
            child.wait()?;
            match copied == size {
                true => Ok(()),
                false => Err(std::io::Error::other(format!(
                    "adb copied {copied} of the {size} bytes of {}",
                    self.file
                ))),
            }
        })
    }
}

impl Drop for SystemSession<'_> {
    fn drop(&mut self) {
        // Nothing can be done about errors here; without this the session ends by itself.
        if !self.is_ended {
            let _ = self.end();
        }
        let _ = shell(self.serial, &format!("rm -f {}", self.file));
    }
}

/// For a name that no other recording has.
fn unique() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |now| now.as_secs());
    format!("{seconds}-{}", std::process::id())
}

/// Runs a line in the device's shell. Returns its output.
fn shell(serial: Option<&str>, line: &str) -> Result<String> {
    adb::run(serial, &["shell", line])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_configuration_is_the_one_that_is_used() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/causality.md");
        let document = std::fs::read_to_string(document).unwrap();
        let lines = CONFIGURATION.lines().filter(|line| !line.starts_with('#'));
        let indented: String = lines.map(|line| format!("    {line}\n")).collect();
        assert!(document.contains(&indented));
    }
}
