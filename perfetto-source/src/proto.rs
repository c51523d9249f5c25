// SPDX-License-Identifier: Apache-2.0
//! Protobuf's wire format: a writer, and a reader that trusts nothing.

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

fn append_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The encoded fields of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message(Vec<u8>);

impl Message {
    /// An empty message.
    pub fn new() -> Self {
        Message::default()
    }

    /// Adds a number.
    pub fn varint(&mut self, field: u32, value: u64) -> &mut Self {
        append_varint(&mut self.0, u64::from(field) << 3 | VARINT);
        append_varint(&mut self.0, value);
        self
    }

    /// Adds bytes.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        append_varint(&mut self.0, u64::from(field) << 3 | BYTES);
        append_varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds a text.
    pub fn string(&mut self, field: u32, text: &str) -> &mut Self {
        self.bytes(field, text.as_bytes())
    }

    /// Adds a message.
    pub fn message(&mut self, field: u32, message: &Message) -> &mut Self {
        self.bytes(field, &message.0)
    }

    /// The bytes of all fields.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Removes all fields, and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A varint, or a number of 4 or 8 bytes.
    Number(u64),
    /// Bytes, a text or a message.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number; 0 if it is none.
    pub fn number(self) -> u64 {
        match self {
            Value::Number(number) => number,
            Value::Bytes(_) => 0,
        }
    }

    /// The bytes; none if it is a number.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            Value::Number(_) => &[],
        }
    }
}

/// The fields of a message from its bytes. Ends at the first byte that makes no sense; [`is_damaged`](Self::is_damaged) tells.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    is_damaged: bool,
}

impl<'a> Fields<'a> {
    /// The fields in these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Fields {
            rest: bytes,
            is_damaged: false,
        }
    }

    /// Whether the bytes ended within a field, or had one of an unknown type.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// The last field with this number.
    pub fn get(bytes: &'a [u8], field: u32) -> Option<Value<'a>> {
        let all = Fields::new(bytes).filter(|(number, _)| *number == field);
        all.last().map(|(_, value)| value)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for i in 0..10 {
            let byte = *self.rest.get(i)?;
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.rest = &self.rest[i + 1..];
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let length = usize::try_from(length).ok()?;
        let taken = self.rest.get(..length)?;
        self.rest = &self.rest[length..];
        Some(taken)
    }

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok().filter(|n| *n != 0)?;
        let value = match key & 7 {
            VARINT => Value::Number(self.varint()?),
            FIXED64 => Value::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            FIXED32 => Value::Number(u32::from_le_bytes(self.take(4)?.try_into().ok()?).into()),
            BYTES => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            _ => return None,
        };
        Some((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.is_damaged {
            return None;
        }
        let field = self.field();
        self.is_damaged = field.is_none();
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let mut fields = Fields::new(&bytes);
            let length: usize = fields.by_ref().map(|(_, value)| value.bytes().len()).sum();
            prop_assert!(length <= bytes.len());
            prop_assert!(fields.is_damaged() || fields.rest.is_empty());
        }

        #[test]
        fn fields_are_read_as_they_were_written(
            field in 1_u32..1 << 29, number: u64, bytes: Vec<u8>,
        ) {
            let mut message = Message::new();
            message.varint(field, number).bytes(field, &bytes);
            let all: Vec<_> = Fields::new(message.as_bytes()).collect();
            prop_assert_eq!(all, [(field, Value::Number(number)), (field, Value::Bytes(&bytes))]);
        }
    }

    #[test]
    fn a_length_beyond_the_bytes_is_damage() {
        let mut fields = Fields::new(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f, 1]);
        assert_eq!(fields.next(), None);
        assert!(fields.is_damaged());
    }
}
