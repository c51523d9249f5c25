// SPDX-License-Identifier: Apache-2.0
//! The calls that are under way when a ring wraps, so that a file has names for calls whose entries were overwritten.
//!
//! A thread notes them itself at the end of each lap, also in the fault handler: async-signal-safe, without allocation. The lap is
//! read once, backwards, as its slots tell their events only in that direction. An entry that no exit after it belongs to is a
//! call that is still open; exits without entries end calls of earlier laps, the innermost first. What is left of the calls that
//! were open when the lap began, and those, are the calls that are open now.

use hindsight_trace_format::shared::{OpenCallsPage, OPEN_CALLS_NAMED as NAMED};
use hindsight_trace_format::slot::{
    payload_slots, Extension, Slot, FIRST_METHOD, TAG_EXIT, TAG_WIDE_ENTRY,
};

/// Slots that are looked at together.
const BLOCK: usize = 32;
/// More frames than a thread's stack can hold.
const MAX_FRAMES: u64 = 1 << 26;

/// The calls that were under way at the start of a ring's lap, or segment. In a page before a ring; all zeros at first.
#[repr(transparent)]
pub(crate) struct OpenCalls(OpenCallsPage);

/// What a lap did to the calls that were open at its start.
#[derive(Clone, Copy, Debug, Default)]
struct Lap {
    /// Exits whose entries are not in it.
    exits: u64,
    /// Entries whose exits are not in it.
    entries: u64,
    /// Recording began in it: no call from before is known.
    begins: bool,
}

impl OpenCalls {
    /// None.
    #[cfg(test)]
    fn new() -> Self {
        OpenCalls(OpenCallsPage {
            laps: 0,
            count: 0,
            methods: [0; NAMED],
            unfinished: 0,
            payload: [0; 7],
            found: [0; NAMED],
        })
    }

    /// How many calls were open at the start of the lap with this number, and the methods of the outermost ones, outermost
    /// first. `None` if that is not known.
    pub(crate) fn at(&self, lap: u64) -> Option<(u64, &[u64])> {
        let named = usize::try_from(self.0.count).map_or(NAMED, |count| count.min(NAMED));
        (lap != 0 && self.0.laps == lap).then(|| (self.0.count, &self.0.methods[..named]))
    }

    /// Notes the calls that are open at the end of a lap with these slots; the last `unfinished` of them are of an event that
    /// is not complete yet. `laps` counts the laps up to its end. Async-signal-safe.
    pub(crate) fn note(&mut self, slots: &[u64], unfinished: usize, laps: u64) {
        let unfinished = unfinished.min(self.0.payload.len()).min(slots.len());
        let (slots, payload) = slots.split_at(slots.len() - unfinished);
        let lap = self.read(slots);
        let before = match lap.begins {
            true => 0,
            false => self.0.count.saturating_sub(lap.exits),
        };
        let first = usize::try_from(before).map_or(NAMED, |before| before.min(NAMED));
        // The outermost was found last.
        for (nth, method) in self.0.methods[first..].iter_mut().enumerate() {
            let Some(place) = lap.entries.checked_sub(nth as u64 + 1) else {
                break;
            };
            *method = self.0.found[(place % NAMED as u64) as usize];
        }
        self.0.count = before + lap.entries;
        self.0.payload[..unfinished].copy_from_slice(payload);
        self.0.unfinished = unfinished as u64;
        self.0.laps = laps;
    }

    /// Reads a lap, newest slot first.
    fn read(&mut self, slots: &[u64]) -> Lap {
        let mut lap = Lap::default();
        let mut at = slots.len();
        while at > 0 && !lap.begins {
            let start = at.saturating_sub(BLOCK);
            match change(&slots[start..at]) {
                // Each entry belongs to an exit after it.
                Some((by, lowest)) if lap.exits as i64 + lowest >= 0 => {
                    lap.exits = (lap.exits as i64 + by) as u64;
                    at = start;
                }
                _ => at = self.read_events(slots, start, at, &mut lap),
            }
        }
        lap
    }

    /// Reads the events that end in `start..at`; returns where the next one ends.
    fn read_events(&mut self, slots: &[u64], start: usize, mut at: usize, lap: &mut Lap) -> usize {
        const UNWOUND: u32 = Extension::Unwound.number();
        const STARTED: u32 = Extension::Started.number();
        while at > start {
            let low = low(slots[at - 1]);
            let payload = payload_slots(low);
            let missing = payload.saturating_sub(at - 1);
            // An event that began in the lap before has its first slots there.
            if missing != 0 && missing as u64 != self.0.unfinished {
                return 0;
            }
            let first = (at - 1).saturating_sub(payload);
            let word = u64::from_le(match missing {
                0 => slots[first],
                _ => self.0.payload[0],
            });
            match low {
                TAG_EXIT => lap.exits += 1,
                TAG_WIDE_ENTRY => self.entered(word, lap),
                FIRST_METHOD.. => self.entered(u64::from(low), lap),
                UNWOUND => lap.exits += word.min(MAX_FRAMES),
                STARTED => {
                    lap.begins = true;
                    return first;
                }
                _ => {}
            }
            at = first;
        }
        at
    }

    fn entered(&mut self, method: u64, lap: &mut Lap) {
        if lap.exits > 0 {
            lap.exits -= 1;
            return;
        }
        self.0.found[(lap.entries % NAMED as u64) as usize] = method;
        lap.entries += 1;
    }
}

const fn low(word: u64) -> u32 {
    Slot(u64::from_le(word)).low()
}

/// For slots that are exits and narrow entries only, read newest first: by how much the number of exits without an entry changes,
/// and the lowest change on the way. `None` if there are others.
///
/// The quarters are read at the same time: within one, each step depends on the step before.
fn change(slots: &[u64]) -> Option<(i64, i64)> {
    const PARTS: usize = 4;
    if slots.len() != BLOCK {
        return None;
    }
    let (mut by, mut lowest) = ([0_i32; PARTS], [0_i32; PARTS]);
    let mut other = false;
    for i in (0..BLOCK / PARTS).rev() {
        for part in 0..PARTS {
            let low = low(slots[part * (BLOCK / PARTS) + i]);
            other |= low.wrapping_sub(1) < FIRST_METHOD - 1;
            by[part] += if low == TAG_EXIT { 1 } else { -1 };
            lowest[part] = lowest[part].min(by[part]);
        }
    }
    if other {
        return None;
    }
    let newest_first = by.into_iter().zip(lowest).rev();
    let whole = newest_first.fold((0, 0), |(sum, low), (by, lowest)| {
        (sum + by, low.min(sum + lowest))
    });
    Some((i64::from(whole.0), i64::from(whole.1)))
}

/// Whether the last slot of a lap is the first one of a wide entry, whose second slot did not fit: a whole address, which the lap
/// has in another entry, too. Only a build for methods above 4 GiB has such events in compiled code; other code says how many
/// slots of an event are written.
pub(crate) fn ends_in_wide_entry(slots: &[u64]) -> bool {
    let Some((&last, rest)) = slots.split_last() else {
        return false;
    };
    let address = u64::from_le(last);
    let may_be_one = address >> 48 == 0 && address >> 32 != 0;
    let is_in = |pair: &[u64]| pair[0] == last && low(pair[1]) == TAG_WIDE_ENTRY;
    may_be_one && rest.windows(2).any(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that calls, returns and unwinds at random, and the calls that are open.
    struct Program {
        state: u64,
        open: Vec<u64>,
    }

    impl Program {
        fn below(&mut self, limit: u64) -> u64 {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            (self.state >> 16) % limit
        }

        /// The slots of its next event; `deep` of 10 are entries.
        fn event(&mut self, deep: u64) -> Vec<u64> {
            let counter = self.below(u64::from(u32::MAX)) << 32;
            let method = 0x7000_1000 + 40 * self.below(100);
            match self.below(40) {
                0 => {
                    self.open.push(method << 8);
                    vec![method << 8, counter | u64::from(TAG_WIDE_ENTRY)]
                }
                1 => {
                    let frames = self.below(4).min(self.open.len() as u64);
                    self.open.truncate(self.open.len() - frames as usize);
                    vec![frames, counter | u64::from(Extension::Unwound.number())]
                }
                // Payload that looks like an exit, an entry, and another event.
                2 => vec![
                    0,
                    method,
                    9,
                    counter | u64::from(Extension::ItemPut.number() + 1),
                ],
                n if n % 10 < deep || self.open.is_empty() => {
                    self.open.push(method);
                    vec![counter | method]
                }
                _ => {
                    self.open.pop();
                    vec![counter]
                }
            }
        }
    }

    #[test]
    fn the_open_calls_are_known_at_each_lap() {
        const SLOTS: usize = 1 << 12;
        for (seed, deep) in [(1, 5), (2, 4), (3, 6), (4, 9), (5, 3), (6, 5)] {
            let mut program = Program {
                state: seed,
                open: Vec::new(),
            };
            let mut notes = OpenCalls::new();
            let started = u64::from(Extension::Started.number());
            let (mut ring, mut laps) = (vec![1, started], 0);
            let mut before = Vec::new();
            while laps < 12 {
                let event = program.event(if laps % 2 == 0 { deep } else { 10 - deep });
                let fits = (SLOTS - ring.len()).min(event.len());
                ring.extend(&event[..fits]);
                if fits == event.len() {
                    before.clone_from(&program.open);
                }
                if ring.len() < SLOTS {
                    continue;
                }
                // Full: an event that is not complete does not count yet.
                let unfinished = if fits == event.len() { 0 } else { fits };
                laps += 1;
                notes.note(&ring, unfinished, laps);
                let (count, named) = notes.at(laps).unwrap();
                assert_eq!(count, before.len() as u64, "seed {seed}, lap {laps}");
                assert_eq!(named, &before[..before.len().min(NAMED)]);
                assert!(notes.at(laps + 1).is_none());
                ring = event[fits..].to_vec();
                before.clone_from(&program.open);
            }
        }
    }

    #[test]
    fn calls_from_before_the_ring_are_not_counted() {
        let mut notes = OpenCalls::new();
        let entry = |n: u64| 0x7000_1000 + 40 * n;
        // Three exits of calls that began before.
        notes.note(&[0, 0, 0, entry(1), entry(2), 0], 0, 1);
        assert_eq!(notes.at(1), Some((1, &[entry(1)][..])));
        notes.note(&[0, 0, entry(3)], 0, 2);
        assert_eq!(notes.at(2), Some((1, &[entry(3)][..])));
        // A restart in the middle of the lap.
        let started = u64::from(Extension::Started.number());
        notes.note(&[entry(4), 1, started, entry(5)], 0, 3);
        assert_eq!(notes.at(3), Some((1, &[entry(5)][..])));
    }

    #[test]
    fn of_a_deep_recursion_the_outermost_calls_are_known() {
        let mut notes = OpenCalls::new();
        let lap: Vec<u64> = (0..4096).map(|n| 0x7000_1000 + 8 * n).collect();
        notes.note(&lap, 0, 1);
        notes.note(&lap, 0, 2);
        assert_eq!(notes.at(2), Some((8192, &lap[..NAMED])));
        notes.note(&[0; 4096], 0, 3);
        notes.note(&[0; 4000], 0, 4);
        assert_eq!(notes.at(4), Some((96, &lap[..96])));
        notes.note(&lap[1000..1001], 0, 5);
        let (count, named) = notes.at(5).unwrap();
        assert_eq!((count, named[95], named[96]), (97, lap[95], lap[1000]));
    }

    #[test]
    fn the_first_slot_of_a_wide_entry_at_the_end_is_known_by_its_address() {
        let wide = [0x7f12_3456_7000, u64::from(TAG_WIDE_ENTRY)];
        let entry = 5 << 32 | 0x7000_1000_u64;
        assert!(ends_in_wide_entry(&[wide[0], wide[1], entry, wide[0]]));
        assert!(!ends_in_wide_entry(&[wide[0], wide[1], entry]));
        assert!(!ends_in_wide_entry(&[entry, wide[0]]));
    }
}
