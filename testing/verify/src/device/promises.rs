// SPDX-License-Identifier: Apache-2.0
//! From what was seen to the table of promises.

use super::at_once::AtOnce;
use super::disk::Disks;
use super::idle::Idle;
use super::observe::Observed;
use super::pressure::Seen;
use super::sampler::Peaks;
use super::script::{Kind, Totals};
use super::table::{Table, Verdict};
use super::tight::{self, Tight};
use super::timing::{quantile, Timing};

/// All that was seen.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) apps: u64,
    pub(super) app_hours: f64,
    pub(super) quiet_hours: f64,
    /// Of these, in which they did steady work that the user saw.
    pub(super) steady_hours: f64,
    /// Of memory, bytes.
    pub(super) budget: u64,
    pub(super) totals: Totals,
    pub(super) peaks: Peaks,
    /// The idle service's memory.
    pub(super) service_bytes: u64,
    /// The service's descriptors after all hostile clients.
    pub(super) descriptors: u64,
    pub(super) idle: Idle,
    pub(super) observed: Result<Observed, String>,
    /// `None`: that was not wanted.
    pub(super) timing: Option<Result<Timing, String>>,
    pub(super) pressure: Result<Seen, String>,
    pub(super) at_once: AtOnce,
    pub(super) tight: Tight,
    pub(super) disks: Result<Disks, String>,
}

/// The store's quota that the service has without options, bytes.
const STORE_QUOTA: u64 = 256 << 20;
/// A report may take so many times as long as writing and syncing.
const MOST_RATIO: f64 = 3.0;
/// A traced thread is held no longer than this beyond an untraced one's own delay, us.
const MOST_HELD_US: f64 = 100.0;
/// A command is in force in all apps after this time, ms.
const MOST_AT_ONCE_MS: f64 = 1000.0;
/// The idle service.
const MOST_SERVICE_BYTES: u64 = 8 << 20;

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// One problem if it is not so.
fn one(is_kept: bool) -> Verdict {
    count(u64::from(!is_kept))
}

fn count(problems: u64) -> Verdict {
    match problems {
        0 => Verdict::Kept,
        problems => Verdict::Broken(problems),
    }
}

/// Reports that name threads without room for a ring, or methods that had no name yet, beyond one in 50 of all reports, or beyond
/// two of few.
fn too_many_losses(totals: &Totals) -> u64 {
    let most = (totals.reports / 50).max(2);
    let beyond = |reports: u64| reports.saturating_sub(most);
    beyond(totals.reports_without_room) + beyond(totals.reports_too_early)
}

/// The part of the table about times alone.
pub(super) fn of_times(timing: &Option<Result<Timing, String>>) -> Table {
    let mut table = Table::default();
    add_times(timing, &mut table);
    table
}

/// How long reports take, and threads are held.
fn add_times(timing: &Option<Result<Timing, String>>, table: &mut Table) {
    let timing = match timing {
        None => return,
        Some(Ok(timing)) => timing,
        Some(Err(why)) => {
            println!("problem: times of reports were not measured: {why}");
            let promise = "time of reports, and for how long threads are held";
            return table.add("times", promise, "-".to_owned(), one(false));
        }
    };
    let bytes: Vec<f64> = timing.file_bytes.iter().map(|b| *b as f64).collect();
    table.add(
            "report-time",
            "trigger to report on disk, 32 MiB ring: at most 3 times writing and syncing the same bytes",
            format!(
                "{:.2} times: {:.0} ms, writing and syncing {:.0} ms; a file of {}",
                timing.ratio(),
                quantile(&timing.report_s, 0.5) * 1e3,
                quantile(&timing.writing_s, 0.5) * 1e3,
                mib(quantile(&bytes, 0.5) as u64)
            ),
            one(timing.ratio() <= MOST_RATIO),
        );
    let promise =
        "threads held by a report: p99 at most 100 us above an untraced thread's own delay";
    let Some(held) = timing.held() else {
        return;
    };
    // First: on a noisy machine neither answer means anything.
    let verdict = match held.excess() <= MOST_HELD_US {
        _ if held.is_noisy() => Verdict::Skipped(format!(
            "an untraced thread is away for {:.0} us: the machine does too much else",
            held.untraced
        )),
        true => Verdict::Kept,
        false => Verdict::Broken(1),
    };
    let measured = format!(
        "p99 {:.0} us, untraced {:.0} us, in {} reports",
        held.traced,
        held.untraced,
        timing.compared()
    );
    table.add("threads-held", promise, measured, verdict);
}

impl Findings {
    fn problems(&self, kind: Kind) -> u64 {
        self.totals.problems.get(&kind).copied().unwrap_or(0)
    }

    /// The last line.
    pub(super) fn last_line(&self, problems: u64) -> String {
        format!(
            "device: {} apps, {} kills, {} reports, {:.2} app-hours, {problems} problems",
            self.apps, self.totals.kills, self.totals.reports, self.app_hours
        )
    }

    /// The promises.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::default();
        self.ends(&mut table);
        self.memory(&mut table);
        self.tight(&mut table);
        self.at_once(&mut table);
        self.clients(&mut table);
        add_times(&self.timing, &mut table);
        self.costs(&mut table);
        table
    }

    fn ends(&self, table: &mut Table) {
        let totals = &self.totals;
        table.add(
            "killed",
            "killed at a random instant: file decodes, all calls named, balanced but for the last slot",
            format!(
                "{} kills, {} reports, {} calls with a checked caller, {} events; in {} reports {} threads found no room for a ring; \
                 in {} reports of processes that ended right after their start {} methods have no name",
                totals.kills,
                totals.reports,
                totals.calls,
                totals.events,
                totals.reports_without_room,
                totals.without_room,
                totals.reports_too_early,
                totals.too_early
            ),
            count(self.problems(Kind::Report) + too_many_losses(totals)),
        );
        let lost = self.problems(Kind::Service);
        let kills = totals.service_kills;
        let (measured, verdict) = match &self.observed {
            Ok(seen) => (
                format!(
                    "{kills} kills, {} freezes; strace of {} apps: {} calls on {} connections, {} of them may wait",
                    totals.freezes, seen.apps, seen.calls, seen.connects, seen.waits.len()
                ),
                // A kill without a new connection: the observer has not seen anything.
                count(
                    lost + seen.waits.len() as u64
                        + u64::from(seen.fewest_connects < kills.min(1)),
                ),
            ),
            Err(why) => (
                format!("{kills} kills, {} freezes, no strace", totals.freezes),
                match lost {
                    0 => Verdict::Skipped(why.clone()),
                    lost => Verdict::Broken(lost),
                },
            ),
        };
        table.add(
            "service-killed",
            "hindsightd killed at a random instant: no app thread waits for it, no ring lost",
            measured,
            verdict,
        );
        for line in self.observed.iter().flat_map(|seen| &seen.waits).take(5) {
            println!("problem: a call that may wait: {line}");
        }
    }

    fn memory(&self, table: &mut Table) {
        let peaks = &self.peaks;
        table.add(
            "memory",
            "budget of memory never exceeded",
            format!(
                "{} of {} at most, in {} samples; the service's own part {} at most",
                mib(peaks.both),
                mib(self.budget),
                peaks.samples,
                mib(peaks.service)
            ),
            one(peaks.both <= self.budget && peaks.shared != 0),
        );
        let pressure = match &self.pressure {
            Ok(seen) => {
                let [before, during, after] = seen.rings;
                let measured = format!(
                    "memory was short for {} ms; rings in the background before, during, after: {before}, {during}, {after}",
                    seen.stalled_ms
                );
                (measured, one(before != 0 && during == 0 && after != 0))
            }
            Err(why) => ("-".to_owned(), Verdict::Skipped(why.clone())),
        };
        let promise = "apps in the background give rings back when memory is short";
        table.add("pressure", promise, pressure.0, pressure.1);
        let promise = "budget of disk never exceeded; full and read-only disks";
        match &self.disks {
            Ok(disks) => {
                for problem in &disks.problems {
                    println!("problem: {problem}");
                }
                let exceeded = peaks.store > STORE_QUOTA || disks.most_bytes > Disks::quota();
                let measured = format!(
                    "{} of {} at most; small disk: {} of {}, the newest {} of 3 reports kept after {} kills",
                    mib(peaks.store),
                    mib(STORE_QUOTA),
                    mib(disks.most_bytes),
                    mib(Disks::quota()),
                    disks.kept,
                    disks.kills
                );
                let problems = disks.problems.len() as u64 + u64::from(exceeded);
                table.add("disk", promise, measured, count(problems));
            }
            Err(why) => {
                let measured = format!("{} of {} at most", mib(peaks.store), mib(STORE_QUOTA));
                table.add("disk", promise, measured, Verdict::Skipped(why.clone()));
            }
        }
    }

    fn tight(&self, table: &mut Table) {
        let (seen, budget) = (&self.tight, tight::BUDGET_MIB << 20);
        table.add(
            "tight-memory",
            "a budget that is too small for what apps want: at least 90 % of it needed, never exceeded",
            format!(
                "budget {}: needed {}, {} more were asked for; in use {} at most, in {} samples, and {} reports",
                mib(budget),
                mib(seen.demand),
                mib(seen.unmet),
                mib(seen.peaks.both),
                seen.peaks.samples,
                seen.reports
            ),
            one(tight::is_tight(seen) && seen.peaks.both <= budget && seen.peaks.shared != 0),
        );
    }

    fn at_once(&self, table: &mut Table) {
        let seen = &self.at_once;
        let ms = |times: &[f64], part| quantile(times, part) * 1e3;
        let (off, on) = (ms(&seen.off_s, 0.5), ms(&seen.on_s, 0.5));
        table.add(
            "at-once",
            "another policy, or the recording switch, in force in 20 apps: within 1 s",
            format!(
                "recording ends in all after {off:.0} ms (most {:.0}), begins after {on:.0} ms (most {:.0}); medians of {} commands",
                ms(&seen.off_s, 1.0),
                ms(&seen.on_s, 1.0),
                seen.off_s.len() + seen.on_s.len()
            ),
            one(!seen.off_s.is_empty() && off.max(on) <= MOST_AT_ONCE_MS),
        );
    }

    fn clients(&self, table: &mut Table) {
        let totals = &self.totals;
        table.add(
            "hostile",
            "a hostile client gets another uid's data, or stops the service: never",
            format!(
                "{} hostile clients, {} attempts of another user; {} descriptors afterwards",
                totals.attacks, totals.thefts, self.descriptors
            ),
            count(self.problems(Kind::Hostile)),
        );
        table.add(
            "quiet",
            "no report of apps that do nothing, or always the same",
            format!(
                "{} reports in {:.2} app-hours, {:.2} of these of steady work with all detectors on; {} jumps of the clock",
                self.problems(Kind::Quiet),
                self.quiet_hours,
                self.steady_hours,
                totals.jumps
            ),
            count(self.problems(Kind::Quiet)),
        );
    }

    fn costs(&self, table: &mut Table) {
        let idle = &self.idle;
        for ((pid, tid, name), count) in &idle.periodic {
            println!("problem: thread {name} ({tid}) of the idle app {pid} woke up {count} times");
        }
        let of_service = idle.of_service as f64 / idle.seconds.max(1e-9);
        table.add(
            "idle",
            "idle traced apps: 0 periodic wake-ups in apps; service at most 1 a second, 8 MiB",
            format!(
                "{} threads of apps periodically ({} wake-ups in all) in {:.0} s, after {} such times; service {of_service:.2} a second, {}",
                idle.periodic.len(), idle.of_apps, idle.seconds, idle.before, mib(self.service_bytes)
            ),
            count(
                idle.periodic.len() as u64
                    + u64::from(of_service > 1.0)
                    + u64::from(self.service_bytes > MOST_SERVICE_BYTES),
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_reports_with_losses_are_problems() {
        let excess = |reports, reports_without_room, reports_too_early| {
            too_many_losses(&Totals {
                reports,
                reports_without_room,
                reports_too_early,
                ..Totals::default()
            })
        };
        assert_eq!([excess(20, 2, 2), excess(20, 3, 0)], [0, 1]);
        assert_eq!([excess(4000, 80, 0), excess(4000, 90, 85)], [0, 15]);
    }
}
