// SPDX-License-Identifier: Apache-2.0
//! Checks the snapshots: each file is complete and decodes, its methods have names, and the program can make all
//! its calls.

use std::path::Path;

use hindsight_decoder::{Method, Thread, Trace, NO_PARENT};

/// Closed classes of `lab/stress/Stress.java`: their methods call no others of the program and, except
/// [`OPEN_METHODS`], are called by no others. A lost or invented entry or exit soon leads to an impossible call.
const CLOSED: [&str; 7] = [
    "Chain",
    "Recursion",
    "Throwing",
    "Overflow",
    "Jni",
    "Contended",
    "Alloc",
];
/// Methods of closed classes that other classes may call.
const OPEN_METHODS: [&str; 5] = ["run", "expected", "attach", "prepare", "fromNative"];

/// The contents of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) rings: u64,
    pub(super) events: u64,
    /// Calls with a checked caller.
    pub(super) calls: u64,
    /// Slots without an anchor before or after them: the machine was too busy for the control thread to take one.
    pub(super) unbounded_slots: u64,
}

/// Decodes and checks a file. An error is a finding.
pub(super) fn check(path: &Path) -> Result<Counts, String> {
    let trace = Trace::open(path).map_err(|error| error.to_string())?;
    let mut counts = Counts::default();
    for thread in &trace.threads {
        counts.rings += 1;
        counts.events += thread.stats.trace_points;
        counts.unbounded_slots += thread.stats.unbounded_slots;
        counts.calls += check_thread(&trace, thread)
            .map_err(|problem| format!("thread {} ({}): {problem}", thread.tid, thread.name))?;
    }
    if trace.threads.is_empty() {
        return Err("there is no ring in it".to_owned());
    }
    Ok(counts)
}

/// Checks a thread. Returns the number of calls with a checked caller.
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
        // A method that was entered before the ring's first event has no name.
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

/// Whether the program can make this call.
fn is_possible(caller: &Method, method: &Method) -> bool {
    if method.name == "<clinit>" || (method.class == "Stress" && method.name == "check") {
        return true;
    }
    if method.class == "Worker" && method.name == "step" {
        return caller.class == "Worker" && caller.name == "run";
    }
    let (from, to) = (closed_class(&caller.class), closed_class(&method.class));
    let is_open = OPEN_METHODS.contains(&method.name.as_str());
    match (from, to) {
        (Some(from), Some(to)) if from == to => !is_open || method.name == "expected",
        (_, Some(_)) if !is_open => false,
        // Threads that native code attached.
        (Some("Jni"), Some("Chain")) => true,
        // The program's classes are in no package.
        (Some(_), _) => method.class.contains('.'),
        _ => true,
    }
}

/// The closed class that a class is, or is nested in.
fn closed_class(class: &str) -> Option<&'static str> {
    let outer = class.split('$').next().unwrap_or(class);
    CLOSED.into_iter().find(|closed| *closed == outer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_testkit::Script;

    #[test]
    fn classes_within_classes_are_theirs() {
        assert_eq!(closed_class("Throwing$Expected"), Some("Throwing"));
        assert_eq!(closed_class("Chain"), Some("Chain"));
        assert_eq!(closed_class("java.lang.Chain"), None);
        assert_eq!(closed_class("Chainsaw"), None);
    }

    /// Names of methods; `-` is an exit.
    fn checked(calls: &[&str]) -> Result<Counts, String> {
        let mut script = Script::new("stress");
        let thread = script.thread(7, "worker 0");
        for (at, call) in calls.iter().enumerate() {
            let method = match script.symbols.iter().find(|s| {
                let name = format!("{}.{}", s.class, s.name);
                name == *call
            }) {
                Some(symbol) => symbol.address,
                None if *call == "-" => 0,
                None => script.method(call, "()V"),
            };
            let mut recorder = script.at(thread, 100 * (at as u64 + 1));
            match *call {
                "-" => recorder.exit(),
                "unnamed" => recorder.enter(0x7000_0000),
                _ => recorder.enter(method),
            };
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        script.write(file.path()).unwrap();
        check(file.path())
    }

    #[test]
    fn what_the_program_does_is_right_from_any_moment_on() {
        let calls = [
            "Worker.step",
            "Chain.run",
            "Chain.first",
            "Chain.leaf",
            "-",
            "-",
            "Stress.check",
            "-",
            "Chain.expected",
            "-",
            "-",
            "Jni.fromNative",
            "Chain.run",
            "-",
            "-",
            "Contended.run",
            "java.lang.Object.wait",
            "-",
            "-",
            "Throwing.run",
            "Throwing$Expected.<init>",
            "-",
            "-",
            "-",
        ];
        let all = checked(&calls).unwrap();
        assert_eq!((all.rings, all.events), (1, 24));
        assert_eq!(all.calls, 11);
        for from in 1..calls.len() {
            checked(&calls[from..]).unwrap();
        }
    }

    #[test]
    fn an_event_too_many_or_too_few_is_found() {
        let first = ["Chain.first", "Chain.leaf", "-", "-"];
        let call = ["Worker.step", "Chain.run"];
        let step = [&call[..], &first, &first, &["-", "-"]].concat();
        let calls = [&["Worker.run"][..], &step, &step].concat();
        assert!(checked(&calls).is_ok());
        let problem = |calls: &[&str]| checked(calls).unwrap_err();
        for place in 2..7 {
            let mut fewer = calls.clone();
            fewer.remove(place);
            assert!(problem(&fewer).contains("never does that"), "{place}");
            let mut more = calls.clone();
            more.insert(place + 1, "-");
            assert!(problem(&more).contains("never does that"), "{place}");
        }
    }

    #[test]
    fn a_method_without_a_name_is_found() {
        assert_eq!(
            checked(&["unnamed", "-"]).unwrap_err(),
            "thread 7 (worker 0): 1 entries without a name"
        );
    }

    #[test]
    fn a_file_that_is_none_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(check(file.path()).is_err());
    }
}
