// SPDX-License-Identifier: Apache-2.0
//! The socket for people and tools: one command a connection.
//!
//! | line | answer |
//! |---|---|
//! | `status` | `ok`, and a line of JSON |
//! | `reports` | `ok`, and a line of JSON for each report, oldest first |
//! | `get ID` | `ok`, the report as JSON, and with the first byte a descriptor of its trace, to be read only |
//! | `context ID` | `ok`, and the lines of the report's context |
//! | `remove ID` | `ok` |
//! | `policy PATH`, `policy -`, `policy default` | `ok`: the policy of a file, of the text after the line, or of the service's start |
//! | `policy show` | `ok`, and the text of the policy in force |
//! | `policy check -` | `ok` if the text after the line is a policy; nothing changes |
//! | `switch off`, `switch on` | `ok`: recording is switched off, also after a restart, or on again |
//! | `dump` | `ok`, and the service's state as lines for people, to be attached to a bug report by hand |
//! | `record PACKAGE SECONDS` | `ok`, and a line of JSON for each process, after so long: all processes of the package get rings until then |
//! | `record PACKAGE end` | `ok`: its recording ends now, and whoever began it gets the answer |
//! | `consent show` | `ok`, and the choices that hold, as JSON |
//! | `consent set LEVEL`, `consent set LEVEL user N` | `ok`, and the level that holds now, as JSON: for the device, or for one Android user |
//! | `consent withdraw`, `consent withdraw user N` | `ok`, as above; reports that are not allowed any more are gone |
//! | `consent forget user N` | `ok`, and the level that holds for the next user of this number; the choice and the reports are gone |
//! | `preview ID` | `ok`, and what may leave the device of a report: exactly the text, and the hash of a trace |
//! | `uploads allow MINUTES`, `uploads stop` | `ok`: what may leave the device may do so for this time from now on, or not any more |
//! | `report PROCESS REASON` | `ok`, and a line of JSON for each process of this name or id |
//! | `watch ID` | `ok`, and `report ID` of the newest report, once there is one with a higher number; without a time limit |
//!
//! The uploader has a socket of its own, which serves these four only:
//!
//! | line | answer |
//! |---|---|
//! | `wait TIME` | `ok`, and `allowed TIME2`, once uploads are allowed, and have been so since a later time (CLOCK_BOOTTIME, ns); without a time limit |
//! | `next` | `ok`, `item ID KIND BYTES HASH`, and with the first byte a descriptor; or `ok`, `nothing WHY` |
//! | `still ID KIND` | `ok`, `still` if what was handed out may leave even now; or `ok`, `nothing WHY` |
//! | `done ID KIND` | `ok` |
//!
//! A command that fails is answered by `error MESSAGE`. Then the service closes the connection. Only some users are served; for
//! all others the connection is closed without a byte. The system's user of another Android user (`N * 100000 + 1000`) may only choose
//! for that user.

pub mod dump;
mod request;
mod watch;
mod who;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::engine::Now;
use crate::os::{accept, send_stream, Interest, Poll, Sent, System};
use crate::store::MAX_STATE_BYTES;
use crate::text::one_line;

pub use request::Request;
pub use watch::Watchers;

use who::{Rights, Served};

/// The uploader's connections have this number or higher ones, so that both sockets never use the same one.
pub const FIRST_UPLOADER: u64 = 1 << 48;
/// Longest line, bytes.
const MAX_LINE: usize = 4096;
/// The most clients, and of one user.
const MAX_CLIENTS: (usize, usize) = (16, 8);

/// How long a client may take, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// To send its command.
    pub command_ns: u64,
    /// To wait for the answer.
    pub answer_ns: u64,
    /// To read the answer.
    pub reading_ns: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            command_ns: 10_000_000_000,
            answer_ns: 120_000_000_000,
            reading_ns: 30_000_000_000,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    Waiting,
    Writing,
}

struct Client {
    stream: UnixStream,
    uid: u32,
    rights: Rights,
    state: State,
    until: u64,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    descriptor: Option<File>,
}

/// The socket, and its clients.
pub struct Commands {
    listener: OwnedFd,
    served: Served,
    parse: fn(&str) -> Result<Request, String>,
    patience: Patience,
    clients: BTreeMap<u64, Client>,
    next: u64,
    /// Makes the token of a client for [`Poll`].
    token: fn(u64) -> u64,
}

impl Commands {
    /// Serves the clients of a listening socket. `token` makes the token of a client.
    pub fn new(listener: OwnedFd, own_uid: u32, patience: Patience, token: fn(u64) -> u64) -> Self {
        Commands {
            listener,
            served: Served::commands(own_uid),
            parse: request::parse,
            patience,
            clients: BTreeMap::new(),
            next: 1,
            token,
        }
    }

    /// Serves the uploader, which has this user id and can only ask for what may leave.
    pub fn for_uploads(
        listener: OwnedFd,
        uploader_uid: u32,
        patience: Patience,
        token: fn(u64) -> u64,
    ) -> Self {
        Commands {
            served: Served::only(uploader_uid),
            parse: request::parse_upload,
            next: FIRST_UPLOADER,
            ..Commands::new(listener, uploader_uid, patience, token)
        }
    }

    /// Readable if a client waits.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Takes clients that wait, some of them.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn accept(&mut self, now: Now, poll: &Poll, system: &dyn System) -> io::Result<()> {
        for _ in 0..8 {
            let Some(socket) = accept(self.listener.as_fd())? else {
                break;
            };
            let Ok(process) = system.identify(socket.as_fd()) else {
                continue;
            };
            let uid = process.peer.uid;
            let Some(rights) = self.served.rights(uid) else {
                continue;
            };
            // All Android users but the first one together have the places of one user.
            let is_same =
                |c: &&Client| c.uid == uid || (c.rights != Rights::All && rights != Rights::All);
            let of_user = self.clients.values().filter(is_same).count();
            if self.clients.len() >= MAX_CLIENTS.0 || of_user >= MAX_CLIENTS.1 {
                continue;
            }
            let id = self.next;
            if poll
                .add(socket.as_fd(), (self.token)(id), Interest::Read)
                .is_err()
            {
                continue;
            }
            self.next += 1;
            let until = now.boottime_ns.saturating_add(self.patience.command_ns);
            self.clients.insert(
                id,
                Client {
                    stream: socket.into(),
                    uid,
                    rights,
                    state: State::Reading,
                    until,
                    input: Vec::new(),
                    output: Vec::new(),
                    sent: 0,
                    descriptor: None,
                },
            );
        }
        Ok(())
    }

    /// A client is ready. Returns its command once it is complete; [`answer`](Self::answer) must follow.
    pub fn ready(&mut self, now: Now, id: u64, has_ended: bool, poll: &Poll) -> Option<Request> {
        let client = self.clients.get_mut(&id)?;
        match client.state {
            State::Waiting if has_ended => {
                self.clients.remove(&id);
            }
            State::Waiting => {}
            State::Writing => self.write(id),
            State::Reading => match client.read(self.parse) {
                Ok(None) => {}
                Ok(Some(request)) => {
                    client.state = State::Waiting;
                    client.input = Vec::new();
                    client.until = match &request {
                        // Nothing may happen for days, which must cost nothing.
                        Request::Watch(_) | Request::WaitUploads(_) => u64::MAX,
                        _ => {
                            let most_ns =
                                self.patience.answer_ns.saturating_add(request.lasts_ns());
                            now.boottime_ns.saturating_add(most_ns)
                        }
                    };
                    let token = (self.token)(id);
                    let _ = poll.change(client.stream.as_fd(), token, Interest::End);
                    return Some(request);
                }
                Err(Failure::Gone) => {
                    self.clients.remove(&id);
                }
                Err(Failure::Wrong(message)) => self.answer(now, id, Err(message), None, poll),
            },
        }
        None
    }

    /// Answers a client, which may have gone: lines, or why its command failed; and a file.
    pub fn answer(
        &mut self,
        now: Now,
        id: u64,
        result: Result<Vec<String>, String>,
        file: Option<File>,
        poll: &Poll,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.state == State::Writing {
            return;
        }
        let text = match result {
            Err(message) => format!("error {}\n", one_line(&message)),
            Ok(lines) => {
                let lines = lines.iter().map(|line| format!("{line}\n"));
                std::iter::once("ok\n".to_owned()).chain(lines).collect()
            }
        };
        client.output = text.into_bytes();
        client.descriptor = file;
        client.state = State::Writing;
        client.until = now.boottime_ns.saturating_add(self.patience.reading_ns);
        let token = (self.token)(id);
        let _ = poll.change(client.stream.as_fd(), token, Interest::Write);
        self.write(id);
    }

    /// The user of a client, by the kernel's account; `None`: the client has gone.
    pub fn uid(&self, id: u64) -> Option<u32> {
        self.clients.get(&id).map(|client| client.uid)
    }

    /// When [`expire`](Self::expire) must be called, `CLOCK_BOOTTIME`, ns.
    pub fn deadline(&self) -> Option<u64> {
        let limits = self.clients.values().map(|client| client.until);
        limits.filter(|until| *until != u64::MAX).min()
    }

    /// Sends away clients that took too long.
    pub fn expire(&mut self, now: Now, poll: &Poll) {
        let due = self
            .clients
            .iter()
            .filter(|(_, c)| c.until <= now.boottime_ns);
        let due: Vec<(u64, State)> = due.map(|(id, c)| (*id, c.state)).collect();
        for (id, state) in due {
            let message = match state {
                State::Reading => {
                    "the command has no end; end it by a line feed, and close this side"
                }
                State::Waiting => "there is no answer yet; the log of the service may say why",
                State::Writing => {
                    self.clients.remove(&id);
                    continue;
                }
            };
            self.answer(now, id, Err(message.to_owned()), None, poll);
        }
    }

    /// Sends what there is room for, and closes the connection after all of it.
    fn write(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        loop {
            let rest = &client.output[client.sent..];
            if rest.is_empty() {
                break;
            }
            let descriptor = client.descriptor.as_ref().map(AsFd::as_fd);
            match send_stream(client.stream.as_fd(), rest, descriptor) {
                Sent::Full => return,
                Sent::Gone | Sent::Bytes(0) => break,
                Sent::Bytes(count) => {
                    client.sent += count;
                    client.descriptor = None;
                }
            }
        }
        self.clients.remove(&id);
    }
}

/// Why there is no command.
enum Failure {
    Gone,
    Wrong(String),
}

impl Client {
    /// Reads what there is, at most some packets of it, and returns the command if it is complete.
    fn read(
        &mut self,
        parse: fn(&str) -> Result<Request, String>,
    ) -> Result<Option<Request>, Failure> {
        let mut buffer = [0; 16 << 10];
        let mut is_end = false;
        match self.stream.read(&mut buffer) {
            Ok(0) => is_end = true,
            Ok(count) => self.input.extend_from_slice(&buffer[..count]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(_) => return Err(Failure::Gone),
        }
        let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else {
            return match self.input.len() {
                0 if is_end => Err(Failure::Gone),
                length if length >= MAX_LINE => Err(Failure::Wrong(format!(
                    "the line is longer than {} bytes",
                    MAX_LINE - 1
                ))),
                _ if is_end => Err(Failure::Wrong("the line has no end".to_owned())),
                _ => Ok(None),
            };
        };
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes);
            text.map(str::to_owned)
                .map_err(|_| Failure::Wrong("the command is no UTF-8".to_owned()))
        };
        if end >= MAX_LINE {
            let message = format!("the line is longer than {} bytes", MAX_LINE - 1);
            return Err(Failure::Wrong(message));
        }
        let line = text(&self.input[..end])?;
        let request = parse(line.trim()).map_err(Failure::Wrong)?;
        self.rights.check(&request).map_err(Failure::Wrong)?;
        let rest = &self.input[end + 1..];
        let takes_text = matches!(request, Request::PolicyText(_) | Request::PolicyCheck(_));
        match request {
            _ if takes_text && rest.len() > MAX_STATE_BYTES => Err(Failure::Wrong(format!(
                "the policy is longer than {MAX_STATE_BYTES} bytes"
            ))),
            _ if takes_text && !is_end => Ok(None),
            Request::PolicyText(_) => Ok(Some(Request::PolicyText(text(rest)?))),
            Request::PolicyCheck(_) => Ok(Some(Request::PolicyCheck(text(rest)?))),
            request if rest.is_empty() => Ok(Some(request)),
            _ => Err(Failure::Wrong(
                "only one command a connection is taken".to_owned(),
            )),
        }
    }
}
