// SPDX-License-Identifier: Apache-2.0
//! Names of methods whose class loader was unloaded.
//!
//! A ring names methods by address. When a loader is unloaded, its methods' memory is freed and may become the memory
//! of other methods, while events of the old ones are still in the rings. So the names are captured at the unloading,
//! and kept until no ring can have events from before it. An address then has one name for each interval between two
//! unloadings, which [`Symbol::valid_from`] expresses.
//!
//! Capturing at the unloading, instead of at the linking of each class, costs nothing as long as no loader is unloaded,
//! which in most apps is never.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hindsight_trace_format::container::Symbol;

/// Maximum number of methods kept: about 10 MiB of names. The oldest are dropped first, and counted.
const MAX_METHODS: usize = 1 << 16;

/// A method of an unloaded class loader.
#[derive(Debug)]
struct Method {
    address: u64,
    class: Arc<str>,
    name: Arc<str>,
    signature: Arc<str>,
    source_file: Arc<str>,
    dex_checksum: u32,
    dex_method_index: u32,
}

impl Method {
    fn symbol(&self, valid_from: u64) -> Symbol {
        Symbol {
            address: self.address,
            valid_from,
            class: self.class.as_ref().into(),
            name: self.name.as_ref().into(),
            signature: self.signature.as_ref().into(),
            source_file: self.source_file.as_ref().into(),
            dex_checksum: self.dex_checksum,
            dex_method_index: self.dex_method_index,
        }
    }
}

/// The methods of one unloaded class loader.
#[derive(Debug)]
struct Unloading {
    /// The counter at the unloading: the methods ran before, later methods at their addresses run after.
    at: u64,
    /// Sorted by address.
    methods: Vec<Method>,
}

/// The captured names, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    unloadings: VecDeque<Unloading>,
    methods: usize,
    /// Methods dropped for lack of room.
    dropped: u64,
}

impl Journal {
    /// Adds the methods of a loader that is unloaded when the counter is at `at`.
    pub(crate) fn add(&mut self, at: u64, symbols: Vec<Symbol>) {
        let mut strings: HashMap<String, Arc<str>> = HashMap::new();
        let mut share = |s: String| -> Arc<str> {
            if let Some(shared) = strings.get(&s) {
                return Arc::clone(shared);
            }
            let shared: Arc<str> = s.as_str().into();
            strings.insert(s, Arc::clone(&shared));
            shared
        };
        let too_many = symbols.len().saturating_sub(MAX_METHODS);
        self.dropped += too_many as u64;
        let mut methods: Vec<Method> = symbols
            .into_iter()
            .take(MAX_METHODS)
            .map(|s| Method {
                address: s.address,
                class: share(s.class),
                name: share(s.name),
                signature: share(s.signature),
                source_file: share(s.source_file),
                dex_checksum: s.dex_checksum,
                dex_method_index: s.dex_method_index,
            })
            .collect();
        methods.sort_by_key(|m| m.address);
        self.methods += methods.len();
        // Two threads that unload loaders may arrive here in a different order.
        let place = self.unloadings.partition_point(|u| u.at <= at);
        self.unloadings.insert(place, Unloading { at, methods });
        while self.methods > MAX_METHODS {
            let Some(oldest) = self.unloadings.pop_front() else {
                break;
            };
            self.methods -= oldest.methods.len();
            self.dropped += oldest.methods.len() as u64;
        }
    }

    /// Drops the names that no ring needs if no ring has events older than `oldest_event`.
    pub(crate) fn forget_before(&mut self, oldest_event: u64) {
        while let Some(oldest) = self.unloadings.front().filter(|u| u.at < oldest_event) {
            self.methods -= oldest.methods.len();
            self.unloadings.pop_front();
        }
    }

    /// Methods dropped so far for lack of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Adds the former names of these addresses (sorted) to `symbols`, their current names.
    pub(crate) fn add_names(&self, addresses: &[u64], symbols: &mut Vec<Symbol>) {
        // The counter from which on the next name of an address is valid.
        let mut valid_from: HashMap<u64, u64> = HashMap::new();
        let mut gone = Vec::new();
        for unloading in &self.unloadings {
            for method in &unloading.methods {
                if addresses.binary_search(&method.address).is_ok() {
                    let from = valid_from.entry(method.address).or_default();
                    gone.push(method.symbol(*from));
                    *from = unloading.at;
                }
            }
        }
        for symbol in symbols.iter_mut() {
            if let Some(from) = valid_from.get(&symbol.address) {
                symbol.valid_from = *from;
            }
        }
        symbols.append(&mut gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_trace_format::container::{SymbolTable, Symbols};

    fn symbol(address: u64, name: &str) -> Symbol {
        Symbol {
            address,
            class: "C".into(),
            name: name.into(),
            ..Symbol::default()
        }
    }

    /// The names at these addresses and times, as readers find them.
    fn names(journal: &Journal, live: &[Symbol], asked: &[(u64, u64)]) -> Vec<String> {
        let mut addresses: Vec<u64> = asked.iter().map(|(address, _)| *address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let mut symbols = live.to_vec();
        journal.add_names(&addresses, &mut symbols);
        symbols.sort_unstable();
        let bytes = Symbols { symbols }.encode();
        let table = SymbolTable::decode(&bytes).unwrap();
        asked
            .iter()
            .map(|(address, counter)| {
                let found = table.lookup(*address, *counter);
                found.map_or("?", |s| s.name).to_owned()
            })
            .collect()
    }

    #[test]
    fn an_address_that_is_used_again_has_the_name_of_each_time() {
        let mut journal = Journal::default();
        journal.add(100, vec![symbol(0x2000, "b"), symbol(0x1000, "a")]);
        journal.add(
            200,
            vec![symbol(0x1000, "second"), symbol(0x9000, "unasked")],
        );
        let live = [symbol(0x1000, "third"), symbol(0x3000, "always")];
        let asked = [
            (0x1000, 50),
            (0x1000, 150),
            (0x1000, 250),
            (0x2000, 50),
            (0x3000, 5),
            (0x4000, 5),
        ];
        let expected = ["a", "second", "third", "b", "always", "?"];
        assert_eq!(names(&journal, &live, &asked), expected);
        // The order of arrival does not matter.
        let mut journal = Journal::default();
        journal.add(200, vec![symbol(0x1000, "second")]);
        journal.add(100, vec![symbol(0x2000, "b"), symbol(0x1000, "a")]);
        assert_eq!(names(&journal, &live, &asked), expected);
    }

    #[test]
    fn names_that_no_ring_needs_are_dropped() {
        let mut journal = Journal::default();
        journal.add(100, vec![symbol(0x1000, "first")]);
        journal.add(200, vec![symbol(0x1000, "second")]);
        journal.forget_before(150);
        assert_eq!(names(&journal, &[], &[(0x1000, 250)]), ["second"]);
        assert_eq!(journal.methods, 1);
        journal.forget_before(201);
        assert_eq!((journal.methods, journal.dropped()), (0, 0));
    }

    #[test]
    fn the_memory_is_bounded_and_dropped_names_are_counted() {
        let mut journal = Journal::default();
        let many = |n: usize| (0..n as u64).map(|i| symbol(i * 8, "m")).collect();
        journal.add(1, many(MAX_METHODS - 1));
        journal.add(2, many(1));
        assert_eq!(journal.dropped(), 0);
        journal.add(3, many(2));
        assert_eq!(journal.dropped(), MAX_METHODS as u64 - 1);
        journal.add(4, many(MAX_METHODS + 10));
        assert_eq!(journal.methods, MAX_METHODS);
        assert_eq!(journal.dropped(), MAX_METHODS as u64 - 1 + 3 + 10);
    }
}
