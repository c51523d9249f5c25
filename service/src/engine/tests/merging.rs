// SPDX-License-Identifier: Apache-2.0
//! Which report has something that is noticed while a report of the same process is under way.

use hindsight_trace_format::protocol::{FromProcess, TriggerSeverity};
use hindsight_trace_format::shared::{Crash, CrashKind};

use super::support::*;
use crate::engine::{Action, Event, Outcome};

use TriggerSeverity::{Fatal, Requested, Slow, Stuck};

/// How far the first report is when the second thing is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// There is no memory for a second set of rings yet.
    Waiting,
    /// The process was told to take its rings, and has not answered; the second thing was noticed before that.
    ToldAfter,
    /// The same; it was noticed after that.
    ToldBefore,
    /// The rings are taken, and another process is read.
    Ready,
    /// The rings are read.
    Writing,
}

/// Noticed now. Reports have names of detectors only: `late-frames` is the first thing that happens, `stuck-message` the second one.
fn noticed(bench: &Bench, detector: &str, severity: TriggerSeverity) -> FromProcess {
    trigger_at(detector, severity, bench.now_ns)
}

/// Number, detector and time of all reports that are written.
fn begun(actions: &[Action]) -> Vec<(u64, String, u64)> {
    let write = |action: &Action| match action {
        Action::Write { report, about, .. } => {
            Some((*report, about.detector.clone(), about.at_boottime_ns))
        }
        _ => None,
    };
    actions.iter().filter_map(write).collect()
}

/// Process 1 has a report under way with the number 2, as far as this; process 2 keeps the reader busy with the report 1.
fn under_way(at: At, severity: TriggerSeverity) -> (Bench, Vec<Action>) {
    let mut bench = seen("[memory]\nbudget-mib = 128\n[reports]\nkilled = \"all\"");
    bench.join(2, hello("com.example.maps"));
    bench.said(2, slow());
    bench.taken(2, 1);
    if at == At::Waiting {
        bench.set_policy("[memory]\nbudget-mib = 16\n[reports]\nkilled = \"all\"");
    }
    let first = noticed(&bench, "late-frames", severity);
    let actions = bench.said(1, first);
    assert_eq!(actions.contains(&take(1, 2)), at != At::Waiting, "{at:?}");
    let mut all = Vec::new();
    match at {
        At::Waiting | At::ToldAfter | At::ToldBefore => {}
        At::Ready => all.extend(bench.taken(1, 2)),
        At::Writing => {
            bench.taken(1, 2);
            all.extend(bench.handle(kept(1)));
        }
    }
    (bench, all)
}

/// All that is under way goes on to its end.
fn go_on(bench: &mut Bench, all: &mut Vec<Action>) {
    bench.set_policy("[memory]\nbudget-mib = 128\n[reports]\nkilled = \"all\"");
    let mut report = 1;
    while report < 4 {
        all.extend(bench.taken(1, report));
        if begun(all).iter().any(|(n, ..)| *n == report) || report == 1 {
            all.extend(bench.handle(kept(report)));
            bench.answer_all();
        }
        report += 1;
    }
}

#[test]
fn a_report_is_called_by_what_its_rings_have() {
    use At::{Ready, ToldAfter, ToldBefore, Waiting, Writing};
    // How far the first one is, how severe both are, and what the reports are called.
    let cases: [(At, TriggerSeverity, TriggerSeverity, &[&str]); 14] = [
        (Waiting, Slow, Stuck, &["stuck-message"]),
        (Waiting, Stuck, Slow, &["late-frames"]),
        (Waiting, Slow, Fatal, &["stuck-message"]),
        (ToldAfter, Slow, Stuck, &["stuck-message"]),
        (ToldBefore, Slow, Stuck, &["late-frames", "stuck-message"]),
        (ToldBefore, Slow, Slow, &["late-frames"]),
        (Ready, Slow, Stuck, &["late-frames", "stuck-message"]),
        (Ready, Requested, Slow, &["late-frames", "stuck-message"]),
        (Ready, Slow, Slow, &["late-frames"]),
        (Ready, Stuck, Slow, &["late-frames"]),
        (Ready, Slow, Fatal, &["late-frames", "stuck-message"]),
        (Ready, Fatal, Fatal, &["late-frames"]),
        (Writing, Slow, Stuck, &["late-frames", "stuck-message"]),
        (Writing, Slow, Slow, &["late-frames"]),
    ];
    for case in cases {
        let (at, first, second, expected) = case;
        let (mut bench, mut all) = under_way(at, first);
        let early = noticed(&bench, "stuck-message", second);
        bench.pass(SECOND);
        let late = noticed(&bench, "stuck-message", second);
        all.extend(bench.said(1, if at == ToldAfter { early } else { late }));
        // It comes to the one that is begun after the rings were taken, too.
        let third = noticed(&bench, "gc-pressure", Slow);
        all.extend(bench.said(1, third));
        go_on(&mut bench, &mut all);
        let of_process: Vec<_> = begun(&all).into_iter().filter(|(n, ..)| *n != 1).collect();
        let names: Vec<&str> = of_process
            .iter()
            .map(|(_, name, _)| name.as_str())
            .collect();
        assert_eq!(names, expected, "{case:?}");
        let merged = bench.status().reports.get(&Outcome::Merged).copied();
        assert_eq!(merged, Some(3 - expected.len() as u64), "{case:?}");
    }
}

#[test]
fn a_kill_has_a_report_unless_the_anr_before_it_has_one() {
    // While the report of a slow message or a stuck one waits for the reader, the system says that the process does not respond.
    for (severity, expected) in [
        (Slow, ["late-frames", "anr"]),
        (Stuck, ["late-frames", "killed"]),
    ] {
        let (mut bench, mut all) = under_way(At::Ready, severity);
        bench.pass(SECOND);
        let anr = noticed(&bench, "anr", Stuck);
        all.extend(bench.said(1, anr));
        go_on(&mut bench, &mut all);
        all.extend(bench.handle(ended(1)));
        let of_process: Vec<_> = begun(&all).into_iter().filter(|(n, ..)| *n != 1).collect();
        let names: Vec<&str> = of_process
            .iter()
            .map(|(_, name, _)| name.as_str())
            .collect();
        assert_eq!(names, expected, "{severity:?}");
    }
}

/// Number, detector, reason, time of what it is about, and time of the end.
type OfEnd = (u64, String, String, u64, u64);

fn of_end(actions: &[Action]) -> Vec<OfEnd> {
    let write = |action: &Action| match action {
        Action::Write { report, about, .. } => Some((
            *report,
            about.detector.clone(),
            about.reason.clone(),
            about.at_boottime_ns,
            about.ended_boottime_ns,
        )),
        _ => None,
    };
    let all = actions.iter().filter_map(write);
    all.filter(|(report, ..)| *report != 1).collect()
}

const KILLED: &str = "the process was killed; before that, late-frames: a message took 900 ms";

#[test]
fn a_report_that_has_all_rings_of_a_killed_process_is_about_the_kill() {
    let late = "the process was killed; before that, stuck-message: a message took 900 ms";
    // How far the first report is, whether a second one waits for it, and what is written: name, reason, whether of the end.
    type Written = (&'static str, &'static str, bool);
    let cases: [(At, bool, &[Written]); 6] = [
        (At::Waiting, false, &[("killed", KILLED, true)]),
        (At::ToldBefore, false, &[("killed", KILLED, true)]),
        (At::Ready, false, &[("killed", KILLED, true)]),
        (
            At::Ready,
            true,
            &[(
                "killed",
                "the process was killed; before that, stuck-message: a message took 900 ms; \
                 before that, late-frames: a message took 900 ms",
                true,
            )],
        ),
        (
            At::Writing,
            false,
            &[
                ("late-frames", "a message took 900 ms", false),
                ("killed", "the process was killed", true),
            ],
        ),
        (
            At::Writing,
            true,
            &[
                ("late-frames", "a message took 900 ms", false),
                ("killed", late, true),
            ],
        ),
    ];
    for (at, has_second, expected) in cases {
        let (mut bench, mut all) = under_way(at, Slow);
        bench.pass(SECOND);
        if has_second {
            let second = noticed(&bench, "stuck-message", Stuck);
            all.extend(bench.said(1, second));
        }
        bench.pass(SECOND);
        let ended_ns = bench.now_ns;
        all.extend(bench.handle(ended(1)));
        // However long the disk takes.
        bench.pass(5 * SECOND);
        go_on(&mut bench, &mut all);
        let found = of_end(&all);
        let texts: Vec<_> = found
            .iter()
            .map(|(_, name, why, at_ns, end_ns)| {
                let is_of_end = (*at_ns, *end_ns) == (ended_ns, ended_ns);
                assert!(is_of_end || *end_ns == 0, "{at:?}");
                (name.as_str(), why.as_str(), is_of_end)
            })
            .collect();
        assert_eq!(texts, expected, "{at:?} {has_second}");
    }
}

#[test]
fn a_report_keeps_its_name_if_the_kill_is_worth_none() {
    for lines in [
        "[reports]\nkilled = \"none\"",
        "[reports]\nseverities = [\"slow\"]\nkilled = \"all\"",
    ] {
        let mut bench = seen(&format!("{lines}\n[memory]\nbudget-mib = 128"));
        bench.join(2, hello("com.example.maps"));
        bench.said(2, slow());
        bench.taken(2, 1);
        bench.said(1, slow());
        bench.taken(1, 2);
        bench.pass(SECOND);
        bench.handle(ended(1));
        let actions = bench.handle(kept(1));
        let (_, name, _, at_ns, end_ns) = &of_end(&actions)[0];
        assert_eq!(name, "slow-message", "{lines}");
        // What was open at the end ends there, not when the message was noticed.
        assert_eq!((*at_ns, *end_ns), (5, bench.now_ns), "{lines}");
    }
}

#[test]
fn a_fault_ends_a_process_whenever_its_end_is_seen() {
    // The kind of the crash, how long after it the process is gone, and how much of that belongs to the process's life.
    for (kind, seconds, lived) in [
        (CrashKind::Signal(11), 4, 0),
        (CrashKind::Signal(11), 40, 40),
        (CrashKind::UncaughtException, 4, 4),
    ] {
        let mut bench = seen("[reports]\nkilled = \"all\"");
        bench.said(1, slow());
        bench.taken(1, 1);
        bench.handle(kept(1));
        let at_boottime_ns = bench.now_ns;
        bench.pass(seconds * SECOND);
        let crash = Crash {
            kind,
            tid: 7,
            at_boottime_ns,
        };
        let connection = 1;
        bench.handle(Event::Crashed { connection, crash });
        let (_, _, _, at_ns, end_ns) = of_end(&bench.handle(ended(1)))[0];
        let expected = (at_boottime_ns, at_boottime_ns + lived * SECOND);
        assert_eq!((at_ns, end_ns), expected, "{kind:?} {seconds}");
    }
}
