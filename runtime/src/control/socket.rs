// SPDX-License-Identifier: Apache-2.0
//! A Unix socket that takes commands, one a line:
//!
//! | line | answer |
//! |---|---|
//! | `snapshot REASON` | `ok PATH`, once the file is complete |
//! | `start TID`, `stop TID` | `ok` |
//! | `foreground TID` | `ok`: as `start`, but also for a thread that is traced |
//! | `max-rings N` | `ok` |
//! | `trim` | `ok`: the memory of the rings of calls was given back |
//! | `events off\|all\|CATEGORY+…` | `ok`: all threads record these events from now on |
//! | `rules PATH`, `rules off` | `ok`: the rules of the file are in force from now on, or none |
//! | `stack-interval US` or `stack-interval MAIN/OTHERS` | `ok`: the least time between two stacks of a thread, µs |
//! | `property dev.nanoscope=VALUE` | `ok`: as if the property had changed |
//! | `status` | `ok JSON` |
//!
//! The answer to a command that fails is `error MESSAGE`. Only the process's own user, and root, are served.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hindsight_trace_format::library_rules;

use crate::command::{Command, SnapshotOutcome, Trigger};
use crate::config::{Categories, RingLimit, StackIntervals};
use crate::control::nanoscope;
use crate::fork::{self, Descriptor};
use crate::rewind::Rewind;

/// Maximum length of a line, bytes.
const MAX_LINE: u64 = 4096;
/// Time limit for a client to send or receive a line.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

const SHUT_DOWN: &str = "tracing was shut down";

/// The listening socket, and the thread that serves one client after the other.
pub(crate) struct ControlSocket {
    path: PathBuf,
    descriptor: RawFd,
    closing: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl ControlSocket {
    /// Creates the socket. A socket that a dead process left behind is replaced.
    ///
    /// # Errors
    /// If another process listens there, another kind of file is there, or a system call fails.
    pub(crate) fn listen(path: &Path, commands: mpsc::Sender<Command>) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(existing) if existing.file_type().is_socket() => {
                if UnixStream::connect(path).is_ok() {
                    return Err(io::Error::new(
                        io::ErrorKind::AddrInUse,
                        "another process listens there",
                    ));
                }
                std::fs::remove_file(path)?;
            }
            Ok(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "a file that is no socket is there",
                ))
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let descriptor = listener.as_raw_fd();
        let closing = Arc::new(AtomicBool::new(false));
        let is_closing = Arc::clone(&closing);
        let thread = std::thread::Builder::new()
            .name("hindsight-socket".into())
            .spawn(move || {
                for client in listener.incoming() {
                    if is_closing.load(Ordering::Acquire) {
                        break;
                    }
                    // A client that goes away is no error.
                    let _ = client.and_then(|client| serve(client, &commands, &is_closing));
                }
            })?;
        fork::close_in_child(Descriptor::ControlSocket, descriptor);
        Ok(ControlSocket {
            path: path.to_owned(),
            descriptor,
            closing,
            thread,
        })
    }

    /// Ends the thread, and removes the socket.
    pub(crate) fn close(self) {
        fork::leave_in_child(Descriptor::ControlSocket, self.descriptor);
        self.closing.store(true, Ordering::Release);
        // The connection wakes the thread. It is not joined if it serves a client: that may wait for the control thread,
        // which may be the caller's thread.
        if UnixStream::connect(&self.path).is_ok() && self.thread.is_finished() {
            let _ = self.thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether the client's user is the process's own, or root. The socket's mode ensures that, too, but only from a moment
/// after its creation.
fn is_allowed(client: &UnixStream) -> bool {
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: 0,
    };
    let mut length = std::mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` has room for the `length` bytes of this option; geteuid has no precondition.
    unsafe {
        let done = libc::getsockopt(
            client.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut length,
        );
        done == 0 && (peer.uid == 0 || peer.uid == libc::geteuid())
    }
}

fn serve(
    mut client: UnixStream,
    commands: &mpsc::Sender<Command>,
    is_closing: &AtomicBool,
) -> io::Result<()> {
    if !is_allowed(&client) {
        return client.write_all(b"error only the process's own user may send commands\n");
    }
    client.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    client.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut reader = BufReader::new(client.try_clone()?);
    let mut out = client;
    loop {
        let mut line = Vec::new();
        if reader
            .by_ref()
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)?
            == 0
        {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            return out.write_all(b"error the line is longer than 4095 bytes, or has no end\n");
        }
        let answer = match execute(String::from_utf8_lossy(&line).trim(), commands) {
            Ok(answer) if answer.is_empty() => "ok\n".to_owned(),
            Ok(answer) => format!("ok {answer}\n"),
            Err(message) => format!("error {}\n", message.replace('\n', " ")),
        };
        out.write_all(answer.as_bytes())?;
        if is_closing.load(Ordering::Acquire) {
            return Ok(());
        }
    }
}

fn execute(line: &str, commands: &mpsc::Sender<Command>) -> Result<String, String> {
    let (command, argument) = line.split_once(' ').unwrap_or((line, ""));
    let tid = || {
        argument
            .parse::<u32>()
            .map_err(|_| format!("'{argument}' is no thread id; an example: '{command} 1234'"))
    };
    match command {
        "snapshot" if argument.is_empty() => Err("the reason is missing: snapshot REASON".into()),
        "snapshot" => {
            let reason = argument.to_owned();
            match ask(commands, |reply| Command::Snapshot {
                reason,
                triggered_by: 0,
                trigger: Trigger::User,
                reply,
            })? {
                SnapshotOutcome::Written(path) => Ok(path.display().to_string()),
                SnapshotOutcome::Reported => Ok(String::new()),
                SnapshotOutcome::Failed(message) => Err(message),
                SnapshotOutcome::TimedOut => Err("the control thread does not answer".into()),
            }
        }
        "anomaly" => Err("'anomaly' is now called 'snapshot': snapshot REASON".into()),
        "start" => {
            let tid = tid()?;
            ask(commands, |reply| Command::Start { tid, reply })?.map(|()| String::new())
        }
        "stop" => {
            let tid = tid()?;
            ask(commands, |reply| Command::Stop { tid, reply })?.map(|()| String::new())
        }
        "foreground" => {
            let tid = tid()?;
            ask(commands, |reply| Command::Prefer { tid, reply })?.map(|()| String::new())
        }
        "events" => {
            let categories = Categories::parse(argument)
                .ok_or_else(|| format!("'{argument}': events takes {}", Categories::takes()))?;
            ask(commands, |reply| Command::Events { categories, reply })?.map(|()| String::new())
        }
        "rewind" => {
            let limit = Rewind::parse(argument)
                .ok_or_else(|| format!("'{argument}': rewind takes {}", Rewind::TAKES))?;
            ask(commands, |reply| Command::Rewind { limit, reply })?.map(|()| String::new())
        }
        "rules" => {
            let file = match argument {
                "" => return Err("the file is missing: rules PATH, or rules off".into()),
                "off" => None,
                path if path.starts_with('/') || path == library_rules::NAME => {
                    Some(PathBuf::from(path))
                }
                path => return Err(format!("'{path}' is no absolute path")),
            };
            ask(commands, |reply| Command::Rules { file, reply })?.map(|()| String::new())
        }
        "stack-interval" => {
            let intervals = StackIntervals::parse(argument).ok_or_else(|| {
                let takes = StackIntervals::TAKES;
                format!("'{argument}': stack-interval takes {takes}")
            })?;
            let command = |reply| Command::StackIntervals { intervals, reply };
            ask(commands, command)?.map(|()| String::new())
        }
        "trim" => ask(commands, |reply| Command::Trim { reply })?.map(|()| String::new()),
        "max-rings" => {
            let limit = RingLimit::parse(argument)
                .ok_or_else(|| format!("'{argument}': max-rings takes {}", RingLimit::TAKES))?
                .number();
            ask(commands, |reply| Command::MaxRings { limit, reply })?.map(|()| String::new())
        }
        "property" => {
            let value = argument
                .split_once('=')
                .filter(|(name, _)| *name == nanoscope::PROPERTY)
                .map(|(_, value)| value.to_owned())
                .ok_or_else(|| {
                    let known = nanoscope::PROPERTY;
                    format!("'{argument}': the only property is {known}=package:file, or {known}=")
                })?;
            ask(commands, |reply| Command::Property { value, reply })?.map(|()| String::new())
        }
        "status" => ask(commands, |reply| Command::Status { reply }),
        _ => Err(format!(
            "unknown command '{command}' (known: snapshot, start, stop, foreground, rewind, events, rules, stack-interval, max-rings, trim, property, status)"
        )),
    }
}

/// Sends a command, and waits for the reply.
fn ask<T>(
    commands: &mpsc::Sender<Command>,
    command: impl FnOnce(mpsc::Sender<T>) -> Command,
) -> Result<T, String> {
    let (reply, answer) = mpsc::channel();
    commands.send(command(reply)).map_err(|_| SHUT_DOWN)?;
    answer.recv_timeout(COMMAND_TIMEOUT).map_err(|e| match e {
        RecvTimeoutError::Timeout => "the control thread does not answer".into(),
        RecvTimeoutError::Disconnected => SHUT_DOWN.into(),
    })
}
