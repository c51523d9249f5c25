// SPDX-License-Identifier: Apache-2.0
//! The thread `hindsight-io`: connects, and waits for messages of the service.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hindsight_trace_format::protocol::{
    FromProcess, FromService, Hello, MAX_MESSAGE_BYTES, VERSIONS,
};
use hindsight_trace_format::shared::SHARED_VERSION;

use super::attempts::{Attempt, Attempts};
use super::link::{About, Link};
use super::socket;
use super::watch::{self, Watch, Woken};
use crate::command::{Command, ServiceCommand};
use crate::fork::ParentOnly;
use crate::host::Severity;
use crate::shared::SharedMemory;

/// Requests of the service that may wait for the control thread. A service that sends more is out of order.
const MOST_UNANSWERED: usize = 64;

/// What the thread knows of the process.
pub(crate) struct Facts {
    /// The memory that the service gets.
    pub(crate) memory: Arc<SharedMemory>,
    /// Size of a ring of calls, bytes.
    pub(crate) ring_bytes: u64,
    /// How many threads have rings of calls now, with the rings of ended threads.
    pub(crate) rings: Box<dyn Fn() -> u32 + Send>,
    /// Writes to the log.
    pub(crate) log: Log,
}

type Log = Box<dyn Fn(Severity, &str) + Send>;

/// The running thread.
pub(crate) struct ServiceThread {
    link: Link,
    thread: JoinHandle<()>,
}

impl ServiceThread {
    /// Starts the thread, which connects to the socket at this path.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(
        path: &Path,
        link: &Link,
        facts: Facts,
        commands: mpsc::Sender<Command>,
    ) -> io::Result<Self> {
        let client = Client {
            path: path.to_owned(),
            link: link.clone(),
            facts,
            commands,
        };
        let thread = std::thread::Builder::new()
            .name("hindsight-io".into())
            .spawn(move || client.run())?;
        Ok(ServiceThread {
            link: link.clone(),
            thread,
        })
    }

    /// Ends the connection and the thread.
    pub(crate) fn close(self) {
        self.link.close();
        let _ = self.thread.join();
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The other side has closed it, or it has sent nonsense.
    Lost,
    /// The service does not want this process.
    Refused,
}

/// What the thread does.
struct Client {
    path: PathBuf,
    link: Link,
    facts: Facts,
    commands: mpsc::Sender<Command>,
}

impl Client {
    fn run(self) {
        let mut attempts = Attempts::default();
        let mut watch = Watch::new(&self.path);
        // What the control thread knows of a service that it does not hear of otherwise.
        let mut told = None;
        while !self.link.is_closed() {
            let tried = watch::identity(&self.path);
            let outcome = match socket::connect(&self.path) {
                Ok(connected) => {
                    // It would wake this thread.
                    drop(watch);
                    let outcome = self.serve(connected);
                    watch = Watch::new(&self.path);
                    outcome
                }
                Err(e) => not_connected(&e),
            };
            let was_connected = matches!(outcome, Attempt::Lost(_) | Attempt::Refused);
            let pause = attempts.after(outcome);
            let tells = lack(outcome, pause);
            if tells != told {
                if let Some(tells) = &tells {
                    let _ = self.commands.send(Command::Service(tells.clone()));
                }
                told = tells;
            }
            if matches!(outcome, Attempt::NotThere | Attempt::NotYet) {
                // Only then: a service that is started again takes the process back with the room that it had, and a process that a
                // service does not take records nothing.
                self.facts.memory.room().lift();
            }
            // The folder was not watched while there was a connection.
            if was_connected && watch::identity(&self.path) != tried {
                attempts.renew();
                continue;
            }
            match watch.wait(self.link.calls().as_fd(), pause) {
                Woken::Changed | Woken::Called => attempts.renew(),
                Woken::TimedOut => {}
            }
            if !watch.is_possible() {
                watch = Watch::new(&self.path);
            }
        }
    }

    /// Uses a connection until it ends.
    fn serve(&self, connected: OwnedFd) -> Attempt {
        let began = Instant::now();
        let opened = self.link.open(connected, |socket, about| {
            let hello = self.hello(about).encode();
            socket::send_with(socket.as_fd(), &hello, self.facts.memory.descriptor())
        });
        let (connection, socket) = match opened {
            Ok(Some(opened)) => opened,
            Ok(None) => return Attempt::Refused,
            // The service has gone already, or too many descriptors are on their way.
            Err(_) => return Attempt::Busy,
        };
        let end = self.receive(connection, &socket);
        self.link.lose();
        let lost = Command::Service(ServiceCommand::Lost(connection));
        if end == End::Refused {
            // First: what an earlier service has granted does not hold any more.
            let refused = Command::Service(ServiceCommand::Refused);
            let _ = self.commands.send(refused);
        }
        let _ = self.commands.send(lost);
        match end {
            End::Lost => Attempt::Lost(began.elapsed()),
            End::Refused => Attempt::Refused,
        }
    }

    fn hello(&self, about: &About) -> FromProcess {
        FromProcess::Hello(Hello {
            versions: VERSIONS,
            memory_version: SHARED_VERSION,
            name: about.name.clone(),
            ring_bytes: self.facts.ring_bytes,
            other_bytes: self.facts.memory.room().declare(),
            held: (self.facts.rings)() + about.taken_rings,
            is_foreground: about.is_foreground,
            taken: about.taken,
        })
    }

    /// Passes messages on until the connection ends.
    fn receive(&self, connection: u64, socket: &ParentOnly) -> End {
        let mut buffer = vec![0; MAX_MESSAGE_BYTES];
        let mut is_welcome = false;
        loop {
            let message = match next(socket.as_fd(), &mut buffer) {
                Next::Message(message) => message,
                Next::Unknown => continue,
                Next::End => return End::Lost,
            };
            let command = match message {
                FromService::Welcome { version } => {
                    if !(VERSIONS.0..=VERSIONS.1).contains(&version) {
                        let message = format!(
                            "the service speaks version {version}, which this build does not"
                        );
                        (self.facts.log)(Severity::Warning, &message);
                        return End::Refused;
                    }
                    is_welcome = true;
                    self.link.welcome();
                    self.facts.memory.room().accepted();
                    continue;
                }
                FromService::Refused { reason } => {
                    let message = format!("the service does not want this process: {reason}");
                    (self.facts.log)(Severity::Warning, &message);
                    return End::Refused;
                }
                // It must accept the process first.
                _ if !is_welcome => return End::Lost,
                FromService::Configure(configuration) => {
                    ServiceCommand::Configure(connection, configuration)
                }
                FromService::Take { report } => ServiceCommand::Take(connection, report),
                FromService::Release { report } => ServiceCommand::Release(connection, report),
                FromService::Room { bytes } => {
                    self.facts.memory.room().set(bytes);
                    ServiceCommand::Room(connection)
                }
                FromService::Detectors(rules) => ServiceCommand::Detectors(connection, rules),
            };
            let is_too_much = self.link.count_request() > MOST_UNANSWERED;
            if self.commands.send(Command::Service(command)).is_err() || is_too_much {
                return End::Lost;
            }
        }
    }
}

/// How an attempt without a connection ended.
fn not_connected(error: &io::Error) -> Attempt {
    match error.raw_os_error() {
        // Bound, but not listening yet, or left behind by a service that has ended.
        Some(libc::ECONNREFUSED) => Attempt::NotYet,
        // Not accepting fast enough; or out of descriptors or memory.
        Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS) => {
            Attempt::Busy
        }
        Some(libc::EACCES | libc::EPERM) => Attempt::Forbidden,
        _ => Attempt::NotThere,
    }
}

/// What the control thread has to know after an attempt without which no service configures the process; `pause` is the time until
/// the next one.
fn lack(attempt: Attempt, pause: Option<Duration>) -> Option<ServiceCommand> {
    match attempt {
        Attempt::NotThere | Attempt::NotYet => Some(ServiceCommand::Absent),
        // It comes again, or has done so in vain.
        Attempt::Lost(_) | Attempt::Forbidden | Attempt::Busy => {
            pause.is_none().then_some(ServiceCommand::Barred)
        }
        // The control thread knows.
        Attempt::Refused => None,
    }
}

/// What comes next on a connection.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Message(FromService),
    /// A message that this build does not know.
    Unknown,
    /// Nothing more, or nonsense.
    End,
}

fn next(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Next {
    let length = socket::receive(socket, buffer).unwrap_or(0);
    let packet = match length {
        0 => return Next::End,
        length => buffer.get(..length),
    };
    // A packet that is longer than any message is none of ours.
    match packet.map(FromService::decode) {
        Some(Ok(Some(message))) => Next::Message(message),
        Some(Ok(None)) => Next::Unknown,
        Some(Err(_)) | None => Next::End,
    }
}
