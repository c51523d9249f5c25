// SPDX-License-Identifier: Apache-2.0
//! What `scripts/steps.sh` prints at the end of a run: a reader often has the last lines of a log only.

use std::path::Path;
use std::process::Command;

const LAST_LINES: [&str; 14] = [
    "layout: 3 crates, 5 modules, 0 problems",
    "oat: 1 methods, 2 entries, 3 exits, 0 problems",
    "instructions: 4 counts, 0 differences",
    "oracle: 1 programs, 2 events, 0 differences",
    "stress: 32 s, 2851 actions, 1766 files, 9307636 events, 1 findings",
    "device: 1 apps, 2 kills, 3 reports, 0.81 app-hours, 0 problems",
    "detectors: 12 cases, 6 found, 0 missed, 0 false, 0 problems",
    "perfetto: 1 rounds, 2 slices, 3 of 3 threads join sched, 0 problems",
    "events: 4 programs, 5 pairs, 0 wrong, 0 missing",
    "causality: 4 programs, 5 edges, 0 wrong, 0 missing, culprits 1 right, 0 unknown, 0 wrong",
    "cases: 3 runs, 0 with problems, culprits 1 right, 0 unknown, 0 wrong",
    "samples: 1 programs, 2 calls, coverage 90 %, error 1.0 %",
    "vm: 40 checks, 0 failed, 1 skipped",
    "balance: 1 programs, 2 threads, 3 events, 0 problems",
];

/// The end of a run with these steps: name, exit status, output.
fn summary(steps: &[(&str, u32, &str)]) -> String {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let logs = tempfile::tempdir().unwrap();
    let write = |name: String, text: &str| std::fs::write(logs.path().join(name), text).unwrap();
    for (name, status, output) in steps {
        write(format!("{name}.log"), output);
        write(format!("{name}.status"), &status.to_string());
        write(format!("{name}.times"), "1.0 2.0 3.0\n");
    }
    let names: String = steps.iter().map(|(name, ..)| format!("{name}\n")).collect();
    write("order".to_owned(), &names);
    let script = "set -euo pipefail; logs=$0; source scripts/steps.sh; summary || echo failed";
    let output = Command::new("bash")
        .args(["-c", script])
        .arg(logs.path())
        .current_dir(checkout)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_last_line_of_each_check_is_shown_and_no_other() {
    let log = format!("stress: 40 s, seed 7\n{}\nnoise\n", LAST_LINES.join("\n"));
    let shown = summary(&[("all", 0, &log)]);
    for line in LAST_LINES {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    assert!(
        !shown.contains("seed 7") && !shown.contains("noise"),
        "{shown}"
    );
    assert!(
        shown.ends_with("0 passed, 0 failed, 0 skipped\n"),
        "{shown}"
    );
}

#[test]
fn what_is_wrong_in_a_failed_step_is_shown_once() {
    let stress = format!(
        "finding: round 0: x\nround 0\nfinding: round 0: x\n{}\n",
        LAST_LINES[4]
    );
    let tests =
        "thread 'a' (7) panicked at b.rs:1:2:\nleft is not right\nnote\ntest a ... FAILED\n";
    let shown = summary(&[
        ("good", 0, "finding: of a step that passed\n"),
        ("stress", 1, &stress),
        ("tests", 101, tests),
        ("odd", 2, "1\n2\n3\n4\n5\n6\n"),
    ]);
    let lines: Vec<&str> = shown.lines().filter(|line| line.contains(": ")).collect();
    let expected = [
        "stress: finding: round 0: x",
        "tests: thread 'a' (7) panicked at b.rs:1:2:",
        "tests: left is not right",
        "tests: test a ... FAILED",
        "odd: 2",
        "odd: 3",
        "odd: 4",
        "odd: 5",
        "odd: 6",
        LAST_LINES[4],
        "failed steps: stress tests odd",
    ];
    assert_eq!(lines, expected, "{shown}");
    assert!(shown.ends_with("failed\n"), "{shown}");
}
