// SPDX-License-Identifier: Apache-2.0
//! Reads the reports, and compares them with what the apps can have done.

use std::path::Path;

use hindsight_decoder::{Method, Thread, Trace, NO_PARENT};
use hindsight_trace_format::shared::Loss;

/// Calls that the app's class `Work` makes: caller and method.
const WORK: [(&str, &str); 5] = [
    ("rounds", "round"),
    ("round", "first"),
    ("first", "second"),
    ("second", "third"),
    ("execute", "rounds"),
];

/// What is in a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Calls with a checked caller.
    pub(super) calls: u64,
    /// Events.
    pub(super) events: u64,
    /// Threads that found no room for a ring, by the process's own account.
    pub(super) without_room: u64,
    /// Methods without a name: the process ended before it had written the names of its first classes.
    pub(super) too_early: u64,
}

/// Methods without a name in a report: the process ended before its first names were written.
pub(super) fn unnamed(path: &Path) -> Result<u64, String> {
    let trace = Trace::open(path).map_err(|error| error.to_string())?;
    let losses = trace.losses.counts.iter();
    let unnamed = losses.filter(|(what, _)| what.starts_with("methods without a name"));
    let of_threads = trace
        .threads
        .iter()
        .map(|thread| thread.stats.unnamed_entries);
    Ok(unnamed.map(|(_, count)| *count).sum::<u64>() + of_threads.sum::<u64>())
}

/// Decodes and checks a report of the process `pid`. An error is a problem.
pub(super) fn check(path: &Path, pid: u32) -> Result<Counts, String> {
    let trace = Trace::open(path).map_err(|error| error.to_string())?;
    if trace.process.pid != pid {
        return Err(format!("it is of process {}", trace.process.pid));
    }
    if let Some(damage) = trace.damaged.first() {
        return Err(format!("it is damaged: {damage:?}"));
    }
    let mut counts = Counts::default();
    // Events have a bounded memory, and a process that the user has left gives its ring of calls back.
    let expected = [Loss::OldEvents, Loss::RingsEvicted].map(Loss::text);
    // No thread waits until the service has given the room that the process asked for.
    let without_room = [Loss::ThreadsWithoutEvents, Loss::ThreadsStopped].map(Loss::text);
    for (what, count) in &trace.losses.counts {
        if without_room.contains(&what.as_str()) {
            counts.without_room += count;
        } else if what.starts_with("methods without a name: the process ended before") {
            counts.too_early += count;
        } else if !expected.contains(&what.as_str()) {
            return Err(format!("it lost something: {count} {what}"));
        }
    }
    for thread in &trace.threads {
        counts.events += thread.events.len() as u64;
        counts.calls += check_thread(&trace, thread)
            .map_err(|problem| format!("thread {} ({}): {problem}", thread.tid, thread.name))?;
    }
    match trace.threads.is_empty() {
        true => Err("there is no ring in it".to_owned()),
        false => Ok(counts),
    }
}

/// Returns the number of calls with a checked caller.
fn check_thread(trace: &Trace, thread: &Thread) -> Result<u64, String> {
    let stats = &thread.stats;
    for (what, count) in [
        ("entries without a name", stats.unnamed_entries),
        ("unknown events", stats.unknown_extensions),
        ("incredible frames", stats.incredible_frames),
    ] {
        if count != 0 {
            return Err(format!("{count} {what}"));
        }
    }
    let mut checked = 0;
    let mut latest = 0;
    for (index, call) in thread.calls.iter().enumerate() {
        if call.start_ns < latest || call.end_ns < call.start_ns {
            return Err(format!("call {index} starts or ends before its time"));
        }
        latest = call.start_ns;
        if call.parent == NO_PARENT {
            continue;
        }
        let parent = thread.calls.get(call.parent as usize);
        let both = (trace.methods.get(parent.method)).zip(trace.methods.get(call.method));
        // A method that was entered before the ring's first event may have no name.
        let Some((caller, method)) = both else {
            continue;
        };
        checked += 1;
        if !is_possible(caller, method) {
            return Err(format!(
                "call {index}, of {}, is made by {}, which never does that",
                method.full_name(),
                caller.full_name(),
            ));
        }
    }
    Ok(checked)
}

/// Whether the app can make this call.
fn is_possible(caller: &Method, method: &Method) -> bool {
    let is_work = |method: &Method| method.class == "com.example.device.Work";
    if method.name == "<clinit>" || !(is_work(caller) || is_work(method)) {
        return true;
    }
    let (from, to) = (caller.name.as_str(), method.name.as_str());
    WORK.contains(&(from, to)) || (["goOn", "spin"].contains(&from) && to == "rounds")
}
