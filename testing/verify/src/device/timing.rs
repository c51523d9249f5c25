// SPDX-License-Identifier: Apache-2.0
//! How long a report takes, and for how long its process's threads are held.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hindsight_lab::device::{Device, DeviceApp, Service};
use hindsight_lab::Execution;

use super::status::{list, until, Status};

/// A ring of 32 MiB.
const CONFIGURATION: &str = "trace=main,events=all,ring=25,rewind=off";
const RING_BYTES: usize = 32 << 20;
/// Calls that fill the ring more than once: each has two slots of 8 bytes.
const FILLS: &str = "fill 3000000";
/// Reports with a full ring, whose time is measured.
const FULL: usize = 5;
/// An untraced thread that is away for longer than this says that nothing short can be measured here, us.
const MOST_NOISE_US: f64 = 1_000.0;
/// Pauses are compared in so many rounds, of which the middle one counts.
const ROUNDS: usize = 5;
/// A round on a busy machine ends after this time, but not before it has so many reports.
const ROUND: Duration = Duration::from_secs(20);
const FEWEST: usize = 20;
/// What the untraced thread does meanwhile: the same, with as much new memory as a thread needs that records it, two slots. A
/// virtual machine can take a millisecond to give a page that was not used for a while.
const UNTRACED: &str = "spin 16";
/// So many reports before them do not count: apps load classes for what they do for the first time.
const WARM_UP: usize = 3;

/// What was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Timing {
    /// From the command to the report on the disk: s.
    pub(super) report_s: Vec<f64>,
    /// Writing and syncing as many bytes as the ring has, between two reports: s.
    pub(super) writing_s: Vec<f64>,
    /// Bytes of the reports' files.
    pub(super) file_bytes: Vec<u64>,
    /// Pauses of threads.
    pub(super) rounds: Vec<Round>,
}

/// The longest pause of the traced thread during each report, and that of an untraced thread at the same time: ns. Without the
/// time in which the thread could run, and the machine ran others.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    traced_ns: Vec<u64>,
    untraced_ns: Vec<u64>,
    /// When each report began and ended, `CLOCK_MONOTONIC`, ns.
    windows: Vec<(u64, u64)>,
    /// The traced thread's pauses.
    gaps: Vec<Gap>,
    /// Pages that the traced and the untraced thread got meanwhile.
    faults: [u64; 2],
}

/// 99th percentiles of the traced and of the untraced thread's pauses, us.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Held {
    pub(super) traced: f64,
    pub(super) untraced: f64,
}

impl Held {
    /// How much longer the traced thread was away, us.
    pub(super) fn excess(&self) -> f64 {
        self.traced - self.untraced
    }

    /// Whether the machine does too much else.
    pub(super) fn is_noisy(&self) -> bool {
        self.untraced > MOST_NOISE_US
    }
}

impl Round {
    fn held(&self) -> Held {
        let p99 = |all: &[u64]| {
            let all: Vec<f64> = all.iter().map(|ns| *ns as f64 / 1e3).collect();
            quantile(&all, 0.99)
        };
        Held {
            traced: p99(&self.traced_ns),
            untraced: p99(&self.untraced_ns),
        }
    }
}

/// A thread was away: since when, for how long, and how long of it it could run; ns.
type Gap = (u64, u64, u64);

impl Timing {
    /// Time of a report, in times of writing and syncing.
    pub(super) fn ratio(&self) -> f64 {
        quantile(&self.report_s, 0.5) / quantile(&self.writing_s, 0.5).max(1e-9)
    }

    /// The round with the middle difference: something else that the machine did once does not count.
    pub(super) fn held(&self) -> Option<Held> {
        let mut all: Vec<Held> = self.rounds.iter().map(Round::held).collect();
        all.sort_by(|a, b| a.excess().total_cmp(&b.excess()));
        all.get(all.len() / 2).copied()
    }

    /// Prints each round with its longest pauses, for whoever looks for their cause.
    pub(super) fn print_rounds(&self) {
        for (number, round) in self.rounds.iter().enumerate() {
            let held = round.held();
            println!(
                "round {number}: p99 {:.0} us, untraced {:.0} us; they got {} and {} pages",
                held.traced, held.untraced, round.faults[0], round.faults[1]
            );
            for (begin, end) in &round.windows {
                let within = round
                    .gaps
                    .iter()
                    .filter(|gap| is_within(gap, (*begin, *end)));
                let longest = within.max_by_key(|(_, length, delay)| length.saturating_sub(*delay));
                if let Some((start, length, delay)) = longest {
                    let after = start.saturating_sub(*begin) / 1000;
                    let (took, length, delay) = ((end - begin) / 1000, length / 1000, delay / 1000);
                    println!("  at {start} ns, {after} us after a report of {took} us began: {length} us, {delay} of them without a processor");
                }
            }
        }
    }

    /// Reports during which pauses were compared.
    pub(super) fn compared(&self) -> usize {
        self.rounds.iter().map(|round| round.traced_ns.len()).sum()
    }
}

/// The smallest value that this part of all is not above; 0 without values.
pub(super) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    let index = rank.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(index).copied().unwrap_or(0.0)
}

/// Measures so many reports of an app of its own.
pub(super) fn measure(device: &Device, service: &Service, reports: usize) -> Result<Timing> {
    let mut traced = device.start_app(Execution::Aot, CONFIGURATION)?;
    let mut untraced = device.start_untraced_app(Execution::Aot)?;
    traced.ask("foreground")?;
    let pid = traced.pid();
    until(service, "the app has a ring of calls", || {
        let status = Status::of(service)?;
        Ok(status.connected(pid).is_some_and(|p| p.rings_granted != 0))
    })?;
    let mut timing = Timing::default();
    for _ in 0..FULL {
        let bytes = fill(&mut traced)?;
        timing.report_s.push(report(service, pid)?.as_secs_f64());
        timing.file_bytes.push(take_report(device, service, pid)?);
        timing.writing_s.push(write(&device.store(), &bytes)?);
    }
    for _ in 0..ROUNDS {
        let round = compare(device, service, (&mut traced, &mut untraced), reports)?;
        timing.rounds.push(round);
    }
    traced.ask("exit")?;
    traced.wait()?;
    Ok(timing)
}

/// Compares the pauses of both apps' main threads during reports of the first one: so many, or fewer on a busy machine.
fn compare(
    device: &Device,
    service: &Service,
    (traced, untraced): (&mut DeviceApp, &mut DeviceApp),
    reports: usize,
) -> Result<Round> {
    let mut windows = Vec::new();
    traced.ask("spin")?;
    untraced.ask(UNTRACED)?;
    for _ in 0..WARM_UP {
        report(service, traced.pid())?;
        take_report(device, service, traced.pid())?;
    }
    let before = [&*traced, &*untraced].map(|app| faults(app.pid()));
    let started = Instant::now();
    while windows.len() < FEWEST || (windows.len() < reports && started.elapsed() < ROUND) {
        let begin = monotonic_ns();
        report(service, traced.pid())?;
        windows.push((begin, monotonic_ns()));
        take_report(device, service, traced.pid())?;
    }
    let faults = [&*traced, &*untraced].map(|app| faults(app.pid()));
    let of_traced = gaps(&traced.ask_for("gaps")?)?;
    let of_untraced = gaps(&untraced.ask_for("gaps")?)?;
    let all = |gaps: &[Gap]| windows.iter().map(|w| longest(gaps, *w)).collect();
    Ok(Round {
        traced_ns: all(&of_traced),
        untraced_ns: all(&of_untraced),
        windows,
        gaps: of_traced,
        faults: [faults[0] - before[0], faults[1] - before[1]],
    })
}

/// Fills the app's ring; returns what is in it. To be called before the report: the process gives the memory of taken rings back.
fn fill(app: &mut DeviceApp) -> Result<Vec<u8>> {
    let mut attempts = 1;
    loop {
        app.ask(FILLS)?;
        match ring_bytes(app.pid()) {
            // The service has granted the ring; the thread gets it a moment later.
            Err(_) if attempts < 50 => attempts += 1,
            result => return result,
        }
    }
}

/// Has a report made, and waits until it is on the disk.
fn report(service: &Service, pid: u32) -> Result<Duration> {
    let begin = Instant::now();
    service.ask(&format!("report {pid} measured"))?;
    Ok(begin.elapsed())
}

/// Removes the reports of a process. Returns the bytes of the last one.
fn take_report(device: &Device, service: &Service, pid: u32) -> Result<u64> {
    let mut bytes = None;
    for report in list(service)?.iter().filter(|report| report.pid == pid) {
        let name = format!("{}.hindsight", report.report);
        bytes = Some(std::fs::metadata(device.store().join(name))?.len());
        service.ask(&format!("remove {}", report.report))?;
    }
    bytes.context("there is no report, although it was made")
}

/// Writes these bytes to the disk of the store; s.
fn write(store: &Path, bytes: &[u8]) -> Result<f64> {
    let path = store.with_extension("comparison");
    let begin = Instant::now();
    let mut file = File::create(&path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    let time = begin.elapsed();
    std::fs::remove_file(&path)?;
    Ok(time.as_secs_f64())
}

/// The last 32 MiB of a process's shared memory that are not empty: slots.
fn ring_bytes(pid: u32) -> Result<Vec<u8>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = entry?.path();
        let target = std::fs::read_link(&path).unwrap_or_default();
        if !target.to_string_lossy().starts_with("/memfd:hindsight") {
            continue;
        }
        let file = File::open(&path)?;
        let mut part = vec![0; 1 << 20];
        for at in (0..file.metadata()?.len()).step_by(part.len()) {
            let read = file.read_at(&mut part, at)?;
            if part[..read].iter().any(|byte| *byte != 0) {
                found.extend_from_slice(&part[..read]);
            }
        }
    }
    anyhow::ensure!(
        found.len() >= RING_BYTES,
        "the process has filled {} bytes only: the ring is not full",
        found.len()
    );
    Ok(found.split_off(found.len() - RING_BYTES))
}

/// The app's lines: `data START LENGTH DELAY`.
fn gaps(lines: &[String]) -> Result<Vec<Gap>> {
    let gap = |line: &String| {
        let mut words = line.split(' ').skip(1);
        let mut next = || words.next()?.parse().ok();
        Some((next()?, next()?, next()?))
    };
    let of = |line| gap(line).with_context(|| format!("no pause: {line}"));
    lines.iter().map(of).collect()
}

/// Whether it is at least partly within the window.
fn is_within((start, length, _): &Gap, window: (u64, u64)) -> bool {
    *start < window.1 && start + length > window.0
}

/// The longest of those that are at least partly within the window, ns.
fn longest(gaps: &[Gap], window: (u64, u64)) -> u64 {
    let within = gaps.iter().filter(|gap| is_within(gap, window));
    let held = within.map(|(_, length, delay)| length.saturating_sub(*delay));
    held.max().unwrap_or(0)
}

/// Page faults of a process's main thread so far that needed no disk.
fn faults(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may have spaces; the tenth field is the eighth behind it.
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    let count = behind.split_whitespace().nth(7);
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_compared_within_the_same_window() {
        let gaps = [(0, 10, 0), (95, 10, 0), (150, 900, 893), (300, 99, 0)];
        assert_eq!(longest(&gaps, (100, 200)), 10);
        assert_eq!(longest(&gaps, (106, 200)), 7);
        assert_eq!(longest(&gaps[..2], (200, 300)), 0);
    }

    #[test]
    fn the_middle_round_counts() {
        let round = |traced_us: u64, untraced_us: u64| Round {
            traced_ns: vec![traced_us * 1000; 3],
            untraced_ns: vec![untraced_us * 1000; 3],
            ..Round::default()
        };
        let rounds = vec![round(900, 20), round(70, 60), round(100, 400)];
        let timing = Timing {
            rounds,
            ..Timing::default()
        };
        let (traced, untraced) = (70.0, 60.0);
        assert_eq!(timing.held(), Some(Held { traced, untraced }));
        assert_eq!((Timing::default().held(), timing.compared()), (None, 9));
    }

    #[test]
    fn quantiles_are_values() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 0.5), 50.0);
        assert_eq!(quantile(&values, 0.99), 99.0);
        assert_eq!(quantile(&values[..1], 0.99), 100.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
