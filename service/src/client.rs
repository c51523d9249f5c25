// SPDX-License-Identifier: Apache-2.0
//! `hindsightd --command`: sends a command to the service that runs, for shells and for tools over adb.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::os::{receive_packet, Packet};
use crate::store::MAX_STATE_BYTES;

/// Where init puts the socket.
const SOCKET: &str = "/dev/socket/hindsightd_commands";

/// Sends the command in the arguments, and writes the answer to the standard output.
///
/// # Errors
/// If there is no service, or it answers by an error.
pub(crate) fn run(arguments: &[OsString]) -> Result<(), String> {
    let mut socket = PathBuf::from(SOCKET);
    let mut is_framed = false;
    let mut words = Vec::new();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.to_str() {
            Some("--framed") if words.is_empty() => is_framed = true,
            Some("--at") if words.is_empty() => {
                socket = rest.next().ok_or("--at: the path is missing")?.into();
            }
            Some(word) => words.push(word),
            None => return Err("the command is no UTF-8".into()),
        }
    }
    let command = words.join(" ");
    let mut text = Vec::new();
    if ["policy -", "policy check -"].contains(&&*command) {
        let most = MAX_STATE_BYTES as u64 + 1;
        let read = io::stdin().lock().take(most).read_to_end(&mut text);
        read.map_err(|e| format!("the standard input cannot be read: {e}"))?;
    }
    let (answer, file) = ask(&socket, &command, &text).map_err(|e| {
        let at = socket.display();
        format!("{at}: {e}; is the service running (persist.hindsight.service), and is this user root, system or shell?")
    })?;
    let mut out = io::stdout().lock();
    let wrote = |e: io::Error| format!("the answer cannot be written: {e}");
    if is_framed {
        out.write_all(answer.as_bytes()).map_err(wrote)?;
    } else if let Some(message) = answer.strip_prefix("error ") {
        return Err(message.trim_end().to_owned());
    } else if file.is_none() {
        let lines = answer.strip_prefix("ok\n").unwrap_or(&answer);
        out.write_all(lines.as_bytes()).map_err(wrote)?;
    }
    if let Some(mut file) = file {
        io::copy(&mut file, &mut out).map_err(wrote)?;
    }
    out.flush().map_err(wrote)
}

/// The answer, and the file that came with it.
fn ask(socket: &std::path::Path, command: &str, text: &[u8]) -> io::Result<(String, Option<File>)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(command.as_bytes())?;
    stream.write_all(b"\n")?;
    stream.write_all(text)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let (mut answer, mut file): (Vec<u8>, Option<OwnedFd>) = (Vec::new(), None);
    let mut buffer = [0; 16 << 10];
    loop {
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
    if answer.is_empty() {
        return Err(io::Error::other(
            "the service closed the connection without an answer",
        ));
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    Ok((answer, file.map(File::from)))
}
