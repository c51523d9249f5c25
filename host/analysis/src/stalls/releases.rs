// SPDX-License-Identifier: Apache-2.0
//! Who released a lock, and how long it was held.

use std::collections::HashMap;

use hindsight_decoder::{Extension, Thread, ThreadEvent, Trace};

use super::spent::is_most;
use crate::events::{spans, SpanKind};

/// A release of a lock.
#[derive(Clone, Copy)]
pub(super) struct Release<'a> {
    pub(super) thread: &'a Thread,
    /// Index among its events.
    pub(super) event: usize,
    /// CLOCK_BOOTTIME, ns.
    pub(super) at_ns: u64,
}

impl Release<'_> {
    /// When its thread got the lock: at the end of its wait for it, if it recorded one since its release before.
    /// CLOCK_BOOTTIME, ns.
    fn got_ns(&self) -> Option<u64> {
        let events = &self.thread.events;
        let lock = events[self.event].get("lock");
        let of_lock = |e: &ThreadEvent| {
            matches!(e.kind, Extension::LockWait | Extension::Released) && e.get("lock") == lock
        };
        let last = events[..self.event].iter().rposition(of_lock)?;
        if events[last].kind != Extension::LockWait {
            return None;
        }
        // A wait without an end may have ended at any time.
        let wait = spans(self.thread).begun_by(last + 1)?.clone();
        let end = wait.end.filter(|_| wait.kind == SpanKind::Wait)?;
        Some(events[end].at_ns)
    }
}

/// The releases of each lock.
pub(super) struct Releases<'a>(HashMap<u64, Vec<Release<'a>>>);

impl<'a> Releases<'a> {
    pub(super) fn of(trace: &'a Trace) -> Self {
        let mut locks: HashMap<u64, Vec<Release<'a>>> = HashMap::new();
        for thread in &trace.threads {
            for (event, e) in thread.events.iter().enumerate() {
                // Without an identity, nothing is known.
                if e.kind == Extension::Released && e.get("lock") != 0 {
                    locks.entry(e.get("lock")).or_default().push(Release {
                        thread,
                        event,
                        at_ns: e.at_ns,
                    });
                }
            }
        }
        for releases in locks.values_mut() {
            releases.sort_by_key(|r| (r.at_ns, r.thread.key, r.event));
        }
        Releases(locks)
    }

    /// In the order of time.
    pub(super) fn of_lock(&self, lock: u64) -> &[Release<'a>] {
        self.0.get(&lock).map_or(&[][..], Vec::as_slice)
    }
}

/// The release whose thread held the lock for most of a wait, and since when, CLOCK_BOOTTIME, ns: the first one's since the
/// wait's beginning, a later one's since its own wait for the lock.
pub(super) fn longest_hold(releases: &[Release<'_>], wait: (u64, u64)) -> Option<(usize, u64)> {
    let is_long = |since_ns: u64, release: &Release<'_>| {
        let held_ns = release.at_ns.min(wait.1).saturating_sub(since_ns);
        is_most(held_ns, wait.1.saturating_sub(wait.0))
    };
    releases.iter().enumerate().find_map(|(i, release)| {
        let since_ns = match i.checked_sub(1).map(|before| releases[before].at_ns) {
            None => wait.0,
            Some(before_ns) if !is_long(before_ns.max(wait.0), release) => return None,
            // A thread that is not recorded may have held it between the two releases.
            Some(before_ns) => (release.got_ns())
                .filter(|&got_ns| got_ns >= before_ns)?
                .max(wait.0),
        };
        is_long(since_ns, release).then_some((i, since_ns))
    })
}
