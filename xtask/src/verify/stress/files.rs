// SPDX-License-Identifier: Apache-2.0
//! Checks what was persisted: each file is whole and decodes, its methods have names, and its calls are those that the
//! program makes.

use std::path::Path;

use hindsight_decoder::{Flags, MethodId, Thread, Trace, NO_PARENT};

/// Classes of `lab/stress/Stress.java` whose methods only they call, but for `run`, `attach`, `prepare` and
/// `fromNative`.
const CLOSED: [&str; 7] = [
    "Chain",
    "Recursion",
    "Throwing",
    "Overflow",
    "Jni",
    "Contended",
    "Alloc",
];
/// The methods of those that others call.
const OPEN_METHODS: [&str; 6] = [
    "run",
    "expected",
    "attach",
    "prepare",
    "fromNative",
    "<clinit>",
];

/// What is in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) rings: u64,
    pub(super) events: u64,
    /// Calls whose caller was checked.
    pub(super) calls: u64,
    /// Slots that no anchor bounds: the machine was too busy for the control thread to look in time.
    pub(super) unbounded_slots: u64,
}

/// Decodes a file. An error is a finding.
pub(super) fn check(path: &Path) -> Result<Counts, String> {
    let trace = Trace::open(path).map_err(|error| error.to_string())?;
    let mut counts = Counts::default();
    for thread in &trace.threads {
        counts.rings += 1;
        counts.events += thread.stats.points;
        counts.unbounded_slots += thread.stats.unbounded_slots;
        counts.calls += check_thread(&trace, thread)
            .map_err(|problem| format!("thread {} ({}): {problem}", thread.tid, thread.name))?;
    }
    if trace.threads.is_empty() {
        return Err("there is no ring in it".to_owned());
    }
    Ok(counts)
}

/// Checks a thread; the number of calls whose callers were looked at.
fn check_thread(trace: &Trace, thread: &Thread) -> Result<u64, String> {
    let stats = &thread.stats;
    for (what, count) in [
        ("entries without a name", stats.unnamed_entries),
        ("unknown events", stats.unknown_extensions),
        ("incredible frames", stats.incredible_frames),
        ("ignored anchors", stats.anchors_ignored),
    ] {
        if count != 0 {
            return Err(format!("{count} {what}"));
        }
    }
    if stats.contradicting_times != 0 && stats.unbounded_slots == 0 {
        return Err(format!(
            "{} times contradict the anchors",
            stats.contradicting_times
        ));
    }
    let class_of = |id: MethodId| {
        let method = trace.methods.get(id)?;
        closed_class(&method.class)
    };
    let mut checked = 0;
    let mut latest = 0;
    for (index, call) in thread.slices.iter().enumerate() {
        if call.start_ns < latest || call.end_ns < call.start_ns {
            return Err(format!("call {index} starts or ends before its time"));
        }
        latest = call.start_ns;
        if call.parent == NO_PARENT || call.flags.contains(Flags::OPEN_START) {
            continue;
        }
        let (Some(class), Some(method)) = (class_of(call.method), trace.methods.get(call.method))
        else {
            continue;
        };
        let parent = thread.slices.get(call.parent as usize);
        if parent.flags.contains(Flags::OPEN_START) {
            continue;
        }
        checked += 1;
        let caller = trace.methods.get(parent.method);
        let by_itself = class_of(parent.method) == Some(class);
        let called_from_outside = OPEN_METHODS.contains(&method.name.as_str());
        if by_itself == called_from_outside && !may_call_itself(class, &method.name) {
            return Err(format!(
                "call {index}, of {}, is made by {}, which never does",
                method.full_name(),
                caller.map_or("?".to_owned(), |caller| caller.full_name()),
            ));
        }
    }
    Ok(checked)
}

/// The closed class that this is, or is in.
fn closed_class(class: &str) -> Option<&'static str> {
    let outer = class.split('$').next().unwrap_or(class);
    CLOSED.into_iter().find(|closed| *closed == outer)
}

/// Calls of either kind.
fn may_call_itself(class: &str, method: &str) -> bool {
    // Chain.run compares with Chain.expected, as others do; initializers run wherever a class is used first.
    method == "expected" || method == "<clinit>" || (class == "Jni" && method == "run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_within_classes_are_theirs() {
        assert_eq!(closed_class("Throwing$Expected"), Some("Throwing"));
        assert_eq!(closed_class("Chain"), Some("Chain"));
        assert_eq!(closed_class("java.lang.Chain"), None);
        assert_eq!(closed_class("Chainsaw"), None);
    }
}
