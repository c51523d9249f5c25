// SPDX-License-Identifier: Apache-2.0
//! A process hands over files of a file system that it serves itself, and that does not answer: the service goes on.

mod common;

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use common::{hello, image, memory, skip, wait_for, Connection, Service, POLICY};
use hindsight_service::os::{send_packet, Sent};
use hindsight_trace_format::protocol::{FromProcess, FromService};

/// Requests of the kernel, by their numbers in its `fuse.h`.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const FOLDER: u64 = 1;
const THE_FILE: u64 = 2;

/// A file system with one file.
struct FileSystem {
    folder: tempfile::TempDir,
    /// From now on nothing is said about the file.
    is_silent: Arc<AtomicBool>,
    /// How often something was asked about it since.
    asked: Arc<AtomicUsize>,
    /// The file, as this process has it open: closed after the file system has ended.
    opened: Vec<File>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// `struct fuse_attr`.
fn attributes(node: u64) -> Vec<u8> {
    let mode: u32 = if node == FOLDER { 0o40755 } else { 0o100_666 };
    let mut bytes = Vec::new();
    for word in [node, 4096, 8, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for word in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

/// The answer to a request; `None`: there is none.
fn answer(kind: u32, node: u64) -> Option<Result<Vec<u8>, i32>> {
    Some(Ok(match kind {
        INIT => {
            let words = [7, 31, 65536, 0, 0, 131_072, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            words.iter().flat_map(|w: &u32| w.to_le_bytes()).collect()
        }
        LOOKUP => {
            let words = [THE_FILE, 0, 3600, 0, 0];
            let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            bytes.extend(attributes(THE_FILE));
            bytes
        }
        // Not valid for any time: it is asked again.
        GETATTR => [vec![0; 16], attributes(node)].concat(),
        OPEN => [7_u64, 0].iter().flat_map(|w| w.to_le_bytes()).collect(),
        FLUSH | RELEASE => Vec::new(),
        FORGET => return None,
        _ => return Some(Err(libc::ENOSYS)),
    }))
}

fn serve(mut device: File, is_silent: &AtomicBool, asked: &AtomicUsize) {
    let mut buffer = vec![0; 1 << 18];
    // It ends when the file system is gone.
    while let Ok(length) = device.read(&mut buffer) {
        let request = &buffer[..length];
        let (kind, node) = (word(request, 4), long(request, 16));
        if is_silent.load(Ordering::SeqCst) && [GETATTR, FLUSH].contains(&kind) {
            asked.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        let Some(answer) = answer(kind, node) else {
            continue;
        };
        let (bytes, error) = match answer {
            Ok(bytes) => (bytes, 0),
            Err(error) => (Vec::new(), -error),
        };
        let mut reply = ((16 + bytes.len()) as u32).to_le_bytes().to_vec();
        reply.extend(error.to_le_bytes());
        reply.extend_from_slice(&request[8..16]);
        reply.extend(bytes);
        let _ = device.write_all(&reply);
    }
}

impl FileSystem {
    /// `None`: this process may not mount one.
    fn new() -> Option<Self> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let folder = tempfile::tempdir().unwrap();
        let mounted = device.and_then(|device| {
            let path = CString::new(folder.path().to_str().unwrap()).unwrap();
            let number = device.as_raw_fd();
            let options = format!("fd={number},rootmode=40000,user_id=0,group_id=0,allow_other");
            let options = CString::new(options).unwrap();
            // SAFETY: all texts end with 0.
            let mounted = unsafe {
                let kind = c"fuse".as_ptr();
                libc::mount(kind, path.as_ptr(), kind, 0, options.as_ptr().cast())
            };
            match mounted {
                0 => Ok(device),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
        let device = match mounted {
            Ok(device) => device,
            Err(e) => {
                skip(&format!(
                    "a file system of a process: it cannot be mounted: {e}"
                ));
                return None;
            }
        };
        let is_silent = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicUsize::new(0));
        let (silent, count) = (Arc::clone(&is_silent), Arc::clone(&asked));
        std::thread::spawn(move || serve(device, &silent, &count));
        Some(FileSystem {
            folder,
            is_silent,
            asked,
            opened: Vec::new(),
        })
    }

    fn open(&mut self) {
        let path = self.folder.path().join("file");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(path);
        self.opened.push(file.unwrap());
    }
}

impl Drop for FileSystem {
    /// All that waits for an answer gets an error. A program that waits so cannot even be killed.
    fn drop(&mut self) {
        let path = CString::new(self.folder.path().to_str().unwrap()).unwrap();
        for flags in [libc::MNT_FORCE, libc::MNT_DETACH] {
            // SAFETY: the text ends with 0.
            unsafe { libc::umount2(path.as_ptr(), flags) };
        }
    }
}

/// Whether the service answers, and takes a process of another user id.
fn is_served(folder: &Path) -> bool {
    use std::os::unix::net::UnixStream;
    let mut stream = UnixStream::connect(folder.join("commands")).unwrap();
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).unwrap();
    stream.write_all(b"status\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).is_ok() && answer.starts_with("ok")
}

#[test]
fn a_file_system_that_does_not_answer_stops_nobody() {
    let service = Service::start(POLICY, &[]);
    // It ends before the service.
    let Some(mut files) = FileSystem::new() else {
        return;
    };
    let folder = service.folder.path();
    // It stays open here: only the service closes its own.
    files.open();
    let file = &files.opened[0];
    let good = memory(&image("good", 100));
    let joined = Connection::join(folder, &hello("joined"), &good);
    joined.wait_for_welcome();
    files.is_silent.store(true, Ordering::SeqCst);

    let evil: Vec<Connection> = (0..3).map(|_| Connection::new(folder)).collect();
    let hello_of_evil = FromProcess::Hello(hello("evil"));
    assert!(evil[0].send_with(&hello_of_evil, file));
    wait_for("the file system is asked", || {
        (files.asked.load(Ordering::SeqCst) != 0).then_some(())
    });
    assert!(is_served(folder), "the service waits for the file system");
    wait_for("it is refused", || {
        let message = evil[0].receive();
        let is_refused = |m: &FromService| matches!(m, FromService::Refused { .. });
        message.as_ref().is_none_or(is_refused).then_some(())
    });
    // A packet of a newer build, and one without bytes.
    for (connection, packet) in [(&evil[1], &[0x99, 0, 0, 0][..]), (&evil[2], &[])] {
        let sent = send_packet(connection.0.as_fd(), packet, Some(file.as_fd()));
        assert_eq!(sent, Sent::Bytes(packet.len()));
    }
    wait_for("all are closed", || {
        (files.asked.load(Ordering::SeqCst) == 3).then_some(())
    });
    assert!(is_served(folder), "the service waits for the file system");
    // Of a process that has joined no descriptor is taken.
    for _ in 0..3 {
        assert!(joined.send_with(&FromProcess::Held { rings: 0 }, file));
    }
    assert!(joined.send(&FromProcess::Farewell));
    let another = Connection::join(folder, &hello("another"), &good);
    another.wait_for_welcome();
    assert!(is_served(folder), "the service waits for the file system");
    assert_eq!(files.asked.load(Ordering::SeqCst), 3);

    // One more is the last that is taken, until some can be closed.
    let evil = Connection::join(folder, &hello("evil"), file);
    evil.wait_for_end();
    wait_for("it is closed", || {
        (files.asked.load(Ordering::SeqCst) == 4).then_some(())
    });
    let refused = Connection::join(folder, &hello("evil"), file);
    refused.wait_for_end();
    assert!(service.log().contains("cannot be closed"));
    assert_eq!(files.asked.load(Ordering::SeqCst), 4);
    assert!(is_served(folder), "the service waits for the file system");
}
