// SPDX-License-Identifier: Apache-2.0
//! Why no culprit is known although a wait names the thread that was waited for.

use hindsight_analysis::Missing;

/// How a thread gets into traces with calls.
pub(crate) const TRACE_IT: &str = "trace it, too (trace=all)";

/// How a thread gets into traces with events only, which all threads record.
pub(crate) const MORE_RINGS: &str =
    "record with more rings (event-rings=) or a larger spool (event-spool=)";

/// Of a thread that is not in the trace; its role is such as `owned the lock`. `remedy` is what to do about it.
pub(crate) fn not_traced(role: &str, name: &str, missing: Option<Missing>, remedy: &str) -> String {
    match missing {
        Some(Missing::RingDamaged) => {
            format!("{name} {role}, and its ring is damaged: what it recorded cannot be read.")
        }
        Some(Missing::FileDamaged) => format!(
            "{name} {role}, and is not in the part of the file that could be read: the file is damaged."
        ),
        Some(Missing::Converted) => format!(
            "{name} {role}, and is not in this file. The file was converted: ask the original file, which may have it."
        ),
        Some(Missing::Overwritten) => overwritten(role, name),
        Some(Missing::BeganLater) => format!(
            "{name} {role}. What is recorded of a thread with this id begins later, and may be of another thread."
        ),
        None => format!(
            "{name} {role}, and is not in the trace: to learn what it did, {remedy}."
        ),
    }
}

/// Of a thread whose ring does not hold that time.
fn overwritten(role: &str, name: &str) -> String {
    format!(
        "{name} {role}, but its ring does not reach back so far: its earlier events were overwritten, are in an earlier file, \
         or fell out of the spool. Record with larger rings (event-ring=) or a larger spool (event-spool=)."
    )
}

/// Of an id that several threads had.
pub(crate) fn several(role: &str, tid: u32) -> String {
    format!("{role} has the id {tid}, as several threads of the trace had.")
}

/// Of a thread that did not do what would explain the wait: it `did`, such as `made`, `nothing`, such as `no call that
/// lasted most of the wait`.
pub(crate) fn unclear(
    role: &str,
    name: &str,
    (did, nothing): (&str, &str),
    missing: Option<Missing>,
) -> String {
    match missing {
        Some(Missing::RingDamaged) => {
            format!("{name} {role}, but its ring is damaged, and the rest has {nothing}.")
        }
        Some(Missing::Overwritten) => overwritten(role, name),
        _ => format!("{name} {role}, but {did} {nothing}."),
    }
}
