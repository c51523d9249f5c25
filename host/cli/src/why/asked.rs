// SPDX-License-Identifier: Apache-2.0
//! The thread that a question without a thread's name is about.

use std::path::Path;

use anyhow::Result;
use hindsight_decoder::{Thread, Trace};

use crate::select::thread_or_main;

/// The thread that is asked about: the named one, else the one that the report is about, else the main thread.
pub(super) fn asked<'a>(trace: &'a Trace, file: &Path, wanted: Option<&str>) -> Result<&'a Thread> {
    match reported(trace).filter(|_| wanted.is_none()) {
        Some(thread) => Ok(thread),
        None => thread_or_main(trace, file, wanted),
    }
}

/// The thread that served another process, or ran a slow method, if that is why the trace was saved. In all other reports that
/// name a thread it is the main thread, or the watchdog, which noticed something about the main thread.
fn reported(trace: &Trace) -> Option<&Thread> {
    let facts = &trace.process;
    let names_it =
        facts.raised_by != 0 && (is_waited_for(&facts.reason) || is_method(&facts.reason));
    let thread = trace.thread_at(facts.raised_by, trace.end_ns());
    thread.filter(|_| names_it)
}

/// `process 7 (report 1) waited 603 ms for a transaction of this process`
fn is_waited_for(reason: &str) -> bool {
    reason.starts_with("process ") && reason.contains(" ms for a transaction of this process")
}

/// `a.Store.read took 450 ms, over 400 ms`
fn is_method(reason: &str) -> bool {
    let Some((method, took)) = reason.split_once(" took ") else {
        return false;
    };
    let mut words = took.split(' ').skip(1);
    let is_time = (words.next(), words.next()) == (Some("ms,"), Some("over"));
    is_time && method.contains('.') && !method.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_tell_whether_the_thread_is_not_main() {
        for (reason, is) in [
            (
                "process 7 (report 1) waited 603 ms for a transaction of this process",
                true,
            ),
            ("a.Store.read took 450 ms, over 400 ms", true),
            (
                "a message on main took 450 ms, over 400 ms: a.Handler",
                false,
            ),
            (
                "the start took 900 ms to the first frame, over 500 ms: class 1",
                false,
            ),
            (
                "the main thread waited 603 ms for another process, over 400 ms",
                false,
            ),
            ("asked.by took long", false),
            ("process 7 is slow", false),
            ("", false),
        ] {
            assert_eq!(is_waited_for(reason) || is_method(reason), is, "{reason}");
        }
    }
}
