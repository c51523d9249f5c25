// SPDX-License-Identifier: Apache-2.0
//! Reads lines of a process's log from logd's socket for readers. Only the thread that writes reports waits for it, and not for long.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::context::{Collector, LogExcerpt, LogLine, LogRequest};

use super::call::done;
use super::socket::{connect_packets, receive_packet, send_packet, Packet, Sent};

/// The longest time for all of it: the report does not wait longer for a logd that is slow or silent.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// The most packets that are read; a device's log has less.
const MAX_PACKETS: usize = 100_000;
/// Longest packet: a header and a payload of logd, which has at most 5 KiB for both.
const MAX_PACKET: usize = 8 << 10;

/// The newest lines that are wanted, as far as they came in time.
///
/// # Errors
/// If logd cannot be asked, or sends no entries.
pub(super) fn read(
    socket: &Path,
    request: LogRequest,
    patience: Duration,
) -> io::Result<LogExcerpt> {
    let begin = Instant::now();
    let connection = connect_packets(socket)?;
    match send_packet(connection.as_fd(), request.command().as_bytes(), None) {
        Sent::Bytes(_) => {}
        Sent::Full | Sent::Gone => return Err(io::Error::other("logd does not listen")),
    }
    let mut collector = Collector::new(request);
    let mut problem = None;
    let mut buffer = [0; MAX_PACKET];
    for _ in 0..MAX_PACKETS {
        let left = patience.saturating_sub(begin.elapsed());
        if left.is_zero() {
            break;
        }
        match receive_packet(connection.as_fd(), &mut buffer) {
            Ok(Packet::Nothing) => wait(connection.as_fd(), left)?,
            Ok(Packet::Bytes {
                length,
                is_cut: false,
                ..
            }) => match LogLine::parse(&buffer[..length]) {
                Ok(line) => collector.add(&line),
                Err(e) => problem = Some(e),
            },
            Ok(Packet::Bytes { .. }) => {}
            Ok(Packet::End) | Err(_) => break,
        }
    }
    let excerpt = collector.finish();
    match problem {
        Some(e) if excerpt.lines.is_empty() => Err(io::Error::other(e)),
        _ => Ok(excerpt),
    }
}

/// Waits until there is something to be read, or the time is over.
fn wait(connection: BorrowedFd<'_>, left: Duration) -> io::Result<()> {
    let mut poll = libc::pollfd {
        fd: connection.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let ms = libc::c_int::try_from(left.as_millis().max(1)).unwrap_or(libc::c_int::MAX);
    // SAFETY: `poll` is one valid entry.
    match done(unsafe { libc::poll(&mut poll, 1, ms) }) {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
        result => result.map(drop),
    }
}

#[cfg(test)]
mod tests;
