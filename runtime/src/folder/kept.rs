// SPDX-License-Identifier: Apache-2.0
//! Which snapshots are kept: their number, bytes and age, and the free space of the file system, are bounded.
//!
//! The names of the snapshots of all processes of one name and user are in a hidden file, the *index*. A process
//! writes a snapshot's name there before it writes the snapshot, so that what a killed writer leaves behind is found,
//! too. Where the folder can be listed, snapshots that the index lacks are found besides. Where it cannot, snapshots
//! that the index lacks, because somebody removed it, stay until somebody else removes them.
//!
//! A zygote's child writes under another name until it has its own, and a user's processes have different names. So a second
//! hidden file has the names of all processes of this user that wrote a snapshot, and each of them removes what is too old,
//! and what killed writers left, for all of them.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::folder::age::{age, Age, Look, DAY};
use crate::folder::index::{add_line, Index};
use crate::folder::{is_dead, open_own, read_text, safe_name, user};
use crate::limits::Limits;

/// A hidden file whose writer may be alive, because its process id is in use, is removed when it is older than this.
const OLD: Duration = DAY;
/// The most bytes of the names of a user's processes that are read; no name is added to more.
const MAX_PROCESSES: u64 = 1 << 16;
/// Numbers of hidden files that are tried for a snapshot that does not exist; a writer takes the first free one.
const HIDDEN_NUMBERS: u32 = 4;

/// A snapshot in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    name: String,
    bytes: u64,
    written: SystemTime,
}

/// The snapshots of the processes of one name and user.
pub(crate) struct KeptFiles {
    folder: PathBuf,
    /// The safe name of the process.
    process: String,
    user: u32,
    may_list: bool,
}

impl KeptFiles {
    /// The snapshots of the processes of this name, and of this process's user, in the folder.
    pub(crate) fn new(folder: &Path, process: &str) -> Self {
        KeptFiles {
            folder: folder.to_owned(),
            process: safe_name(process),
            user: user(),
            may_list: true,
        }
    }

    /// A name for the next snapshot: `<process>-<pid>-<number>.hindsight`, with the first free number after `last`: the
    /// system reuses process ids, and the file of an older process must stay. Returns the name and the number.
    pub(crate) fn next_name(&self, pid: u32, last: u32) -> (String, u32) {
        let name = |number: u32| format!("{}-{pid}-{number}.hindsight", self.process);
        let is_free = |number: &u32| !self.folder.join(name(*number)).exists();
        let mut after = last.saturating_add(1)..u32::MAX;
        let number = after.find(is_free).unwrap_or(u32::MAX);
        (name(number), number)
    }

    /// The file's path.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes room for the snapshot `next` of at most `bytes` bytes, and adds it to the index. Returns how many snapshots were
    /// removed.
    ///
    /// # Errors
    /// A message for the user if there is no room for it; then nothing was removed.
    pub(crate) fn make_room(
        &self,
        limits: &Limits,
        next: &str,
        bytes: u64,
        now: SystemTime,
    ) -> Result<usize, String> {
        self.note_process();
        let index = Index::open(&self.index_path(), true).ok();
        self.change(index.as_ref(), limits, Some((next, bytes)), now)
    }

    /// Removes what is too old, and what killed writers have left behind, of all processes of this user.
    pub(crate) fn tidy(&self, limits: &Limits, now: SystemTime) {
        self.tidy_own(limits, now);
        for process in self.processes().filter(|name| *name != self.process) {
            let folder = self.folder.clone();
            KeptFiles {
                folder,
                process,
                ..*self
            }
            .tidy_own(limits, now);
        }
    }

    fn tidy_own(&self, limits: &Limits, now: SystemTime) {
        // Without an index there is nothing in a folder that cannot be listed, and a start should be cheap.
        if let Ok(index) = Index::open(&self.index_path(), false) {
            // Nothing is to be written, so nothing can be refused.
            let _ = self.change(Some(&index), limits, None, now);
        }
    }

    /// The number of snapshots in the index that are younger than `age`.
    pub(crate) fn younger_than(&self, age: Duration, now: SystemTime) -> usize {
        let index = Index::open(&self.index_path(), false);
        let names = index.map(|index| index.read().names).unwrap_or_default();
        let found = names.iter().filter_map(|name| self.look_at(name));
        let age_of = |kept: Kept| now.duration_since(kept.written).ok();
        found.filter_map(age_of).filter(|a| *a < age).count()
    }

    /// Fails if the file system has no room for so many bytes, for a file that is not kept here.
    pub(crate) fn check_free(&self, limits: &Limits, bytes: u64) -> Result<(), String> {
        let limits = Limits {
            free: limits.free,
            ..Limits::NONE
        };
        plan(&[], 0, bytes, &limits, self.free_bytes()).map(drop)
    }

    fn change(
        &self,
        index: Option<&Index>,
        limits: &Limits,
        next: Option<(&str, u64)>,
        now: SystemTime,
    ) -> Result<usize, String> {
        let contents = index.map(Index::read).unwrap_or_default();
        let (look, ages_count) = Look::next(contents.look, now);
        // The look would not be noted in an index that another process changes.
        let ages_count = ages_count && index.is_some_and(|index| !index.is_shared());
        let ages_at = ages_count.then_some(now);
        let mut names = contents.names.clone();
        self.list(&mut names);
        names.retain(|name| self.writer_of(name).is_some());
        let mut kept = Vec::new();
        let mut under_way = Vec::new();
        for name in names {
            match self.look_at(&name) {
                Some(found) => kept.push(found),
                None if self.remove_leftovers(&name, ages_at) => under_way.push(name),
                None => {}
            }
        }
        if let Some(now) = ages_at {
            self.correct_dates(&mut kept, now);
        }
        kept.sort_by(|a, b| (a.written, &a.name).cmp(&(b.written, &b.name)));
        let is_old = |kept: &&Kept| {
            ages_at.is_some_and(|now| age(kept.written, now, limits.age) == Age::Old)
        };
        let old = kept.iter().take_while(is_old).count();
        let excess = match next {
            Some((_, bytes)) => plan(&kept, old, bytes, limits, self.free_bytes())?,
            None => old,
        };
        let removed = kept.drain(..excess);
        let removed = removed
            .filter(|kept| fs::remove_file(self.folder.join(&kept.name)).is_ok())
            .count();
        if let Some(index) = index {
            let next = next.map(|(name, _)| name);
            let names = kept.iter().map(|kept| kept.name.as_str());
            let names = names.chain(under_way.iter().map(String::as_str));
            // An index that cannot be written bounds less; the snapshot is worth more.
            let _ = match (index.is_shared(), next) {
                (false, _) => index.replace(&contents, look, names.chain(next)),
                (true, Some(next)) => index.add(next),
                (true, None) => Ok(()),
            };
        }
        Ok(removed)
    }

    /// Gives files that a wrong clock dated the present date.
    fn correct_dates(&self, kept: &mut [Kept], now: SystemTime) {
        for kept in kept {
            if age(kept.written, now, None) == Age::Misdated && touch(&self.path(&kept.name)) {
                kept.written = now;
            }
        }
    }

    fn processes_path(&self) -> PathBuf {
        self.folder.join(format!(".{}.processes", self.user))
    }

    /// The names of the processes of this user that wrote snapshots.
    fn processes(&self) -> impl Iterator<Item = String> {
        let file = open_own(&self.processes_path(), false);
        let text = file.and_then(|file| read_text(&file, MAX_PROCESSES));
        let names: BTreeSet<String> = text.iter().flat_map(|t| t.lines()).map(safe_name).collect();
        names.into_iter().filter(|name| !name.is_empty())
    }

    /// Adds the name of this process to those that wrote snapshots.
    fn note_process(&self) {
        let path = self.processes_path();
        let bytes = fs::symlink_metadata(&path).map_or(0, |facts| facts.len());
        let has_room = bytes < MAX_PROCESSES && !self.process.is_empty();
        if has_room && !self.processes().any(|name| name == self.process) {
            // Without it, another process removes less.
            let _ = add_line(&path, &self.process);
        }
    }

    fn index_path(&self) -> PathBuf {
        let name = format!(".{}-{}.snapshots", self.process, self.user);
        self.folder.join(name)
    }

    /// The process that wrote the snapshot of this name; `None` if it is no name of such a snapshot.
    fn writer_of(&self, name: &str) -> Option<u32> {
        let rest = name.strip_prefix(&self.process)?.strip_prefix('-')?;
        let (pid, number) = rest.strip_suffix(".hindsight")?.split_once('-')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if is_number(pid) && is_number(number) {
            pid.parse().ok()
        } else {
            None
        }
    }

    /// Adds the names of snapshots that the folder has, as far as it can be listed.
    fn list(&self, names: &mut BTreeSet<String>) {
        if !self.may_list {
            return;
        }
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // `.<snapshot>.<pid>.<number>.tmp` is being written, or its writer was killed.
            let hidden = name.strip_prefix('.').and_then(|name| {
                let (snapshot, _) = name.split_once(".hindsight.")?;
                Some(format!("{snapshot}.hindsight"))
            });
            names.insert(hidden.unwrap_or(name));
        }
    }

    /// The snapshot of this name, if there is one of this user.
    fn look_at(&self, name: &str) -> Option<Kept> {
        self.writer_of(name)?;
        let facts = fs::symlink_metadata(self.folder.join(name)).ok()?;
        (facts.is_file() && facts.uid() == self.user).then(|| Kept {
            name: name.to_owned(),
            bytes: facts.len(),
            written: facts.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        })
    }

    /// Removes the hidden files of a snapshot that does not exist, unless its writer may be alive. Returns whether one is left.
    /// Ages only count at the time `ages_at`.
    fn remove_leftovers(&self, name: &str, ages_at: Option<SystemTime>) -> bool {
        let Some(writer) = self.writer_of(name) else {
            return false;
        };
        // This process writes one file at a time, and none now.
        let is_dead = writer == std::process::id() || is_dead(writer);
        let (mut found, mut left) = (false, false);
        for number in 0..HIDDEN_NUMBERS {
            let hidden = self.folder.join(format!(".{name}.{writer}.{number}.tmp"));
            let Ok(facts) = fs::symlink_metadata(&hidden) else {
                continue;
            };
            let is_old = ages_at
                .zip(facts.modified().ok())
                .is_some_and(|(now, written)| age(written, now, Some(OLD)) != Age::Young);
            found = true;
            left |= !(is_dead || is_old) || fs::remove_file(hidden).is_err();
        }
        // A living writer may not have begun.
        left || (!found && !is_dead)
    }

    /// Bytes that the file system has left; `None` if it does not say so.
    fn free_bytes(&self) -> Option<u64> {
        let path = CString::new(self.folder.as_os_str().as_bytes()).ok()?;
        // SAFETY: all zeros is a value of this plain structure.
        let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: a path with its final zero, and room for the answer.
        let done = unsafe { libc::statvfs(path.as_ptr(), &mut facts) };
        #[allow(clippy::useless_conversion, reason = "32 bits on 32-bit systems")]
        let free = u64::from(facts.f_bavail).saturating_mul(u64::from(facts.f_frsize));
        (done == 0).then_some(free)
    }
}

/// Gives the file, which is this user's, the present date. False if that failed.
fn touch(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let (path, flags) = (path.as_ptr(), libc::AT_SYMLINK_NOFOLLOW);
    // Without a time: that needs no more than the right to write, which is all that SELinux gives an app.
    // SAFETY: a path with its final zero.
    unsafe { libc::utimensat(libc::AT_FDCWD, path, std::ptr::null(), flags) == 0 }
}

/// How many of the snapshots, which are sorted by age, have to be removed before one of `bytes` bytes is written: the oldest.
/// `old` of them are too old anyway.
///
/// # Errors
/// A message for the user if not even the removal of all would make room for it.
fn plan(
    kept: &[Kept],
    old: usize,
    bytes: u64,
    limits: &Limits,
    free: Option<u64>,
) -> Result<usize, String> {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    if let Some(limit) = limits.bytes.filter(|limit| bytes > *limit) {
        return Err(format!(
            "it may take {} MiB, and max-mib={} allows less",
            mib(bytes),
            mib(limit)
        ));
    }
    let total: u64 = kept.iter().map(|k| k.bytes).sum();
    let free = free.unwrap_or(u64::MAX);
    let needed = limits
        .free
        .map_or(0, |reserve| reserve.saturating_add(bytes));
    if free.saturating_add(total) < needed {
        return Err(format!(
            "it may take {} MiB, and the file system has {} MiB free, of which min-free-mib={} are left alone",
            mib(bytes),
            free >> 20,
            mib(limits.free.unwrap_or(0))
        ));
    }
    let mut removed = old;
    let mut freed: u64 = kept[..removed].iter().map(|k| k.bytes).sum();
    for next in &kept[removed..] {
        let is_room = limits
            .files
            .is_none_or(|max| kept.len() - removed < max as usize)
            && limits.bytes.is_none_or(|max| total - freed + bytes <= max)
            && free.saturating_add(freed) >= needed;
        if is_room {
            break;
        }
        removed += 1;
        freed += next.bytes;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests;
