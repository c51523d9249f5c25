// SPDX-License-Identifier: Apache-2.0
//! What traced says: frames and commands, from bytes that may be anything.

use std::collections::HashMap;
use std::io;

use crate::proto::{Fields, Value};

/// Longest frame, bytes: traced's own limit.
pub const MAX_FRAME_BYTES: usize = 128 << 10;

/// What traced wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A session that wants the data source has begun.
    Start {
        /// Number of the instance.
        instance: u64,
        /// Bytes of its `DataSourceConfig`.
        config: Vec<u8>,
    },
    /// The session ends.
    Stop {
        /// Number of the instance.
        instance: u64,
    },
    /// All that was recorded until now is wanted.
    Flush {
        /// Numbers of the instances.
        instances: Vec<u64>,
        /// Number of the request.
        request: u64,
        /// Why: the lowest four bits are a [`reason`].
        flags: u64,
    },
    /// Of no interest, or of a newer traced.
    Other,
}

/// Reasons of a flush.
pub mod reason {
    /// The session's `flush_period_ms` has passed.
    pub const PERIODIC: u64 = 1;
    /// The session stops next.
    pub const STOP: u64 = 2;
}

/// A message of traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The numbers of the service and its methods.
    Bound {
        /// The service's number.
        service: u64,
        /// Numbers by names.
        methods: HashMap<String, u64>,
    },
    /// The answer to a request.
    Reply {
        /// Number of the request.
        request: u64,
        /// Whether it was carried out.
        is_success: bool,
        /// Whether more answers follow.
        has_more: bool,
        /// Bytes of the answer.
        bytes: Vec<u8>,
    },
    /// Anything else.
    Other,
}

/// The frame in these bytes, which may be anything.
pub fn frame(bytes: &[u8]) -> Frame {
    let request = Fields::get(bytes, 2).map_or(0, |v| v.number());
    if let Some(bound) = Fields::get(bytes, 4) {
        let bound = bound.bytes();
        let methods = Fields::new(bound).filter(|(field, _)| *field == 3);
        let method = |value: &[u8]| {
            let name = Fields::get(value, 2)?.bytes();
            let name = String::from_utf8_lossy(name).into_owned();
            Some((name, Fields::get(value, 1)?.number()))
        };
        return Frame::Bound {
            service: Fields::get(bound, 2).map_or(0, |v| v.number()),
            methods: methods.filter_map(|(_, v)| method(v.bytes())).collect(),
        };
    }
    match Fields::get(bytes, 6) {
        Some(reply) => Frame::Reply {
            request,
            is_success: Fields::get(reply.bytes(), 1).is_some_and(|v| v.number() != 0),
            has_more: Fields::get(reply.bytes(), 2).is_some_and(|v| v.number() != 0),
            bytes: Fields::get(reply.bytes(), 3)
                .map_or(&[][..], |v| v.bytes())
                .to_vec(),
        },
        None => Frame::Other,
    }
}

/// The command in the bytes of an answer to `GetAsyncCommand`.
pub fn command(bytes: &[u8]) -> Command {
    let number = |bytes, field| Fields::get(bytes, field).map_or(0, |v| v.number());
    for (field, value) in Fields::new(bytes) {
        let inner = value.bytes();
        match field {
            1 => {
                return Command::Start {
                    instance: number(inner, 1),
                    config: Fields::get(inner, 2)
                        .map_or(&[][..], |v| v.bytes())
                        .to_vec(),
                }
            }
            2 => {
                return Command::Stop {
                    instance: number(inner, 1),
                }
            }
            5 => return flush(inner),
            _ => {}
        }
    }
    Command::Other
}

fn flush(bytes: &[u8]) -> Command {
    let mut instances = Vec::new();
    for (_, value) in Fields::new(bytes).filter(|(field, _)| *field == 1) {
        match value {
            Value::Number(number) => instances.push(number),
            // Packed: numbers one after the other.
            Value::Bytes(packed) => instances.extend(varints(packed)),
        }
    }
    // Each is written once, however often it is named.
    instances.sort_unstable();
    instances.dedup();
    Command::Flush {
        instances,
        request: Fields::get(bytes, 2).map_or(0, |v| v.number()),
        flags: Fields::get(bytes, 3).map_or(0, |v| v.number()),
    }
}

fn varints(bytes: &[u8]) -> Vec<u64> {
    let mut all = Vec::new();
    let (mut value, mut shift) = (0_u64, 0);
    for byte in bytes {
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        shift += 7;
        if *byte < 0x80 {
            all.push(value);
            (value, shift) = (0, 0);
        }
    }
    all
}

/// Length of the first frame if all of it is here.
///
/// # Errors
/// If it is longer than frames are.
pub fn frame_length(received: &[u8]) -> io::Result<Option<usize>> {
    let Some(length) = received.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > MAX_FRAME_BYTES {
        return Err(invalid("a frame of traced is too long"));
    }
    Ok((received.len() >= 4 + length).then_some(length))
}

pub(crate) fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Message;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hostile_bytes_are_some_frame_and_some_command(bytes: Vec<u8>) {
            let _ = frame(&bytes);
            let _ = command(&bytes);
            let _ = flush(&bytes);
            if let Ok(Some(length)) = frame_length(&bytes) {
                prop_assert!(length + 4 <= bytes.len());
            }
        }
    }

    #[test]
    fn commands_are_read() {
        let mut flush = Message::new();
        flush
            .bytes(1, &[7, 0x81, 1, 7])
            .varint(1, 9)
            .varint(1, 7)
            .varint(2, 4)
            .varint(3, 3);
        let mut all = Message::new();
        all.message(5, &flush);
        let expected = Command::Flush {
            instances: vec![7, 9, 129],
            request: 4,
            flags: 3,
        };
        assert_eq!(command(all.as_bytes()), expected);
        let mut stop = Message::new();
        stop.varint(1, 5);
        let mut all = Message::new();
        all.message(2, &stop);
        assert_eq!(command(all.as_bytes()), Command::Stop { instance: 5 });
        assert_eq!(command(&[]), Command::Other);
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_is_there() {
        assert!(frame_length(&[0xff, 0xff, 0xff, 0xff]).is_err());
        assert_eq!(frame_length(&[2, 0, 0, 0, 1]).unwrap(), None);
        assert_eq!(frame_length(&[1, 0, 0, 0, 1]).unwrap(), Some(1));
    }
}
