// SPDX-License-Identifier: Apache-2.0
//! From the last write of a field to its reads.

use hindsight_decoder::Extension;

use crate::session::{EventId, Session};

/// An access to a field: its name and object, when, whether it is a read, and the event. At one time, writes come first.
type Access = ((u64, u64), u64, bool, EventId);

/// Calls `join` with the last write before each read of a field, and the read, among the threads of a trace.
pub(super) fn edges(session: &Session, trace: usize, mut join: impl FnMut(EventId, EventId)) {
    // Without the names of rules, there are no accesses.
    if session.trace(trace).strings.strings.is_empty() {
        return;
    }
    let mut accesses: Vec<Access> = Vec::new();
    for thread in session.threads_of(trace) {
        for (event, index) in session.thread(thread).events.iter().zip(0..) {
            let is_read = match event.kind {
                Extension::FieldRead => true,
                Extension::FieldWritten => false,
                _ => continue,
            };
            let field = (event.get("name"), event.get("object"));
            let id = EventId {
                thread,
                event: index,
            };
            accesses.push((field, event.at_ns, is_read, id));
        }
    }
    accesses.sort_unstable();
    let mut written: Option<(u64, u64, EventId)> = None;
    for (field, _, is_read, event) in accesses {
        if !is_read {
            written = Some((field.0, field.1, event));
        } else if let Some((name, object, by)) = written {
            if (name, object) == field {
                join(by, event);
            }
        }
    }
}
