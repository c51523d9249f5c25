// SPDX-License-Identifier: Apache-2.0
//! What events cost the thread that records them, without the managed runtime: a hook that is off, an event, a stack that is
//! not due, and the table's part of a stack of 32 frames. Prints JSON; `cargo xtask bench events` runs it.
//!
//! `cargo run --release -p hindsight-runtime --example event_costs`
//!
//! The parts take turns, so that a change of the machine's speed affects all of them.

use std::hint::black_box;
use std::time::Instant;

use hindsight_runtime::stacks::{Frame, Spacing};
use hindsight_runtime::{
    clock, Config, Host, ProcessIdentity, Recorder, Severity, ThreadWords, TracedThread,
};
use hindsight_trace_format::catalogue::{Category, Extension};
use hindsight_trace_format::container::Symbol;

const ROUNDS: usize = 201;
/// Repetitions in a round, few enough that the scheduler seldom interrupts one.
const CALLS: usize = 20_000;
/// Stacks in a round.
const STACKS: usize = 200;
const FRAMES: usize = 32;
/// Hooks in a row: a hook costs less than the loop around it.
const HOOKS: usize = 8;

/// A hook for each number: it loads the thread's word, each time anew, and tests a bit.
macro_rules! hooks {
    ($words:ident, $category:ident, $record:expr; $($number:literal)*) => {
        $(
            let _ = $number;
            if $words.events() & $category != 0 {
                $record;
            }
        )*
    };
}

/// A managed runtime without methods, whose only thread is never stopped.
struct NoHost;

impl Host for NoHost {
    fn attach_control_thread(&self) -> bool {
        true
    }

    fn detach_control_thread(&self) {}

    fn run_at_safepoint(&self, _tid: u32, _action: &mut (dyn FnMut() + Send)) -> bool {
        false
    }

    fn symbolize(&self, _addresses: &[u64], _named: &mut dyn FnMut(Symbol)) {}

    fn identity(&self) -> ProcessIdentity {
        ProcessIdentity::default()
    }

    fn log(&self, severity: Severity, message: &str) {
        eprintln!("{severity:?}: {message}");
    }
}

/// Nanoseconds of one of `count` calls.
fn time(count: usize, mut call: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    for i in 0..count {
        call(i);
    }
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Takes a stack of these frames.
fn stack(thread: &TracedThread, frame: impl Fn(usize) -> u64) {
    // SAFETY: the caller is the thread.
    let memory = unsafe { thread.begin_stack(Spacing::None) };
    if memory.is_null() {
        return;
    }
    for i in 0..FRAMES {
        let frame = Frame {
            method: frame(i),
            dex_pc: i as u32,
            unused: 0,
        };
        // SAFETY: begin_stack's memory holds more frames than these.
        unsafe { memory.add(i).write(frame) };
    }
    // SAFETY: the caller is the thread, and has written these frames.
    unsafe { thread.end_stack(0, FRAMES, false) };
}

/// What a hook does when its category is on.
#[cold]
#[inline(never)]
fn record(thread: &TracedThread, event: u32) {
    // SAFETY: the caller is the thread, which is at no safepoint.
    unsafe { thread.record_event(event, &[1]) };
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Ten seconds: no stack is due unless it is forced.
    let config = Config::parse("events=all,event-spool=off,stack-interval=10000000")?;
    let recorder = Recorder::start(config, Box::new(NoHost))?;
    let words = ThreadWords::new();
    let off = ThreadWords::new();
    // SAFETY: this is the thread, and the words live until `thread_exiting` below.
    unsafe { recorder.thread_started(std::process::id(), "main", &words) };
    // SAFETY: the words hold a reference to such an object until `thread_exiting`.
    let thread: &TracedThread = unsafe { &*words.state().cast() };

    let event = Extension::UserMark.number();
    let category = Category::Marks.bit();
    stack(thread, |i| i as u64);
    let mut method = 1 << 20;
    let mut all: [Vec<f64>; 7] = Default::default();
    for _ in 0..ROUNDS {
        let round = [
            time(CALLS, |i| {
                black_box(i);
            }),
            time(CALLS, |i| {
                black_box(i);
                hooks!(off, category, record(thread, event); 1 2 3 4 5 6 7 8);
            }),
            time(CALLS, |_| {
                black_box(clock::counter());
            }),
            time(CALLS, |i| {
                if black_box(&words).events() & category != 0 {
                    // SAFETY: this is the thread, which is at no safepoint.
                    unsafe { thread.record_event(event, &[i as u64]) };
                }
            }),
            time(CALLS, |_| {
                // SAFETY: this is the thread.
                black_box(unsafe { thread.begin_stack(Spacing::Interval) });
            }),
            time(STACKS, |_| {
                method += 1;
                stack(thread, |i| method << 8 | i as u64);
            }),
            time(STACKS, |_| stack(thread, |i| i as u64)),
        ];
        for (all, one) in all.iter_mut().zip(round) {
            all.push(one);
        }
    }
    let [empty, hook, timer, append, throttled, new, same] = all.map(median);
    println!(
        "{{\"off_ns\": {:.3}, \"timer_ns\": {timer:.3}, \"append_ns\": {append:.3}, \"append_over_timer\": {:.3}, \
         \"throttled_over_timer\": {:.3}, \"stack32_new_table_us\": {:.4}, \"stack32_same_table_us\": {:.4}}}",
        (hook - empty).max(0.0) / HOOKS as f64,
        append / timer,
        throttled / timer,
        new / 1e3,
        same / 1e3,
    );
    // SAFETY: this is the thread, with the same words.
    unsafe { recorder.thread_exiting(&words) };
    recorder.shutdown();
    Ok(())
}
