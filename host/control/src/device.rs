// SPDX-License-Identifier: Apache-2.0
//! Commands to hindsightd, the system service: of a device over adb, or at a socket of this machine.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, ErrorKind, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{recvmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::DeviceError;

/// Longer than the service takes for any command but a recording, s.
const ANSWER_SECONDS: u64 = 150;
/// Longest answer without a file, bytes.
const MAX_ANSWER: u64 = 16 << 20;

/// A service that takes commands.
#[derive(Clone, Debug)]
pub enum Device {
    /// At a socket of this machine.
    Socket(PathBuf),
    /// Of a device, by the program adb, which must be on the `PATH`.
    Adb {
        /// The device's serial number, if there are several.
        serial: Option<String>,
    },
}

/// A report that the service hands out.
struct Handed<'a> {
    /// The service's description: a line of JSON.
    about: String,
    contents: Box<dyn Read + 'a>,
}

impl Device {
    /// Where it is, for people.
    pub fn place(&self) -> String {
        match self {
            Device::Socket(path) => path.display().to_string(),
            Device::Adb { serial: None } => "the device".to_owned(),
            Device::Adb {
                serial: Some(serial),
            } => format!("device {serial}"),
        }
    }

    /// Sends a command, with a text after it, and returns the lines of the answer. `seconds`: how long it takes at least.
    ///
    /// # Errors
    /// If nothing answers, or the service answers by an error.
    pub fn ask(&self, command: &str, text: &str, seconds: u64) -> Result<Vec<String>, DeviceError> {
        let mut answer = Vec::new();
        match self {
            Device::Socket(path) => {
                let stream = self.connect(path, command, text, seconds)?;
                let read = stream.take(MAX_ANSWER).read_to_end(&mut answer);
                read.map_err(|e| self.no_answer(e))?;
            }
            Device::Adb { serial } => {
                let mut child = adb(serial.as_deref(), command, text)?;
                let mut out = child.stdout.take().ok_or_else(no_pipe)?;
                let read = out.by_ref().take(MAX_ANSWER).read_to_end(&mut answer);
                drop(out);
                self.end(child, answer.is_empty())?;
                read.map_err(|e| self.no_answer(e))?;
            }
        }
        let text = String::from_utf8_lossy(&answer);
        let mut lines = text.lines();
        self.first(lines.next())?;
        Ok(lines.map(str::to_owned).collect())
    }

    /// Copies a report's trace to `out`. Returns the service's description of it: a line of JSON.
    ///
    /// # Errors
    /// If there is no such report, or it cannot be read or written to its end.
    pub fn pull(&self, report: u64, out: &mut dyn Write) -> Result<String, DeviceError> {
        let command = format!("get {report}");
        let copy = |handed: Handed<'_>, out: &mut dyn Write| {
            let mut contents = handed.contents;
            let copied = io::copy(&mut contents, out).map_err(|e| self.no_answer(e))?;
            match length(&handed.about) {
                Some(wanted) if wanted != copied => Err(DeviceError::Cut {
                    report,
                    copied,
                    wanted,
                }),
                _ => Ok(handed.about),
            }
        };
        match self {
            Device::Socket(path) => {
                let stream = self.connect(path, &command, "", 0)?;
                let (answer, file) = receive(&stream).map_err(|e| self.no_answer(e))?;
                let mut lines = answer.lines();
                self.first(lines.next())?;
                let file =
                    file.ok_or_else(|| self.no_answer(io::Error::other("it handed out no file")))?;
                let about = lines.next().unwrap_or_default().to_owned();
                let contents = Box::new(std::fs::File::from(file));
                copy(Handed { about, contents }, out)
            }
            Device::Adb { serial } => {
                let mut child = adb(serial.as_deref(), &command, "")?;
                let mut stdout = BufReader::new(child.stdout.take().ok_or_else(no_pipe)?);
                let mut line = || -> io::Result<String> {
                    let mut line = Vec::new();
                    stdout.by_ref().take(1 << 16).read_until(b'\n', &mut line)?;
                    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
                };
                let first = line().map_err(|e| self.no_answer(e))?;
                if first.is_empty() {
                    self.end(child, true)?;
                    return self.first(None).map(|()| String::new());
                }
                self.first(Some(&first))?;
                let about = line().map_err(|e| self.no_answer(e))?;
                let contents = Box::new(stdout);
                let copied = copy(Handed { about, contents }, out);
                self.end(child, false)?;
                copied
            }
        }
    }

    fn no_answer(&self, error: io::Error) -> DeviceError {
        DeviceError::NoAnswer {
            place: self.place(),
            error,
        }
    }

    /// The first line of an answer says whether the command was carried out.
    fn first(&self, line: Option<&str>) -> Result<(), DeviceError> {
        match line {
            Some("ok") => Ok(()),
            Some(line) => match line.strip_prefix("error ") {
                Some(message) => Err(DeviceError::Refused(message.to_owned())),
                None => Err(DeviceError::NoService {
                    place: self.place(),
                    answer: line.chars().take(200).collect(),
                }),
            },
            None => Err(self.no_answer(io::Error::other(
                "the connection ended without an answer: the service ended, or does not serve this user",
            ))),
        }
    }

    fn connect(
        &self,
        path: &Path,
        command: &str,
        text: &str,
        seconds: u64,
    ) -> Result<UnixStream, DeviceError> {
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => DeviceError::NoLab {
                path: path.to_owned(),
                error,
            },
            _ => self.no_answer(error),
        })?;
        let connected = || -> io::Result<UnixStream> {
            let mut stream = stream;
            let limit = Duration::from_secs(ANSWER_SECONDS + seconds);
            stream.set_read_timeout(Some(limit))?;
            stream.set_write_timeout(Some(limit))?;
            stream.write_all(format!("{command}\n{text}").as_bytes())?;
            stream.shutdown(std::net::Shutdown::Write)?;
            Ok(stream)
        };
        connected().map_err(|e| self.no_answer(e))
    }

    /// Waits for adb's end; its own message counts if it gave no answer.
    fn end(&self, child: Child, has_no_answer: bool) -> Result<(), DeviceError> {
        let ended = child.wait_with_output().map_err(DeviceError::NoAdb)?;
        if has_no_answer && !ended.status.success() {
            let message = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            return Err(DeviceError::Adb(message));
        }
        Ok(())
    }
}

fn no_pipe() -> DeviceError {
    DeviceError::NoAdb(io::Error::other("adb has no output"))
}

/// The length of a report's trace, by its description.
fn length(about: &str) -> Option<u64> {
    let about: serde_json::Value = serde_json::from_str(about).ok()?;
    about.get("bytes")?.as_u64()
}

/// A word for the device's shell, in quotes: it stands for itself.
pub fn shell_word(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The longest text that a command line carries, bytes: Linux takes no argument of 128 KiB, and the line has more.
const MAX_TEXT: usize = 120 << 10;

/// Runs hindsightd's own client on the device; `exec-out` leaves its output as it is.
fn adb(serial: Option<&str>, command: &str, text: &str) -> Result<Child, DeviceError> {
    let words: Vec<String> = command.split(' ').map(shell_word).collect();
    let words = words.join(" ");
    let text = match text {
        "" => String::new(),
        text => shell_word(text),
    };
    if text.len() > MAX_TEXT {
        return Err(DeviceError::TooLong {
            bytes: text.len(),
            most: MAX_TEXT,
            command: command.to_owned(),
        });
    }
    let mut adb = adb_command(serial);
    // The client reads a policy from its standard input, which exec-out does not always carry: the shell has it.
    let line = match text.as_str() {
        "" => format!("hindsightd --command --framed {words}"),
        text => format!("printf %s {text} | hindsightd --command --framed {words}"),
    };
    adb.arg("exec-out").arg(line);
    adb.stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    adb.spawn().map_err(DeviceError::NoAdb)
}

/// The program adb, for this device. Ctrl-C at the terminal does not reach it.
pub fn adb_command(serial: Option<&str>) -> Command {
    let mut adb = Command::new(OsString::from("adb"));
    adb.process_group(0);
    if let Some(serial) = serial {
        adb.args(["-s", serial]);
    }
    adb
}

/// The whole answer, and the descriptor that came with its first byte.
fn receive(stream: &UnixStream) -> io::Result<(String, Option<OwnedFd>)> {
    let (mut answer, mut file) = (Vec::new(), None);
    let mut buffer = [0; 1 << 14];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let received = recvmsg(stream, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                file = file.or_else(|| descriptors.next());
            }
        }
        match received.bytes {
            0 => return Ok((String::from_utf8_lossy(&answer).into_owned(), file)),
            count => answer.extend_from_slice(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_obeyed_by_the_devices_shell() {
        assert_eq!(shell_word("a;b"), "'a;b'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
    }

    #[test]
    fn answers_are_told_from_other_programs_words() {
        let device = Device::Adb { serial: None };
        assert!(device.first(Some("ok")).is_ok());
        let refused = device
            .first(Some("error there is no report 3"))
            .unwrap_err();
        assert_eq!(refused.to_string(), "there is no report 3");
        let other = device.first(Some("/system/bin/sh: hindsightd: not found"));
        assert!(other.unwrap_err().to_string().contains("has no hindsightd"));
        assert_eq!(length("{\"bytes\":7}"), Some(7));
    }
}
