// SPDX-License-Identifier: Apache-2.0
//! Who held up a thread whose calls are recorded, or why that is not known, from its calls and their locks, in words.

use hindsight_analysis::{Activity, Chain, ChainCall, Missing, Reason};

use super::text::other;
use super::unknown::{not_traced, several, unclear, TRACE_IT};
use crate::words::duration;

/// The culprit, or the reason why none is known.
pub(super) fn conclusion(chain: &Chain) -> Option<String> {
    let owner = chain.lock_owner.as_ref();
    let waker = chain.waker.as_ref();
    let owner_name = owner.map_or_else(String::new, |o| other(o.thread.as_deref(), o.tid));
    let waker_name = waker.map_or_else(String::new, |w| other(w.thread.as_deref(), w.tid));
    let culprit = chain.culprit.as_ref();
    let culprit = culprit.map(|(method, thread)| format!("{method}, on thread \"{thread}\""));
    let culprit = culprit.unwrap_or_else(|| "unknown".to_owned());
    let idle = chain.evidence.first().is_some_and(|e| e.idle);
    let waited = |role: &str, name: &str, tid: u32| {
        let itself = chain.evidence.first();
        let of = |thread: &Option<String>, tid| other(thread.as_deref(), tid);
        let what = match itself.map(|e| (&e.lock_owner, &e.waker, e.waited_ns)) {
            Some((Some(o), ..)) => {
                format!("for a lock itself, which {} owned", of(&o.thread, o.tid))
            }
            Some((None, Some(w), ns)) => {
                let waker = of(&w.thread, w.tid);
                format!(
                    "itself for {} of that time, until {waker} woke it",
                    duration(ns)
                )
            }
            Some((None, None, ns)) => format!("itself for {} of that time", duration(ns)),
            None => "itself".to_owned(),
        };
        format!("{name} {role}, but waited {what}. For more: hindsight why --thread {tid}")
    };
    let unclear = |role: &str, name: &str, missing: Option<Missing>| match idle {
        true if missing != Some(Missing::RingDamaged) => {
            format!("{name} {role}, but waited for work for most of that time.")
        }
        _ => {
            let nothing = ("made", "no call that lasted most of the wait");
            unclear(role, name, nothing, missing)
        }
    };
    let text = match chain.culprit_reason {
        Reason::LockOwner => format!("{culprit}, which owned the lock."),
        Reason::Waker => format!("{culprit}, which ended the wait."),
        Reason::OwnerNotTraced => {
            let missing = owner.and_then(|o| o.missing);
            let why = not_traced("owned the lock", &owner_name, missing, TRACE_IT);
            format!("unknown: {why}")
        }
        Reason::WakerNotTraced => {
            let missing = waker.and_then(|w| w.missing);
            let why = not_traced("ended the wait", &waker_name, missing, TRACE_IT);
            format!("unknown: {why}")
        }
        Reason::OwnerUnnamed => {
            format!("unknown: {owner_name} owned the lock, in methods without a name.")
        }
        Reason::WakerUnnamed => {
            format!("unknown: {waker_name} ended the wait, in methods without a name.")
        }
        Reason::OwnerWaited => {
            let tid = owner.map_or(0, |o| o.tid);
            format!("unknown: {}", waited("owned the lock", &owner_name, tid))
        }
        Reason::WakerWaited => {
            let tid = waker.map_or(0, |w| w.tid);
            format!("unknown: {}", waited("ended the wait", &waker_name, tid))
        }
        Reason::OwnerUnclear => match owner {
            Some(owner) if owner.ring.is_some() => {
                let role = "owned the lock when the wait began";
                format!("unknown: {}", unclear(role, &owner_name, owner.missing))
            }
            owner => format!(
                "unknown: {}",
                several("the owner of the lock", owner.map_or(0, |o| o.tid))
            ),
        },
        Reason::WakerUnclear => match waker {
            Some(waker) if waker.ring.is_some() => {
                let why = unclear("ended the wait", &waker_name, waker.missing);
                format!("unknown: {why}")
            }
            waker => format!(
                "unknown: {}",
                several("the thread that ended the wait", waker.map_or(0, |w| w.tid))
            ),
        },
        Reason::Slept => {
            // The call that slept in its callees, for most of the sleep.
            let slept = |c: &&ChainCall| c.own && (c.ns - c.self_ns.min(c.ns)) * 2 > chain.slept_ns;
            let own = chain.calls.iter().rev().find(slept);
            let by = own.map_or_else(String::new, |c| format!(": {} made it sleep", c.method));
            return Some(format!("No other thread held it up{by}."));
        }
        // The graph names the last two.
        Reason::Busy | Reason::Paused | Reason::Circle | Reason::Diagnosed => return None,
        Reason::NotRecorded => {
            if let Some((method, thread)) = &chain.suspect {
                return Some(format!(
                    "Suspect: {method}, on thread \"{thread}\". That is concluded from times alone: the trace does not \
                     record which thread was waited for."
                ));
            }
            match chain.activity {
                Activity::Waited => {
                    "unknown: the trace does not record which thread was waited for.".to_owned()
                }
                _ => "unknown: the trace does not record whether the thread waited, or for whom."
                    .to_owned(),
            }
        }
    };
    Some(format!("Culprit: {text}"))
}
