// SPDX-License-Identifier: Apache-2.0
//! A client of hindsightd's command socket.

use anyhow::{ensure, Context as _, Result};
use hindsight_service::os::{receive_packet, Packet};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::UnixStream;

const SOCKET: &str = "/dev/socket/hindsightd_commands";

/// Prints the answer to a command. Of a file that comes with it, prints its length and its first bytes, and whether it can
/// be written to.
///
/// # Errors
/// If the socket or the command is refused.
pub(crate) fn ask(line: &str) -> Result<()> {
    let mut stream = UnixStream::connect(SOCKET).with_context(|| format!("connect to {SOCKET}"))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let (mut answer, mut file) = (Vec::new(), None);
    let mut buffer = [0; 4096];
    loop {
        let mut waits = libc::pollfd {
            fd: stream.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&mut waits, 1, -1) };
        match receive_packet(stream.as_fd(), &mut buffer)? {
            Packet::Nothing => {}
            Packet::End => break,
            Packet::Bytes {
                length, descriptor, ..
            } => {
                answer.extend_from_slice(&buffer[..length]);
                file = file.or(descriptor);
            }
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    print!("{answer}");
    if let Some(file) = file {
        let mut file = File::from(file);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).context("read the file")?;
        let first = String::from_utf8_lossy(&bytes[..bytes.len().min(9)]).into_owned();
        let written = file.write(b"x");
        println!(
            "file of {} bytes, begins with {first}, {}",
            bytes.len(),
            if written.is_ok() {
                "can be written to"
            } else {
                "can be read only"
            }
        );
    }
    ensure!(answer.starts_with("ok"), "'{line}' failed");
    Ok(())
}
