// SPDX-License-Identifier: Apache-2.0
//! The driver of binder, as far as no library is needed.

use anyhow::{Context as _, Result};
use std::fs::File;
use std::os::fd::AsRawFd as _;

const DEVICE: &str = "/dev/binder";
/// `BINDER_SET_CONTEXT_MGR`, which is `_IOW('b', 7, __s32)`.
const SET_CONTEXT_MANAGER: libc::Ioctl = 0x4004_6207;

/// Becomes the context manager, which is Android's service manager, for a moment.
///
/// # Errors
/// If the kernel does not let it.
pub(crate) fn manage() -> Result<()> {
    let device = File::options().read(true).write(true).open(DEVICE);
    let device = device.with_context(|| format!("open {DEVICE}"))?;
    let unused: i32 = 0;
    // SAFETY: the driver reads a number from the address, which is valid until the call returns.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), SET_CONTEXT_MANAGER, &raw const unused) };
    if result == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error()).context("become the context manager")
}
