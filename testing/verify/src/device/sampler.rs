// SPDX-License-Identifier: Apache-2.0
//! How much memory and disk the device uses, looked at all the time.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// What the kernel calls memory that a process shares with the service.
const SHARED: &str = "/memfd:hindsight";

/// The most that was seen, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peaks {
    /// Memory that processes share with the service, by the blocks that the kernel gave for it.
    pub(super) shared: u64,
    /// The service's own memory.
    pub(super) service: u64,
    /// Both at the same time.
    pub(super) both: u64,
    /// Files in the store.
    pub(super) store: u64,
    /// How often it was looked.
    pub(super) samples: u64,
}

/// Who is looked at.
#[derive(Debug, Default)]
struct Subjects {
    apps: BTreeSet<u32>,
    service: u32,
    peaks: Peaks,
}

/// The thread that looks.
pub(super) struct Sampler {
    subjects: Arc<Mutex<Subjects>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Begins to look at this store.
    pub(super) fn start(store: PathBuf) -> Self {
        let subjects = Arc::new(Mutex::new(Subjects::default()));
        let ends = Arc::new(AtomicBool::new(false));
        let (shared, end) = (Arc::clone(&subjects), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                look(&shared, &store);
                std::thread::sleep(PAUSE);
            }
        });
        Sampler {
            subjects,
            ends,
            thread: Some(thread),
        }
    }

    /// This app is looked at, until it ends.
    pub(super) fn add(&self, app: u32) {
        lock(&self.subjects).apps.insert(app);
    }

    /// This is the service now.
    pub(super) fn set_service(&self, service: u32) {
        lock(&self.subjects).service = service;
    }

    /// Ends looking.
    pub(super) fn finish(mut self) -> Peaks {
        self.end();
        lock(&self.subjects).peaks
    }

    fn end(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock(subjects: &Mutex<Subjects>) -> std::sync::MutexGuard<'_, Subjects> {
    subjects.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look(subjects: &Mutex<Subjects>, store: &Path) {
    let (apps, service) = {
        let subjects = lock(subjects);
        (subjects.apps.clone(), subjects.service)
    };
    // The memory of a process that has ended is still the service's.
    let mut files = BTreeMap::new();
    let mut gone = Vec::new();
    for pid in apps.iter().chain(&[service]) {
        if !shared_files(*pid, &mut files) {
            gone.push(*pid);
        }
    }
    let shared: u64 = files.values().sum();
    let own = private_bytes(service);
    let stored = folder_bytes(store);
    let mut subjects = lock(subjects);
    subjects.apps.retain(|pid| !gone.contains(pid));
    let peaks = &mut subjects.peaks;
    peaks.shared = peaks.shared.max(shared);
    peaks.service = peaks.service.max(own);
    peaks.both = peaks.both.max(shared + own);
    peaks.store = peaks.store.max(stored);
    peaks.samples += 1;
}

/// Adds the bytes of the memory files that a process has open, by inode. False: it has ended.
fn shared_files(pid: u32, files: &mut BTreeMap<u64, u64>) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    for descriptor in descriptors.flatten().map(|entry| entry.path()) {
        let target = std::fs::read_link(&descriptor).unwrap_or_default();
        if target.to_string_lossy().starts_with(SHARED) {
            if let Ok(facts) = std::fs::metadata(&descriptor) {
                files.insert(facts.ino(), facts.blocks() * 512);
            }
        }
    }
    true
}

/// Memory of a process that is not shared with others, bytes.
pub(super) fn private_bytes(pid: u32) -> u64 {
    status_kib(pid, "RssAnon:") << 10
}

/// Memory of a process, without memory that it shares, bytes.
pub(super) fn resident_bytes(pid: u32) -> u64 {
    (status_kib(pid, "RssAnon:") + status_kib(pid, "RssFile:")) << 10
}

fn status_kib(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let value = line.and_then(|line| line.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Bytes of all files in a folder. A file may go while it is looked at.
pub(super) fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::FromRawFd as _;

    #[test]
    fn memory_that_was_written_to_is_seen() {
        // SAFETY: the name ends with 0; the result is a new descriptor, or -1.
        let mut memory = unsafe {
            let fd = libc::memfd_create(c"hindsight".as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0);
            std::fs::File::from_raw_fd(fd)
        };
        memory.set_len(1 << 30).unwrap();
        memory.write_all(&[1; 1 << 16]).unwrap();
        let mut files = BTreeMap::new();
        assert!(shared_files(std::process::id(), &mut files));
        let ino = memory.metadata().unwrap().ino();
        assert_eq!(files.get(&ino), Some(&(1 << 16)));
        assert!(private_bytes(std::process::id()) > 1 << 16);
    }
}
