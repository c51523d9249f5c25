// SPDX-License-Identifier: Apache-2.0
//! How a thread spent the time of a chain of calls.

use hindsight_decoder::{Method, Thread, Trace};

use super::model::Activity;
use crate::events::{Own, Used};
use crate::evidence::{recorded, Recorded};
use crate::known;
use crate::path::{heaviest_path, longest_gap, DOMINANT};

/// A thread that records no event for longer than this, ns, may have waited. One that computes makes calls more
/// often.
const QUIET_NS: u64 = 1_000_000;

/// Where the time of a chain went.
pub(super) struct Place {
    /// The head, …, the call where the time went.
    pub(super) path: Vec<usize>,
    /// The longest stretch in which the last call made no traced call.
    pub(super) gap: (u64, u64),
    /// Whether that stretch is most of the chain's time.
    pub(super) is_gap: bool,
    /// The recorded wait, if it is most of the chain's time.
    pub(super) recorded: Recorded,
}

impl Place {
    pub(super) fn of(trace: &Trace, thread: &Thread, own: &Own, head: usize) -> Self {
        let calls = &thread.calls;
        let whole = (calls.start_ns[head], calls.end_ns[head]);
        let path = heaviest_path(calls, head, whole);
        let gap = longest_gap(calls, path[path.len() - 1]);
        let whole_ns = whole.1 - whole.0;
        let recorded = recorded(trace, thread, own, gap);
        let explains = recorded.span.is_some_and(|s| is_most(s.1 - s.0, whole_ns));
        Place {
            is_gap: is_most(gap.1 - gap.0, whole_ns),
            recorded: if explains {
                recorded
            } else {
                Recorded::default()
            },
            path,
            gap,
        }
    }
}

pub(super) fn is_most(part: u64, whole: u64) -> bool {
    part as f64 > whole as f64 * DOMINANT
}

/// How a thread spent the time of a chain.
#[derive(Clone, Copy)]
pub(super) struct Spent {
    pub(super) activity: Activity,
    /// Time in methods that sleep or wait, ns.
    pub(super) waited_ns: u64,
    /// Time in methods that sleep for a time that the caller chose, ns.
    pub(super) slept_ns: u64,
    /// What the thread used, if its counters were read.
    pub(super) used: Option<Used>,
}

impl Spent {
    /// How the thread spent the call `head`, which is a message if the thread runs `messages`.
    pub(super) fn of(
        trace: &Trace,
        thread: &Thread,
        own: &Own,
        head: usize,
        messages: bool,
    ) -> Self {
        let calls = &thread.calls;
        let whole_ns = calls.end_ns[head] - calls.start_ns[head];
        let is =
            |i: usize, is: fn(&Method) -> bool| trace.methods.get(calls.method[i]).is_some_and(is);
        let is_idle = match messages {
            true => known::waits_for_messages,
            false => known::is_idle,
        };
        let (mut idle_ns, mut waited_ns, mut slept_ns, mut quiet_ns) = (0, 0, 0, 0);
        // Calls inside one that waits are part of it.
        let mut waits_until = 0;
        let mut last_event = calls.start_ns[head];
        let mut event = |at_ns: u64| {
            let quiet = at_ns.saturating_sub(last_event);
            quiet_ns += if quiet > QUIET_NS { quiet } else { 0 };
            last_event = last_event.max(at_ns);
        };
        let mut running: Vec<u64> = Vec::new();
        for i in head..calls.subtree_end(head) {
            let (start_ns, end_ns) = (calls.start_ns[i], calls.end_ns[i]);
            let level = (calls.depth[i] - calls.depth[head]) as usize;
            while running.len() > level {
                event(running.pop().unwrap_or_default());
            }
            event(start_ns);
            running.push(end_ns);
            if start_ns < waits_until {
                continue;
            }
            let of_daemon = || calls.parent_of(i).is_some_and(|p| is(p, known::is_daemon));
            let waits = is(i, known::sleeps_or_waits);
            if is(i, is_idle) || (waits && of_daemon()) {
                idle_ns += end_ns - start_ns;
                waits_until = end_ns;
            } else if waits {
                waited_ns += end_ns - start_ns;
                if is(i, known::sleeps) {
                    slept_ns += end_ns - start_ns;
                }
                waits_until = end_ns;
            }
        }
        while let Some(end_ns) = running.pop() {
            event(end_ns);
        }
        let recorded = || Place::of(trace, thread, own, head).recorded.span.is_some();
        // Recorded waits are part of the calls that are known to wait, or of others.
        let whole = (calls.start_ns[head], calls.end_ns[head]);
        let (recorded_ns, asleep_ns) = own.waited(whole);
        let (waited_ns, slept_ns) = (waited_ns.max(recorded_ns), slept_ns.max(asleep_ns));
        let used = own.resources.used(whole.0, whole.1);
        let activity = if is_most(idle_ns, whole_ns) {
            Activity::Idle
        } else if is_most(waited_ns, whole_ns) || recorded() {
            Activity::Waited
        } else if used.is_some_and(|u| is_most(u.cpu_ns, whole_ns)) {
            Activity::Busy
        } else if is_most(quiet_ns, whole_ns) {
            Activity::Unknown
        } else {
            Activity::Busy
        };
        Spent {
            activity,
            waited_ns,
            slept_ns,
            used,
        }
    }
}
