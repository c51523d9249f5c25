// SPDX-License-Identifier: Apache-2.0
use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::protocol::{
    AppDetector, DetectorRule, DetectorRules, TriggerSeverity, DETECTORS,
};

use super::support::*;
use crate::engine::{Connection, Event, Finding, Outcome};

/// The rules that were sent last, and to whom.
fn last(bench: &mut Bench) -> (Connection, DetectorRules) {
    bench.rules.pop().expect("no rules were sent")
}

fn rule(rules: &DetectorRules, detector: AppDetector) -> Option<&DetectorRule> {
    let name = detector.spec().name;
    rules.rules.iter().find(|rule| rule.name == name)
}

#[test]
fn a_process_learns_the_rules_at_once_and_again_when_they_change() {
    let mut bench = Bench::of("");
    bench.join(1, hello("com.example.notes"));
    let (to, first) = last(&mut bench);
    assert_eq!((to, bench.rules.len()), (1, 0));
    // All but the one that watches no method.
    assert_eq!(first.rules.len(), DETECTORS.len() - 1);
    let slow = rule(&first, AppDetector::SlowMessage).unwrap();
    assert_eq!(slow.numbers, [400, 10]);

    bench.foreground(1, true);
    bench.set_policy("");
    assert_eq!(bench.rules, [], "nothing has changed");
    bench.set_policy("[detectors.slow-message]\nlimit-ms = 200");
    let (_, second) = last(&mut bench);
    assert!(second.revision > first.revision);
    let slow = rule(&second, AppDetector::SlowMessage).unwrap();
    assert_eq!(slow.numbers, [200, 10]);
    bench.set_policy("[detectors.slow-message]\nenabled = false");
    let (_, third) = last(&mut bench);
    assert_eq!(rule(&third, AppDetector::SlowMessage), None);
    bench.set_policy("enabled = false");
    assert_eq!(last(&mut bench).1.rules, [], "nothing is recorded");
}

/// The service's detectors need the counters that a process keeps while it follows any rule, and joint reports need what it notes about
/// whom it serves meanwhile.
#[test]
fn a_process_without_rules_keeps_counters_if_the_service_needs_them() {
    let off: String = DETECTORS
        .iter()
        .filter(|spec| spec.detector != AppDetector::SlowMethod)
        .map(|spec| format!("[detectors.{}]\nenabled = false\n", spec.name))
        .collect();
    let names = |peers: u32, more: &str| {
        let mut bench = Bench::of(&format!("[reports]\npeers = {peers}\n{off}{more}"));
        bench.join(1, hello("com.example.notes"));
        let rules = bench.rules.pop().map(|(_, rules)| rules.rules);
        let rules = rules.unwrap_or_default().into_iter();
        rules.map(|rule| rule.name.to_string()).collect::<Vec<_>>()
    };
    let none = "[detectors.thermal]\nenabled = false";
    assert_eq!(names(0, none), [""; 0]);
    assert_eq!(names(1, none), ["counters"], "for joint reports");
    assert_eq!(names(0, ""), ["counters"], "thermal is on");
    let correlated =
        "[[detectors.correlated]]\nname = \"x\"\nall = [{ metric = \"frames\", over = 1 }]";
    assert_eq!(names(0, correlated), ["counters"]);
}

#[test]
fn methods_are_watched_in_the_processes_that_the_rule_names() {
    let watch = "[[detectors.slow-method]]\npackage = \"com.example.notes\"\n\
                 method = \"com.example.Store.load\"\nlimit-ms = 30";
    let mut bench = Bench::of("");
    bench.join(1, hello("com.example.notes"));
    bench.join(2, hello("com.example.maps"));
    bench.rules.clear();
    let actions = bench.set_policy(watch);
    let (to, rules) = last(&mut bench);
    assert_eq!((to, bench.rules.len()), (1, 0));
    let found = rule(&rules, AppDetector::SlowMethod).unwrap();
    assert_eq!(
        (found.method.as_str(), &found.numbers[..]),
        ("com.example.Store.load", &[30, 10][..])
    );
    // Its events must be recorded.
    let told = configurations(&actions);
    assert_eq!(told.len(), 1);
    assert_ne!(told[0].1.categories & Category::Rules.bit(), 0);
}

#[test]
fn what_a_detector_that_is_off_finds_does_not_count() {
    let mut bench = seen("[detectors.slow-message]\nenabled = false");
    assert!(bench.said(1, slow()).is_empty());
    let status = bench.status();
    assert_eq!(status.reports.get(&Outcome::DetectorOff), Some(&1));
    let own = trigger("program", TriggerSeverity::Slow);
    assert_eq!(bench.said(1, own), [take(1, 1)]);
}

#[test]
fn findings_of_the_service_make_one_report() {
    let mut bench = seen("");
    assert_eq!(bench.engine.observed(), [1]);
    let found = || Event::Found {
        connection: 1,
        finding: Finding {
            severity: TriggerSeverity::Fatal,
            detector: "thermal".into(),
            reason: "96 °C".into(),
        },
    };
    assert_eq!(bench.handle(found()), [take(1, 1)]);
    assert!(bench.handle(found()).is_empty(), "one is under way");
    let actions = bench.taken(1, 1);
    assert_eq!(writes(&actions)[0].2, "thermal");
    bench.foreground(1, false);
    assert!(bench.engine.observed().is_empty());
}

#[test]
fn an_end_that_the_process_has_announced_is_one_report() {
    let of = |seconds: u64| {
        let mut bench = seen("");
        let crash = trigger("uncaught-exception", TriggerSeverity::Fatal);
        assert_eq!(bench.said(1, crash), [take(1, 1)]);
        bench.taken(1, 1);
        bench.handle(kept(1));
        bench.pass(seconds * SECOND);
        let actions = bench.handle(ended(1));
        writes(&actions).len()
    };
    assert_eq!(of(1), 0);
    // It survived, and was killed later.
    assert_eq!(of(3600), 1);
}
