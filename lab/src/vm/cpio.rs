// SPDX-License-Identifier: Apache-2.0
//! Archives in the format that the kernel unpacks as its first file system (cpio "newc", uncompressed). Every file
//! belongs to root; nothing depends on who makes the archive.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive that is being written.
pub(super) struct Archive<W: Write> {
    out: W,
    next_inode: u32,
    folders: BTreeSet<PathBuf>,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W) -> Archive<W> {
        Archive {
            out,
            next_inode: 1,
            folders: BTreeSet::new(),
        }
    }

    /// A folder with its parents, unless it is there.
    pub(super) fn folder(&mut self, path: &Path) -> io::Result<()> {
        let mut sofar = PathBuf::new();
        for part in path.components() {
            if let Component::Normal(name) = part {
                sofar.push(name);
                if self.folders.insert(sofar.clone()) {
                    self.entry(&sofar, FOLDER, b"")?;
                }
            }
        }
        Ok(())
    }

    /// A file, with the folders that it is in.
    pub(super) fn file(
        &mut self,
        path: &Path,
        contents: &[u8],
        is_program: bool,
    ) -> io::Result<()> {
        self.folder(path.parent().unwrap_or(Path::new("")))?;
        self.entry(path, if is_program { PROGRAM } else { FILE }, contents)
    }

    /// A symbolic link, with the folders that it is in.
    pub(super) fn link(&mut self, path: &Path, target: &str) -> io::Result<()> {
        self.folder(path.parent().unwrap_or(Path::new("")))?;
        self.entry(path, LINK, target.as_bytes())
    }

    /// Ends the archive.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.entry(Path::new("TRAILER!!!"), 0, b"")?;
        self.out.flush()
    }

    fn entry(&mut self, path: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let name = path.as_os_str().as_encoded_bytes();
        let size = u32::try_from(contents.len())
            .map_err(|_| io::Error::other(format!("{} is too large", path.display())))?;
        let links = if mode == FOLDER { 2 } else { 1 };
        write!(self.out, "070701{:08x}{mode:08x}", self.next_inode)?;
        // uid, gid, links, time, size, four device numbers, length of the name, no checksum
        write!(self.out, "{:08x}{:08x}{links:08x}{:08x}{size:08x}", 0, 0, 0)?;
        write!(self.out, "{:08x}{:08x}{:08x}{:08x}", 0, 0, 0, 0)?;
        write!(self.out, "{:08x}{:08x}", name.len() + 1, 0)?;
        self.next_inode += 1;
        const HEADER: usize = 110;
        self.out.write_all(name)?;
        self.pad(HEADER + name.len(), 1)?;
        self.out.write_all(contents)?;
        self.pad(contents.len(), 0)
    }

    /// Writes at least `least` zeros, up to the next multiple of four after `length` bytes.
    fn pad(&mut self, length: usize, least: usize) -> io::Result<()> {
        let zeros = (length + least).next_multiple_of(4) - length;
        self.out.write_all(&[0; 8][..zeros])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_has_the_format_that_the_kernel_reads() {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.file(Path::new("/a/b/f"), b"12345", true).unwrap();
        archive.file(Path::new("/a/b/g"), b"", false).unwrap();
        archive.link(Path::new("/a/l"), "b/f").unwrap();
        archive.finish().unwrap();
        let mut found = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let field = |index: usize| {
                let from = at + 6 + index * 8;
                let digits = std::str::from_utf8(&bytes[from..from + 8]).unwrap();
                usize::from_str_radix(digits, 16).unwrap()
            };
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (mode, size, length) = (field(1), field(6), field(11));
            let name = &bytes[at + 110..at + 110 + length];
            assert_eq!(name.last(), Some(&0));
            let name = String::from_utf8(name[..length - 1].to_vec()).unwrap();
            at = (at + 110 + length).next_multiple_of(4);
            found.push((name, mode, bytes[at..at + size].to_vec()));
            at = (at + size).next_multiple_of(4);
        }
        let expected: [(&str, u32, &[u8]); 6] = [
            ("a", FOLDER, b""),
            ("a/b", FOLDER, b""),
            ("a/b/f", PROGRAM, b"12345"),
            ("a/b/g", FILE, b""),
            ("a/l", LINK, b"b/f"),
            ("TRAILER!!!", 0, b""),
        ];
        let expected =
            expected.map(|(name, mode, text)| (name.to_owned(), mode as usize, text.to_vec()));
        assert_eq!(found, expected);
    }
}
