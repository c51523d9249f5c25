// SPDX-License-Identifier: Apache-2.0
//! The names of an ended process's methods, and what it has lost.

use std::mem::offset_of;

use crate::container::{Strings, Symbol};

use super::boot_image::{BootNames, Naming};
use super::entries::Entries;
use super::journal::Entry;
use super::layout::Header;
use super::losses::Loss;
use super::source::Copied;

/// What a journal says.
#[derive(Default)]
pub(super) struct Names {
    /// The process's name and facts about it; `None`: it says nothing.
    pub(super) process: Option<(String, Vec<(String, String)>)>,
    /// Names of the program's events.
    pub(super) strings: Strings,
    /// Names of methods.
    pub(super) symbols: Vec<Symbol>,
}

/// What the process says that it has lost.
pub(super) fn add_losses(header: &Copied<'_>, losses: &mut Vec<(String, u64)>) {
    for (at, what) in [
        (
            offset_of!(Header, dropped),
            "names of classes: no room in the journal",
        ),
        (
            offset_of!(Header, outside),
            "rings that were not in the shared memory: no room there",
        ),
    ] {
        let count = header.u64(at);
        if count != 0 {
            losses.push((what.into(), count));
        }
    }
    for loss in Loss::ALL {
        let at = offset_of!(Header, losses) + loss as usize * size_of::<u64>();
        let count = header.u64(at);
        if count != 0 {
            losses.push((loss.text().into(), count));
        }
    }
}

impl Names {
    /// Reads the journal, and the names of these methods, which are sorted, in so many bytes of memory. `are_named`: the journal
    /// has the names of all classes that were linked before recording started.
    pub(super) fn read(
        journal: &[u8],
        header: &Copied<'_>,
        addresses: &[u64],
        boot_names: Option<&BootNames>,
        room: u64,
        are_named: bool,
        losses: &mut Vec<(String, u64)>,
    ) -> Self {
        let mut names = Names::default();
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let mut entries = Entries::new(journal, Some(addresses), room);
        for entry in entries.by_ref() {
            match entry {
                Entry::Process { name, extra } => names.process = Some((name, extra)),
                Entry::EventName(name) => names.strings.strings.push(name),
                Entry::Class(class) => {
                    // A quarter more each time, so that hardly any room stays unused.
                    let symbols = &mut names.symbols;
                    if symbols.capacity() - symbols.len() < class.methods.len() {
                        symbols.reserve_exact(class.methods.len().max(symbols.len() / 4));
                    }
                    symbols.extend(class.into_symbols());
                }
            }
        }
        let (room, mut left_out) = (entries.room(), entries.left_out());
        names.sort();
        if let Some(boot_names) = boot_names {
            // Not those that the process has named itself, also if it says that they have no certain name.
            let symbols = &names.symbols;
            let is_unknown = |address: &u64| {
                let found = symbols.binary_search_by_key(address, |symbol| symbol.address);
                found.is_err()
            };
            let unknown = addresses.iter().copied().filter(is_unknown);
            let image = Naming::of(header).image;
            let (given, no_room) = boot_names.symbols(&image, unknown, room);
            left_out += no_room;
            names.symbols.reserve_exact(given.len());
            names.symbols.extend(given);
            names.sort();
        }
        names.settle();
        let named = names.symbols.chunk_by(|a, b| a.address == b.address);
        let unnamed = addresses.len().saturating_sub(named.count());
        if unnamed != 0 {
            let what = match are_named {
                true => "methods without a name",
                false => "methods without a name: the process ended before the names of its first classes were written",
            };
            losses.push((what.into(), unnamed as u64));
        }
        if left_out != 0 {
            let what = "names of the ended process: too many, or too long".into();
            losses.push((what, left_out));
        }
        names
    }

    /// By address, and then by time; entries of the same time stay in their order.
    fn sort(&mut self) {
        self.symbols
            .sort_by_key(|symbol| (symbol.address, symbol.valid_from));
    }

    /// Of sorted names: the first of an address was its name since ever, and names that do not change count once.
    fn settle(&mut self) {
        // Several methods may have been recorded with these addresses.
        let is_unnamed = |symbol: &&Symbol| symbol.name.is_empty();
        let mut ambiguous = Vec::with_capacity(self.symbols.iter().filter(is_unnamed).count());
        ambiguous.extend(self.symbols.iter().filter(is_unnamed).map(|s| s.address));
        self.symbols
            .retain(|symbol| ambiguous.binary_search(&symbol.address).is_err());
        self.symbols.dedup_by(|later, earlier| {
            let is_same = (later.address, &later.class, &later.name, &later.signature)
                == (
                    earlier.address,
                    &earlier.class,
                    &earlier.name,
                    &earlier.signature,
                );
            let is_replaced =
                later.address == earlier.address && later.valid_from == earlier.valid_from;
            if is_replaced && !is_same {
                std::mem::swap(later, earlier);
            }
            is_same || is_replaced
        });
        let mut before = 0;
        for symbol in &mut self.symbols {
            if symbol.address != before {
                symbol.valid_from = 0;
            }
            before = symbol.address;
        }
    }
}
