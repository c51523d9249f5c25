// SPDX-License-Identifier: Apache-2.0
//! A measured process: lines that it is sent and answers, commands to its control socket, and its CPU time.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};

/// A process that answers each line of its standard input with a line. It is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {:?}", command.get_program()))?;
        Ok(Process {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().context("no standard output")?),
            child,
        })
    }

    /// The next line of its standard output.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "the measured program ended too early");
        Ok(line.trim_end().to_owned())
    }

    /// Sends a line, and returns the answer.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String> {
        writeln!(self.input.as_mut().context("no standard input")?, "{line}")?;
        self.line()
    }

    /// Closes its standard input, and waits until it ends.
    pub(crate) fn end(&mut self) -> Result<()> {
        drop(self.input.take());
        let status = self.child.wait()?;
        ensure!(status.success(), "the measured program failed: {status}");
        Ok(())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of all its threads so far.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let pid = i32::try_from(self.child.id())?;
        let mut clock = 0;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointers are to local variables. The child was not waited for, so its number is its own.
        let failed = unsafe {
            libc::clock_getcpuclockid(pid, &mut clock) != 0
                || libc::clock_gettime(clock, &mut time) != 0
        };
        if failed {
            bail!("cannot read the CPU time of the measured program");
        }
        Ok(Duration::new(
            time.tv_sec.try_into()?,
            time.tv_nsec.try_into()?,
        ))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Still running only after an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The control socket of a process.
pub(crate) struct ControlSocket(BufReader<UnixStream>);

impl ControlSocket {
    pub(crate) fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path).with_context(|| format!("{}", path.display()))?;
        Ok(ControlSocket(BufReader::new(stream)))
    }

    /// Sends a command, and returns what follows `ok` in the answer.
    pub(crate) fn ask(&mut self, command: &str) -> Result<String> {
        writeln!(self.0.get_mut(), "{command}")?;
        let mut answer = String::new();
        self.0.read_line(&mut answer)?;
        let answer = answer.trim_end();
        let rest = answer
            .strip_prefix("ok")
            .with_context(|| format!("{command}: {answer}"))?;
        Ok(rest.trim_start().to_owned())
    }
}
