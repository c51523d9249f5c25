// SPDX-License-Identifier: Apache-2.0
//! The process at the other end of a connection, and the memory that it hands over.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use hindsight_trace_format::shared::{HEADER_BYTES, MAX_SHARED_BYTES};

use crate::engine::Peer;

use super::call::{done, owned};

/// A process that has connected.
#[derive(Debug)]
pub struct Process {
    /// Its ids.
    pub peer: Peer,
    /// Becomes readable when the process ends. `None`: the system cannot tell, or this process may not ask; then the end of the
    /// connection counts as the end of the process.
    pub pidfd: Option<OwnedFd>,
}

impl Process {
    /// The process that made this connection, by the kernel's account when it connected.
    ///
    /// Its descriptor comes with the connection itself where the kernel knows that (`SO_PEERPIDFD`, Linux 6.5). Elsewhere it is
    /// opened by process id, which may have been given to another process meanwhile. So after that the connection must still be
    /// open, or the process be seen to have ended: a process closes all its descriptors before its id is free, so that it lived
    /// when its descriptor was opened.
    ///
    /// A process that was killed before its connection was accepted has no descriptor, and is no error: its packets, and the
    /// memory that came with them, are still to be received.
    ///
    /// This holds for every process that keeps its end of the connection to itself. One that has given its end to another
    /// process, and ended, may be taken for the next process with its id. Then its own memory is read when that one ends; user
    /// and id in the report are still the ones that the kernel noted at the connection.
    pub(super) fn behind(connection: BorrowedFd<'_>) -> io::Result<Self> {
        let credentials: libc::ucred = option(connection, libc::SO_PEERCRED)?;
        let peer = Peer {
            pid: u32::try_from(credentials.pid).unwrap_or(0),
            uid: credentials.uid,
        };
        if peer.pid == 0 {
            let what = "the process is not visible from here: it has another space of process ids";
            return Err(io::Error::other(what));
        }
        if let Ok(pidfd) = peer_pidfd(connection) {
            let pidfd = Some(pidfd);
            return Ok(Process { peer, pidfd });
        }
        Self::by_id(peer, connection)
    }

    /// The process with this id, if it is the one behind the connection.
    fn by_id(peer: Peer, connection: BorrowedFd<'_>) -> io::Result<Self> {
        // Without one the process does not exist any more, or the system has no such descriptors.
        let pidfd = pidfd_open(peer.pid).ok();
        let process = Process { peer, pidfd };
        if has_hung_up(connection)? && process.has_ended() == Some(false) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(process)
    }

    /// Whether the process has ended; `None`: the system cannot tell.
    pub fn has_ended(&self) -> Option<bool> {
        let pidfd = self.pidfd.as_ref()?;
        poll_now(pidfd.as_fd(), libc::POLLIN).ok().map(|e| e != 0)
    }
}

/// An option of a socket that is a plain struct or number.
fn option<T: Copy>(socket: BorrowedFd<'_>, name: libc::c_int) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has room for `length` bytes. Callers use integers and `ucred`, for which all bytes are valid.
    unsafe {
        done(libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            value.as_mut_ptr().cast(),
            &mut length,
        ))?;
        Ok(value.assume_init())
    }
}

/// The descriptor of exactly the process that connected.
fn peer_pidfd(connection: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const SO_PEERPIDFD: libc::c_int = 77;
    let descriptor: libc::c_int = option(connection, SO_PEERPIDFD)?;
    // SAFETY: the kernel has made it for this call. (It does not write -1.)
    unsafe { owned(descriptor) }
}

fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    let no_flags = 0_u32;
    // SAFETY: takes numbers only.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, no_flags) };
    // SAFETY: the result is a new descriptor, or -1.
    unsafe { owned(libc::c_int::try_from(result).unwrap_or(-1)) }
}

/// The state of a descriptor now, as bits of `poll`.
fn poll_now(descriptor: BorrowedFd<'_>, events: libc::c_short) -> io::Result<libc::c_short> {
    let mut poll = libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events,
        revents: 0,
    };
    loop {
        // SAFETY: `poll` is one valid entry; the call does not wait.
        match done(unsafe { libc::poll(&mut poll, 1, 0) }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(|_| poll.revents),
        }
    }
}

fn has_hung_up(connection: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(poll_now(connection, 0)? & libc::POLLHUP != 0)
}

/// Why a process's memory is refused: a sentence for its log.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MemoryError {
    /// It is no file of this kind.
    #[error("the shared memory is not a memory file; make it by memfd_create")]
    NotMemory,
    /// It is too short or too long.
    #[error("the shared memory has {0} bytes; {HEADER_BYTES} to {MAX_SHARED_BYTES} are allowed")]
    Length(u64),
    /// It cannot be examined.
    #[error("the shared memory cannot be examined: error {0}")]
    Unknown(i32),
}

/// Whether a descriptor from a process may be read later. Only memory is: a file of another file system could be on a slow disk,
/// or in a file system that the process itself provides, and would make a reader wait for ever. So would asking such a file for its
/// length, or closing it here: [`Closer`](super::Closer) is for a descriptor that is refused.
///
/// The process can still shorten memory that has no seal against it, and can always change it. So it is never mapped: `pread`
/// fails where there is nothing any more, and copies what is there.
///
/// # Errors
/// A message for the process's log.
pub fn check_memory(file: &File) -> Result<(), MemoryError> {
    let unknown = |e: io::Error| MemoryError::Unknown(e.raw_os_error().unwrap_or(0));
    // Only files in memory can be sealed, and no file system is asked for this.
    // SAFETY: the descriptor is open; the call takes no other argument.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    if seals == -1 {
        return Err(MemoryError::NotMemory);
    }
    let facts = file.metadata().map_err(unknown)?;
    if !facts.is_file() {
        return Err(MemoryError::NotMemory);
    }
    match facts.len() {
        length if length < HEADER_BYTES as u64 => Err(MemoryError::Length(length)),
        length if length > MAX_SHARED_BYTES => Err(MemoryError::Length(length)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{listen, SocketKind};
    use super::*;

    #[test]
    fn only_memory_of_a_sensible_length_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = listen(&socket, SocketKind::Packets, 0o600).unwrap();
        assert_eq!(
            check_memory(&File::from(listener)),
            Err(MemoryError::NotMemory)
        );
        for path in ["/dev/null", "/proc/self/status", "/"] {
            let file = File::open(path).unwrap();
            assert_eq!(check_memory(&file), Err(MemoryError::NotMemory), "{path}");
        }
        // SAFETY: the name is a string that ends with 0; the result is a new descriptor, or -1.
        let memory = unsafe { owned(libc::memfd_create(c"test".as_ptr(), 0)) };
        let memory = File::from(memory.unwrap());
        assert_eq!(check_memory(&memory), Err(MemoryError::Length(0)));
        memory.set_len(HEADER_BYTES as u64).unwrap();
        assert_eq!(check_memory(&memory), Ok(()));
        let long = MAX_SHARED_BYTES + 1;
        memory.set_len(long).unwrap();
        assert_eq!(check_memory(&memory), Err(MemoryError::Length(long)));
    }

    #[test]
    fn an_id_is_that_of_an_open_connection_or_of_an_ended_process() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let process = Process::behind(ours.as_fd()).unwrap();
        assert_eq!(process.peer, super::super::own_peer());
        assert!(!process.has_ended().unwrap_or(false));
        if pidfd_open(process.peer.pid).is_err() {
            println!("skipped: pidfd_open: the kernel has none");
            return;
        }
        let by_id = |pid| Process::by_id(Peer { pid, uid: 0 }, ours.as_fd());
        assert!(by_id(process.peer.pid).is_ok());
        drop(theirs);
        // Whoever has the id now lives, and does not have the connection.
        assert!(by_id(process.peer.pid).is_err());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = pidfd_open(child.id()).unwrap();
        while poll_now(ended.as_fd(), libc::POLLIN).unwrap() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(by_id(child.id()).unwrap().has_ended(), Some(true));
        child.wait().unwrap();
        assert!(by_id(child.id()).unwrap().pidfd.is_none());
    }

    #[test]
    fn a_process_opened_by_its_id_is_seen_to_end() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let pidfd = match pidfd_open(child.id()) {
            Ok(pidfd) => pidfd,
            Err(e) => {
                child.kill().unwrap();
                child.wait().unwrap();
                assert_ne!(e.raw_os_error(), Some(libc::ESRCH));
                println!("skipped: pidfd_open: {e}");
                return;
            }
        };
        let peer = super::super::own_peer();
        let pidfd = Some(pidfd);
        let process = Process { peer, pidfd };
        assert_eq!(process.has_ended(), Some(false));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(process.has_ended(), Some(true));
        let gone = pidfd_open(child.id()).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
    }
}
