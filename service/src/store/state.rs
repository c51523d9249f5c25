// SPDX-License-Identifier: Apache-2.0
//! Small files with what the service must still know after it was started again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Longest state, bytes.
pub const MAX_STATE_BYTES: usize = 1 << 20;
/// Longest line that is added to a state, bytes.
pub(super) const MAX_TRAILER_BYTES: u64 = 64;
const SUFFIX: &str = ".state";
const END: &str = "# end of ";

/// A state as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It was never saved.
    Missing,
    /// It is there, and cannot be trusted: a sentence for the log. Whoever uses it to limit something should allow nothing.
    Damaged(String),
    /// What was saved.
    Found(String),
}

/// 64 bits of a text (FNV-1a): against disks that lose or change something, not against people.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn trailer(text: &str) -> String {
    format!("{END}{} bytes, {:016x}\n", text.len(), checksum(text))
}

pub(super) fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}{SUFFIX}"))
}

pub(super) fn is_state(name: &str) -> bool {
    name.ends_with(SUFFIX)
}

pub(super) fn load(folder: &Path, name: &str) -> State {
    let path = path(folder, name);
    let damaged = |why: &str| State::Damaged(format!("{}: {why}", path.display()));
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| {
        file.take(MAX_STATE_BYTES as u64 + 64)
            .read_to_string(&mut text)
    });
    match read {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return State::Missing,
        Err(e) => return damaged(&e.to_string()),
        Ok(_) => {}
    }
    let Some(end) = text.rfind(END) else {
        return damaged("its end is missing");
    };
    if text[end..] != trailer(&text[..end]) {
        return damaged("it is not what was written");
    }
    text.truncate(end);
    State::Found(text)
}

/// The bytes that were saved under this name, at most so many.
pub(super) fn load_bytes(folder: &Path, name: &str, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path(folder, name))?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A new file that only this user can use, written and synced. What stands there is replaced.
pub(super) fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

/// Saves it so that the file has the old or the new text, also if the power fails now. Returns its length, bytes.
pub(super) fn save(folder: &Path, name: &str, text: &str) -> io::Result<u64> {
    if text.len() > MAX_STATE_BYTES {
        return Err(io::Error::other("it is too long"));
    }
    save_bytes(folder, name, format!("{text}{}", trailer(text)).as_bytes())
}

/// As [`save`], of bytes that tell by themselves whether they are whole.
pub(super) fn save_bytes(folder: &Path, name: &str, whole: &[u8]) -> io::Result<u64> {
    let temporary = folder.join(format!(".{name}{SUFFIX}.tmp"));
    let path = path(folder, name);
    let saved = write_new(&temporary, whole)
        .and_then(|()| fs::rename(&temporary, &path))
        .and_then(|()| File::open(folder)?.sync_all());
    if saved.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    saved.map(|()| whole.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_what_was_saved_or_known_to_be_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(load(folder, "limits"), State::Missing);
        for text in ["used = 3\n", "", "# end of 3 bytes"] {
            let length = save(folder, "limits", text).unwrap();
            assert_eq!(load(folder, "limits"), State::Found(text.into()));
            let on_disk = fs::read(path(folder, "limits")).unwrap();
            assert_eq!(on_disk.len() as u64, length);
            for cut in 0..on_disk.len() {
                fs::write(path(folder, "limits"), &on_disk[..cut]).unwrap();
                assert!(matches!(load(folder, "limits"), State::Damaged(_)), "{cut}");
                let mut changed = on_disk.clone();
                changed[cut] ^= 1;
                fs::write(path(folder, "limits"), changed).unwrap();
                assert!(matches!(load(folder, "limits"), State::Damaged(_)), "{cut}");
            }
        }
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
        fs::remove_file(path(folder, "limits")).unwrap();
        fs::create_dir(path(folder, "limits")).unwrap();
        assert!(matches!(load(folder, "limits"), State::Damaged(_)));
        assert!(save(folder, "limits", "x").is_err());
    }
}
