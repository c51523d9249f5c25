// SPDX-License-Identifier: Apache-2.0
//! Threads and times of several traces, as people write them.

use anyhow::{bail, ensure, Result};
use hindsight_analysis::parse_duration;
use hindsight_causality::story::process_name;
use hindsight_causality::{Session, ThreadId};
use wildmatch::WildMatch;

use crate::words::duration;

/// The one thread with this name, id, or `ring:N`; before a `/`, the name or id of its process.
pub(crate) fn find_thread(session: &Session, wanted: &str) -> Result<ThreadId> {
    let (process, thread) = match wanted.split_once('/') {
        Some((process, thread)) => (Some(process), thread),
        None => (None, wanted),
    };
    let of_process = |t: &ThreadId| {
        let facts = &session.trace_of(*t).process;
        let name = process_name(session, session.about(*t).trace());
        process.is_none_or(|p| WildMatch::new(p).matches(&name) || p == facts.pid.to_string())
    };
    let threads: Vec<ThreadId> = session.thread_ids().filter(of_process).collect();
    let ring: Option<u32> = thread.strip_prefix("ring:").and_then(|r| r.parse().ok());
    let has_id = |t: &&ThreadId| {
        let about = session.about(**t);
        thread.parse() == Ok(about.tid) || ring == Some(about.key.ring)
    };
    let mut found: Vec<ThreadId> = threads.iter().filter(has_id).copied().collect();
    if found.is_empty() {
        let pattern = WildMatch::new(thread);
        let named = |t: &&ThreadId| pattern.matches(session.thread_name(**t));
        found = threads.iter().filter(named).copied().collect();
    }
    let words = |t: &ThreadId| {
        let about = session.about(*t);
        let process = process_name(session, about.trace());
        let name = session.thread_name(*t);
        format!(
            "{process}/{name} (tid {}, ring:{})",
            about.tid, about.key.ring
        )
    };
    match found[..] {
        [one] => Ok(one),
        [] if session.threads().is_empty() => bail!("no thread was traced"),
        [] => {
            let present: Vec<String> = session.thread_ids().map(|t| words(&t)).collect();
            bail!(
                "there is no thread {wanted:?} in these traces; there are {}",
                present.join(", ")
            )
        }
        _ => {
            let all: Vec<String> = found.iter().map(words).collect();
            bail!(
                "{wanted:?} is {} threads: {}; name one as PROCESS/THREAD",
                found.len(),
                all.join(", ")
            )
        }
    }
}

/// The beginning of the earliest trace and the end of the latest one that are joined, CLOCK_BOOTTIME, ns.
pub(crate) fn bounds(session: &Session) -> (u64, u64) {
    let joined = (0..session.traces().len()).filter(|&t| session.apart(t).is_none());
    let traces: Vec<_> = joined.map(|t| session.trace(t)).collect();
    let start = traces.iter().map(|t| t.start_ns()).min();
    let end = traces.iter().map(|t| t.end_ns()).max();
    (start.unwrap_or(0), end.unwrap_or(0))
}

/// A time: `1.5s` after the beginning of the earliest trace, `-200ms` before the end of the latest. CLOCK_BOOTTIME, ns.
pub(crate) fn parse_time(session: &Session, text: &str) -> Result<u64> {
    let (start, end) = bounds(session);
    let (is_before_end, time) = match text.trim().strip_prefix('-') {
        Some(time) => (true, time),
        None => (false, text.trim()),
    };
    let Some(ns) = parse_duration(time) else {
        bail!(
            "{text:?} is no time: write 1.5s or 200ms after the beginning, or -2s before the end"
        );
    };
    let at = match is_before_end {
        true => end.saturating_sub(ns),
        false => start.saturating_add(ns),
    };
    ensure!(
        start <= at && at <= end,
        "{text} is not in the traces, which are {} long",
        duration(end - start)
    );
    Ok(at)
}
