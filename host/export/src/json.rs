// SPDX-License-Identifier: Apache-2.0
//! JSON as a stream: exports are too large to be built in memory first.

use std::io::{self, Write};

/// Size of the chunks in which text is written, bytes.
const CHUNK_BYTES: usize = 1 << 16;

/// Collects JSON text and writes it in chunks.
pub(crate) struct Json<'a> {
    out: &'a mut dyn Write,
    text: Vec<u8>,
}

impl<'a> Json<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Json {
            out,
            text: Vec::with_capacity(CHUNK_BYTES + 4096),
        }
    }

    /// Adds text unchanged.
    #[inline]
    pub(crate) fn raw(&mut self, text: &str) -> io::Result<&mut Self> {
        self.text.extend_from_slice(text.as_bytes());
        if self.text.len() >= CHUNK_BYTES {
            self.hand_on()?;
        }
        Ok(self)
    }

    /// Adds an integer.
    #[inline]
    pub(crate) fn number(&mut self, value: u64) -> io::Result<&mut Self> {
        self.raw(itoa::Buffer::new().format(value))
    }

    /// Adds `value / 10^decimals`, exactly.
    #[inline]
    pub(crate) fn decimal(&mut self, value: u64, decimals: u32) -> io::Result<&mut Self> {
        let unit = 10_u64.pow(decimals);
        self.number(value / unit)?;
        let fraction = value % unit;
        if fraction == 0 {
            return Ok(self);
        }
        let mut digits = [b'0'; 20];
        let (mut rest, mut len) = (fraction, decimals as usize);
        for digit in digits[..len].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        while digits[len - 1] == b'0' {
            len -= 1;
        }
        self.text.push(b'.');
        self.text.extend_from_slice(&digits[..len]);
        Ok(self)
    }

    /// Adds a string, with quotes and escapes.
    pub(crate) fn string(&mut self, text: &str) -> io::Result<&mut Self> {
        serde_json::to_writer(&mut self.text, text)?;
        Ok(self)
    }

    /// Adds `[` value `,` value … `]`.
    pub(crate) fn array<T>(
        &mut self,
        values: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> io::Result<()>,
    ) -> io::Result<&mut Self> {
        let mut separator = "[";
        for value in values {
            self.raw(separator)?;
            separator = ",";
            write(self, value)?;
        }
        if separator == "[" {
            self.raw("[")?;
        }
        self.raw("]")
    }

    /// Adds an array of `times` equal values.
    pub(crate) fn repeat(&mut self, value: &str, times: usize) -> io::Result<&mut Self> {
        self.array(0..times, |json, _| json.raw(value).map(|_| ()))
    }

    /// Writes the collected text.
    pub(crate) fn hand_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.text)?;
        self.text.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(value: u64, decimals: u32) -> String {
        let mut out = Vec::new();
        let mut json = Json::new(&mut out);
        json.decimal(value, decimals).unwrap();
        json.hand_on().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn decimals_are_exact_and_short() {
        assert_eq!(decimal(0, 3), "0");
        assert_eq!(decimal(1, 3), "0.001");
        assert_eq!(decimal(1_500, 3), "1.5");
        assert_eq!(decimal(50_000_000_000_007, 6), "50000000.000007");
        assert_eq!(decimal(u64::MAX, 6), "18446744073709.551615");
    }

    #[test]
    fn arrays_have_their_commas() {
        let mut out = Vec::new();
        let mut json = Json::new(&mut out);
        json.array([1, 2], |json, v| json.number(v).map(|_| ()))
            .unwrap();
        json.repeat("null", 0).unwrap();
        json.string("a\"\n").unwrap();
        json.hand_on().unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "[1,2][]\"a\\\"\\n\"");
    }
}
