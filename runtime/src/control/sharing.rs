// SPDX-License-Identifier: Apache-2.0
//! What the control thread writes into the memory that survives the process: facts, and the names of classes that were linked
//! before anybody told of them.

use std::time::Duration;

use hindsight_trace_format::container::Symbol;
use hindsight_trace_format::protocol::FromProcess;

use crate::clock;
use crate::control::snapshot::ISA;
use crate::host::{LinkedClasses, ProcessIdentity};
use crate::session::Session;
use crate::shared::{Facts, SharedMemory};

/// Symbols that are written together: those of some classes.
const SYMBOLS_AT_ONCE: usize = 1 << 10;
/// More than their names take, bytes.
const ROOM_AT_ONCE: u64 = 1 << 19;
/// A service that has no room for names is waited for so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// Makes the memory readable. Called before any thread records.
pub(crate) fn publish(session: &Session) {
    let Some(shared) = session.shared() else {
        return;
    };
    shared.publish(&Facts {
        isa: ISA,
        source: clock::access().source(),
        read_traps: clock::access() == clock::Access::Illegal,
        ticks_per_second: clock::known_rate(&session.started).unwrap_or(0),
        started: session.started,
        boot_image: session.host.boot_image(),
    });
    name_process(session, shared, None);
}

/// Writes the process's name, which is not final when the process starts, unless it is what it was before. Returns it.
pub(crate) fn name_process(
    session: &Session,
    shared: &SharedMemory,
    before: Option<&ProcessIdentity>,
) -> ProcessIdentity {
    let identity = session.host.identity();
    if before != Some(&identity) {
        if let Some(link) = session.link() {
            link.set_name(&identity.name);
        }
        shared.set_identity(&identity);
    }
    identity
}

/// Names the classes outside the boot image that are linked when the process starts. A service may have the names of the boot
/// image's methods from another process; then each method of this one has a name from now on. Returns the symbols that found no
/// room: the service gives more only after it has configured the process.
pub(crate) fn name_first_classes(session: &Session) -> Vec<Symbol> {
    match session.shared() {
        Some(shared) => name_linked_classes(session, shared, LinkedClasses::Others),
        None => Vec::new(),
    }
}

/// Names the classes of the boot image, writes the symbols in `late`, which found no room before, and adds the counter's rate,
/// which may take 20 ms. Other threads go on meanwhile.
pub(crate) fn complete(session: &Session, mut late: Vec<Symbol>) {
    let Some(shared) = session.shared() else {
        return;
    };
    late.extend(name_linked_classes(
        session,
        shared,
        LinkedClasses::OfBootImage,
    ));
    name_late_classes(session, shared, &late);
    shared.set_named();
    if let Some(link) = session.link() {
        link.mention(&FromProcess::Named);
    }
    // Last: a reader of an ended process's memory can measure the rate itself.
    shared.set_rate(clock::clocks_since(session.started).ticks_per_second);
}

/// Writes the names of these classes as far as there is room, and does not wait. Returns the symbols of the other classes.
fn name_linked_classes(
    session: &Session,
    shared: &SharedMemory,
    which: LinkedClasses,
) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = Vec::new();
    let (room, mut is_late) = (shared.room(), false);
    session.host.name_linked_classes(which, &mut |symbol| {
        let is_other = symbols
            .last()
            .is_some_and(|last| last.class != symbol.class);
        if is_other && !is_late && symbols.len() >= SYMBOLS_AT_ONCE {
            // Nobody may wait here: other threads wait for this one. All that comes after a lack of room is written later.
            is_late = !room.has(ROOM_AT_ONCE);
            if !is_late {
                mark_ambiguous(session, &mut symbols);
                shared.add_methods(0, &symbols);
                symbols.clear();
            }
        }
        symbols.push(symbol);
    });
    mark_ambiguous(session, &mut symbols);
    if !is_late && room.has(ROOM_AT_ONCE) {
        shared.add_methods(0, &symbols);
        symbols.clear();
    }
    symbols
}

/// Writes these symbols; waits for the service's answer when there is no room.
fn name_late_classes(session: &Session, shared: &SharedMemory, symbols: &[Symbol]) {
    let room = shared.room();
    let mut is_given = true;
    for symbols in in_classes(symbols) {
        // A service that gives nothing is waited for once; then these names are missing, and counted.
        if is_given && !room.has(ROOM_AT_ONCE) {
            room.need(ROOM_AT_ONCE);
            // This thread would send the request after it has waited.
            if let Some(link) = session.link() {
                link.needs(room.asked());
            }
            is_given = room.wait_for(ROOM_AT_ONCE, PATIENCE);
        }
        shared.add_methods(0, symbols);
    }
}

/// The symbols of some whole classes after each other.
fn in_classes(mut symbols: &[Symbol]) -> impl Iterator<Item = &[Symbol]> {
    std::iter::from_fn(move || {
        let after = symbols.get(SYMBOLS_AT_ONCE..).unwrap_or_default();
        let last = symbols.get(SYMBOLS_AT_ONCE - 1).map(|symbol| &symbol.class);
        let same = (after.iter()).take_while(|symbol| Some(&symbol.class) == last);
        let (some, rest) = symbols.split_at(symbols.len() - after.len() + same.count());
        symbols = rest;
        (!some.is_empty()).then_some(some)
    })
}

/// Takes the names of methods that may share their address with another: readers give such an address no name at all.
pub(crate) fn mark_ambiguous(session: &Session, symbols: &mut [Symbol]) {
    let ambiguous = symbols
        .iter_mut()
        .filter(|symbol| session.host.is_ambiguous(symbol.address));
    ambiguous.for_each(|symbol| symbol.name.clear());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_by_whole_classes() {
        let symbols: Vec<Symbol> = (0..3 * SYMBOLS_AT_ONCE)
            .map(|n| Symbol {
                class: (n / 700).to_string(),
                ..Symbol::default()
            })
            .collect();
        let parts: Vec<usize> = in_classes(&symbols).map(<[Symbol]>::len).collect();
        assert_eq!(parts, [1400, 1400, 272]);
        assert_eq!(in_classes(&symbols[..5]).count(), 1);
        assert_eq!(in_classes(&[]).count(), 0);
    }
}
