// SPDX-License-Identifier: Apache-2.0
//! What the control thread writes into the memory that survives the process: facts, and the names of classes that were linked
//! before anybody told of them.

use hindsight_trace_format::container::Symbol;

use crate::clock;
use crate::control::snapshot::ISA;
use crate::host::ProcessIdentity;
use crate::session::Session;
use crate::shared::{Facts, SharedMemory};

/// Symbols that are written together: those of some classes.
const SYMBOLS_AT_ONCE: usize = 1 << 10;

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

/// Adds the counter's rate, which may take 20 ms, and names all classes that are linked now. Other threads go on meanwhile.
pub(crate) fn complete(session: &Session) {
    let Some(shared) = session.shared() else {
        return;
    };
    // First: without it no time can be told.
    shared.set_rate(clock::clocks_since(session.started).ticks_per_second);
    name_linked_classes(session, shared);
}

fn name_linked_classes(session: &Session, shared: &SharedMemory) {
    let mut symbols: Vec<Symbol> = Vec::new();
    session.host.name_linked_classes(&mut |symbol| {
        let is_other = symbols
            .last()
            .is_some_and(|last| last.class != symbol.class);
        if is_other && symbols.len() >= SYMBOLS_AT_ONCE {
            mark_ambiguous(session, &mut symbols);
            shared.add_methods(0, &symbols);
            symbols.clear();
        }
        symbols.push(symbol);
    });
    mark_ambiguous(session, &mut symbols);
    shared.add_methods(0, &symbols);
    shared.set_named();
}

/// Takes the names of methods that may share their address with another: readers give such an address no name at all.
pub(crate) fn mark_ambiguous(session: &Session, symbols: &mut [Symbol]) {
    let ambiguous = symbols
        .iter_mut()
        .filter(|symbol| session.host.is_ambiguous(symbol.address));
    ambiguous.for_each(|symbol| symbol.name.clear());
}
