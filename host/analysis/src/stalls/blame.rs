// SPDX-License-Identifier: Apache-2.0
//! What held a thread up: the culprit.

use super::model::{EventWait, Reason};
use super::spent::is_most;

/// What held a thread up, and its thread, and why that is known; or why nothing is.
pub(super) fn verdict(
    wait: &EventWait,
    followed: &[EventWait],
) -> (Option<(String, String)>, Reason) {
    let last = followed.last().unwrap_or(wait);
    let Some(party) = last.party() else {
        // The thread before waited, and nothing is known of whom for.
        let before = followed.len().checked_sub(1).map(|i| match i {
            0 => wait,
            i => &followed[i - 1],
        });
        return (None, before.map_or(Reason::NotRecorded, waited));
    };
    let (known, unclear, not_traced) = match last.owner {
        Some(_) => (
            Reason::LockOwner,
            Reason::OwnerUnclear,
            Reason::OwnerNotTraced,
        ),
        None => (Reason::Waker, Reason::WakerUnclear, Reason::WakerNotTraced),
    };
    if last.owner_is_unclear {
        return (None, unclear);
    }
    let thread = match (party.ring, &party.thread) {
        (Some(_), Some(thread)) => thread.clone(),
        _ if party.traced => return (None, unclear),
        _ => return (None, not_traced),
    };
    // A transaction may wait for a free thread, longer than it is served.
    if last.served_ns.is_some_and(|ns| !is_most(ns, wait.ns)) {
        return (None, Reason::NotRecorded);
    }
    if is_most(party.waited_ns, wait.ns) {
        return (None, waited(last));
    }
    let place = party.place_meanwhile.as_ref();
    let place = place.filter(|place| is_most(place.ns, wait.ns));
    let what = place
        .map(|place| &place.method)
        .or_else(|| party.doing.last());
    match what {
        Some(what) => (Some((what.clone(), thread)), known),
        None => (None, unclear),
    }
}

/// The owner or waker of the wait waited itself.
fn waited(wait: &EventWait) -> Reason {
    match wait.owner {
        Some(_) => Reason::OwnerWaited,
        None => Reason::WakerWaited,
    }
}
