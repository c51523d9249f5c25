// SPDX-License-Identifier: Apache-2.0
//! Writing a `.hindsight` file.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::codec::{align8, Append, Encoder};
use super::frames::{Compressor, FRAME_BYTES};
use super::sections::{RingHeader, SectionKind};
use super::{
    HEADER_BYTES, MAGIC, MAJOR_VERSION, MAJOR_VERSION_RAW, MINOR_VERSION, TABLE_ENTRY_BYTES,
};

struct Entry {
    kind: u32,
    index: u32,
    offset: u64,
    length: u64,
    crc: u32,
}

/// Writes sections one after the other, then the table, then the header that makes it a file.
///
/// Without [`Writer::finish`] the header stays zero, and no reader accepts it.
pub struct Writer<W: Write + Seek> {
    out: W,
    at: u64,
    entries: Vec<Entry>,
    major: u16,
}

/// The section that is being written.
struct Section<'a, W> {
    out: &'a mut W,
    length: u64,
    crc: crc32fast::Hasher,
}

impl<W: Write> Section<'_, W> {
    fn append(&mut self, part: &[u8]) -> io::Result<()> {
        self.out.write_all(part)?;
        self.crc.update(part);
        self.length += part.len() as u64;
        Ok(())
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Starts a file at the current position of `out`, which must be its beginning.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&[0; HEADER_BYTES])?;
        Ok(Writer {
            out,
            at: HEADER_BYTES as u64,
            entries: Vec::new(),
            major: MAJOR_VERSION_RAW,
        })
    }

    /// Appends a section: `parts`, one after the other, are written without being copied.
    ///
    /// Each `(kind, index)` once; a second one is an error, because readers could not tell them apart.
    pub fn section(&mut self, kind: impl Into<u32>, index: u32, parts: &[&[u8]]) -> io::Result<()> {
        self.write(kind.into(), index, |section| {
            parts.iter().try_for_each(|part| section.append(part))
        })
    }

    /// Appends a section whose bytes are handed over in parts.
    pub(super) fn section_in_parts(
        &mut self,
        kind: SectionKind,
        index: u32,
        contents: impl FnOnce(&mut Append<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.write(kind.into(), index, |section| {
            contents(&mut |part| section.append(part))
        })
    }

    /// Appends a ring and compresses its slots, [`RingHeader::stored_bytes`] of its memory, in buffers of a few hundred KiB.
    /// Readers of version 1 refuse the file.
    pub fn ring(&mut self, index: u32, header: &RingHeader, slots: &[u8]) -> io::Result<()> {
        self.ring_in_parts(index, header, [&[], slots])
    }

    /// As [`ring`](Self::ring), with slots that stand in two places; the first part is shorter than a frame.
    pub(super) fn ring_in_parts(
        &mut self,
        index: u32,
        header: &RingHeader,
        [before, slots]: [&[u8]; 2],
    ) -> io::Result<()> {
        self.major = MAJOR_VERSION;
        self.write(SectionKind::Ring.into(), index, |section| {
            section.append(&header.encode_compressed())?;
            let mut compressor = Compressor::default();
            let of_first = match before.is_empty() {
                true => 0,
                false => slots.len().min(FRAME_BYTES - before.len()),
            };
            let (first, rest) = slots.split_at(of_first);
            let first = [before, first].concat();
            let first = Some(&first[..]).filter(|first| !first.is_empty());
            let mut frames = (0..).zip(first.into_iter().chain(rest.chunks(FRAME_BYTES)));
            frames.try_for_each(|(number, slots)| section.append(compressor.frame(number, slots)?))
        })
    }

    fn write(
        &mut self,
        kind: u32,
        index: u32,
        contents: impl FnOnce(&mut Section<'_, W>) -> io::Result<()>,
    ) -> io::Result<()> {
        if self
            .entries
            .iter()
            .any(|e| (e.kind, e.index) == (kind, index))
        {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("section {kind}/{index} was written already"),
            ));
        }
        let offset = self.at;
        let mut section = Section {
            out: &mut self.out,
            length: 0,
            crc: crc32fast::Hasher::new(),
        };
        contents(&mut section)?;
        let Section { length, crc, .. } = section;
        self.at += length;
        self.pad()?;
        self.entries.push(Entry {
            kind,
            index,
            offset,
            length,
            crc: crc.finalize(),
        });
        Ok(())
    }

    fn pad(&mut self) -> io::Result<()> {
        let padding = align8(self.at as usize % 8) - self.at as usize % 8;
        self.out.write_all(&[0; 8][..padding])?;
        self.at += padding as u64;
        Ok(())
    }

    /// Writes the table and the header, and flushes.
    pub fn finish(mut self) -> io::Result<W> {
        let mut table = Encoder(Vec::with_capacity(self.entries.len() * TABLE_ENTRY_BYTES));
        for e in &self.entries {
            table.u32(e.kind);
            table.u32(e.index);
            table.u64(e.offset);
            table.u64(e.length);
            table.u32(e.crc);
            table.u32(0);
        }
        self.out.write_all(&table.0)?;

        let mut header = Encoder(MAGIC.to_vec());
        header.u16(self.major);
        header.u16(MINOR_VERSION);
        header.u32(self.entries.len() as u32);
        header.u64(self.at);
        header.u64(self.at + table.0.len() as u64);
        header.u32(crc32fast::hash(&table.0));
        header.u32(crc32fast::hash(&header.0));
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header.0)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Removes the file unless told to keep it.
struct Temporary {
    path: PathBuf,
    keep: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A name next to `path`: `.<file name>.<pid>.<n>.tmp`.
fn temporary_name(path: &Path, n: u32) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} does not name a file", path.display()),
        )
    })?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.{n}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

/// Creates a hidden file next to `path`, with the first free name: another writer of this process may be at work, or a killed
/// one with this process id may have left one behind.
fn create_temporary(path: &Path) -> io::Result<(File, PathBuf)> {
    const MOST: u32 = 10_000;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        // A trace tells what a person did with an app.
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut n = 0;
    loop {
        let name = temporary_name(path, n)?;
        match options.open(&name) {
            Ok(file) => return Ok((file, name)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && n < MOST => n += 1,
            Err(e) => return Err(during("create", &name)(e)),
        }
    }
}

/// Says in an error what could not be done with which file.
fn during<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> io::Error + 'a {
    move |e| {
        io::Error::new(
            e.kind(),
            format!("could not {what} {}: {e}", path.display()),
        )
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Writes a `.hindsight` file so that `path` names either the whole new file or the file it named before.
///
/// `sections` writes into a hidden file in the same folder, which is then synced and renamed to `path`. If
/// the process dies before the rename, the hidden file is left behind.
///
/// After the rename the folder is synced, so that the new name survives a power failure. This is best
/// effort: a folder that its user may write but not read (mode 0773, as `/data/misc/trace` has on a
/// device) cannot be opened for that, and the file is published already.
///
/// # Errors
/// If the file cannot be created, written, synced or renamed: then the hidden file is removed, and `path`
/// is as before. The error names the path.
pub fn write_file(
    path: &Path,
    sections: impl FnOnce(&mut Writer<File>) -> io::Result<()>,
) -> io::Result<()> {
    let (file, name) = create_temporary(path)?;
    let mut temporary = Temporary {
        path: name.clone(),
        keep: false,
    };
    let mut writer = Writer::new(file).map_err(during("write", &name))?;
    sections(&mut writer).map_err(during("write", &name))?;
    let file = writer.finish().map_err(during("write", &name))?;
    file.sync_all().map_err(during("sync", &name))?;
    drop(file);
    fs::rename(&name, path).map_err(during("rename the finished file to", path))?;
    temporary.keep = true;
    // Best effort: the folder may be unreadable (an Android app's /data/misc/trace), and the file is complete already.
    let _ = File::open(directory_of(path)).and_then(|folder| folder.sync_all());
    Ok(())
}
