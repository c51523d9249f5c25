// SPDX-License-Identifier: Apache-2.0
//! Protobuf's wire format: varints, and bytes with a length.

/// Field numbers and values of the package `perfetto.protos`, as of Perfetto v52. Protobuf schemas never change the
/// number of a field. A test compares them with types of the schema.
pub(super) mod fields {
    pub(crate) mod trace {
        pub(crate) const PACKET: u32 = 1;
    }
    /// TracePacket; TracePacketDefaults uses some of the same numbers.
    pub(crate) mod packet {
        pub(crate) const CLOCK_SNAPSHOT: u32 = 6;
        pub(crate) const TIMESTAMP: u32 = 8;
        pub(crate) const SEQUENCE: u32 = 10;
        pub(crate) const TRACK_EVENT: u32 = 11;
        pub(crate) const INTERNED: u32 = 12;
        pub(crate) const FLAGS: u32 = 13;
        pub(crate) const TIMESTAMP_CLOCK: u32 = 58;
        pub(crate) const DEFAULTS: u32 = 59;
        pub(crate) const TRACK_DESCRIPTOR: u32 = 60;
        /// SEQ_INCREMENTAL_STATE_CLEARED
        pub(crate) const STATE_CLEARED: u64 = 1;
        /// SEQ_NEEDS_INCREMENTAL_STATE
        pub(crate) const NEEDS_STATE: u64 = 2;
    }
    pub(crate) mod clock_snapshot {
        pub(crate) const CLOCKS: u32 = 1;
        pub(crate) const PRIMARY: u32 = 2;
    }
    pub(crate) mod clock {
        pub(crate) const ID: u32 = 1;
        pub(crate) const TIMESTAMP: u32 = 2;
        pub(crate) const IS_INCREMENTAL: u32 = 3;
    }
    pub(crate) mod track {
        pub(crate) const UUID: u32 = 1;
        pub(crate) const NAME: u32 = 2;
        pub(crate) const PROCESS: u32 = 3;
        pub(crate) const THREAD: u32 = 4;
        pub(crate) const PARENT_UUID: u32 = 5;
        pub(crate) const COUNTER: u32 = 8;
    }
    pub(crate) mod counter {
        pub(crate) const UNIT: u32 = 3;
        pub(crate) const UNIT_TIME_NS: u64 = 1;
        pub(crate) const UNIT_COUNT: u64 = 2;
        pub(crate) const UNIT_SIZE_BYTES: u64 = 3;
    }
    pub(crate) mod process {
        pub(crate) const PID: u32 = 1;
        pub(crate) const NAME: u32 = 6;
    }
    pub(crate) mod thread {
        pub(crate) const PID: u32 = 1;
        pub(crate) const TID: u32 = 2;
        pub(crate) const NAME: u32 = 5;
    }
    /// TrackEvent; TrackEventDefaults uses some of the same numbers.
    pub(crate) mod event {
        pub(crate) const ANNOTATIONS: u32 = 4;
        pub(crate) const TYPE: u32 = 9;
        pub(crate) const NAME_IID: u32 = 10;
        pub(crate) const TRACK_UUID: u32 = 11;
        pub(crate) const CATEGORIES: u32 = 22;
        pub(crate) const NAME: u32 = 23;
        pub(crate) const COUNTER_VALUE: u32 = 30;
        pub(crate) const FLOW_IDS: u32 = 47;
        pub(crate) const TERMINATING_FLOW_IDS: u32 = 48;
        pub(crate) const SLICE_BEGIN: u64 = 1;
        pub(crate) const SLICE_END: u64 = 2;
        pub(crate) const INSTANT: u64 = 3;
        pub(crate) const COUNTER: u64 = 4;
    }
    pub(crate) mod annotation {
        pub(crate) const NAME_IID: u32 = 1;
        pub(crate) const BOOL: u32 = 2;
        pub(crate) const UINT: u32 = 3;
        pub(crate) const STRING: u32 = 6;
        pub(crate) const POINTER: u32 = 7;
        pub(crate) const NAME: u32 = 10;
    }
    pub(crate) mod interned {
        pub(crate) const EVENT_NAMES: u32 = 2;
        pub(crate) const ANNOTATION_NAMES: u32 = 3;
        pub(crate) const IID: u32 = 1;
        pub(crate) const NAME: u32 = 2;
    }
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

#[inline]
fn append_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field of bytes, a string or a message.
#[inline]
pub(super) fn append_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    append_varint(out, u64::from(field << 3 | BYTES));
    append_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The encoded fields of a message.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    #[inline]
    pub(super) fn varint(&mut self, field: u32, value: u64) {
        append_varint(&mut self.0, u64::from(field << 3 | VARINT));
        append_varint(&mut self.0, value);
    }

    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        append_varint(&mut self.0, u64::from(field << 3 | FIXED64));
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    pub(super) fn message(&mut self, field: u32, message: &Message) {
        append_bytes(&mut self.0, field, &message.0);
    }

    pub(super) fn string(&mut self, field: u32, text: &str) {
        append_bytes(&mut self.0, field, text.as_bytes());
    }

    /// Adds the fields of another message.
    #[inline]
    pub(super) fn append(&mut self, fields: &Message) {
        self.0.extend_from_slice(&fields.0);
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_encoded_as_protobuf_defines() {
        let mut inner = Message::default();
        inner.varint(1, 150);
        let mut outer = Message::default();
        outer.message(3, &inner);
        outer.string(2, "testing");
        outer.varint(60, u64::MAX);
        outer.fixed64(47, 0x0102);
        let expected: Vec<u8> = [
            &[0x1a, 3, 0x08, 0x96, 0x01][..],
            &[0x12, 7],
            b"testing",
            &[0xe0, 0x03],
            &[0xff; 9],
            &[1],
            &[0xf9, 0x02],
            &[2, 1, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(outer.as_bytes(), expected);
    }
}
