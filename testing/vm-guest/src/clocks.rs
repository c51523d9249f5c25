// SPDX-License-Identifier: Apache-2.0
//! Readings of the clocks, for the host, which makes a trace of the whole device of the kernel's events.

use anyhow::{ensure, Result};

fn read(clock: libc::clockid_t) -> Result<i64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the result is valid for writes.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    ensure!(
        result == 0,
        "clock {clock}: {}",
        std::io::Error::last_os_error()
    );
    Ok(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

/// Prints `# clocks REALTIME MONOTONIC BOOTTIME` in ns, as a comment of the text that tracefs has.
///
/// # Errors
/// If a clock cannot be read.
pub(crate) fn print() -> Result<()> {
    let [realtime, monotonic, boottime] = [
        libc::CLOCK_REALTIME,
        libc::CLOCK_MONOTONIC,
        libc::CLOCK_BOOTTIME,
    ]
    .map(read);
    println!("# clocks {} {} {}", realtime?, monotonic?, boottime?);
    Ok(())
}
