// SPDX-License-Identifier: Apache-2.0
use hindsight_trace_format::shared::Counter;

use super::*;
use crate::policy::Policy;

const S: u64 = 1_000_000_000;
const NOTHING: [u64; 0] = [];

fn rules(lines: &str) -> Detectors {
    let policy = Policy::parse(&format!("version = 1\n{lines}"));
    policy.unwrap().detectors
}

/// Facts of one process, connection 1, at a second: temperature, stalls for memory so far (ms), and counters so far.
fn facts(celsius: i64, memory_ms: u64, counters: &[(Counter, u64)]) -> Facts {
    let mut process = ProcessFacts {
        pid: 7,
        ..ProcessFacts::default()
    };
    for (counter, value) in counters {
        process.counters[*counter as usize] = *value;
    }
    Facts {
        system: SystemFacts {
            stalled_us: [None, None, Some(memory_ms * 1000)],
            millicelsius: Some(celsius * 1000),
            ..SystemFacts::default()
        },
        processes: [(1, process)].into(),
    }
}

/// Seconds at which something is found, with the detector and the reason.
fn look(rules: &Detectors, facts: impl IntoIterator<Item = Facts>) -> Vec<(u64, String, String)> {
    let mut detectors = ServiceDetectors::default();
    let mut all = Vec::new();
    for (second, facts) in (0..).zip(facts) {
        let (found, _) = detectors.look(rules, (100 + second) * S, facts);
        all.extend(found.into_iter().map(|(connection, finding)| {
            assert_eq!(connection, 1);
            (second, finding.detector, finding.reason)
        }));
    }
    all
}

fn seconds(found: &[(u64, String, String)]) -> Vec<u64> {
    found.iter().map(|(second, ..)| *second).collect()
}

#[test]
fn a_device_is_hot_after_a_while_and_reported_once() {
    let rules = rules("[detectors.thermal]\ncelsius = 60\nfor-seconds = 3\nquiet-seconds = 10");
    let of = |celsius: &[i64]| {
        let found = look(&rules, celsius.iter().map(|c| facts(*c, 0, &[])));
        seconds(&found)
    };
    assert_eq!(of(&[50, 61, 62, 63, 64, 65, 66]), [4]);
    assert_eq!(of(&[61, 61, 61, 60, 61, 61, 61]), NOTHING);
    assert_eq!(of(&[61; 20]), [3, 13]);
    let unknown = Facts {
        system: SystemFacts::default(),
        ..facts(0, 0, &[])
    };
    assert_eq!(look(&rules, vec![unknown.clone(); 20]), []);
    // Nothing is looked at again in vain, until the user sees a traced process anew.
    let mut detectors = ServiceDetectors::default();
    assert!(detectors.need_facts(&rules));
    detectors.look(&rules, 100 * S, unknown);
    assert!(!detectors.need_facts(&rules));
    detectors.nothing_seen();
    assert!(detectors.need_facts(&rules));
    detectors.look(&rules, 101 * S, facts(50, 0, &[]));
    assert!(detectors.need_facts(&rules));
    let found = look(&rules, vec![facts(61, 0, &[]); 4]);
    assert_eq!(found[0].1, "thermal");
    assert!(
        found[0].2.contains("61 °C, over 60 °C for 3 s"),
        "{found:?}"
    );
}

const MEMORY_JANK: &str =
    "[detectors.thermal]\nenabled = false\n[[detectors.correlated]]\nname = \"memory-jank\"\n\
    quiet-seconds = 5\nall = [{ metric = \"psi-memory-percent\", over = 20, for-seconds = 2 }, \
    { metric = \"late-frames\", over = 5 }]";

/// Of each second: how long work waited for memory (ms), and late frames.
fn memory_jank(of: &[(u64, u64)]) -> Vec<(u64, String, String)> {
    let (mut memory, mut late) = (0, 0);
    let mut all = vec![facts(0, 0, &[])];
    for (ms, frames) in of {
        memory += ms;
        late += frames;
        all.push(facts(0, memory, &[(Counter::LateFrames, late)]));
    }
    look(&rules(MEMORY_JANK), all)
}

#[test]
fn a_correlated_rule_needs_all_its_metrics_for_their_time() {
    let found = memory_jank(&[(300, 9), (300, 9)]);
    assert_eq!(seconds(&found), [2]);
    assert_eq!(found[0].1, "correlated-memory-jank");
    let reason = "psi-memory-percent is 30, over 20 and late-frames is 9, over 5";
    assert_eq!(found[0].2, reason);
    // One without the other, or too short.
    assert_eq!(memory_jank(&[(300, 5); 9]), []);
    assert_eq!(memory_jank(&[(200, 9); 9]), []);
    assert_eq!(memory_jank(&[(300, 9), (0, 9), (300, 9), (0, 9)]), []);
    assert_eq!(seconds(&memory_jank(&[(300, 9); 12])), [2, 7, 12]);
}

#[test]
fn what_nobody_looked_at_has_not_lasted() {
    // Both rules want 3 s, and there are looks at 2 s, and at 2 s an hour later.
    let rules = rules(
        "[detectors.thermal]\ncelsius = 60\nfor-seconds = 3\n[[detectors.correlated]]\nname = \"x\"\n\
        all = [{ metric = \"late-frames\", over = 5, for-seconds = 3 }]\n[detectors.outlier]\nenabled = true\nscore = 8\n\
        for-seconds = 3\nwarm-up-seconds = 10",
    );
    for is_interrupted in [false, true] {
        let mut detectors = ServiceDetectors::default();
        let mut late = 1;
        let mut names = Vec::new();
        for at in (90..=103).chain([3703, 3704, 3705]) {
            if at == 3703 && is_interrupted {
                detectors.nothing_seen();
            }
            // At first it is cool, and few frames are late.
            let is_bad = at >= 102;
            late += if is_bad { 100_000 } else { 1 };
            let celsius = if is_bad { 65 } else { 40 };
            let facts = facts(celsius, 0, &[(Counter::LateFrames, late)]);
            let (found, _) = detectors.look(&rules, at * S, facts);
            names.extend(found.into_iter().map(|(_, finding)| finding.detector));
        }
        names.sort_unstable();
        names.dedup();
        match is_interrupted {
            true => assert_eq!(names, [""; 0]),
            false => assert_eq!(names, ["correlated-x", "outlier", "thermal"]),
        }
    }
}

/// Time in messages of each second, ms.
fn outliers(of: &[u64]) -> Vec<u64> {
    let rules = rules(
        "[detectors.thermal]\nenabled = false\n[detectors.outlier]\nenabled = true\nscore = 8\nfor-seconds = 3\n\
         warm-up-seconds = 20\nquiet-seconds = 100",
    );
    let mut sum = 0;
    let mut all = vec![facts(0, 0, &[])];
    for ms in of {
        sum += ms * 1_000_000;
        all.push(facts(
            0,
            0,
            &[(Counter::MessageNs, sum), (Counter::Messages, sum)],
        ));
    }
    seconds(&look(&rules, all))
}

#[test]
fn an_outlier_leaves_the_range_that_it_had() {
    // Between 40 and 60 ms a second.
    let normal: Vec<u64> = (0..60).map(|second| 40 + second * 7 % 20).collect();
    assert_eq!(outliers(&normal), NOTHING);
    let with = |more: &[u64]| outliers(&[&normal[..], more].concat());
    assert_eq!(with(&[900, 900, 900, 900]), [63]);
    assert_eq!(with(&[900, 900, 50, 900, 900]), NOTHING, "not in a row");
    assert_eq!(with(&[90; 9]), NOTHING, "within its range");
    // Too early to know the range; then the new level is the range.
    assert_eq!(outliers(&[[50; 10], [900; 10]].concat()), NOTHING);
}

#[test]
fn noise_around_nothing_is_no_outlier() {
    let quiet: Vec<u64> = (0..60).map(|second| second % 2 * 2).collect();
    assert_eq!(outliers(&[&quiet[..], &[5, 5, 5, 5]].concat()), NOTHING);
}

/// Run delays of each second, ms: by the process's own account, and by the system's.
fn run_delays(own: &[u64], system: &[u64]) -> Vec<u64> {
    let rules = rules(
        "[detectors.thermal]\nenabled = false\n[[detectors.correlated]]\nname = \"starved\"\nquiet-seconds = 0\n\
         all = [{ metric = \"run-delay-ms\", over = 100 }]",
    );
    let (mut own_ns, mut system_ns) = (0, 0);
    let mut all = Vec::new();
    for (own, system) in own.iter().zip(system) {
        own_ns += own * 1_000_000;
        system_ns += system * 1_000_000;
        let mut facts = facts(0, 0, &[(Counter::RunDelayNs, own_ns)]);
        facts.system.run_delay_ns = [(7, system_ns)].into();
        all.push(facts);
    }
    seconds(&look(&rules, all))
}

#[test]
fn a_process_may_tell_its_own_run_delay() {
    assert_eq!(run_delays(&[1, 200, 9, 200], &[0; 4]), [1, 3]);
    // An older build tells nothing; then the system may.
    assert_eq!(run_delays(&[0; 4], &[1, 200, 9, 200]), [1, 3]);
    // What comes from two accounts is not compared.
    assert_eq!(run_delays(&[0, 0, 5000, 1], &[1; 4]), NOTHING);
}

#[test]
fn what_a_process_does_not_count_is_not_known() {
    use super::facts::rates;
    use crate::policy::Metric;
    let found = |counters: &[(Counter, u64)]| {
        let before = facts(30, 0, &[]);
        let rates = rates(&before, &facts(30, 0, counters), 1_000_000_000);
        let (_, rates) = &rates[0];
        assert!(rates.get(Metric::PsiMemory).is_some());
        (rates.get(Metric::Frames), rates.get(Metric::Allocated))
    };
    assert_eq!(found(&[]), (None, None));
    // Kept without any rule of a detector.
    let allocated = found(&[(Counter::AllocatedBytes, 2048)]);
    assert_eq!(allocated, (None, Some(2.0)));
    assert_eq!(found(&[(Counter::MessageNs, 1)]), (Some(0.0), None));
}

#[test]
fn other_rules_begin_anew() {
    let thermal = |celsius: u64| {
        rules(&format!(
            "[detectors.thermal]\ncelsius = {celsius}\nfor-seconds = 2"
        ))
    };
    let mut detectors = ServiceDetectors::default();
    let mut at = |second: u64, rules: &Detectors| {
        let (found, _) = detectors.look(rules, second * S, facts(70, 0, &[]));
        found.len()
    };
    assert_eq!(
        (
            at(1, &thermal(60)),
            at(2, &thermal(61)),
            at(3, &thermal(61))
        ),
        (0, 0, 0)
    );
    assert_eq!(at(4, &thermal(61)), 1);
}

#[test]
fn facts_are_read_less_often_while_nothing_happens_and_never_without_processes() {
    let mut pace = Pace::default();
    assert_eq!(pace.deadline(), None);
    pace.set(10 * S, true);
    assert_eq!(pace.deadline(), Some(11 * S));
    let mut now = 11 * S;
    let mut looks = 0;
    while now < 3611 * S {
        assert!(pace.is_due(now));
        pace.looked(now, false);
        now = pace.deadline().unwrap();
        looks += 1;
    }
    assert!(looks < 70, "{looks} looks in an hour");
    pace.woken(now);
    assert_eq!(pace.deadline(), Some(now + S));
    pace.looked(now, true);
    assert_eq!(pace.deadline(), Some(now + S));
    pace.set(now, false);
    assert_eq!(pace.deadline(), None);
}
