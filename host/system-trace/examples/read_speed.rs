// SPDX-License-Identifier: Apache-2.0
//! Measures how fast system traces are read: `cargo run --release -p hindsight-system-trace --example read_speed [FILE…]`, by
//! default of a generated trace with two million switches and one million wakings, in both layouts. Time is CPU time of one
//! thread, the least of three runs; memory is the greatest that the process had, with the file's bytes.

use hindsight_system_trace::SystemTrace;
use hindsight_testkit::device::{By, DeviceTrace, Layout, PREEMPTED, SLEEPS};

const RUNS: usize = 3;
const SWITCHES: u64 = 2_000_000;
const THREADS: u64 = 400;
const CPUS: u64 = 8;

fn generated(layout: Layout) -> Vec<u8> {
    let mut device = DeviceTrace::new(layout);
    for tid in 0..THREADS {
        device.thread(100, 100 + tid as u32, &format!("thread-{tid}"));
    }
    let mut last = [0_u32; CPUS as usize];
    for i in 0..SWITCHES {
        let cpu = i % CPUS;
        // Each processor has threads of its own, which take turns.
        let tid = 100 + (cpu + CPUS * ((i / CPUS) % (THREADS / CPUS))) as u32;
        let prev = std::mem::replace(&mut last[cpu as usize], tid);
        let at_ns = 4_000 * i;
        if i % 2 == 0 {
            device.waking(cpu as u32, at_ns, By::Thread(prev), tid);
        }
        let state = [SLEEPS, PREEMPTED][(i % 2) as usize];
        device.switch(cpu as u32, at_ns + 1_000, prev, state, tid);
    }
    device.encode()
}

/// CPU time of this thread, seconds.
fn now() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The greatest memory of the process, bytes, as Linux has it.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok());
    kilobytes.unwrap_or(0_u64) * 1024
}

fn measure(name: &str, bytes: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    let mut least = f64::INFINITY;
    for _ in 0..RUNS {
        let begun = now();
        let trace = SystemTrace::read(bytes)?;
        least = least.min(now() - begun);
        assert!(trace.threads().len() > 0);
    }
    println!(
        "{name}: {} MB, {:.2} s, {:.0} MB/s, at most {} MB of memory",
        bytes.len() / 1_000_000,
        least,
        bytes.len() as f64 / 1e6 / least,
        peak_bytes() / 1_000_000
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    for file in &files {
        measure(&file.to_string_lossy(), &std::fs::read(file)?)?;
    }
    if files.is_empty() {
        measure("columns", &generated(Layout::Compact))?;
        measure("events", &generated(Layout::Events))?;
    }
    Ok(())
}
