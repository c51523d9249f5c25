// SPDX-License-Identifier: Apache-2.0
//! Which calls are stalls.

use std::cmp::Reverse;

use hindsight_decoder::{Calls, Flags, Method, Thread, Trace};

use super::culprit::chain;
use super::event_stalls::event_stalls;
use super::model::{Activity, Question, Stalls, RECENT_NS};
use super::spent::Spent;
use super::unrecorded::Unrecorded;
use crate::events::Own;
use crate::evidence::ring_is_damaged;
use crate::known;

/// The stalls of `thread`, which is one of `trace`. The most telling one is the longest that ended just before the
/// ring was taken, or was still going on.
///
/// Where the thread has a looper, a stall is a message of [`Question::stall_ns`] or more; otherwise an outermost call
/// of that length in which the thread was not busy itself, and not perhaps busy with short calls that it took back.
/// Waiting for work is no stall.
pub fn stalls(trace: &Trace, thread: &Thread, question: &Question) -> Stalls {
    if let Some(found) = event_stalls(trace, thread, question) {
        return found;
    }
    let calls = &thread.calls;
    let own = Own::of(thread);
    let (mut heads, messages) = heads(trace, calls);
    let length = |i: usize| calls.end_ns[i] - calls.start_ns[i];
    heads.sort_by_key(|&i| {
        let recent = thread.end_ns - calls.end_ns[i] <= RECENT_NS;
        Reverse((recent && length(i) >= question.stall_ns, length(i)))
    });
    let has_name = |i: usize| {
        trace
            .methods
            .get(calls.method[i])
            .is_some_and(Method::is_named)
    };
    let named = calls.is_empty() || (0..calls.len()).any(has_name);
    let mut chains = Vec::new();
    // The longest call that is long enough for a stall, and is none.
    let mut other: Option<(usize, Spent)> = None;
    let mut longest: Option<usize> = None;
    for head in heads {
        let is_long = length(head) >= question.stall_ns;
        let is_longest = longest.is_none_or(|l| length(l) < length(head));
        if !(is_long && chains.len() < question.limit || is_longest) {
            continue;
        }
        let spent = Spent::of(trace, thread, &own, head, messages);
        let activity = spent.activity;
        if activity == Activity::Idle {
            continue;
        }
        if is_longest {
            longest = Some(head);
        }
        // Without calls that were taken back, a thread that computes makes calls.
        let may_be_busy = activity == Activity::Busy
            || activity == Activity::Unknown && thread.takes_calls_back();
        let is_stall = named && (messages || !may_be_busy);
        if is_long && is_stall {
            if chains.len() < question.limit {
                chains.push(chain(trace, thread, &own, head, spent));
            }
        } else if is_long && other.is_none_or(|(o, _)| length(o) < length(head)) {
            other = Some((head, spent));
        }
    }
    let found = !chains.is_empty();
    if let Some((head, spent)) = other.filter(|_| !found) {
        chains.push(chain(trace, thread, &own, head, spent));
    }
    let damaged = ring_is_damaged(trace, thread);
    let unrecorded = Unrecorded::of(thread);
    let hides = unrecorded.hides(question.stall_ns);
    // Whether the longest call waited is not known.
    let unclear = other.is_some_and(|(_, spent)| spent.activity == Activity::Unknown);
    const CUT: u8 = Flags::OPEN_START.0 | Flags::OPEN_END.0;
    Stalls {
        tid: thread.tid,
        ring: thread.key.ring,
        thread: thread.name.clone(),
        stall: (found || named && !damaged && !unclear && !hides).then_some(found),
        named,
        damaged,
        span_ns: thread.end_ns - thread.start_ns,
        stall_ns: question.stall_ns,
        messages,
        events_only: false,
        longest_ns: longest.map(length),
        longest_is_cut: longest.is_some_and(|l| calls.flags[l].0 & CUT != 0),
        waited_for_work: longest.is_none() && !calls.is_empty(),
        nothing_recorded: calls.is_empty(),
        unrecorded_ns: unrecorded.ns,
        silent: unrecorded.is_silent,
        outside: None,
        chains,
        event_stalls: Vec::new(),
    }
}

/// The calls that chains begin with: messages, tasks of a thread pool, or else outermost calls; and whether they are
/// messages.
///
/// A looper runs messages through `Handler.dispatchMessage`, which may have been inlined into it. So its messages
/// are all the calls it makes, except the wait for the next one. In a ring that has wrapped around, the
/// looper itself isn't known any more: then messages are the outermost calls. A call without a name that dispatches
/// messages, and is in no message, is taken for a looper.
fn heads(trace: &Trace, calls: &Calls) -> (Vec<usize>, bool) {
    let marked = |is: fn(&Method) -> bool| -> Vec<bool> {
        trace.methods.iter().map(|(_, m)| is(m)).collect()
    };
    let (looper, dispatch, named, idle, message) = (
        marked(|m| known::is_message_loop(m) || known::is_task_loop(m)),
        marked(known::dispatches_message),
        marked(Method::is_named),
        marked(known::waits_for_work),
        marked(known::handles_messages),
    );
    let has = |marks: &[bool], i: usize| {
        marks
            .get(calls.method[i].0 as usize)
            .copied()
            .unwrap_or(false)
    };
    // Whether a call is a looper or a dispatched message, or inside one.
    let mut in_message = vec![false; calls.len()];
    // Messages that a call without a name dispatches.
    let mut dispatched = vec![false; calls.len()];
    for i in 0..calls.len() {
        let caller = calls.parent_of(i).filter(|&caller| !in_message[caller]);
        let is_dispatch = has(&dispatch, i);
        dispatched[i] = is_dispatch && caller.is_some_and(|caller| !has(&named, caller));
        let called_in_one = caller.is_none() && calls.parent_of(i).is_some();
        in_message[i] = called_in_one || is_dispatch || has(&looper, i);
    }
    // Loopers can be nested; a call above one isn't a message.
    let mut above_looper = vec![false; calls.len()];
    for (i, is_dispatched) in dispatched.iter().enumerate() {
        let mut above = match is_dispatched {
            true => calls.parent_of(i),
            false => Some(i).filter(|&i| has(&looper, i)),
        };
        while let Some(caller) = above.filter(|&caller| !above_looper[caller]) {
            above_looper[caller] = true;
            above = calls.parent_of(caller);
        }
    }
    let is_head = |i: usize| {
        let called_by_looper = calls.parent_of(i).is_none_or(|parent| has(&looper, parent));
        (called_by_looper || dispatched[i]) && !above_looper[i] && !has(&idle, i)
    };
    let heads = (0..calls.len()).filter(|&i| is_head(i)).collect();
    let messages = (0..calls.len()).any(|i| has(&message, i));
    (heads, messages)
}
