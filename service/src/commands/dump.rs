// SPDX-License-Identifier: Apache-2.0
//! The state as lines for people. Bounded: the engine's limits bound the processes.

use crate::engine::Status;
use crate::policy::Level;

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

/// A few lines without names of apps, for the log.
pub fn summary(status: &Status) -> Vec<String> {
    let connected = status.processes.iter();
    let connected = connected.filter(|process| process.connection == "connected");
    let count = |consent: &str| {
        let of = status.processes.iter().filter(|p| p.consent == consent);
        format!("{} {consent}", of.count())
    };
    let levels = Level::ALL.map(|level| count(level.name()));
    let mut lines = totals(status);
    lines.push(format!(
        "processes: {}, {} connected; consent: {}; {} refused; {} recordings",
        status.processes.len(),
        connected.count(),
        levels.join(", "),
        status.refused_processes,
        status.recordings.len()
    ));
    lines.push(outcomes(status));
    lines
}

fn outcomes(status: &Status) -> String {
    let outcomes = status.reports.iter();
    let outcomes = outcomes.map(|(outcome, count)| format!("{count} {}", outcome.name()));
    let outcomes: Vec<String> = outcomes.collect();
    let outcomes = match outcomes.is_empty() {
        true => "none".to_owned(),
        false => outcomes.join(", "),
    };
    format!("reports since the start: {outcomes}")
}

/// What is true of the whole service.
fn totals(status: &Status) -> Vec<String> {
    let recorded = if status.enabled { "on" } else { "off" };
    let memory = &status.memory;
    let limits = &status.limits;
    let mut lines = vec![
        format!(
            "policy: revision {}, recording is {recorded}",
            status.policy_revision
        ),
        format!(
            "memory: {} of {} at most; {} of {} rings of calls in use",
            mib(memory.demand_bytes),
            mib(memory.budget_bytes),
            memory.rings_held,
            memory.rings
        ),
        format!(
            "limits: {} of {} reports, {} of {} uploads in their windows",
            limits.reports, limits.reports_limit, limits.uploads, limits.uploads_limit
        ),
    ];
    if limits.closed_for_ns != 0 {
        let left = limits.closed_for_ns / 1_000_000_000;
        lines.push(format!(
            "limits: closed for {left} s, as the list of reports was lost"
        ));
    }
    lines
}

/// The lines.
pub fn lines(status: &Status) -> Vec<String> {
    let mut lines = totals(status);
    for recording in &status.recordings {
        let left = recording.left_ns.div_ceil(1_000_000_000);
        lines.push(format!(
            "recording: {} for {left} s more",
            recording.package
        ));
    }
    lines.push(format!("processes: {}", status.processes.len()));
    let small = status.processes.iter().filter(|p| !p.ring_fits).count();
    if small != 0 {
        lines.push(format!("  {small} of them get no ring of calls: the budget has no room for one, a snapshot and its copies (budget-mib, ring-share)"));
    }
    for process in &status.processes {
        let seen = if process.is_foreground {
            "foreground"
        } else {
            "background"
        };
        lines.push(format!(
            "  {} pid {} uid {}: {}, {seen}, consent {}, {} rings of {} held ({} taken), {} beside them, report {}",
            process.name,
            process.pid,
            process.uid,
            process.connection,
            process.consent,
            process.rings_held,
            mib(process.ring_bytes),
            process.rings_taken,
            mib(process.other_bytes),
            process.report
        ));
    }
    lines.push(format!("refused processes: {}", status.refused_processes));
    lines.extend(status.refusals.iter().map(|why| format!("  {why}")));
    lines.push(outcomes(status));
    lines
}
