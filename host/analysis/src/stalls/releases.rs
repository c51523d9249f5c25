// SPDX-License-Identifier: Apache-2.0
//! Who released a lock, and how long it was held.

use std::collections::HashMap;

use hindsight_decoder::{Extension, Thread, Trace};

use super::spent::is_most;

/// A release of a lock.
#[derive(Clone, Copy)]
pub(super) struct Release<'a> {
    pub(super) thread: &'a Thread,
    /// Index among its events.
    pub(super) event: usize,
    /// CLOCK_BOOTTIME, ns.
    pub(super) at_ns: u64,
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

/// The release whose thread held the lock for most of a wait: since the wait's beginning, or since the release before.
pub(super) fn longest_hold(releases: &[Release<'_>], wait: (u64, u64)) -> Option<usize> {
    let mut since_ns = wait.0;
    releases.iter().position(|release| {
        let held_ns = release.at_ns.min(wait.1).saturating_sub(since_ns);
        since_ns = release.at_ns.max(wait.0);
        is_most(held_ns, wait.1.saturating_sub(wait.0))
    })
}
