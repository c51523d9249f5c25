// SPDX-License-Identifier: Apache-2.0
//! What the end of a lap costs a thread: it notes the calls that are open. Prints the time of the events that wrap a ring of the
//! default size, next to the median of all others, for a program that calls and returns 20 levels deep.
//!
//! `cargo run --release -p hindsight-runtime --example lap_cost`

use std::sync::atomic::Ordering;
use std::time::Duration;

use hindsight_runtime::{
    Config, Host, ProcessIdentity, Recorder, Severity, ThreadWords, TracedThread,
};
use hindsight_trace_format::container::Symbol;
use hindsight_trace_format::ring::DEFAULT_LOG2_BYTES;

const LAPS: usize = 11;
const SLOTS: usize = (1 << DEFAULT_LOG2_BYTES) / 8;
/// Of [`TracedThread`]'s id: no other thread has it.
const TID: u32 = 1;

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

/// The CPU time of this thread: on a busy machine, other programs interrupt an event of a millisecond.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::parse("trace=all,rewind=off")?;
    let recorder = Recorder::start(config, Box::new(NoHost))?;
    let words = ThreadWords::new();
    // SAFETY: this is the thread, and the words live until `thread_exiting`.
    unsafe { recorder.thread_started(TID, "main", &words) };
    // SAFETY: the words hold a reference to the thread's state.
    let thread: &TracedThread = unsafe { &*words.state().cast() };
    let (mut laps, mut depth, mut state) = (Vec::new(), 0, 1_u64);
    let mut others = Vec::with_capacity(LAPS * SLOTS);
    for _ in 0..LAPS * SLOTS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let enters = depth == 0 || (depth < 20 && state & 1 == 0);
        let at = words.cursor().load(Ordering::Relaxed);
        let start = cpu_time();
        // SAFETY: this is the thread, which may record.
        unsafe {
            match enters {
                true => thread.record_entry(0x7000_1000 + 40 * (state % 1000)),
                false => thread.record_exit(),
            }
        }
        let took = cpu_time() - start;
        depth = if enters { depth + 1 } else { depth - 1 };
        if words.cursor().load(Ordering::Relaxed) < at {
            laps.push(took);
        } else {
            others.push(took);
        }
    }
    let others = median(&mut others);
    println!(
        "the end of a lap of {SLOTS} slots: median {:?}, fastest {:?}; any other event {others:?} (CPU time, the clock's included)",
        median(&mut laps),
        laps[0],
    );
    // SAFETY: this is the thread.
    unsafe { recorder.thread_exiting(&words) };
    recorder.shutdown();
    Ok(())
}
