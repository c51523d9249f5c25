// SPDX-License-Identifier: Apache-2.0
//! Whom a wait on a critical path was for, where only the kernel recorded it.

use crate::graph::{Wait, WaitKind, WaitResult};
use crate::scheduled::{servers_of, waker_of};
use crate::session::{Session, ThreadId};

/// The server of the transaction, or the thread that ended the wait.
pub(super) fn blocker(session: &Session, wait: &Wait) -> Option<ThreadId> {
    let (from, to) = (wait.begin_ns, wait.end_ns);
    match (wait.kind, wait.result) {
        (WaitKind::Transaction, _) => {
            let server = servers_of(session, wait.thread, from, to).next();
            server.map(|s| s.thread)
        }
        (WaitKind::Object | WaitKind::Park | WaitKind::Poll, WaitResult::Signalled) => {
            waker_of(session, wait.thread, from, to).map(|w| w.0)
        }
        _ => None,
    }
}
