// SPDX-License-Identifier: Apache-2.0
//! What held a thread up that records events only, or why that is not known, in words.

use hindsight_analysis::{EventStall, EventWait, Holder, LongWait, Party, Reason, MOST_FOLLOWED};

use super::unknown::{not_traced, several, unclear, MORE_RINGS};
use crate::words::duration;

/// `thread "main" (tid 4200)`
pub(crate) fn named(party: &Party) -> String {
    thread(party.tid, party.thread.as_deref())
}

fn thread(tid: u32, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("thread \"{name}\" (tid {tid})"),
        None => format!("thread {tid}"),
    }
}

/// What a thread has not recorded that is no culprit.
pub(crate) const NOTHING: &str = "no task or message that ran for most of the wait";

/// What the party of a wait did; `of` names the wait.
fn role(wait: &EventWait, of: &str) -> String {
    match (&wait.owner, wait.served_ns) {
        (Some(_), _) if wait.owner_since_ns.is_some() => format!("held the lock for most of {of}"),
        (Some(_), _) => format!("held the lock when {of} began"),
        (None, Some(_)) => format!("served the transaction in {of}"),
        (None, None) => format!("ended {of}"),
    }
}

/// Why it is not known whom the last thread waited for.
fn waited(stall: &EventStall, wait: &EventWait) -> Option<String> {
    let waits: Vec<&EventWait> = [wait].into_iter().chain(&stall.followed).collect();
    let (last, before) = waits.split_last()?;
    let of = |i: usize| match i.checked_sub(1).and_then(|i| waits[i].party()) {
        Some(party) => format!("the wait of {}", named(party)),
        None => "the wait".to_owned(),
    };
    let Some(party) = last.party() else {
        // The last wait is the one of the thread before.
        let wait = before.last()?;
        let (name, role) = (named(wait.party()?), role(wait, &of(before.len() - 1)));
        let why = match (last.kind.as_str(), last.result.as_deref()) {
            ("gc", _) => "that was for the garbage collector",
            ("lock", _) => "the owner of that lock is not recorded",
            ("transaction", _) => "the thread that served its transaction is not recorded",
            (_, None) => "that wait had not ended",
            (_, Some("timed out")) => "that wait ended when its time was over",
            (_, Some("interrupted")) => "who interrupted that wait is not recorded",
            _ => "who ended that wait is not recorded",
        };
        return Some(format!(
            "{name} {role}, but waited itself for most of that time, and {why}."
        ));
    };
    let (name, role) = (named(party), role(last, &of(before.len())));
    let why = match stall.is_circle {
        true => "and these threads wait for each other",
        false if stall.followed.len() >= MOST_FOLLOWED => "and no more threads are followed",
        false => "and no single wait took most of that time",
    };
    Some(format!(
        "{name} {role}, but waited itself for most of that time, {why}. For more: hindsight why --thread {}",
        party.tid
    ))
}

pub(crate) fn conclusion(stall: &EventStall) -> Option<String> {
    let wait = stall.wait.as_ref();
    let last = stall.followed.last().or(wait);
    let party = last.and_then(EventWait::party);
    let before = stall.followed.iter().rev().nth(1).or(wait);
    let before = before.filter(|_| !stall.followed.is_empty());
    let of = before.and_then(EventWait::party);
    let of = of.map_or("the wait".to_owned(), |p| {
        format!("the wait of {}", named(p))
    });
    let name = party.map_or_else(String::new, named);
    let (tid, missing) = party.map_or((0, None), |p| (p.tid, p.missing));
    let is_one = party.is_some_and(|p| p.ring.is_some());
    let culprit = stall.culprit.as_ref();
    let culprit = culprit.map(|(what, thread)| format!("{what}, on thread \"{thread}\""));
    let culprit = culprit.unwrap_or_default();
    let reason = stall.culprit_reason;
    let role = last.map_or_else(String::new, |last| role(last, &of));
    if !stall.circle.is_empty() {
        return Some(deadlock(&stall.circle));
    }
    let for_whom = match before {
        Some(_) => format!(" in {of}"),
        None => String::new(),
    };
    Some(match reason {
        Reason::LockOwner => format!("Culprit: {culprit}, which held the lock{for_whom}."),
        Reason::Waker if last.is_some_and(|w| w.served_ns.is_some()) => {
            format!("Culprit: {culprit}, which served the transaction{for_whom}.")
        }
        Reason::Waker => format!("Culprit: {culprit}, which ended {of}."),
        Reason::OwnerNotTraced | Reason::WakerNotTraced => {
            format!(
                "Culprit: unknown: {}",
                not_traced(&role, &name, missing, MORE_RINGS)
            )
        }
        Reason::OwnerUnclear if last.is_some_and(|w| w.owner_is_unclear) => {
            format!("Culprit: unknown: {name} held the lock when {of} began, but the lock was released meanwhile, and no thread is known to have held it for most of that time.")
        }
        Reason::OwnerUnclear | Reason::OwnerUnnamed if !is_one => {
            format!(
                "Culprit: unknown: {}",
                several("the owner of the lock", tid)
            )
        }
        Reason::WakerUnclear | Reason::WakerUnnamed if !is_one => {
            format!(
                "Culprit: unknown: {}",
                several("the thread that ended the wait", tid)
            )
        }
        Reason::OwnerUnclear
        | Reason::OwnerUnnamed
        | Reason::WakerUnclear
        | Reason::WakerUnnamed => {
            let why = unclear(&role, &name, ("recorded", NOTHING), missing);
            format!("Culprit: unknown: {why}")
        }
        Reason::OwnerWaited | Reason::WakerWaited => {
            format!("Culprit: unknown: {}", waited(stall, wait?)?)
        }
        Reason::Slept => alone(stall, &slept(wait)),
        Reason::Busy => alone(stall, "it computed for most of the time"),
        Reason::Paused => {
            let thread = stall.culprit.as_ref().map_or("", |(_, thread)| thread);
            format!("Culprit: a garbage collection on thread \"{thread}\", which suspended all threads.")
        }
        Reason::NotRecorded if wait.is_none() => return several_waits(&stall.long_waits),
        // The graph names the last two.
        Reason::NotRecorded | Reason::Circle | Reason::Diagnosed => return None,
    })
}

/// That the thread slept, and until when.
fn slept(wait: Option<&EventWait>) -> String {
    let interrupted = wait.filter(|w| w.result.as_deref() == Some("interrupted"));
    match interrupted.map(|w| &w.waker) {
        None => "it slept for a time that it chose".to_owned(),
        Some(None) => "it slept until it was interrupted".to_owned(),
        Some(Some(waker)) => format!("it slept until {} interrupted it", named(waker)),
    }
}

/// Of a thread that took most of the time itself.
fn alone(stall: &EventStall, what: &str) -> String {
    let upper = what[..1].to_uppercase() + &what[1..];
    let paused: u64 = stall.gc_pauses.iter().map(|p| p.outside_waits_ns).sum();
    let paused = (paused.saturating_mul(10) >= stall.held_ns).then(|| duration(paused));
    match (list(&stall.long_waits), paused) {
        (None, None) => format!("No other thread held it up: {what}."),
        (None, Some(ns)) => format!("{upper}. But it was also suspended for {ns}."),
        (Some(waits), None) => format!("{upper}. But it also waited {waits}."),
        (Some(waits), Some(ns)) => {
            format!("{upper}. But it also waited {waits}, and was suspended for {ns}.")
        }
    }
}

/// No wait took most of the time.
fn several_waits(long_waits: &[LongWait]) -> Option<String> {
    let waits = list(long_waits)?;
    let parties = long_waits
        .iter()
        .filter_map(|w| w.longest.owner.as_ref().or(w.longest.waker.as_ref()));
    let first = parties.filter(|p| p.ring.is_some()).map(|p| p.tid).next();
    let more = first.map_or_else(String::new, |tid| {
        format!(" For more: hindsight why --thread {tid}")
    });
    Some(format!(
        "No wait took most of the time: it waited {waits}.{more}"
    ))
}

/// `400 ms for a lock that … held, and 300 ms …`
fn list(long_waits: &[LongWait]) -> Option<String> {
    let waits: Vec<String> = long_waits.iter().map(wait_for).collect();
    match &waits[..] {
        [] => None,
        [one] => Some(one.clone()),
        [all @ .., last] => Some(format!("{}, and {last}", all.join(", "))),
    }
}

/// Threads that wait for each other's locks.
fn deadlock(circle: &[Holder]) -> String {
    let names: Vec<String> = (circle
        .iter()
        .map(|t| format!("thread \"{}\" (tid {})", t.thread, t.tid)))
    .collect();
    match &names[..] {
        [one] => format!("Deadlock: {one} waits for a lock that it holds itself."),
        [a, b] => format!("Deadlock: {a} and {b} wait for each other's locks."),
        all => format!("Deadlock: each of these threads waits for a lock that the next one holds, the last one for one of the first one: {}.", all.join(", ")),
    }
}

/// `400 ms for locks that thread "pool-1" (tid 101) held when the waits began`
pub(crate) fn wait_for(wait: &LongWait) -> String {
    let (is_one, longest) = (wait.count <= 1, &wait.longest);
    let what = match (longest.kind.as_str(), is_one) {
        ("lock", true) => "for a lock",
        ("lock", false) => "for locks",
        ("object", _) => "in Object.wait",
        ("park", _) => "parked",
        ("gc", _) => "for the garbage collector",
        ("transaction", true) => "for the reply to a transaction",
        ("transaction", false) => "for replies to transactions",
        (kind, _) => kind,
    };
    let held_by = wait.held_by.as_ref();
    let held_by = held_by.map(|h| thread(h.tid, h.thread.as_deref()));
    let who = match (&longest.owner, &longest.waker, longest.served_ns) {
        // Others may have held them later.
        (Some(_), ..) if !is_one && held_by.is_some() => {
            let held_by = held_by.unwrap_or_default();
            format!(" that {held_by} held when the waits began")
        }
        (Some(owner), ..) if longest.owner_is_unclear => {
            format!(" that {} held when the wait began", named(owner))
        }
        (Some(owner), ..) => format!(" that {} held", named(owner)),
        (None, Some(server), Some(_)) => format!(", which {} served", named(server)),
        (None, Some(waker), None) => format!(" until {} ended it", named(waker)),
        (None, None, _) if longest.result.as_deref() == Some("timed out") => {
            " until its time was over".to_owned()
        }
        (None, None, _) => String::new(),
    };
    format!("{} {what}{who}", duration(wait.ns))
}
