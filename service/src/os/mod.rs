// SPDX-License-Identifier: Apache-2.0
//! The operating system: clocks, disk space, memory pressure, who is at the other end of a socket.
//!
//! What the service learns from the system goes through [`System`], so that tests can tell it something else. Sockets, epoll and
//! timers are used as they are.

mod call;
mod clock;
mod closing;
mod device;
mod facts;
mod logdr;
mod poll;
mod pressure;
mod process;
mod signals;
mod socket;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use hindsight_trace_format::container::ClockSample;

use crate::context::{DeviceFacts, LogExcerpt, LogRequest};
use crate::detectors::SystemFacts;
use crate::engine::{MemoryFacts, Now, Peer};

use call::done;

pub use closing::Closer;
pub use poll::{Interest, Poll, Ready, Timer, Waker};
pub use pressure::{PressureLevel, PressureTriggers, Stall};
pub use process::{check_memory, MemoryError, Process};
pub use signals::Signals;
pub use socket::{
    accept, adopt_listener, connect_packets, listen, receive_packet, receive_plain_packet,
    send_packet, send_stream, ListenError, Packet, Sent, SocketKind,
};

/// Facts that the system knows.
pub trait System: Send + Sync {
    /// The time.
    fn now(&self) -> Now;
    /// How long the machine has slept since its boot, ns.
    fn slept_ns(&self) -> u64 {
        0
    }
    /// All clocks and the counter with this name (`Clocks::source`), read together; `None`: this machine has no such counter.
    fn sample(&self, source: &str) -> Option<ClockSample>;
    /// Differs after each boot of the machine.
    fn boot_id(&self) -> String;
    /// Bytes that may still be written to the disk with this folder.
    ///
    /// # Errors
    /// If the system does not say.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
    /// The process that made this connection.
    ///
    /// # Errors
    /// If it has ended already, or cannot be seen from here.
    fn identify(&self, connection: BorrowedFd<'_>) -> io::Result<Process>;
    /// Facts for detectors: of the system, and of the processes with these kernel ids.
    fn facts(&self, pids: &[u32]) -> SystemFacts {
        let _ = pids;
        SystemFacts::default()
    }
    /// How short memory is.
    fn memory(&self) -> MemoryFacts {
        MemoryFacts::default()
    }
    /// Facts about the device.
    fn device(&self) -> DeviceFacts {
        DeviceFacts::default()
    }
    /// The newest lines of a process's log. May take some seconds.
    ///
    /// # Errors
    /// If the system's log cannot be read.
    fn log(&self, request: LogRequest) -> io::Result<LogExcerpt> {
        let _ = request;
        Ok(LogExcerpt::default())
    }
    /// Tells when memory becomes short.
    ///
    /// # Errors
    /// If the kernel cannot tell, or only programs with privileges.
    fn pressure(&self) -> io::Result<PressureTriggers>;
}

/// The real system.
#[derive(Clone, Debug)]
pub struct Real {
    /// Facts for detectors, and about memory, are read below this folder. For tests: no machine becomes hot when it is told to.
    pub facts_root: PathBuf,
    /// Facts about the device that hold instead of what the system says.
    pub device: DeviceFacts,
    /// Where logd takes readers; `None`: there is none.
    pub log_socket: Option<PathBuf>,
}

impl Default for Real {
    fn default() -> Self {
        Real {
            facts_root: PathBuf::from("/"),
            device: DeviceFacts::default(),
            log_socket: None,
        }
    }
}

impl System for Real {
    fn now(&self) -> Now {
        clock::now()
    }

    fn slept_ns(&self) -> u64 {
        clock::slept_ns()
    }

    fn sample(&self, source: &str) -> Option<ClockSample> {
        clock::sample(source)
    }

    fn boot_id(&self) -> String {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        id.map_or_else(|_| "unknown".to_owned(), |id| id.trim().to_owned())
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        let folder = File::open(folder)?;
        // SAFETY: all zeros is a valid `statvfs`.
        let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open while `folder` lives, and `facts` is a valid place for the result.
        done(unsafe { libc::fstatvfs(folder.as_raw_fd(), &mut facts) })?;
        // Their types differ between systems.
        #[allow(
            clippy::unnecessary_cast,
            reason = "32-bit systems have narrower fields"
        )]
        Ok((facts.f_bavail as u64).saturating_mul(facts.f_frsize as u64))
    }

    fn identify(&self, connection: BorrowedFd<'_>) -> io::Result<Process> {
        Process::behind(connection)
    }

    fn facts(&self, pids: &[u32]) -> SystemFacts {
        facts::read(&self.facts_root, pids)
    }

    fn memory(&self) -> MemoryFacts {
        facts::memory(&self.facts_root)
    }

    fn device(&self) -> DeviceFacts {
        self.device.clone().or(&device::read())
    }

    fn log(&self, request: LogRequest) -> io::Result<LogExcerpt> {
        match &self.log_socket {
            Some(socket) => logdr::read(socket, request, logdr::PATIENCE),
            None => Ok(LogExcerpt::default()),
        }
    }

    fn pressure(&self) -> io::Result<PressureTriggers> {
        // The kernel's triggers are about the machine of the test.
        if self.facts_root != Path::new("/") {
            let why = format!("facts are read below {}", self.facts_root.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        PressureTriggers::open()
    }
}

/// Raises the limit of open descriptors as far as this process may, and returns it.
pub fn raise_descriptor_limit(wanted: u64) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the result, and for the new limit.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return 256;
        }
        let raised = libc::rlimit {
            rlim_cur: (wanted as libc::rlim_t).clamp(limit.rlim_cur, limit.rlim_max),
            rlim_max: limit.rlim_max,
        };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) == 0 {
            limit = raised;
        }
    }
    #[allow(
        clippy::unnecessary_cast,
        reason = "32-bit systems have a narrower type"
    )]
    let limit = limit.rlim_cur as u64;
    limit
}

/// The user of this process.
pub fn own_uid() -> u32 {
    // SAFETY: no precondition.
    unsafe { libc::geteuid() }
}

/// This process, as a peer would see it.
pub fn own_peer() -> Peer {
    Peer {
        pid: std::process::id(),
        uid: own_uid(),
    }
}
