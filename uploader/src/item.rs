// SPDX-License-Identifier: Apache-2.0
//! hindsightd's side: one item after the other.

use std::fs::File;
use std::io::{self, Write};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::SendError;

/// Longest answer of the service, bytes.
const MAX_ANSWER: usize = 4096;
/// The service answers within this time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Something that may leave the device.
#[derive(Debug)]
pub struct Item {
    /// Number of its report.
    pub report: u64,
    /// `text` or `trace`.
    pub kind: String,
    /// SHA-256 of its contents, in hexadecimal: its name at the collector.
    pub hash: String,
    /// Its length, bytes.
    pub bytes: u64,
    /// Its contents.
    pub file: File,
}

/// hindsightd's socket for uploads.
#[derive(Clone, Debug)]
pub struct Service(PathBuf);

fn wrong(why: &str) -> SendError {
    SendError::Service(io::Error::other(why.to_owned()))
}

impl Service {
    /// hindsightd's socket is at this path.
    pub fn new(path: &Path) -> Self {
        Service(path.to_owned())
    }

    /// Waits until uploads are allowed, without a time limit. Returns since when, CLOCK_BOOTTIME, ns: later than `after`, so that
    /// each permission is used once.
    ///
    /// # Errors
    /// If the service cannot be reached, it ends, or nobody can allow uploads.
    pub fn wait(&self, after: u64) -> Result<u64, SendError> {
        let (text, _) = self.ask_within(&format!("wait {after}"), None)?;
        let since = text
            .lines()
            .nth(1)
            .and_then(|line| line.strip_prefix("allowed "));
        since
            .and_then(|since| since.parse().ok())
            .ok_or_else(|| wrong("the answer is not understood"))
    }

    /// The next item; `None`: nothing may leave now.
    ///
    /// # Errors
    /// If the service cannot be reached, or its answer is not understood.
    pub fn next(&self) -> Result<Option<Item>, SendError> {
        let (text, file) = self.ask("next")?;
        let line = text
            .lines()
            .nth(1)
            .ok_or_else(|| wrong("the answer is too short"))?;
        let words: Vec<&str> = line.split(' ').collect();
        match (words.as_slice(), file) {
            (["nothing", ..], _) => Ok(None),
            (["item", report, kind @ ("text" | "trace"), bytes, hash], Some(file)) => {
                let number = |text: &str| text.parse().map_err(|_| wrong("no number"));
                let is_hash = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
                if !is_hash {
                    return Err(wrong("the item has no hash"));
                }
                Ok(Some(Item {
                    report: number(report)?,
                    kind: (*kind).to_owned(),
                    hash: (*hash).to_owned(),
                    bytes: number(bytes)?,
                    file,
                }))
            }
            _ => Err(wrong("the answer is not understood")),
        }
    }

    /// Whether the item may leave even now: the consent to it may be withdrawn at any time.
    ///
    /// # Errors
    /// If the service cannot be reached, or its answer is not understood: the item must not leave then.
    pub fn still(&self, item: &Item) -> Result<bool, SendError> {
        let (text, _) = self.ask(&format!("still {} {}", item.report, item.kind))?;
        match text.lines().nth(1) {
            Some("still") => Ok(true),
            Some(line) if line.starts_with("nothing") => Ok(false),
            _ => Err(wrong("the answer is not understood")),
        }
    }

    /// The collector has the item.
    ///
    /// # Errors
    /// If the service cannot be told: the next run sends nothing, as the collector says that it has the item.
    pub fn done(&self, item: &Item) -> Result<(), SendError> {
        self.ask(&format!("done {} {}", item.report, item.kind))?;
        Ok(())
    }

    fn ask(&self, command: &str) -> Result<(String, Option<File>), SendError> {
        self.ask_within(command, Some(PATIENCE))
    }

    fn ask_within(
        &self,
        command: &str,
        patience: Option<Duration>,
    ) -> Result<(String, Option<File>), SendError> {
        let mut stream = UnixStream::connect(&self.0).map_err(SendError::Service)?;
        let set = stream.set_read_timeout(patience);
        set.map_err(SendError::Service)?;
        let sent = stream.write_all(format!("{command}\n").as_bytes());
        sent.map_err(SendError::Service)?;
        let mut text = Vec::new();
        let mut file = None;
        loop {
            let mut buffer = [0; 1024];
            let (count, descriptor) = receive(&stream, &mut buffer).map_err(SendError::Service)?;
            file = file.or(descriptor.map(File::from));
            if count == 0 {
                break;
            }
            text.extend_from_slice(&buffer[..count]);
            if text.len() > MAX_ANSWER {
                return Err(wrong("the answer is too long"));
            }
        }
        let text = String::from_utf8(text).map_err(|_| wrong("the answer is no text"))?;
        match text.strip_prefix("error ") {
            Some(message) => Err(wrong(message.trim())),
            None if text.starts_with("ok\n") => Ok((text, file)),
            None => Err(wrong("the service closed the connection")),
        }
    }
}

/// Receives bytes, and a descriptor if one comes with them.
fn receive(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    /// Room for one descriptor, aligned as control messages are.
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut parts = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: a message header of zeros is an empty one; all pointers below outlive the call.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut parts;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the header points to a buffer and a control buffer of these lengths, which only this call writes.
    let count =
        unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled the header in; the control buffer is alive.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    let mut descriptor = None;
    if !first.is_null() {
        // SAFETY: CMSG_FIRSTHDR is null or points to a whole header in the control buffer.
        let header = unsafe { &*first };
        // SAFETY: takes a number.
        let needed = unsafe { libc::CMSG_LEN(size_of::<libc::c_int>() as u32) } as usize;
        let is_rights =
            header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_RIGHTS;
        if is_rights && header.cmsg_len as usize >= needed {
            // SAFETY: a message of this type and length has a descriptor, which the kernel made for this process.
            let number = unsafe {
                libc::CMSG_DATA(first)
                    .cast::<libc::c_int>()
                    .read_unaligned()
            };
            // SAFETY: nobody else knows the descriptor.
            descriptor = Some(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
    Ok((count as usize, descriptor))
}
