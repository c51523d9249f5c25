// SPDX-License-Identifier: Apache-2.0
//! Files are read as they are meant.

use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::protocol::TriggerSeverity;

use super::parse;
use crate::policy::*;

#[test]
fn the_listed_defaults_are_the_built_in_ones() {
    assert_eq!(Policy::parse(DEFAULT_TEXT), Ok(Policy::default()));
    assert_eq!(parse(""), Ok(Policy::default()));
}

/// The comments of the listed defaults are examples: they must be right.
#[test]
fn the_listed_examples_are_valid() {
    let lines = DEFAULT_TEXT
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(code) if code.starts_with("[[") || code.contains(" = ") => code,
            _ => line,
        });
    let text: Vec<&str> = lines.collect();
    let policy = Policy::parse(&text.join("\n")).unwrap();
    assert_eq!(policy.record.overrides().len(), 1);
    assert_eq!(policy.consent.regions.len(), 1);
}

#[test]
fn all_keys_are_read() {
    let policy = parse(
        "revision = 7\nenabled = false\n\
         [memory]\nbudget-mib = 64\nring-share = 40\nuid-share = 30\ncall-rings = 5\n\
         rings-per-process = 3\nprocesses = 9\nprocesses-per-uid = 4\n\
         [record]\ncategories = [\"waits\"]\n\
         [reports]\nkilled = \"all\"\ngrace-seconds = 9\nkilled-seconds = 8\nmemory-percent = 30\nseverities = [\"fatal\"]\nqueue = 3\nlog-kib = 16\npeers = 2\n\
         [limits]\nwindow-hours = 2\ndevice = 3\nper-uid = 2\nper-detector = 1\ndevice-per-detector = 2\n\
         [uploads]\nwindow-hours = 1\ndevice = 1\nselect = \"campaign\"\ncampaign = [\"com.example.*\"]\n",
    )
    .unwrap();
    assert_eq!((policy.revision, policy.enabled), (7, false));
    let memory = Memory {
        budget_bytes: 64 << 20,
        ring_share: 40,
        uid_share: 30,
        call_rings: 5,
        rings_per_process: 3,
        processes: 9,
        processes_per_uid: 4,
    };
    assert_eq!(policy.memory, memory);
    let waits = Category::Waits.bit() | Category::Recording.bit();
    assert_eq!(policy.record.categories, waits);
    let reports = Reports {
        killed: Killed::All,
        grace_ns: 9_000_000_000,
        killed_ns: 8_000_000_000,
        memory_percent: 30,
        severities: vec![TriggerSeverity::Fatal],
        queue: 3,
        log_bytes: 16 << 10,
        peers: 2,
    };
    assert_eq!(policy.reports, reports);
    let hour_ns = 3_600_000_000_000;
    let limits = Limits {
        window_ns: 2 * hour_ns,
        device: 3,
        per_uid: 2,
        per_detector: 1,
        device_per_detector: 2,
    };
    assert_eq!(policy.limits, limits);
    assert_eq!(
        (policy.uploads.window_ns, policy.uploads.device),
        (hour_ns, 1)
    );
    let severity = TriggerSeverity::Slow;
    assert!(policy.uploads.is_selected(severity, 1, "com.example.notes"));
    assert!(!policy
        .uploads
        .is_selected(severity, 1, "com.examples.notes"));
}

#[test]
fn uploads_are_selected_by_severity() {
    let severe = parse("[uploads]\nselect = \"severe\"").unwrap().uploads;
    assert!(severe.is_selected(TriggerSeverity::Fatal, 1, "a"));
    assert!(!severe.is_selected(TriggerSeverity::Stuck, 1, "a"));
    let first = Policy::default().uploads;
    assert!(first.is_selected(TriggerSeverity::Requested, 1, "a"));
}
