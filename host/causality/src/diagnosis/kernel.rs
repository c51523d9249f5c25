// SPDX-License-Identifier: Apache-2.0
//! Whom a thread waited for, and what it did, as a trace of the whole device tells it (Argus's make-runnable edges): where no
//! event of a process does.

use std::collections::BTreeMap;

use super::certainty::Certainty;
use super::doing::is_most;
use super::how::How;
use super::windows::Windows;
use crate::scheduled::{self, by_waker};
use crate::session::{Session, ThreadId};

/// A thread that another one waited for.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    pub(crate) thread: ThreadId,
    pub(crate) how: How,
    pub(crate) certainty: Certainty,
    /// When it was waited for.
    pub(crate) when: Windows,
    /// Number of waits.
    pub(crate) count: usize,
}

/// Whom a thread waited for in the kernel for most of a time: the server of its transactions, or the thread that woke it.
/// Interrupts are nobody.
pub(crate) fn awaited(
    session: &Session,
    thread: ThreadId,
    when: &Windows,
    whole_ns: u64,
) -> Option<Awaited> {
    let is_long = |a: &Awaited| a.thread != thread && is_most(a.when.total_ns(), whole_ns);
    served(session, thread, when)
        .filter(is_long)
        .or_else(|| woken(session, thread, when).filter(is_long))
}

/// The thread that served most of the transactions of a thread.
fn served(session: &Session, thread: ThreadId, when: &Windows) -> Option<Awaited> {
    let mut servers: BTreeMap<ThreadId, Vec<(u64, u64)>> = BTreeMap::new();
    for &(from, to) in when.spans() {
        for server in scheduled::servers_of(session, thread, from, to) {
            let span = (server.span.0.max(from), server.span.1.min(to));
            servers.entry(server.thread).or_default().push(span);
        }
    }
    let all = servers.into_iter().map(|(thread, spans)| Awaited {
        thread,
        how: How::Served,
        certainty: Certainty::Recorded,
        count: spans.len(),
        when: Windows::of(spans),
    });
    all.max_by_key(|a| (a.when.total_ns(), std::cmp::Reverse(a.thread)))
}

/// The thread that ended most of the time asleep of a thread.
fn woken(session: &Session, thread: ThreadId, when: &Windows) -> Option<Awaited> {
    let asleep = by_waker(session, thread, when.spans()).into_iter().next()?;
    Some(Awaited {
        thread: asleep.by?,
        how: How::EndedWait,
        certainty: match asleep.is_certain {
            true => Certainty::Recorded,
            false => Certainty::Inferred {
                because: "that thread was on the processor that woke it; whether an interrupt did that meanwhile is recorded \
                          with compact_sched only"
                    .to_owned(),
            },
        },
        count: asleep.spans.len(),
        when: Windows::of(asleep.spans),
    })
}
