// SPDX-License-Identifier: Apache-2.0
//! Little-endian fields and bounded reading of them.

use super::error::DecodeError;

/// Longest string that is written, in bytes; a longer one is cut at a character.
pub const MAX_STRING_BYTES: usize = 64 * 1024;

/// A section that is written in parts hands them over at about this length, bytes.
const BUFFER_BYTES: usize = 1 << 16;

/// Takes the next part of a section.
pub(crate) type Append<'a> = dyn FnMut(&[u8]) -> std::io::Result<()> + 'a;

/// Rounds up to the alignment of sections.
pub(crate) const fn align8(n: usize) -> usize {
    n.div_ceil(8) * 8
}

pub(crate) fn clip(s: &str) -> &str {
    let mut end = s.len().min(MAX_STRING_BYTES);
    while !s.is_char_boundary(end) {
        end -= 1;
    }
    &s[..end]
}

/// Appends fields.
#[derive(Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    /// Seven bits a byte, lowest first; the highest bit says that more bytes follow.
    pub(crate) fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.0.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.0.push(v as u8);
    }

    /// Length in bytes, then UTF-8.
    pub(crate) fn string(&mut self, s: &str) {
        let s = clip(s);
        self.u32(s.len() as u32);
        self.0.extend_from_slice(s.as_bytes());
    }

    /// Hands the bytes over if there are many.
    pub(crate) fn flush(&mut self, append: &mut Append<'_>) -> std::io::Result<()> {
        if self.0.len() >= BUFFER_BYTES {
            append(&self.0)?;
            self.0.clear();
        }
        Ok(())
    }

    pub(crate) fn pad8(&mut self) {
        self.0.resize(align8(self.0.len()), 0);
    }
}

/// Reads fields from the front of a section, and keeps its offset.
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Decoder { bytes, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Whether these bytes come next.
    pub(crate) fn is_next(&self, bytes: &[u8]) -> bool {
        self.bytes[self.at..].starts_with(bytes)
    }

    pub(crate) fn error(&self, what: impl Into<String>) -> DecodeError {
        DecodeError {
            offset: self.at,
            what: what.into(),
        }
    }

    pub(crate) fn take(&mut self, n: usize, field: &str) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.at..];
        match rest.get(..n) {
            Some(taken) => {
                self.at += n;
                Ok(taken)
            }
            None => Err(self.error(format!(
                "{field} needs {n} bytes, but only {} are left in the section",
                rest.len()
            ))),
        }
    }

    fn array<const N: usize>(&mut self, field: &str) -> Result<[u8; N], DecodeError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, field)?);
        Ok(out)
    }

    pub(crate) fn u32(&mut self, field: &str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u64(&mut self, field: &str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn varint(&mut self, field: &str) -> Result<u64, DecodeError> {
        let mut v = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1, field)?[0];
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            v |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(v);
            }
        }
        Err(self.error(format!("{field} does not fit into 64 bits")))
    }

    pub(crate) fn str(&mut self, field: &str) -> Result<&'a str, DecodeError> {
        let start = self.at;
        let length = self.u32(field)? as usize;
        if length > MAX_STRING_BYTES {
            self.at = start;
            return Err(self.error(format!(
                "{field} claims {length} bytes; at most {MAX_STRING_BYTES} are allowed"
            )));
        }
        let bytes = self.take(length, field)?;
        std::str::from_utf8(bytes).map_err(|e| DecodeError {
            offset: start + 4 + e.valid_up_to(),
            what: format!("{field} is not UTF-8"),
        })
    }

    pub(crate) fn string(&mut self, field: &str) -> Result<String, DecodeError> {
        self.str(field).map(str::to_owned)
    }

    /// A count of elements of at least `min_bytes` each, checked against the bytes left.
    pub(crate) fn count(&mut self, min_bytes: usize, field: &str) -> Result<usize, DecodeError> {
        let start = self.at;
        let count = self.u32(field)? as usize;
        if count > self.remaining() / min_bytes {
            let left = self.remaining();
            self.at = start;
            return Err(self.error(format!(
                "{field} claims {count} entries of at least {min_bytes} bytes, but only {left} bytes are left in the section"
            )));
        }
        Ok(count)
    }
}
