// SPDX-License-Identifier: Apache-2.0
//! Reads untrusted bytes from the front.

/// An error in an input, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Byte offset in the input.
    pub(crate) offset: u64,
    pub(crate) what: String,
    /// Whether the input ends too early; the part before may be sound.
    pub(crate) cut_off: bool,
}

impl Fault {
    pub(crate) fn new(offset: usize, what: impl Into<String>) -> Self {
        Fault {
            offset: offset as u64,
            what: what.into(),
            cut_off: false,
        }
    }

    /// The fault is in a part that starts at `offset`.
    pub(crate) fn inside(self, offset: usize) -> Self {
        Fault {
            offset: self.offset + offset as u64,
            ..self
        }
    }
}

/// Reads little-endian numbers, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(all: &'a [u8]) -> Self {
        Bytes { all, at: 0 }
    }

    /// Offset of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.all[self.at..]
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.all.len()
    }

    /// An error at the next byte.
    pub(crate) fn fault(&self, what: impl Into<String>) -> Fault {
        Fault::new(self.at, what)
    }

    pub(crate) fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8], Fault> {
        match self.rest().get(..count) {
            Some(bytes) => {
                self.at += count;
                Ok(bytes)
            }
            None => Err(Fault {
                cut_off: true,
                ..self.fault(format!(
                    "{what} needs {count} bytes, {} are left",
                    self.rest().len()
                ))
            }),
        }
    }

    /// A number of `count` bytes, at most 8.
    fn number(&mut self, count: usize, what: &str) -> Result<u64, Fault> {
        let bytes = self.take(count, what)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8, Fault> {
        Ok(self.number(1, what)? as u8)
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16, Fault> {
        Ok(self.number(2, what)? as u16)
    }

    pub(crate) fn u24(&mut self, what: &str) -> Result<u32, Fault> {
        Ok(self.number(3, what)? as u32)
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32, Fault> {
        Ok(self.number(4, what)? as u32)
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64, Fault> {
        self.number(8, what)
    }

    /// An unsigned LEB128 number of at most 64 bits; its sign bit is the last argument.
    fn leb(&mut self, what: &str) -> Result<(u64, u32, bool), Fault> {
        let (start, mut value, mut shift) = (self.at, 0, 0);
        loop {
            let byte = self.u8(what)?;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Ok((value, shift, byte & 0x40 != 0));
            }
            if shift > 63 {
                return Err(Fault::new(
                    start,
                    format!("{what} is a number of more than 64 bits"),
                ));
            }
        }
    }

    pub(crate) fn uleb(&mut self, what: &str) -> Result<u64, Fault> {
        Ok(self.leb(what)?.0)
    }

    pub(crate) fn sleb(&mut self, what: &str) -> Result<i64, Fault> {
        let (value, bits, negative) = self.leb(what)?;
        let extension = if negative && bits < 64 {
            u64::MAX << bits
        } else {
            0
        };
        Ok((value | extension) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lebs_are_read_as_dwarf_defines_them() {
        let uleb = |bytes: &[u8]| Bytes::new(bytes).uleb("it");
        let sleb = |bytes: &[u8]| Bytes::new(bytes).sleb("it");
        assert_eq!(uleb(&[0xe5, 0x8e, 0x26]), Ok(624_485));
        assert_eq!(sleb(&[0xc0, 0xbb, 0x78]), Ok(-123_456));
        assert_eq!(sleb(&[0x7f]), Ok(-1));
        assert_eq!(sleb(&[0x3f]), Ok(63));
        let max = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(uleb(&max), Ok(u64::MAX));
        assert!(uleb(&[0xff; 11]).is_err());
        assert!(uleb(&[0x80]).is_err());
    }

    #[test]
    fn an_error_says_where_it_is() {
        let mut bytes = Bytes::new(&[1, 2, 3]);
        assert_eq!(bytes.u16("a"), Ok(0x0201));
        let fault = bytes.u32("the size").unwrap_err();
        assert_eq!(fault.offset, 2);
        assert_eq!(fault.what, "the size needs 4 bytes, 1 are left");
    }
}
