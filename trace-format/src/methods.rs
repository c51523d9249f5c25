// SPDX-License-Identifier: Apache-2.0
//! Which methods a file must name.

use crate::catalogue::{FieldKind, Spec};
use crate::reverse::Slots;
use crate::slot::Event;

/// Removing duplicates at this length keeps the list near the number of methods instead of calls.
const COMPACT_AT: usize = 1 << 16;
/// Bytes for each address while the list grows: then the old half and the new whole are in memory.
const GROWING_BYTES: u64 = 12;

/// Collects addresses of methods.
#[derive(Debug)]
pub struct MethodAddresses {
    addresses: Vec<u64>,
    /// At this length duplicates are removed.
    compact_at: usize,
    /// It never has more addresses.
    most: usize,
    /// No more are taken: removing duplicates makes hardly any room.
    is_full: bool,
    left_out: u64,
}

impl Default for MethodAddresses {
    fn default() -> Self {
        MethodAddresses::within(u64::MAX)
    }
}

impl MethodAddresses {
    /// With at most so many bytes of memory, also while the list grows. Addresses that find no room are counted, once for each
    /// [`add`](Self::add).
    pub fn within(bytes: u64) -> Self {
        let most = usize::try_from(bytes / GROWING_BYTES).unwrap_or(usize::MAX);
        MethodAddresses {
            addresses: Vec::new(),
            compact_at: COMPACT_AT.min(most),
            most,
            is_full: most == 0,
            left_out: 0,
        }
    }

    /// Adds an address; 0 is none: the event's writer did not know one.
    pub fn add(&mut self, address: u64) {
        if address == 0 {
            return;
        }
        if self.addresses.len() >= self.compact_at && !self.is_full {
            self.make_room();
        }
        match self.is_full {
            true => self.left_out += 1,
            false => self.addresses.push(address),
        }
    }

    /// Removes duplicates, and lets the list grow if it would soon be as long again.
    fn make_room(&mut self) {
        self.compact();
        let length = self.addresses.len();
        let wanted = length.saturating_mul(2).clamp(self.compact_at, self.most);
        if self.addresses.try_reserve_exact(wanted - length).is_ok() {
            self.compact_at = wanted;
        }
        // Else each few addresses would sort all others again.
        self.is_full = length > self.compact_at / 4 * 3;
    }

    /// How many times there was no room for an address.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Bytes of the list.
    pub fn bytes(&self) -> u64 {
        (self.addresses.capacity() * size_of::<u64>()) as u64
    }

    /// Adds all methods that these slots name.
    pub fn add_slots(&mut self, slots: Slots<'_>) {
        for event in slots.events() {
            if let Some(method) = event.entered_method() {
                self.add(method);
            } else if let Event::Extension { number } = event.event() {
                let fields = Spec::from_number(number).map_or(&[][..], |spec| spec.fields);
                for field in fields {
                    if matches!(field.kind, FieldKind::Method | FieldKind::Class) {
                        let payload: Vec<u64> = event.payloads().collect();
                        self.add(field.get(&payload));
                    }
                }
            }
        }
    }

    fn compact(&mut self) {
        self.addresses.sort_unstable();
        self.addresses.dedup();
    }

    /// The addresses, sorted, without duplicates.
    pub fn sorted(mut self) -> Vec<u64> {
        self.compact();
        if self.addresses.len() < self.addresses.capacity() / 2 {
            self.addresses.shrink_to_fit();
        }
        self.addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_with_a_limit_keeps_what_finds_room_and_counts_the_rest() {
        const MOST: u64 = 100_000;
        let mut addresses = MethodAddresses::within(MOST * GROWING_BYTES);
        for round in 0..3 {
            for address in 0..MOST * 2 {
                addresses.add(1 + address % (MOST / 2));
            }
            assert_eq!(addresses.left_out(), 0, "{round}");
        }
        for address in 0..MOST * 2 {
            addresses.add(1 + address);
        }
        assert!(addresses.bytes() <= MOST * 8, "{}", addresses.bytes());
        let left_out = addresses.left_out();
        let kept = addresses.sorted();
        assert!(kept.len() as u64 > MOST / 2 && kept.len() as u64 <= MOST);
        assert!(left_out >= MOST);
        let mut none = MethodAddresses::within(0);
        none.add(1);
        assert_eq!((none.left_out(), none.sorted().len()), (1, 0));
    }
}
