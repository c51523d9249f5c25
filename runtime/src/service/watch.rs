// SPDX-License-Identifier: Apache-2.0
//! Waits until the service's socket may have appeared.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::fork::{Descriptor, ParentOnly};

/// What makes a socket usable: it is made, moved there, or its mode changes.
const CHANGES: u32 = libc::IN_CREATE | libc::IN_MOVED_TO | libc::IN_ATTRIB;
/// The watch is of no use any more.
const ENDED: u32 = libc::IN_IGNORED | libc::IN_UNMOUNT;

/// A folder that is being watched for a socket.
pub(super) struct Watch {
    /// `None`: the kernel does not allow it, or the folder is gone.
    inotify: Option<ParentOnly>,
    name: OsString,
}

/// Why waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The socket may have changed.
    Changed,
    /// Somebody called.
    Called,
    /// The time is over.
    TimedOut,
}

/// Tells one socket from another one at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity([u64; 4]);

/// The socket that is there now; `None`: there is nothing.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    let file = std::fs::symlink_metadata(path).ok()?;
    let (changed, part) = (file.ctime() as u64, file.ctime_nsec() as u64);
    Some(Identity([file.dev(), file.ino(), changed, part]))
}

fn inotify(folder: &Path) -> io::Result<OwnedFd> {
    let folder = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: no precondition.
    let inotify = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
    if inotify < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nobody else owns.
    let inotify = unsafe { OwnedFd::from_raw_fd(inotify) };
    let flags = CHANGES | libc::IN_ONLYDIR;
    // SAFETY: `folder` is a string that ends with a zero.
    match unsafe { libc::inotify_add_watch(inotify.as_raw_fd(), folder.as_ptr(), flags) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(inotify),
    }
}

impl Watch {
    /// Begins to watch for the socket with this path. Where that is not possible, nothing is noticed.
    pub(super) fn new(path: &Path) -> Self {
        let inotify = path.parent().and_then(|folder| inotify(folder).ok());
        Watch {
            inotify: inotify.map(|inotify| ParentOnly::new(inotify, Descriptor::Watch)),
            name: path.file_name().map(OsString::from).unwrap_or_default(),
        }
    }

    /// Whether changes are noticed.
    pub(super) fn is_possible(&self) -> bool {
        self.inotify.is_some()
    }

    /// Waits until the socket has changed, `calls`, an eventfd, is not 0, or the pause is over. Sets `calls` to 0.
    pub(super) fn wait(&mut self, calls: BorrowedFd<'_>, pause: Option<Duration>) -> Woken {
        let end = pause.map(|pause| Instant::now() + pause);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if poll(calls, self.inotify.as_ref(), left) {
                if take_calls(calls) {
                    return Woken::Called;
                }
                if self.has_changed() {
                    return Woken::Changed;
                }
            } else if left.is_some_and(|left| left.is_zero()) {
                return Woken::TimedOut;
            }
        }
    }

    /// Reads what happened in the folder. Whether any of it is about the socket.
    fn has_changed(&mut self) -> bool {
        let Some(inotify) = &self.inotify else {
            return false;
        };
        let mut has_changed = false;
        let mut buffer = [0_u8; 4096];
        loop {
            let (start, bytes) = (buffer.as_mut_ptr().cast(), buffer.len());
            // SAFETY: `buffer` can be written.
            let read = unsafe { libc::read(inotify.as_raw_fd(), start, bytes) };
            let Ok(read @ 1..) = usize::try_from(read) else {
                break;
            };
            let (is_about_it, has_ended) = look(&buffer[..read], self.name.as_bytes());
            has_changed |= is_about_it;
            if has_ended {
                self.inotify = None;
                return true;
            }
        }
        has_changed
    }
}

/// Whether any of these events is about the file with this name, and whether there will be no more.
fn look(mut events: &[u8], name: &[u8]) -> (bool, bool) {
    const HEADER: usize = size_of::<libc::inotify_event>();
    let (mut is_about_it, mut has_ended) = (false, false);
    while let Some((header, rest)) = events.split_at_checked(HEADER) {
        let field = |at: usize| {
            let bytes = header[at..].first_chunk();
            bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        let mask = field(std::mem::offset_of!(libc::inotify_event, mask));
        let length = field(std::mem::offset_of!(libc::inotify_event, len)) as usize;
        let padded = &rest[..length.min(rest.len())];
        let end = padded.iter().position(|b| *b == 0).unwrap_or(padded.len());
        is_about_it |= mask & libc::IN_Q_OVERFLOW != 0 || &padded[..end] == name;
        has_ended |= mask & ENDED != 0;
        events = &rest[padded.len()..];
    }
    (is_about_it, has_ended)
}

/// Waits until one of them can be read, or the pause is over. Whether one can.
fn poll(calls: BorrowedFd<'_>, inotify: Option<&ParentOnly>, pause: Option<Duration>) -> bool {
    let entry = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // A negative descriptor is ignored.
    let watched = inotify.map_or(-1, AsRawFd::as_raw_fd);
    let mut entries = [entry(calls.as_raw_fd()), entry(watched)];
    let ms = pause.map_or(-1, |pause| {
        i32::try_from(pause.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
    });
    // SAFETY: `entries` has two elements.
    unsafe { libc::poll(entries.as_mut_ptr(), 2, ms) > 0 }
}

/// Whether somebody called since the last time.
fn take_calls(calls: BorrowedFd<'_>) -> bool {
    let mut count = 0_u64;
    // SAFETY: there is room for the 8 bytes that an eventfd has.
    unsafe { libc::read(calls.as_raw_fd(), (&raw mut count).cast(), 8) == 8 && count != 0 }
}

/// Something that can be called from other threads while [`Watch::wait`] waits.
pub(super) fn new_calls() -> io::Result<ParentOnly> {
    // SAFETY: no precondition.
    let calls = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if calls < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nobody else owns.
    let calls = unsafe { OwnedFd::from_raw_fd(calls) };
    Ok(ParentOnly::new(calls, Descriptor::Calls))
}

/// Ends a wait, or the next one.
pub(super) fn call(calls: BorrowedFd<'_>) {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: 8 bytes are readable. It fails if the count is at its limit: then it is not 0.
    unsafe { libc::write(calls.as_raw_fd(), one.as_ptr().cast(), 8) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn event(mask: u32, name: &[u8], padding: usize) -> Vec<u8> {
        let length = (name.len() + padding) as u32;
        let mut bytes: Vec<u8> = [1, mask, 0, length]
            .iter()
            .flat_map(|f| f.to_ne_bytes())
            .collect();
        bytes.extend_from_slice(name);
        bytes.resize(bytes.len() + padding, 0);
        bytes
    }

    #[test]
    fn events_of_other_files_do_not_count() {
        let other = event(libc::IN_CREATE, b"others", 2);
        let own = event(libc::IN_MOVED_TO, b"socket", 10);
        let gone = event(libc::IN_IGNORED, b"", 0);
        let overflow = event(libc::IN_Q_OVERFLOW, b"", 0);
        assert_eq!(look(&other, b"socket"), (false, false));
        assert_eq!(
            look(&[other.clone(), own].concat(), b"socket"),
            (true, false)
        );
        assert_eq!(look(&[other, gone].concat(), b"socket"), (false, true));
        assert_eq!(look(&overflow, b"socket"), (true, false));
    }

    #[test]
    fn events_that_are_cut_off_do_not_panic() {
        let own = event(libc::IN_CREATE, b"socket", 10);
        for length in 0..own.len() {
            let _ = look(&own[..length], b"socket");
        }
    }

    #[test]
    fn a_wait_ends_by_a_call_by_time_and_when_the_socket_appears() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let calls = new_calls().unwrap();
        let mut watch = Watch::new(&path);
        call(calls.as_fd());
        assert_eq!(watch.wait(calls.as_fd(), None), Woken::Called);
        let soon = Some(Duration::from_millis(1));
        assert_eq!(watch.wait(calls.as_fd(), soon), Woken::TimedOut);
        assert!(watch.is_possible());
        assert_eq!(identity(&path), None);
        std::fs::write(folder.path().join("others"), "").unwrap();
        assert_eq!(watch.wait(calls.as_fd(), soon), Woken::TimedOut);
        std::fs::write(&path, "").unwrap();
        assert_eq!(watch.wait(calls.as_fd(), None), Woken::Changed);
        assert!(identity(&path).is_some());
        drop(folder);
        // Nothing will be noticed any more: it is looked at once more.
        assert_eq!(watch.wait(calls.as_fd(), None), Woken::Changed);
        assert!(!watch.is_possible());
    }

    #[test]
    fn a_folder_that_is_not_there_is_not_watched() {
        let calls = new_calls().unwrap();
        let mut watch = Watch::new(Path::new("/nonexistent/folder/socket"));
        assert!(!watch.is_possible());
        call(calls.as_fd());
        assert_eq!(watch.wait(calls.as_fd(), None), Woken::Called);
    }
}
