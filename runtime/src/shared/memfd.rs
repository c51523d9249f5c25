// SPDX-License-Identifier: Apache-2.0
//! A memory file without a name (memfd).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// A new file of so many bytes, all zeros, that take memory once they are written. Where the kernel knows seals, nobody can make
/// it longer or shorter.
///
/// # Errors
/// If the kernel does not have or allow such files, or the process has no descriptor left.
pub(super) fn new(bytes: u64) -> io::Result<File> {
    const PLAIN: libc::c_uint = libc::MFD_CLOEXEC;
    const SEALED: libc::c_uint = PLAIN | libc::MFD_ALLOW_SEALING;
    // A kernel refuses flags that it does not know. New ones can be told to refuse files that might be executed.
    let file = create(SEALED | libc::MFD_NOEXEC_SEAL)
        .or_else(|_| create(SEALED))
        .or_else(|_| create(PLAIN))?;
    file.set_len(bytes)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // The service does not rely on seals: it reads the file, and a read after the end is an error.
    // SAFETY: a system call on this function's own file.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    Ok(file)
}

fn create(flags: libc::c_uint) -> io::Result<File> {
    // By its number: bionic has a function for it only since Android 11.
    // SAFETY: the name ends with a zero.
    let file = unsafe { libc::syscall(libc::SYS_memfd_create, c"hindsight".as_ptr(), flags) };
    let file = libc::c_int::try_from(file).map_err(io::Error::other)?;
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nobody else owns.
    Ok(unsafe { File::from_raw_fd(file) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn it_has_a_fixed_length_and_takes_memory_where_it_is_written() {
        let file = match new(1 << 30) {
            Ok(file) => file,
            Err(e) => {
                eprintln!("skipped: memory files without a name: {e}");
                return;
            }
        };
        let pages = || file.metadata().unwrap().blocks() * 512 / 4096;
        assert_eq!((file.metadata().unwrap().len(), pages()), (1 << 30, 0));
        file.write_at(b"x", 1 << 29).unwrap();
        assert!((1..=16).contains(&pages()), "{}", pages());
        // SAFETY: a system call on the test's own file.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) } <= 0 {
            eprintln!("skipped: seals of memory files: the kernel has none");
            return;
        }
        assert!(file.set_len(1 << 31).is_err() && file.set_len(1).is_err());
        assert_eq!(file.metadata().unwrap().len(), 1 << 30);
    }
}
