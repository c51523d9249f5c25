// SPDX-License-Identifier: Apache-2.0
//! The process's files in the folder for snapshots.
//!
//! On a device many apps share the folder, and none may list it (mode 0773). A process can still open, look at and remove
//! a file whose name it knows. So the names of its snapshots are in a file with a name that it can derive.

mod age;
mod index;
pub(crate) mod kept;
pub(crate) mod starts;

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The process's user.
pub(crate) fn user() -> u32 {
    // SAFETY: no precondition.
    unsafe { libc::geteuid() }
}

/// The name of a process as a part of a file's name.
pub(crate) fn safe_name(process: &str) -> String {
    let safe: String = process
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .take(64)
        .collect();
    safe.trim_start_matches('.').to_owned()
}

/// Whether there is no process with this id. One of another user counts as one.
fn is_dead(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else {
        return true;
    };
    // SAFETY: signal 0 is not sent; it asks whether it could be.
    let refused = unsafe { libc::kill(pid, 0) } != 0;
    refused && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// Opens a small file of this user for reading and writing.
///
/// # Errors
/// If it cannot be opened, or if something else has the name: others may write to the folder, too.
fn open_own(path: &Path, create: bool) -> io::Result<File> {
    open_with(
        OpenOptions::new().read(true).write(true).create(create),
        path,
    )
}

/// Opens a small file of this user, or creates it: what is written goes to its end, wherever that is then.
///
/// # Errors
/// As [`open_own`].
fn open_own_to_append(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().append(true).create(true), path)
}

fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(path)?;
    let facts = file.metadata()?;
    if facts.is_file() && facts.uid() == user() && facts.nlink() == 1 {
        Ok(file)
    } else {
        Err(io::Error::other("another user's file has its name"))
    }
}

/// The file's contents, up to this many bytes of it.
fn read_bytes(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The file's text, up to this many bytes of it; what is no UTF-8 is replaced.
fn read_text(file: &File, limit: u64) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&read_bytes(file, limit)?).into_owned())
}

/// Replaces the file's text.
fn write_text(file: &File, text: &str) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processes_are_safe() {
        assert_eq!(
            safe_name("com.example.app:remote"),
            "com.example.app_remote"
        );
        assert_eq!(safe_name("../../etc/passwd"), "_.._etc_passwd");
        assert_eq!(safe_name(""), "");
        assert_eq!(safe_name(&"x".repeat(100)).len(), 64);
    }

    #[test]
    fn only_a_plain_file_of_this_user_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own");
        assert!(open_own(&path, false).is_err(), "there is none");
        write_text(&open_own(&path, true).unwrap(), "a longer text").unwrap();
        write_text(&open_own(&path, true).unwrap(), "text").unwrap();
        let file = open_own(&path, false).unwrap();
        assert_eq!(read_text(&file, 100).unwrap(), "text");

        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(open_own(&link, true).is_err(), "a symbolic link");
        let second = folder.path().join("second");
        std::fs::hard_link(&path, second).unwrap();
        assert!(open_own(&path, true).is_err(), "a file with two names");
        assert!(open_own(folder.path(), false).is_err(), "a folder");
    }

    #[test]
    fn the_own_process_is_alive_and_no_process_has_the_largest_id() {
        assert!(!is_dead(std::process::id()));
        assert!(is_dead(i32::MAX.unsigned_abs()) && is_dead(u32::MAX));
    }
}
