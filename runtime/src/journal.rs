// SPDX-License-Identifier: Apache-2.0
//! Names of methods whose class loader is gone.
//!
//! A ring names methods by address. When a loader is unloaded, its methods' memory is freed and may become
//! that of other methods, while events of the old ones are still in the rings. So their names are captured
//! at the unloading, and kept until no ring can have events from before it. An address then has a name for
//! each stretch of time between two unloadings, which is what [`Symbol::valid_from`] expresses.
//!
//! Capturing at the unloading, rather than at the linking of each class, costs nothing as long as no
//! loader goes, which in most apps is never.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hindsight_trace_format::container::Symbol;

/// Methods that are kept: some 10 MiB of names. The oldest go first, and are counted.
const MAX_METHODS: usize = 1 << 16;

/// A method that is gone.
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

/// What went with one loader.
#[derive(Debug)]
struct Unloading {
    /// The counter then: the methods ran before it, and whatever came to their addresses runs after it.
    at: u64,
    /// By address.
    methods: Vec<Method>,
}

/// The names captured, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    unloadings: VecDeque<Unloading>,
    methods: usize,
    /// Methods that were dropped for want of room.
    dropped: u64,
}

impl Journal {
    /// Keeps the names of the methods of a loader that is unloaded when the counter is at `at`.
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
        // Two loaders may be unloaded at a time, and come here in another order.
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

    /// Forgets what no ring needs, if no ring has events older than `oldest_event`.
    pub(crate) fn forget_before(&mut self, oldest_event: u64) {
        while let Some(oldest) = self.unloadings.front().filter(|u| u.at < oldest_event) {
            self.methods -= oldest.methods.len();
            self.unloadings.pop_front();
        }
    }

    /// Methods that were dropped for want of room, so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Adds the names that these addresses (in order) had to those that they have now.
    pub(crate) fn add_names(&self, addresses: &[u64], symbols: &mut Vec<Symbol>) {
        // From when on the name that follows an address's last one so far is valid.
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

    /// The name at these times, as readers find it.
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
        // The order in which two threads come here does not matter.
        let mut journal = Journal::default();
        journal.add(200, vec![symbol(0x1000, "second")]);
        journal.add(100, vec![symbol(0x2000, "b"), symbol(0x1000, "a")]);
        assert_eq!(names(&journal, &live, &asked), expected);
    }

    #[test]
    fn what_no_ring_needs_is_forgotten() {
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
    fn the_memory_is_bounded_and_what_goes_is_counted() {
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
