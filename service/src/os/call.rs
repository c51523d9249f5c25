// SPDX-License-Identifier: Apache-2.0
//! Results of system calls.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The result of a system call that returns -1 if it fails.
pub(super) fn done(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// A descriptor that a system call has returned.
///
/// # Safety
/// The descriptor, if it is one, is new and belongs to the caller.
pub(super) unsafe fn owned(result: libc::c_int) -> io::Result<OwnedFd> {
    let descriptor = done(result)?;
    // SAFETY: the caller says that it is new and the caller's own; `done` says that it is one.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
