// SPDX-License-Identifier: Apache-2.0
//! The boot image of a process, and a table with the names of its methods, which one process gives for all.
//!
//! A process that is killed right after its start has not written the names of its classes yet. Many methods that it has run then are
//! those of the boot image: the classes that all processes of a device map from the same files. Their addresses differ between
//! processes by where the image is mapped only, so the table has them relative to its begin.

use std::mem::offset_of;

use crate::container::Symbol;

use super::entries::Entries;
use super::journal::{Entry, JournalWriter};
use super::layout::{Header, HEADER_BYTES, SHARED_MAGIC, SHARED_VERSION};
use super::source::{journal_of, read_vec, Copied, ReadAt, SharedError};

/// Longest [`BootNames::encode`], bytes. Classes that find no room have no names.
pub const MAX_BOOT_NAMES_BYTES: u64 = 8 << 20;
/// Bytes of names that are read at most while a table is made; only those of one class are in memory at a time.
const MAX_GIVEN_BYTES: usize = 1 << 27;
/// The first bytes of a table.
const MAGIC: [u8; 8] = *b"\x89HSBN1\r\n";
/// Magic, checksum and length of the image, number of methods, checksum of the rest: bytes.
const TABLE_HEADER: usize = 40;

/// 64 bits of some bytes (FNV-1a): tells images apart, and finds damage; no protection against people.
fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Which boot image a process has, and where. All zeros: it has none, or does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BootImage {
    /// Of the checksums of its files, their lengths, and their places relative to the first one.
    pub checksum: u64,
    /// Address of its first byte.
    pub begin: u64,
    /// From there to the end of its last part, bytes.
    pub bytes: u64,
}

impl BootImage {
    /// Of its parts: address, length (bytes), and checksum.
    pub fn of(parts: impl IntoIterator<Item = [u64; 3]>) -> Self {
        let mut parts: Vec<[u64; 3]> = parts.into_iter().collect();
        parts.sort_unstable();
        let Some(begin) = parts.first().map(|part| part[0]) else {
            return BootImage::default();
        };
        let ends = parts.iter().map(|part| part[0].saturating_add(part[1]));
        let end = ends.max().unwrap_or(begin);
        let words = parts
            .iter()
            .flat_map(|part| [part[0] - begin, part[1], part[2]]);
        BootImage {
            checksum: hash(words.flat_map(u64::to_le_bytes)),
            begin,
            bytes: end - begin,
        }
    }

    /// The place of an address in the image.
    fn relative(&self, address: u64) -> Option<u64> {
        let relative = address.checked_sub(self.begin)?;
        (relative < self.bytes).then_some(relative)
    }
}

/// What a process's memory says about its boot image and its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Naming {
    /// Its boot image.
    pub image: BootImage,
    /// All classes that were linked before recording started have their names in the journal.
    pub is_complete: bool,
    /// Addresses have 32 bits: a device has one boot image for each width.
    pub is_32_bit: bool,
}

/// The header of a memory that is ready.
fn header_of(memory: &(impl ReadAt + ?Sized)) -> Result<Vec<u8>, SharedError> {
    let header = read_vec(memory, 0, size_of::<Header>() as u64)?;
    let version = Copied(&header).u32(offset_of!(Header, version));
    if !header.starts_with(&SHARED_MAGIC) || version != SHARED_VERSION {
        let what = "its header is another one, or not ready";
        return Err(SharedError::Unknown(what));
    }
    Ok(header)
}

impl Naming {
    /// Reads it.
    ///
    /// # Errors
    /// If the memory cannot be read, or its header is not one.
    pub fn read(memory: &(impl ReadAt + ?Sized)) -> Result<Self, SharedError> {
        Ok(Naming::of(&Copied(&header_of(memory)?)))
    }

    pub(super) fn of(header: &Copied<'_>) -> Self {
        let word = |number: usize| header.u64(offset_of!(Header, boot_image) + 8 * number);
        let isa = header.text(offset_of!(Header, isa), 16);
        Naming {
            image: BootImage {
                checksum: word(0),
                begin: word(1),
                bytes: word(2),
            },
            is_complete: header.u64(offset_of!(Header, are_named)) != 0
                && header.u64(offset_of!(Header, dropped)) == 0,
            is_32_bit: ["arm", "x86"].contains(&isa.as_str()),
        }
    }
}

/// The names of a boot image's methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootNames {
    checksum: u64,
    bytes: u64,
    methods: u64,
    /// Records of classes, whose methods have addresses relative to the image's begin.
    journal: Vec<u8>,
}

impl BootNames {
    /// Copies the names of the boot image's methods out of the memory of a process, whose word is believed, and reads up to `most` bytes
    /// of its names. `None`: there are none.
    ///
    /// # Errors
    /// If the memory cannot be read, or its header is not one.
    pub fn learn(memory: &(impl ReadAt + ?Sized), most: u64) -> Result<Option<Self>, SharedError> {
        if memory.length()? < HEADER_BYTES as u64 {
            return Err(SharedError::Unknown("its length"));
        }
        let header = header_of(memory)?;
        let header = Copied(&header);
        let image = Naming::of(&header).image;
        let given = journal_of(memory, &header, most)?;
        let mut writer = JournalWriter::new(MAX_BOOT_NAMES_BYTES - TABLE_HEADER as u64);
        let (mut journal, mut methods) = (Vec::new(), 0);
        for entry in Entries::new(&given, None, MAX_GIVEN_BYTES) {
            let Entry::Class(mut class) = entry else {
                continue;
            };
            class.counter = 0;
            class.methods.retain_mut(|method| {
                let relative = image.relative(method.address);
                method.address = relative.unwrap_or(0);
                relative.is_some() && !method.name.is_empty()
            });
            let count = class.methods.len() as u64;
            if count != 0 {
                if let Some(bytes) = writer.records(&Entry::Class(class)) {
                    journal.extend(bytes);
                    methods += count;
                }
            }
        }
        Ok((methods != 0).then_some(BootNames {
            checksum: image.checksum,
            bytes: image.bytes,
            methods,
            journal,
        }))
    }

    /// Number of methods.
    pub fn methods(&self) -> u64 {
        self.methods
    }

    /// Whether it is of this image, wherever that is.
    pub fn is_of(&self, image: &BootImage) -> bool {
        (self.checksum, self.bytes) == (image.checksum, image.bytes)
    }

    /// The names of the given methods, which are sorted, as far as the image has them, within so many bytes of memory. None if it
    /// is another one. Also tells how many found no room.
    pub fn symbols(
        &self,
        image: &BootImage,
        addresses: impl Iterator<Item = u64>,
        room: usize,
    ) -> (Vec<Symbol>, u64) {
        if !self.is_of(image) {
            return (Vec::new(), 0);
        }
        let most = addresses.size_hint().1.unwrap_or(0);
        let mut wanted = Vec::with_capacity(most);
        wanted.extend(addresses.filter_map(|a| image.relative(a)));
        let mut symbols = Vec::new();
        let mut entries = Entries::new(&self.journal, Some(&wanted), room);
        for entry in entries.by_ref() {
            let Entry::Class(class) = entry else {
                continue;
            };
            symbols.extend(class.into_symbols().map(|symbol| Symbol {
                address: image.begin.saturating_add(symbol.address),
                valid_from: 0,
                ..symbol
            }));
        }
        (symbols, entries.left_out())
    }

    fn check(fields: &[u8], journal: &[u8]) -> u64 {
        hash(fields.iter().chain(journal).copied())
    }

    /// As bytes for a file.
    pub fn encode(&self) -> Vec<u8> {
        let words = [self.checksum, self.bytes, self.methods];
        let mut bytes = MAGIC.to_vec();
        bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
        let check = Self::check(&bytes, &self.journal);
        bytes.extend(check.to_le_bytes());
        bytes.extend(&self.journal);
        bytes
    }

    /// From bytes of [`encode`](Self::encode). `None`: they are not what was written.
    pub fn decode(mut bytes: Vec<u8>) -> Option<Self> {
        if bytes.len() as u64 > MAX_BOOT_NAMES_BYTES || !bytes.starts_with(&MAGIC) {
            return None;
        }
        let (fields, journal) = bytes.split_at_checked(TABLE_HEADER)?;
        let fields = Copied(fields);
        let [checksum, length, methods, check] = [8, 16, 24, 32].map(|at| fields.u64(at));
        if Self::check(&fields.0[..32], journal) != check {
            return None;
        }
        // Without a second copy of all names.
        bytes.drain(..TABLE_HEADER);
        Some(BootNames {
            checksum,
            bytes: length,
            methods,
            journal: bytes,
        })
    }
}

#[cfg(test)]
mod tests;
