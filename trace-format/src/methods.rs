// SPDX-License-Identifier: Apache-2.0
//! Which methods a file must name.

use crate::catalogue::{FieldKind, Spec};
use crate::reverse::Slots;
use crate::slot::Event;

/// Removing duplicates at this length keeps the list near the number of methods instead of calls.
const COMPACT_AT: usize = 1 << 16;

/// Collects addresses of methods.
#[derive(Debug)]
pub struct MethodAddresses {
    addresses: Vec<u64>,
    compact_at: usize,
}

impl Default for MethodAddresses {
    fn default() -> Self {
        MethodAddresses {
            addresses: Vec::new(),
            compact_at: COMPACT_AT,
        }
    }
}

impl MethodAddresses {
    /// Adds an address; 0 is none: the event's writer did not know one.
    pub fn add(&mut self, address: u64) {
        if address == 0 {
            return;
        }
        self.addresses.push(address);
        if self.addresses.len() >= self.compact_at {
            self.compact();
            self.compact_at = COMPACT_AT.max(self.addresses.len() * 2);
        }
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
        self.addresses
    }
}
