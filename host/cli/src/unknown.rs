// SPDX-License-Identifier: Apache-2.0
//! Why no culprit is known although a wait names the thread that was waited for.

use hindsight_analysis::Missing;

/// Of a thread that is not in the trace; its role is such as `owned the lock`.
pub(crate) fn not_traced(role: &str, name: &str, missing: Option<Missing>) -> String {
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
            "{name} {role}, and is not in the trace: to learn what it did, trace it, too (trace=all)."
        ),
    }
}

/// Of a thread whose ring does not hold that time.
fn overwritten(role: &str, name: &str) -> String {
    format!(
        "{name} {role}, but its ring does not reach back so far. Record with larger rings (event-ring=) or a larger spool \
         (event-spool=)."
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
