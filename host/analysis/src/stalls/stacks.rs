// SPDX-License-Identifier: Apache-2.0
//! Where a thread was in the code, from its calls. Those of a thread that records events only come from its stacks: a call
//! lasts from the first to the last stack that has it, so the thread was in it at that time.

use hindsight_decoder::{Extension, Flags, Method, Thread, ThreadEvent, Trace};
use serde::Serialize;

use crate::evidence::outermost;
use crate::known;
use crate::path::{heaviest_path, names, overlap, telling_method, DOMINANT};

/// Where a thread was in the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The program's innermost method there.
    pub method: String,
    /// The calls since the message or task in question began, outermost first.
    pub calls: Vec<String>,
    /// For how much of the time the thread is known to have been in the last of them, ns; 0 if it is about one point in time.
    pub ns: u64,
}

/// The place where a thread was in the middle of `within`, CLOCK_BOOTTIME: in calls that are known to have gone on then, as all
/// of a wait's if a stack was taken at one of its ends.
pub fn place_in_wait(
    trace: &Trace,
    thread: &Thread,
    within: (u64, u64),
    since_ns: u64,
) -> Option<Place> {
    let middle = within.0 + within.1.checked_sub(within.0)? / 2;
    let path = path_at(thread, middle)?;
    let ns = overlap(&thread.calls, *path.last()?, within);
    named(trace, thread, &path, since_ns, ns)
}

/// The calls that are known to have gone on at this time, outermost first.
fn path_at(thread: &Thread, at_ns: u64) -> Option<Vec<usize>> {
    let calls = &thread.calls;
    let next = calls.start_ns.partition_point(|&start| start <= at_ns);
    let mut innermost = next.checked_sub(1);
    while let Some(i) = innermost.filter(|&i| calls.end_ns[i] < at_ns) {
        innermost = calls.parent_of(i);
    }
    Some(calls.path_to(innermost?))
}

/// The place where a thread spent most of the time from `within.0` to `within.1`.
pub fn place_longest(
    trace: &Trace,
    thread: &Thread,
    within: (u64, u64),
    since_ns: u64,
) -> Option<Place> {
    let calls = &thread.calls;
    let length = within.1.checked_sub(within.0).filter(|&ns| ns > 0)?;
    let outermost = outermost(calls, within)?;
    let is_most = |i: usize| overlap(calls, i, within) as f64 > length as f64 * DOMINANT;
    let path = heaviest_path(calls, outermost, within);
    let last = path.last().copied().filter(|&i| is_most(i))?;
    named(trace, thread, &path, since_ns, overlap(calls, last, within))
}

/// The place where a thread recorded the event with this index, if it took its stack then.
pub fn place_at_event(
    trace: &Trace,
    thread: &Thread,
    event: usize,
    since_ns: u64,
) -> Option<Place> {
    // The thread reads its counters, wakes the other one, and takes its stack, after the event.
    let belongs = |kind| {
        matches!(
            kind,
            Extension::ThreadCpuTime
                | Extension::Allocations
                | Extension::ResourceUse
                | Extension::Wakes
        )
    };
    let mut after = thread.events.get(event + 1..)?.iter();
    let next = after.find(|e| !belongs(e.kind));
    let of_event = |e: &&ThreadEvent| e.kind == Extension::Stack && e.get("reason") == WAKES;
    let stack = next.filter(of_event);
    let at_ns = stack.map_or(thread.events[event].at_ns, |stack| stack.at_ns);
    let path = path_at(thread, at_ns)?;
    // A thread whose calls are recorded needs no stack.
    let is_sampled = thread.calls.flags[*path.last()?].contains(Flags::SAMPLED);
    named(trace, thread, &path, since_ns, 0).filter(|_| stack.is_some() || !is_sampled)
}

/// Of the reasons for stacks, in the catalogue: a thread wakes another one. These are always taken, so that one right after an
/// event belongs to it.
const WAKES: u64 = 4;

/// The place of these calls, if the program's innermost method among them is certain. Calls that began before `since_ns`, and
/// those down to a loop that runs messages or tasks, say nothing about the work in question.
fn named(trace: &Trace, thread: &Thread, path: &[usize], since_ns: u64, ns: u64) -> Option<Place> {
    let calls = &thread.calls;
    let method_of = |i: usize| trace.methods.get(calls.method[i]);
    let is_loop = |m: &Method| known::is_message_loop(m) || known::is_task_loop(m);
    let before = path.partition_point(|&i| calls.start_ns[i] < since_ns);
    let last_loop = path
        .iter()
        .rposition(|&i| method_of(i).is_some_and(is_loop));
    let path = path.get(before.max(last_loop.map_or(0, |i| i + 1))..)?;
    let (method, is_uncertain) = telling_method(trace, calls, path);
    let of_program = |m: &Method| m.is_named() && !known::is_platform(m);
    let has_own = path.iter().any(|&i| method_of(i).is_some_and(of_program));
    (has_own && !is_uncertain).then(|| Place {
        method,
        calls: names(trace, calls, path),
        ns,
    })
}
