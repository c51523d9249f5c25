// SPDX-License-Identifier: Apache-2.0
//! The client of a process's control socket.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Error, Status};

/// Longer than the process allows a command to take (60 s).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum length of an answer, bytes. That of `status` grows with the number of rules and of rings.
const MAX_ANSWER: u64 = 4 << 20;
/// The variable that has a process's configuration.
const CONFIGURATION: &str = "HINDSIGHT";

/// The control socket of a process. Each command has a connection of its own, because a process ends one that is silent for
/// 10 s.
#[derive(Clone, Debug)]
pub struct ControlSocket {
    path: PathBuf,
}

impl ControlSocket {
    /// The socket at this path.
    pub fn at(path: &Path) -> Self {
        ControlSocket {
            path: path.to_owned(),
        }
    }

    /// The socket of a process of this machine, as its environment names it.
    ///
    /// # Errors
    /// If the process has none, or another process answers there.
    pub fn of_process(pid: u32) -> Result<Self, Error> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        if !folder.exists() {
            return Err(Error::NoProcess(pid));
        }
        let environment = fs::read(folder.join("environ"))
            .map_err(|error| Error::NoEnvironment { pid, error })?;
        let configuration = variable(&environment, CONFIGURATION)
            .filter(|line| !line.is_empty())
            .ok_or(Error::NotConfigured(pid))?;
        let path = socket_in(&configuration).ok_or_else(|| Error::NoSocket {
            pid,
            configuration: configuration.clone(),
        })?;
        let socket = ControlSocket { path };
        let owner = socket.status()?.pid;
        if owner != pid {
            return Err(Error::OtherProcess {
                path: socket.path,
                pid,
                owner,
            });
        }
        Ok(socket)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a command, and returns the answer without its `ok`.
    ///
    /// # Errors
    /// If the process refuses the command, or nothing answers.
    pub fn ask(&self, command: &str) -> Result<String, Error> {
        let answer = self.exchange(command).map_err(|error| Error::NoAnswer {
            path: self.path.clone(),
            error,
        })?;
        let line = answer.trim_end();
        match line.split_once(' ').unwrap_or((line, "")) {
            ("ok", rest) => Ok(rest.to_owned()),
            ("error", message) => Err(Error::Refused(message.to_owned())),
            _ => Err(Error::BadAnswer {
                command: command.to_owned(),
                answer: beginning(line),
            }),
        }
    }

    fn exchange(&self, command: &str) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.path)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(format!("{command}\n").as_bytes())?;
        let mut answer = Vec::new();
        BufReader::new(stream.take(MAX_ANSWER)).read_until(b'\n', &mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// The state of tracing.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn status(&self) -> Result<Status, Error> {
        let answer = self.ask("status")?;
        serde_json::from_str(&answer).map_err(|_| Error::BadAnswer {
            command: "status".into(),
            answer: beginning(&answer),
        })
    }

    /// Saves what all threads recorded; returns the file.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn snapshot(&self, reason: &str) -> Result<PathBuf, Error> {
        // The reason is one line.
        let reason = reason.replace(['\n', '\r'], " ");
        self.ask(&format!("snapshot {reason}")).map(PathBuf::from)
    }
}

/// The value of a variable in an environment, whose entries end with 0.
fn variable(environment: &[u8], name: &str) -> Option<String> {
    let entries = environment.split(|&byte| byte == 0);
    entries
        .filter_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        .map(|value| String::from_utf8_lossy(value).into_owned())
        .next()
}

/// The socket that a configuration names.
fn socket_in(configuration: &str) -> Option<PathBuf> {
    let mut items = configuration.split(',').map(str::trim);
    items.find_map(|item| item.strip_prefix("socket=").map(PathBuf::from))
}

/// The first characters of an answer, for an error.
fn beginning(answer: &str) -> String {
    const SHOWN: usize = 200;
    match answer.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &answer[..end]),
        None => answer.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_the_socket() {
        let environment = b"A=1\0HINDSIGHTS=x\0HINDSIGHT=trace=main, socket=/tmp/s,dir=/tmp\0B=2\0";
        let configuration = variable(environment, CONFIGURATION).unwrap();
        assert_eq!(configuration, "trace=main, socket=/tmp/s,dir=/tmp");
        assert_eq!(socket_in(&configuration), Some("/tmp/s".into()));
        assert_eq!(socket_in("trace=main"), None);
        assert_eq!(variable(environment, "C"), None);
    }

    #[test]
    fn a_process_without_a_configuration_is_told_from_one_that_does_not_exist() {
        // No process has an id above the kernel's limit of 2^22.
        let of = |pid| ControlSocket::of_process(pid).unwrap_err();
        assert!(matches!(of(u32::MAX), Error::NoProcess(_)));
        assert!(matches!(of(std::process::id()), Error::NotConfigured(_)));
    }

    #[test]
    fn long_answers_are_cut_between_characters() {
        let long = "ä".repeat(300);
        assert_eq!(beginning(&long).chars().count(), 201);
        assert_eq!(beginning("short"), "short");
    }
}
