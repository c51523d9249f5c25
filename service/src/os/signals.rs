// SPDX-License-Identifier: Apache-2.0
//! Signals as something to wait for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::call::{done, owned};

/// SIGTERM and SIGINT, which ask the service to end.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks the signals in this thread, and in the ones that it starts later, and makes them readable here.
    ///
    /// # Errors
    /// If the system has no descriptor for it.
    pub fn new() -> io::Result<Self> {
        // SAFETY: all zeros is a valid set; the functions below only write to it, or read it.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::sigaddset(&mut set, libc::SIGINT);
            let failed = libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            if failed != 0 {
                return Err(io::Error::from_raw_os_error(failed));
            }
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            owned(libc::signalfd(-1, &set, flags)).map(Signals)
        }
    }

    /// Takes one signal, if there is one.
    pub fn take(&self) -> bool {
        // SAFETY: all zeros is a valid `signalfd_siginfo`; it is a valid place for one result.
        unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let bytes = size_of::<libc::signalfd_siginfo>();
            let read = libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), bytes);
            usize::try_from(read) == Ok(bytes)
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Lets the signals through again: for the process that ends.
impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: as in `new`: all zeros is a valid set.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::sigaddset(&mut set, libc::SIGINT);
            let _ = done(libc::pthread_sigmask(
                libc::SIG_UNBLOCK,
                &set,
                std::ptr::null_mut(),
            ));
        }
    }
}
