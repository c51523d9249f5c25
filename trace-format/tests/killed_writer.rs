// SPDX-License-Identifier: Apache-2.0
//! `write_file` and the processes that call it: killed at every single system call, or without the right to
//! read the folder.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use hindsight_trace_format::container::{write_file, Reader, SectionKind};

const OLD: &[u8] = b"what was there before";

/// Several parts and sections, so that there are many system calls to be killed at.
fn write(path: &Path) -> std::io::Result<()> {
    let part = [0x5a; 4096];
    write_file(path, |writer| {
        for index in 0..3 {
            writer.section(SectionKind::Ring, index, &[&part, &part, &part])?;
        }
        writer.section(SectionKind::Losses, 0, &[b"some"])
    })
}

/// Runs `write` in a child that stops at every system call; kills it at the `n`th. False if it ended
/// before.
fn killed_at_call(path: &Path, n: usize) -> bool {
    // SAFETY: the child only does what a child of a process with threads may do with glibc (which
    // keeps its allocator usable), and never returns from here. The rest are plain system calls.
    unsafe {
        let child = libc::fork();
        assert_ne!(child, -1);
        if child == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            libc::_exit(i32::from(write(path).is_err()));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert!(libc::WIFSTOPPED(status), "could not be traced: {status:x}");
        for _ in 0..n {
            assert_eq!(libc::ptrace(libc::PTRACE_SYSCALL, child, 0, 0), 0);
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            if libc::WIFEXITED(status) {
                assert_eq!(libc::WEXITSTATUS(status), 0, "the child could not write");
                return false;
            }
        }
        libc::kill(child, libc::SIGKILL);
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        true
    }
}

/// Whether the file is the new one; it must be whole.
fn is_new(path: &Path) -> bool {
    let bytes = fs::read(path).unwrap();
    if bytes == OLD {
        return false;
    }
    let reader = Reader::new(&bytes).unwrap();
    reader.verify_all().unwrap();
    assert_eq!(reader.sections().len(), 4);
    true
}

#[test]
fn killed_at_every_system_call_either_file_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.hindsight");
    let mut was_new = Vec::new();
    for n in 0.. {
        fs::write(&path, OLD).unwrap();
        let killed = killed_at_call(&path, n);
        was_new.push(is_new(&path));
        if !killed {
            break;
        }
        for entry in fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            if entry.path() != path {
                let name = entry.file_name().into_string().unwrap();
                assert!(
                    name.starts_with(".x.hindsight.") && name.ends_with(".tmp"),
                    "{name}"
                );
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }
    // Once the new file is there it stays, and it is only there after all has been written.
    let first_new = was_new.iter().position(|new| *new).unwrap();
    assert!(was_new[first_new..].iter().all(|new| *new));
    println!(
        "killed at {} places, the new file was there from {first_new} on",
        was_new.len() - 1
    );
    assert!(first_new > 20 && first_new < was_new.len() - 1);
}

#[test]
fn a_finished_write_leaves_one_file_for_its_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.hindsight");
    write(&path).unwrap();
    assert!(is_new(&path));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

/// The user and group `nobody`, which have no rights of their own.
const NOBODY: u32 = 65534;

/// Writes `path` in a child process, which belongs to nobody if this process may change its user.
fn write_as_nobody(path: &Path) -> bool {
    // SAFETY: the child only makes system calls and writes the file, with glibc's allocator, which stays usable after a
    // fork; it never returns. The other calls are plain system calls.
    unsafe {
        let child = libc::fork();
        assert_ne!(child, -1);
        if child == 0 {
            if libc::geteuid() == 0 && (libc::setgid(NOBODY) != 0 || libc::setuid(NOBODY) != 0) {
                libc::_exit(2);
            }
            libc::_exit(i32::from(write(path).is_err()));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert!(libc::WIFEXITED(status), "{status:x}");
        assert_ne!(libc::WEXITSTATUS(status), 2, "could not become nobody");
        libc::WEXITSTATUS(status) == 0
    }
}

/// The folder that apps write to on a device has mode 0773: they may create files in it, but not list it.
#[test]
fn a_folder_that_cannot_be_read_gets_a_whole_file_and_no_error() {
    use std::os::unix::fs::PermissionsExt;
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let outer = tempfile::tempdir().unwrap();
    set_mode(outer.path(), 0o755);
    let folder = outer.path().join("trace");
    fs::create_dir(&folder).unwrap();
    // SAFETY: no precondition.
    let is_root = unsafe { libc::geteuid() } == 0;
    // As nobody, this process is neither the folder's owner nor in its group; otherwise it is its owner.
    set_mode(&folder, if is_root { 0o773 } else { 0o300 });
    let path = folder.join("x.hindsight");
    let written = write_as_nobody(&path);
    set_mode(&folder, 0o700);
    assert!(written, "published, but reported as an error");
    assert!(is_new(&path));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}
