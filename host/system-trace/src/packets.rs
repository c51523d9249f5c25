// SPDX-License-Identifier: Apache-2.0
//! The packets of a trace, one after the other.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use flate2::read::ZlibDecoder;

/// Longer packets are passed over, bytes. Perfetto's packets with events have at most some hundred thousand.
const MOST_BYTES: u64 = 32 << 20;
/// The most bytes of the packets in one compressed packet. Perfetto compresses batches of 128 KiB.
const MOST_UNPACKED: u64 = 64 << 20;
/// Field 1 of a message, with a length: a packet.
const PACKET_TAG: u64 = 0x0a;

/// What reading found at a place.
pub(crate) enum Found {
    /// The bytes of a packet.
    Packet(Bytes),
    /// A packet that is too long to be one of the scheduler.
    TooLong,
    /// The file ends within a packet.
    Truncated,
    /// There is no packet where one should begin; nothing after it can be read.
    Damaged,
}

/// Reads the packets of a trace.
pub(crate) struct Packets<R> {
    input: R,
    is_over: bool,
    /// Bytes that were read.
    pub(crate) position: u64,
}

impl<R: Read> Packets<R> {
    pub(crate) fn new(input: R) -> Self {
        Packets {
            input,
            is_over: false,
            position: 0,
        }
    }

    /// The next packet; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<Found>> {
        if self.is_over {
            return Ok(None);
        }
        let found = self.read()?;
        self.is_over = matches!(found, None | Some(Found::Truncated | Found::Damaged));
        Ok(found)
    }

    fn read(&mut self) -> io::Result<Option<Found>> {
        match self.varint()? {
            Varint::End => return Ok(None),
            Varint::Value(PACKET_TAG) => {}
            Varint::Cut => return Ok(Some(Found::Truncated)),
            Varint::Value(_) | Varint::TooLong => return Ok(Some(Found::Damaged)),
        }
        let length = match self.varint()? {
            Varint::Value(length) => length,
            Varint::End | Varint::Cut => return Ok(Some(Found::Truncated)),
            Varint::TooLong => return Ok(Some(Found::Damaged)),
        };
        let mut body = self.input.by_ref().take(length);
        if length > MOST_BYTES {
            let passed = io::copy(&mut body, &mut io::sink())?;
            self.position += passed;
            return Ok(Some(match passed == length {
                true => Found::TooLong,
                false => Found::Truncated,
            }));
        }
        let mut bytes = Vec::new();
        body.read_to_end(&mut bytes)?;
        self.position += bytes.len() as u64;
        Ok(Some(match bytes.len() as u64 == length {
            true => Found::Packet(bytes.into()),
            false => Found::Truncated,
        }))
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        loop {
            match self.input.read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) => {
                    self.position += 1;
                    return Ok(Some(byte[0]));
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn varint(&mut self) -> io::Result<Varint> {
        /// A number of 64 bits has at most so many.
        const MOST: u32 = 10;
        let mut value = 0;
        for i in 0..MOST {
            let Some(byte) = self.byte()? else {
                return Ok(if i == 0 { Varint::End } else { Varint::Cut });
            };
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                return Ok(Varint::Value(value));
            }
        }
        Ok(Varint::TooLong)
    }
}

enum Varint {
    Value(u64),
    /// There is no byte.
    End,
    /// The input ends in it.
    Cut,
    TooLong,
}

/// The packets in a compressed packet. An error or [`Found::Truncated`] says that not all of them could be read.
pub(crate) fn unpack(compressed: Bytes) -> Packets<impl Read> {
    Packets::new(ZlibDecoder::new(compressed.reader()).take(MOST_UNPACKED))
}
