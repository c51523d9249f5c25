// SPDX-License-Identifier: Apache-2.0
//! The device's hindsightd.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Error, IoContext as _, Result};

/// A running service. It is killed when this is dropped.
#[derive(Debug)]
pub struct Service {
    child: Child,
    commands: PathBuf,
    log: PathBuf,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The longest time that the service takes for one thing, on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(300);

impl Service {
    /// Starts it by this command, with all its options. `commands` is the socket that takes commands.
    pub(super) fn start(mut command: Command, commands: PathBuf, log: PathBuf) -> Result<Service> {
        let errors = File::options().create(true).append(true).open(&log);
        let program = PathBuf::from(command.get_program());
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors.context("write", &log)?)
            .spawn()
            .context("run", &program)?;
        let mut service = Service {
            child,
            commands,
            log,
        };
        service.wait_until_it_answers()?;
        Ok(service)
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let end = Instant::now() + LIMIT;
        while self.ask("status").is_err() {
            let ended = self.child.try_wait().context("wait for", &self.log)?;
            if ended.is_some() || Instant::now() > end {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                let last = log.lines().last().unwrap_or("it logged nothing");
                return Err(Error::Other(format!("hindsightd does not start: {last}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Sends a command, and returns the lines of its answer, without the `ok`.
    ///
    /// # Errors
    /// If the service does not answer, or by an error.
    pub fn ask(&self, command: &str) -> Result<Vec<String>> {
        let at = &self.commands;
        let mut stream = UnixStream::connect(at).context("connect to", at)?;
        stream
            .set_read_timeout(Some(LIMIT))
            .context("wait for", at)?;
        writeln!(stream, "{command}").context("write to", at)?;
        stream
            .shutdown(std::net::Shutdown::Write)
            .context("write to", at)?;
        let mut lines = BufReader::new(stream).lines();
        let first = lines.next().transpose().context("read from", at)?;
        match first.as_deref() {
            Some("ok") => lines
                .collect::<std::io::Result<_>>()
                .context("read from", at),
            other => Err(Error::Other(format!(
                "hindsightd answers '{command}' by '{}'",
                other.unwrap_or_default()
            ))),
        }
    }

    /// The kernel's id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log, also of services before it.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Whether it is still there.
    ///
    /// # Errors
    /// If the system cannot tell.
    pub fn is_running(&mut self) -> Result<bool> {
        let ended = self.child.try_wait().context("wait for", &self.log)?;
        Ok(ended.is_none())
    }

    /// Kills it by SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
