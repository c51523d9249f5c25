// SPDX-License-Identifier: Apache-2.0
//! What the detectors in a process cost the main thread: a message, a frame and a wait, which detectors look at, and an event that none
//! looks at, each with the default rules in force and with none. Prints JSON; `cargo xtask bench detectors` runs it.
//!
//! `cargo run --release -p hindsight-runtime --example detector_costs`
//!
//! Rules come and go in one process, many times, so that a change of the machine's speed affects both alike.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::service::{FakeService, Peer};
use common::workers::Process;
use common::Managed;
use hindsight_trace_format::catalogue::{Category, Extension};
use hindsight_trace_format::protocol::{
    AppDetector, DetectorRule, DetectorRules, FromService, DETECTORS,
};

/// Pairs of a round with rules and one without.
const PAIRS: usize = 301;
/// Repetitions in a round, few enough that the scheduler seldom interrupts one.
const CALLS: usize = 2_000;

/// What the main thread does, with its name in metrics.
type Action = (&'static str, fn(&mut Managed<'_>, u64));

const ACTIONS: [Action; 4] = [
    ("message", |thread, now| {
        event(thread, now, Extension::MessageDispatched);
        event(thread, now, Extension::MessageDone);
    }),
    ("frame", |thread, now| {
        event(thread, now, Extension::FrameEnd)
    }),
    ("wait", |thread, now| {
        event(thread, now, Extension::WaitBegin);
        event(thread, now, Extension::WaitEnd);
    }),
    ("other_event", |thread, now| {
        event(thread, now, Extension::UserMark)
    }),
];

/// Now, CLOCK_MONOTONIC, ns.
fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Records an event. A frame began just now, so that nothing is found.
fn event(thread: &mut Managed<'_>, now: u64, event: Extension) {
    let mut payload = [0; 16];
    payload[0] = match event {
        Extension::FrameEnd => now,
        _ => 0,
    };
    let words = hindsight_trace_format::slot::payload_slots(event.number());
    // SAFETY: this is the thread, which is at no safepoint.
    unsafe {
        thread
            .state()
            .record_event(event.number(), &payload[..words])
    };
}

/// Puts the default rules of all detectors in force, or none. Returns when the process follows them.
fn set_rules(peer: &mut Peer, are_on: bool) {
    let plain = DETECTORS
        .iter()
        .filter(|spec| are_on && spec.detector != AppDetector::SlowMethod);
    let rules = plain.map(|spec| DetectorRule {
        name: spec.name.into(),
        numbers: spec.defaults(),
        method: String::new(),
    });
    peer.send(&FromService::Detectors(DetectorRules {
        revision: 1,
        rules: rules.collect(),
    }));
    configure(peer);
}

fn configure(peer: &mut Peer) {
    let all = Category::ALL.iter().map(|category| category.bit());
    let all = all.fold(0, |all, bit| all | bit);
    peer.configure(0, all & !Category::Stacks.bit());
}

/// Nanoseconds of an action.
fn time(thread: &mut Managed<'_>, action: fn(&mut Managed<'_>, u64)) -> f64 {
    let now = monotonic_ns();
    let start = Instant::now();
    for _ in 0..CALLS {
        action(thread, now);
    }
    start.elapsed().as_secs_f64() * 1e9 / CALLS as f64
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let (process, service) = Process::start("ring=16,event-spool=off", FakeService::at);
    let metrics = Managed::run(&process.recorder, &process.world, |thread| {
        let mut peer = thread.native(|| {
            let (mut peer, _) = service.accept();
            peer.send(&FromService::Welcome { version: 1 });
            configure(&mut peer);
            peer
        });
        // By action: nanoseconds without rules and with them.
        let mut rounds: [Vec<[f64; 2]>; ACTIONS.len()] = Default::default();
        for pair in 0..PAIRS {
            let mut both = [[0.0; 2]; ACTIONS.len()];
            for turn in 0..2 {
                let are_on = (pair + turn) % 2 == 1;
                thread.native(|| set_rules(&mut peer, are_on));
                for (place, (_, action)) in ACTIONS.iter().enumerate() {
                    // The first ones meet cold caches.
                    time(thread, *action);
                    both[place][usize::from(are_on)] = time(thread, *action);
                }
            }
            for (rounds, both) in rounds.iter_mut().zip(both) {
                rounds.push(both);
            }
        }
        let mut metrics = Vec::new();
        for ((name, _), rounds) in ACTIONS.iter().zip(&rounds) {
            let of = |on: usize| median(rounds.iter().map(|both| both[on]));
            let ratio = median(rounds.iter().map(|both| both[1] / both[0]));
            metrics.push(format!("\"{name}_off_ns\": {:.1}", of(0)));
            metrics.push(format!("\"{name}_on_ns\": {:.1}", of(1)));
            metrics.push(format!("\"{name}_on_over_off\": {ratio:.3}"));
        }
        metrics
    });
    println!("{{{}}}", metrics.join(", "));
    process.recorder.shutdown();
}
