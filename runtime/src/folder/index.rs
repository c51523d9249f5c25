// SPDX-License-Identifier: Apache-2.0
//! The list of the snapshots of all processes of one name and user: one name a line, and a line with the last look at them.
//!
//! Two processes may change it at once, and one of them may be frozen while it does. So nobody waits for the lock:
//! - Who has it replaces the text in place, and never makes the file shorter: what was there is overwritten with empty lines.
//! - Who does not have it appends its line with one `write` of a file opened with `O_APPEND`, which the kernel puts at the
//!   file's end at that moment: behind all that the other one overwrites.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::folder::age::Look;
use crate::folder::{open_own, open_own_to_append, read_bytes};

/// The most bytes of an index that are read. A longer one is cut, which needs thousands of changes without the lock.
const MAX_BYTES: u64 = 1 << 20;

/// The text of an index.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) names: BTreeSet<String>,
    /// The last look that was noted.
    pub(super) look: Option<Look>,
    /// The length of the text, bytes.
    bytes: u64,
}

/// An open index.
pub(super) struct Index {
    file: File,
    path: PathBuf,
    /// Another process changes it: this one only adds to it.
    is_shared: bool,
}

impl Index {
    /// # Errors
    /// If it cannot be opened; then only a folder that can be listed is kept in its limits.
    pub(super) fn open(path: &Path, create: bool) -> io::Result<Self> {
        let file = open_own(path, create)?;
        // The lock ends with the file.
        // SAFETY: an open descriptor.
        let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        Ok(Index {
            file,
            path: path.to_owned(),
            is_shared: locked != 0,
        })
    }

    /// Whether another process changes it.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    pub(super) fn read(&self) -> Contents {
        let mut contents = Contents::default();
        let _ = (&self.file).seek(SeekFrom::Start(0));
        let text = read_bytes(&self.file, MAX_BYTES).unwrap_or_default();
        contents.bytes = text.len() as u64;
        let text = String::from_utf8_lossy(&text);
        for line in text.lines().filter(|line| !line.is_empty()) {
            match Look::parse(line) {
                Some(look) => contents.look = Some(look),
                None => _ = contents.names.insert(line.to_owned()),
            }
        }
        contents
    }

    /// Adds a name, whoever else changes the index.
    pub(super) fn add(&self, name: &str) -> io::Result<()> {
        add_line(&self.path, name)
    }

    /// Replaces what `before` has.
    pub(super) fn replace<'a>(
        &self,
        before: &Contents,
        look: Look,
        names: impl Iterator<Item = &'a str>,
    ) -> io::Result<()> {
        debug_assert!(!self.is_shared);
        let mut text = look.line() + "\n";
        names.for_each(|name| text.extend([name, "\n"]));
        // What another process appends meanwhile is behind these bytes.
        let (head, rest) = text.split_at(fitting(&text, before.bytes));
        let mut head = head.as_bytes().to_vec();
        head.resize(usize::try_from(before.bytes).unwrap_or(head.len()), b'\n');
        self.file.write_all_at(&head, 0)?;
        if !rest.is_empty() {
            add_line(&self.path, rest.trim_end())?;
        }
        if before.bytes >= MAX_BYTES {
            self.file.set_len(text.len() as u64)?;
        }
        Ok(())
    }
}

/// The length of the whole lines at the text's beginning that fit into so many bytes.
fn fitting(text: &str, bytes: u64) -> usize {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    match text.as_bytes().get(..bytes) {
        Some(head) => head
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1),
        None => text.len(),
    }
}

/// Appends a line to a small file of this user, with one `write`.
pub(super) fn add_line(path: &Path, line: &str) -> io::Result<()> {
    // What a killed writer left may have no end of a line.
    open_own_to_append(path)?.write_all(format!("\n{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn look() -> Look {
        Look::next(None, SystemTime::now()).0
    }

    fn names(path: &Path) -> Vec<String> {
        let index = Index::open(path, false).unwrap();
        index.read().names.into_iter().collect()
    }

    #[test]
    fn the_text_is_replaced_and_the_file_stays_as_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let all = ["a", "bb", "ccc", "a longer name"];
        for kept in [&all[..1], &all[..], &all[1..2], &[], &all[2..]] {
            let index = Index::open(&path, true).unwrap();
            let before = index.read();
            index
                .replace(&before, look(), kept.iter().copied())
                .unwrap();
            let mut kept = kept.to_vec();
            kept.sort_unstable();
            drop(index);
            assert_eq!(names(&path), kept);
            let after = Index::open(&path, true).unwrap().read();
            assert!(after.look.is_some() && after.bytes >= before.bytes);
        }
    }

    #[test]
    fn what_another_process_adds_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        for kept in [&["a", "a name longer than the other"][..], &["a"], &[]] {
            let index = Index::open(&path, true).unwrap();
            let before = index.read();
            let [second, third] = [(); 2].map(|()| Index::open(&path, true).unwrap());
            assert!(second.is_shared() && third.is_shared());
            second.add("second").unwrap();
            third.add("third").unwrap();
            index
                .replace(&before, look(), kept.iter().copied())
                .unwrap();
            drop(index);
            let mut expected = [kept, &["second", "third"]].concat();
            expected.sort_unstable();
            assert_eq!(names(&path), expected);
        }
    }

    #[test]
    fn processes_that_write_at_once_lose_and_mix_no_line() {
        const WRITERS: usize = 4;
        let each = 300;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let writer = |writer: usize| {
            let path = path.clone();
            move || {
                for number in 0..each {
                    let name = format!("writer-{writer}-{number}.hindsight");
                    let index = Index::open(&path, true).unwrap();
                    if index.is_shared() {
                        index.add(&name).unwrap();
                    } else {
                        let before = index.read();
                        let names = before.names.iter().map(String::as_str);
                        let names = names.chain([name.as_str()]);
                        index.replace(&before, look(), names).unwrap();
                    }
                }
            }
        };
        // Each opens its own file: as with processes, the lock is the file's.
        let all_write = || {
            std::thread::scope(|scope| {
                (0..WRITERS).for_each(|number| drop(scope.spawn(writer(number))));
            });
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().filter(|line| line.starts_with("writer-"));
            lines.filter(|line| line.ends_with(".hindsight")).count()
        };
        assert_eq!(all_write(), WRITERS * each);
        // While one is frozen.
        std::fs::remove_file(&path).unwrap();
        let _frozen = Index::open(&path, true).unwrap();
        assert_eq!(all_write(), WRITERS * each);
    }

    #[test]
    fn an_index_that_is_too_long_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        std::fs::write(&path, vec![b'\n'; MAX_BYTES as usize + 5]).unwrap();
        let index = Index::open(&path, true).unwrap();
        let before = index.read();
        index.replace(&before, look(), ["a"].into_iter()).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 100);
        drop(index);
        assert_eq!(names(&path), ["a"]);
    }
}
