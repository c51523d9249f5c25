// SPDX-License-Identifier: Apache-2.0
//! Tables: events and times, and what must be found.

use hindsight_trace_format::protocol::{AppDetector, DetectorRule, DetectorRules};
use hindsight_trace_format::slot::Extension;

use super::method::Calls;
use super::rules::{AppRules, Found, Measured};
use super::state::{slow_start, Collections, Event, MainThread};

const MS: u64 = 1_000_000;
/// A moment long after the system's start, ns.
const T: u64 = 5_000_000 * MS;

fn rules(of: &[(AppDetector, &[u64])]) -> AppRules {
    AppRules::new(&message(of), &[7])
}

fn message(of: &[(AppDetector, &[u64])]) -> DetectorRules {
    let rule = |(detector, numbers): &(AppDetector, &[u64])| DetectorRule {
        name: detector.spec().name.into(),
        numbers: numbers.to_vec(),
        method: match detector {
            AppDetector::SlowMethod => "com.example.Store.load".into(),
            _ => String::new(),
        },
    };
    DetectorRules {
        revision: 1,
        rules: of.iter().map(rule).collect(),
    }
}

/// What is found by these events at these times, ms after the start.
fn found(
    rules: &AppRules,
    events: &[(u64, Extension, &[u64])],
) -> Vec<(u64, AppDetector, Measured)> {
    let mut main = MainThread::default();
    let found = events.iter().filter_map(|(at, kind, payload)| {
        let event = Event {
            kind: *kind,
            payload,
            now_ns: T + at * MS,
        };
        let (detector, measured) = main.event(rules, &event)?;
        Some((*at, detector, measured))
    });
    found.collect()
}

/// Ends of frames: of their vsync and end, ms.
fn frames(limits: &[u64], of: &[(u64, u64)]) -> Vec<u64> {
    let rules = rules(&[(AppDetector::LateFrames, limits)]);
    let vsyncs: Vec<[u64; 1]> = of.iter().map(|(vsync, _)| [T + vsync * MS]).collect();
    let of = of.iter().zip(&vsyncs);
    let events: Vec<_> = of
        .map(|((_, end), vsync)| (*end, Extension::FrameEnd, &vsync[..]))
        .collect();
    found(&rules, &events).into_iter().map(|f| f.0).collect()
}

#[test]
fn late_frames_count_in_a_row() {
    let limits = [30, 0, 3];
    let late = [(0, 40), (40, 80), (80, 120)];
    assert_eq!(frames(&limits, &late), [120]);
    let one_in_time = [(0, 40), (40, 80), (80, 110), (110, 150), (150, 190)];
    assert_eq!(frames(&limits, &one_in_time), []);
    let pause = [(0, 40), (40, 80), (2000, 2040), (2040, 2080), (2080, 2120)];
    assert_eq!(frames(&limits, &pause), [2120]);
    let six: Vec<(u64, u64)> = (0..6).map(|n| (40 * n, 40 * n + 40)).collect();
    assert_eq!(frames(&limits, &six), [120, 240]);
}

/// Input events: when the touch was, its delivery, whether a frame was asked for then, its end, and the end of the next frame.
fn inputs(of: &[(u64, u64, bool, u64, u64)]) -> Vec<Measured> {
    let rules = rules(&[(AppDetector::SlowInput, &[400, 0])]);
    let mut all = Vec::new();
    for (number, (touch, begin, wants_frame, end, frame)) in (1..).zip(of) {
        let begin_payload = [number | 2 << 48, T + touch * MS, 0];
        let end_payload = [number | 1 << 32];
        let vsync = [0];
        let mut events: Vec<(u64, Extension, &[u64])> =
            vec![(*begin, Extension::InputBegin, &begin_payload)];
        if *wants_frame {
            events.push((*begin, Extension::TraversalScheduled, &[1]));
        }
        events.push((*end, Extension::InputEnd, &end_payload));
        events.push((*frame, Extension::FrameEnd, &vsync));
        all.extend(found(&rules, &events).into_iter().map(|f| f.2));
    }
    all
}

#[test]
fn the_answer_to_input_is_split_into_delivery_and_app() {
    let limit = 400 * MS;
    let measured = |delivery: u64, app: u64| Measured::Input {
        delivery: delivery * MS,
        app: app * MS,
        limit,
    };
    assert_eq!(inputs(&[(0, 10, false, 390, 900)]), []);
    assert_eq!(inputs(&[(0, 10, false, 450, 900)]), [measured(10, 440)]);
    assert_eq!(inputs(&[(0, 600, false, 610, 620)]), [measured(600, 10)]);
    // The frame is the answer.
    assert_eq!(inputs(&[(0, 10, true, 20, 450)]), [measured(10, 440)]);
    assert_eq!(inputs(&[(0, 10, true, 20, 90)]), []);
}

#[test]
fn waits_of_the_main_thread_for_locks_and_processes_have_limits() {
    let rules = rules(&[
        (AppDetector::LongLockWait, &[100, 0]),
        (AppDetector::LongBinderWait, &[200, 0]),
    ]);
    let wait = |kind: u64, ms: u64| {
        let payload = [kind, 0, 0];
        let events: [(u64, Extension, &[u64]); 2] = [
            (0, Extension::WaitBegin, &payload),
            (ms, Extension::WaitEnd, &payload[..1]),
        ];
        found(&rules, &events).len()
    };
    // Of locks and parks; not of objects, sleeps, collections and empty queues.
    let kinds: Vec<usize> = (0..6).map(|kind| wait(kind, 101)).collect();
    assert_eq!(kinds, [1, 0, 0, 1, 0, 0]);
    assert_eq!(wait(0, 100), 0);
    let transaction = |one_way: u64, reply: u64, ms: u64| {
        let (send, reply) = ([9, 1 | one_way << 32], [reply]);
        let events: [(u64, Extension, &[u64]); 2] = [
            (0, Extension::BinderSend, &send),
            (ms, Extension::BinderReply, &reply),
        ];
        found(&rules, &events).len()
    };
    assert_eq!(transaction(0, 9, 201), 1);
    assert_eq!(transaction(0, 9, 200), 0);
    assert_eq!(transaction(1, 9, 201), 0, "nobody waits");
    assert_eq!(transaction(0, 8, 201), 0, "another one");
}

#[test]
fn a_start_is_from_the_process_to_its_first_frame() {
    let rules = rules(&[(AppDetector::SlowStart, &[2000, 0, 20_000])]);
    let of = |ms: u64| slow_start(&rules, T, T + ms * MS).is_some();
    assert_eq!(
        [of(2000), of(2001), of(20_000), of(20_001)],
        [false, true, true, false]
    );
    assert!(slow_start(&rules, 0, T).is_none(), "the start is not known");
    let (detector, measured) = slow_start(&rules, T, T + 2600 * MS).unwrap();
    let tid = 1;
    let found = Found {
        detector,
        tid,
        measured,
    };
    let reason = found.reason(|_| String::new());
    assert!(
        reason.contains("2600 ms") && reason.contains("class 5 (2500 to 3000 ms)"),
        "{reason}"
    );
}

/// Begin and end of collections that stop all threads, ms; when something was found.
fn collections(limits: &[u64], of: &[(u64, u64)]) -> Vec<u64> {
    let rules = rules(&[(AppDetector::GcPressure, limits)]);
    let mut state = Collections::default();
    let mut all = Vec::new();
    for (begin, end) in of {
        for (kind, at) in [
            (Extension::GcPauseBegin, begin),
            (Extension::GcPauseEnd, end),
        ] {
            let event = Event {
                kind,
                payload: &[],
                now_ns: T + at * MS,
            };
            if state.event(&rules, &event).1.is_some() {
                all.push(*at);
            }
        }
    }
    all
}

#[test]
fn collections_are_too_many_or_too_long_within_a_window() {
    let seconds = |s: u64| s * 1000;
    let by_time = [100, 0, 5, 0];
    assert_eq!(collections(&by_time, &[(0, 60), (2000, 2060)]), [2060]);
    assert_eq!(
        collections(&by_time, &[(0, 60), (seconds(6), seconds(6) + 60)]),
        []
    );
    let by_number = [60_000, 0, 5, 3];
    assert_eq!(collections(&by_number, &[(0, 1), (10, 11), (20, 21)]), [21]);
    let rare = [(0, 1), (10, 11), (seconds(100), seconds(100) + 1)];
    assert_eq!(collections(&by_number, &rare), []);
    assert!(!Collections::is_about(Extension::WaitBegin, &[0], true));
    assert!(Collections::is_about(Extension::WaitBegin, &[4], true));
    assert!(!Collections::is_about(Extension::WaitBegin, &[4], false));
}

#[test]
fn the_outermost_call_of_a_watched_method_has_a_limit() {
    let rules = rules(&[(AppDetector::SlowMethod, &[100, 0])]);
    let mut calls = Calls::default();
    let ms = |ms: u64| T + ms * MS;
    assert!(calls.end(&rules, 7, ms(500)).is_none(), "it began before");
    calls.begin(&rules, 7, ms(0));
    calls.begin(&rules, 7, ms(90));
    assert!(calls.end(&rules, 7, ms(95)).is_none());
    assert!(calls.end(&rules, 7, ms(101)).is_some());
    calls.begin(&rules, 8, ms(0));
    assert!(calls.end(&rules, 8, ms(500)).is_none(), "nobody watches it");
}

#[test]
fn rules_of_unknown_detectors_are_ignored_and_missing_ones_are_off() {
    let mut unknown = message(&[(AppDetector::LongLockWait, &[100])]);
    unknown.rules.push(DetectorRule {
        name: "of-tomorrow".into(),
        numbers: vec![1; 8],
        method: String::new(),
    });
    let read = AppRules::new(&unknown, &[]);
    assert_eq!(read, rules(&[(AppDetector::LongLockWait, &[100, 10])]));
    assert_eq!(
        (read.lock.ns, read.input.ns, read.binder.ns),
        (100 * MS, 0, 0)
    );
    assert_eq!(AppRules::new(&message(&[]), &[]), AppRules::default());
    let limits = AppRules::message_limits(&message(&[(AppDetector::StuckMessage, &[900, 3])]));
    assert_eq!(
        (limits.slow_ms, limits.stuck_ms, limits.quiet_ms),
        (0, 900, 3000)
    );
}
