// SPDX-License-Identifier: Apache-2.0
//! The `.hindsight` file: a header, 8-byte-aligned sections, and a section table. `docs/trace-format.md` has
//! the layout.
//!
//! ```
//! use hindsight_trace_format::container::{Losses, Reader, SectionKind, Writer};
//!
//! let mut file = std::io::Cursor::new(Vec::new());
//! let mut writer = Writer::new(&mut file)?;
//! let losses = Losses { counts: vec![("threads beyond the limit".into(), 3)] };
//! writer.section(SectionKind::Losses, 0, &[&losses.encode()])?;
//! writer.finish()?;
//!
//! let bytes = file.into_inner();
//! assert_eq!(Reader::new(&bytes)?.losses()?, losses);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod codec;
mod consent;
mod contents;
mod encoding;
mod error;
mod frames;
mod reader;
mod recover;
mod ring_section;
mod sections;
mod shapes;
mod stacks;
mod table;
mod writer;

pub use codec::MAX_STRING_BYTES;
pub use consent::{Consent, Limit, StringKind, CONSENT_FACT, KEPT_FACTS, REMOVED};
pub use contents::{Contents, RingContents};
pub use encoding::{SymbolRef, SymbolTable, MAX_EXPANDED_SYMBOL_BYTES};
pub use error::{DecodeError, ReadError, SectionInfo};
pub use frames::{FRAME_BYTES, FRAME_SLOTS};
pub use reader::{Reader, Recovered, RingParts};
pub use sections::*;
pub(crate) use stacks::WRITING_NODE_BYTES;
pub use writer::{write_file, Writer};

/// The first bytes of every file. As in PNG, a transfer in text mode changes them, which readers notice.
pub const MAGIC: [u8; 8] = *b"\x89HSGT\r\n\x1a";
/// Readers refuse files with a newer major version.
///
/// A writer writes the lowest version that says what the file has: 1, or 2 if a ring is compressed.
pub const MAJOR_VERSION: u16 = 2;
/// The version of files whose rings are all stored as in memory.
pub(crate) const MAJOR_VERSION_RAW: u16 = 1;
/// The minor version grows with additions that older readers can ignore.
pub const MINOR_VERSION: u16 = 0;
/// Size of the header, in bytes.
pub const HEADER_BYTES: usize = 40;
/// Size of an entry of the section table, in bytes.
pub const TABLE_ENTRY_BYTES: usize = 32;
