// SPDX-License-Identifier: Apache-2.0
//! A test of which calls are taken back (`rewind-log=yes`): the trace points note each such call, and a ring that is taken
//! gets all of them back, so that it can be compared with the calls that were made.

use std::io;

use hindsight_trace_format::slot::{Slot, SLOT_BYTES};

use crate::thread::ring::Ring;

/// log2 of the bytes of a log: room for 16 million calls, or for 2 million in a 32-bit process. One more call crashes the
/// process on the guard page.
const LOG2_BYTES: u32 = if usize::BITS < 64 { 25 } else { 28 };

/// A call that was taken back, as trace points note it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct TakenBack {
    /// The slot of the entry.
    pub(crate) entry: u64,
    /// The low 32 bits of the counter at the exit.
    pub(crate) exit: u32,
    /// The low 32 bits of the entry's address.
    pub(crate) address: u32,
}

/// The calls that a thread has taken back from one ring.
#[derive(Debug)]
pub(crate) struct RewindLog {
    /// Plain memory with a guard page.
    memory: Ring,
}

impl RewindLog {
    /// An empty log.
    ///
    /// # Errors
    /// If no address space is left.
    pub(crate) fn new() -> io::Result<Self> {
        let geometry = hindsight_trace_format::ring::Geometry::new(LOG2_BYTES);
        let memory = Ring::new(geometry.ok_or(io::ErrorKind::InvalidInput)?)?;
        Ok(RewindLog { memory })
    }

    /// The address of the first call.
    pub(crate) fn start(&self) -> usize {
        self.memory.base()
    }

    /// The calls before this address.
    ///
    /// # Safety
    /// The thread does not record meanwhile.
    pub(crate) unsafe fn calls(&self, end: usize) -> Vec<TakenBack> {
        // SAFETY: the caller guarantees that nobody writes to the memory.
        let bytes = unsafe { self.memory.bytes() };
        let used = end.saturating_sub(self.start()).min(bytes.len());
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        (bytes[..used].chunks_exact(2 * SLOT_BYTES))
            .map(|call| {
                let (entry, rest) = call.split_at(SLOT_BYTES);
                let rest = word(rest);
                TakenBack {
                    entry: word(entry),
                    exit: rest as u32,
                    address: (rest >> 32) as u32,
                }
            })
            .collect()
    }
}

/// The slots of a ring that never wrapped and starts at address `base`, with the calls that were taken back.
///
/// # Errors
/// The first call that is not in the ring, or that took `limit` ticks or more.
pub(crate) fn with_calls(
    slots: &[u64],
    base: usize,
    calls: &[TakenBack],
    limit: u32,
) -> Result<Vec<u64>, String> {
    // Calls to be inserted, in the order of the slot before which they stand.
    let mut inserted: Vec<(usize, Vec<u64>)> = Vec::new();
    for call in calls {
        let entry = Slot(call.entry);
        let took = call.exit.wrapping_sub(entry.counter());
        if took >= limit {
            return Err(format!(
                "a call of {took} ticks was taken back, over {limit}"
            ));
        }
        let index = call.address.wrapping_sub(base as u32) as usize / SLOT_BYTES;
        let inner = inserted.partition_point(|(at, _)| *at <= index);
        let mut words = vec![call.entry];
        words.extend(inserted.drain(inner..).flat_map(|(_, words)| words));
        words.push(Slot::exit(call.exit.into()).0);
        inserted.push((index, words));
    }
    let mut all = Vec::with_capacity(slots.len() + 2 * calls.len());
    let mut inserted = inserted.into_iter().peekable();
    for index in 0..=slots.len() {
        while let Some((_, words)) = inserted.next_if(|(at, _)| *at == index) {
            all.extend(words);
        }
        all.extend(slots.get(index));
    }
    match inserted.next() {
        Some((index, _)) => Err(format!(
            "a call was taken back at slot {index} of a ring with {} slots",
            slots.len()
        )),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: usize = 0x7_0000_1000;

    fn entry(method: u32, counter: u64) -> u64 {
        Slot::entry(method, counter).0
    }

    fn exit(counter: u64) -> u64 {
        Slot::exit(counter).0
    }

    fn call(method: u32, from: u64, to: u32, slot: u32) -> TakenBack {
        TakenBack {
            entry: entry(method, from),
            exit: to,
            address: (BASE as u32).wrapping_add(8 * slot),
        }
    }

    #[test]
    fn calls_go_back_to_their_places() {
        // a { b { c {} d {} } e { kept } } f {}
        let kept = [
            entry(0x1000, 1),
            entry(0x5000, 20),
            entry(0x6000, 30),
            exit(40),
            exit(50),
            exit(60),
        ];
        let calls = [
            call(0x3000, 3, 4, 2),
            call(0x4000, 5, 6, 2),
            call(0x2000, 2, 7, 1),
            call(0x7000, 70, 71, 6),
        ];
        let all = with_calls(&kept, BASE, &calls, 100).unwrap();
        let expected = [
            entry(0x1000, 1),
            entry(0x2000, 2),
            entry(0x3000, 3),
            exit(4),
            entry(0x4000, 5),
            exit(6),
            exit(7),
            entry(0x5000, 20),
            entry(0x6000, 30),
            exit(40),
            exit(50),
            exit(60),
            entry(0x7000, 70),
            exit(71),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn wrong_calls_are_found() {
        let long = with_calls(&[], BASE, &[call(0x1000, 1, 101, 0)], 100);
        assert_eq!(
            long.unwrap_err(),
            "a call of 100 ticks was taken back, over 100"
        );
        let outside = with_calls(&[exit(1)], BASE, &[call(0x1000, 1, 2, 2)], 100);
        assert!(outside
            .unwrap_err()
            .contains("slot 2 of a ring with 1 slots"));
    }
}
