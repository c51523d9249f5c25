// SPDX-License-Identifier: Apache-2.0
//! A chain of calls, and the calls of other threads meanwhile, in words.

use std::io::{self, Write as _};

use hindsight_analysis::{Activity, Chain, ChainCall, Evidence};
use hindsight_causality::story::Report;
use hindsight_decoder::Methods;

use super::answer::{of_calls, Choice};
use super::conclusion::conclusion;
use super::text::{named, other, Text};
use super::tree::callee_rows;
use crate::words::{count, duration};

/// Calls that are not listed one by one are worth a line if they took this part of the whole.
const LEAST_OTHERS: f64 = 0.01;
/// Time spent asleep or waiting is worth a sentence if it is this part of the whole.
const LEAST_WAITED: f64 = 0.1;
/// Most inlined methods that are named.
const MAX_INLINED: usize = 5;

impl Text<'_> {
    /// Where the time of a chain went, and who was waited for.
    pub(super) fn chain(&mut self, chain: &Chain, answer: Option<&Report>) -> io::Result<()> {
        let dim = self.page.palette.dim;
        writeln!(self.page)?;
        self.calls(&chain.callers, &chain.calls)?;
        writeln!(self.page)?;
        let Some(last) = chain.calls.last() else {
            return Ok(());
        };
        self.last(chain, last)?;
        if !chain.last.callees.is_empty() {
            writeln!(self.page)?;
            let mut rows = Vec::new();
            let least = (chain.held_ns as f64 * LEAST_OTHERS) as u64;
            let (callees, others) = (&chain.last.callees, chain.last.others);
            callee_rows(callees, others, least, 0, dim, &mut rows);
            self.rows(&rows)?;
        }
        self.inlined(last)?;
        for evidence in &chain.evidence {
            writeln!(self.page)?;
            self.evidence(evidence, last, chain.lock_owner.is_some())?;
        }
        let told = chain.lock_owner.is_some() || chain.waker.is_some();
        let choice = answer.map_or(Choice::Own, |report| of_calls(chain, report));
        self.conclude(conclusion(chain), choice, answer, usize::from(told))
    }

    /// How the last call of the chain spent its time.
    fn last(&mut self, chain: &Chain, last: &ChainCall) -> io::Result<()> {
        let gap = duration(chain.last.longest_gap_ns);
        let method = &last.method;
        let nothing = called_nothing(chain, method);
        let calls = !chain.last.callees.is_empty();
        let is_quiet = chain.last.longest_gap_ns.saturating_mul(2) > chain.held_ns;
        let computed = chain.used.map(|used| {
            format!(
                "The thread used {} of CPU time in the {}.",
                duration(used.cpu_ns),
                duration(chain.held_ns)
            )
        });
        // ART records a wait after it has tried to get the lock for a while.
        let recorded = match chain.last.recorded_wait_ns.map(duration) {
            Some(wait) if wait != gap => {
                let until = match chain.still_running {
                    true => "the trace was taken",
                    false => "it ended",
                };
                format!("was recorded, {wait} before {until}")
            }
            _ => "began".to_owned(),
        };
        let what = match (&chain.lock_owner, &chain.waker) {
            (Some(owner), _) => {
                let (lock, thread) = (owner.lock, other(owner.thread.as_deref(), owner.tid));
                let owned = format!("which {thread} owned when the wait {recorded}");
                format!("{method} called nothing for {gap}: it waited for the lock {lock:#x}, {owned}.")
            }
            (None, Some(waker)) => {
                let thread = other(waker.thread.as_deref(), waker.tid);
                format!("{method} called nothing for {gap}: it waited until {thread} woke it.")
            }
            (None, None) if chain.last.wait_kind.is_some() => {
                let wait = duration(chain.last.recorded_wait_ns.unwrap_or(0));
                let what = match chain.last.wait_kind.as_deref() {
                    Some("object") => format!("waited in Object.wait for {wait}"),
                    Some("sleep") => format!("slept for {wait}"),
                    Some("park") => format!("was parked for {wait}"),
                    Some("gc") => format!("waited for the garbage collector for {wait}"),
                    Some("transaction") => {
                        format!("waited for the reply to a transaction for {wait}")
                    }
                    _ => format!("waited for {wait}"),
                };
                format!("{method} called nothing for {gap}: the thread {what}.")
            }
            (None, None) if chain.last.recorded_wait_ns.is_some() => {
                let whose = match chain.last.lock_waits {
                    0 | 1 => "a lock whose owner was not recorded".to_owned(),
                    // No owner had the lock for most of the wait, or the owners were not recorded.
                    n => format!("locks, {} times", count(n)),
                };
                format!("{method} called nothing for {gap}: it waited for {whose}.")
            }
            _ => match chain.activity {
                Activity::Busy if !calls && is_quiet && computed.is_some() => format!(
                    "{nothing}: it computed. {}",
                    computed.unwrap_or_default()
                ),
                Activity::Busy if calls => format!(
                    "The thread continued to make calls: nothing held it up. {method} took its time in these:"
                ),
                Activity::Busy => format!(
                    "The thread continued to make calls, at the latest after {gap}: nothing held it up. {method} took \
                     {}, most of it in its own code.",
                    duration(last.ns)
                ),
                Activity::Waited if calls => format!("{method} made these calls:"),
                Activity::Waited if chain.last.sleeps => {
                    format!("{method} slept or waited {gap}.")
                }
                Activity::Waited => format!(
                    "The thread slept or waited for {} of that time, but not in one call. The deepest call that took \
                     most of the time is {method}: {}.",
                    duration(chain.waited_ns),
                    duration(last.ns)
                ),
                Activity::Unknown | Activity::Idle if calls => {
                    format!("{method} took its time in these calls:")
                }
                Activity::Unknown | Activity::Idle if computed.is_some() => {
                    format!("{nothing}. {}", computed.unwrap_or_default())
                }
                Activity::Unknown | Activity::Idle => {
                    format!("{nothing}. {}", computed_or_waited(chain))
                }
            },
        };
        // Waiting that the sentence does not name.
        let is_named = chain.activity == Activity::Waited && !calls;
        let is_much = chain.waited_ns as f64 >= LEAST_WAITED * chain.held_ns as f64;
        let slept = match !is_named && is_much && chain.waited_ns > 0 {
            true => format!(
                "The thread slept or waited for {} of the {}. ",
                duration(chain.waited_ns),
                duration(chain.held_ns)
            ),
            false => String::new(),
        };
        self.say("", &format!("{slept}{what}"))
    }

    /// The methods that ran in a call without trace points of their own.
    fn inlined(&mut self, call: &ChainCall) -> io::Result<()> {
        if call.inlined.is_empty() {
            return Ok(());
        }
        let mut names = call.inlined.clone();
        let more = names.len().saturating_sub(MAX_INLINED);
        names.truncate(MAX_INLINED);
        if more > 0 {
            names.push(format!("and {} more", count(more as u64)));
        }
        let (dim, names) = (self.page.palette.dim, names.join(", "));
        self.say(
            dim,
            &format!("Inlined into it, and so part of that time: {names}."),
        )
    }

    /// The calls of another thread while `waited` waited. If the owner of the lock is recorded, nothing is guessed.
    fn evidence(
        &mut self,
        e: &Evidence,
        waited: &ChainCall,
        owner_is_known: bool,
    ) -> io::Result<()> {
        let thread = named(&e.thread, e.tid);
        self.say("", &format!("Meanwhile {thread} was in:"))?;
        writeln!(self.page)?;
        self.calls(&e.callers, &e.calls)?;
        writeln!(self.page)?;
        let Some(last) = e.calls.last() else {
            return Ok(());
        };
        let by = match e.method != last.method {
            true => format!(", called by {}", e.method),
            false => String::new(),
        };
        let (method, ns) = (&last.method, duration(last.ns));
        let percent = (e.share * 100.0).floor();
        let mut what = format!("It spent {ns}, {percent} % of that time, in {method}{by}.");
        if let Some(owner) = &e.lock_owner {
            let owner = other(owner.thread.as_deref(), owner.tid);
            what += &format!(" There it waited for a lock that {owner} owned.");
        }
        if let Some(together) = e.ended_together.and_then(|i| e.calls.get(i)) {
            let gap = duration(e.end_gap_ns.unsigned_abs());
            let when = if e.end_gap_ns < 0 { "after" } else { "before" };
            let method = match together.method.as_str() {
                Methods::NOT_RECORDED_NAME => "A call entered before the trace",
                method => method,
            };
            let waited = &waited.method;
            let ended = format!("{method} ended {gap} {when} {waited} continued");
            what += &match e.owns_lock || e.woke {
                fact if fact || owner_is_known => format!(" {ended}."),
                _ if e.same_class => format!(
                    " {ended}: it is a method of the same class, so most likely it held a lock that {waited} needs."
                ),
                _ => format!(" {ended}: most likely that ended the wait."),
            };
        }
        self.say("", &what)
    }
}

/// The beginning of a sentence: for how long the last call of a chain made no call that would be in the trace.
fn called_nothing(chain: &Chain, method: &str) -> String {
    let gap = duration(chain.last.longest_gap_ns);
    match chain.last.taken_back_below_ns {
        None => format!("{method} called nothing for {gap}"),
        Some(u64::MAX) => format!("{method} made no call that was kept for {gap}"),
        Some(ns) => format!(
            "{method} called nothing that took {} or longer for {gap}",
            duration(ns)
        ),
    }
}

/// What a thread without recorded calls may have done.
fn computed_or_waited(chain: &Chain) -> String {
    let short = match chain.last.taken_back_below_ns {
        None => {
            let advice = match chain.cost_recorded {
                true => "",
                false => " (events=waits+resources records it)",
            };
            return format!("Whether it waited or computed is not recorded{advice}.");
        }
        Some(u64::MAX) => "made calls that were left out".to_owned(),
        Some(ns) => format!("made calls shorter than {}", duration(ns)),
    };
    let advice = match chain.cost_recorded {
        true => "which is not recorded",
        false => "events=waits+resources records which",
    };
    format!("It computed, {short}, or waited: {advice}.")
}
