// SPDX-License-Identifier: Apache-2.0
//! Work that looks as if it looked at something again and again: what it looks at has no events.

use hindsight_decoder::{Extension, MethodId};

use super::component::{Component, Shares};
use crate::graph::NodeId;
use crate::session::{Session, ThreadId};

/// So many sleeps or timeouts, or calls that give up the processor, in one piece of work look like polling.
pub(super) const POLLS: u32 = 3;
/// In a shorter stretch of time nothing is looked for, ns.
const SHORT_NS: u64 = 1_000_000;
/// Of one stretch of time, so many events or calls are looked at.
const MOST: usize = 10_000;
/// The methods that give up the processor.
const YIELDS: [&str; 2] = ["java.lang.Thread.yield", "java.lang.Thread.onSpinWait"];

/// Work on a path that looks as if the thread polled: then the path may be wrong, as what it polled for is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polling {
    /// The thread.
    pub thread: ThreadId,
    /// Its work.
    pub node: NodeId,
    /// Whether it gave up the processor, as `Thread.yield` does; if not, it slept, or its waits timed out.
    pub yields: bool,
    /// Number of sleeps and timeouts; or how often it was seen to give up the processor.
    pub times: u32,
    /// Their length, ns; or the time in which it ran, or was ready to run.
    pub ns: u64,
}

/// Whether a thread gave up the processor again and again in a stretch of time that it ran or was ready to run for: how often
/// that was seen, and the length, ns. `shares` are of that time.
pub(super) fn yielded(
    session: &Session,
    thread: ThreadId,
    (from, to): (u64, u64),
    shares: &Shares,
) -> Option<(u32, u64)> {
    let length = to.saturating_sub(from);
    let ns = shares[Component::Running] + shares[Component::Runnable];
    if length < SHORT_NS || ns * 2 <= length {
        return None;
    }
    let trace = session.trace_of(thread);
    let recorded = session.thread(thread);
    let yields = |id: MethodId| {
        let method = trace.methods.get(id);
        method.is_some_and(|m| YIELDS.contains(&m.full_name().as_str()))
    };
    let calls = &recorded.calls;
    let first = calls.start_ns.partition_point(|&at| at < from);
    let end = calls.start_ns.partition_point(|&at| at < to).max(first);
    let called = calls.method[first..end].iter().take(MOST);
    let called = called.filter(|&&m| yields(m)).count() as u32;
    if called >= POLLS {
        return Some((called, ns));
    }
    // One stack may stand for many calls: so most of them must end there.
    let events = &recorded.events;
    let first = events.partition_point(|e| e.at_ns < from);
    let inside = events[first..].iter().take(MOST);
    let inside = inside.take_while(|e| e.at_ns <= to);
    let innermost = inside
        .filter(|e| e.kind == Extension::Stack)
        .filter_map(|e| {
            let frame = trace.stacks.frames(e.stack()?).next()?;
            Some(frame.method)
        });
    let (mut stacks, mut seen) = (0, 0);
    for method in innermost {
        stacks += 1;
        seen += u32::from(yields(method));
    }
    (seen * 2 > stacks).then_some((seen, ns))
}
