// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask lab vm`: the lab's virtual machine, and what the host finds in its snapshots.

mod kernel_events;
mod tool;
mod transactions;

use crate::start::{guest_programs, hindsight_program};
use hindsight_lab::vm::{self, Check, Choice, Verdict};
use hindsight_lab::{Isa, Lab, Parts, Release, Variant};
use kernel_events::KernelEvents;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tool::{calls, info, Info};

/// The method of the guest's program that it calls so many times, as its source says.
const METHOD: &str = "dev.hindsight.vm.Snapshot.round";
const ROUNDS: u64 = 7;
/// The method of the app that is killed, and calls that it makes at least before that.
const KILLED_METHOD: &str = "dev.hindsight.vm.Killed.work";
const KILLED_ROUNDS: u64 = 3;
/// The method in the memory of processes without ART, and its calls, as testing/vm-guest has them.
const GUEST_METHOD: &str = "com.example.Main.work";
const GUEST_CALLS: u64 = 50;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long the guest may run, in seconds
    #[arg(long, default_value_t = 900)]
    limit: u64,
    /// Keep the snapshots of the guest in this folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Run the steps on the system service only
    #[arg(long)]
    service_only: bool,
    /// Run the steps on transactions through the kernel's binder only
    #[arg(long, conflicts_with_all = ["service_only", "long"])]
    binder_only: bool,
    /// Also send transactions through the kernel's binder, and make memory short: the nightly form
    #[arg(long, conflicts_with = "service_only")]
    long: bool,
}

/// Runs the guest and checks its snapshots; prints each check, and last the counts.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let checkout = hindsight_lab::checkout_dir()?;
    let hindsight = hindsight_program(&checkout)?;
    let choice = match options {
        Options {
            binder_only: true, ..
        } => Choice::Binder,
        Options {
            service_only: true, ..
        } => Choice::Service,
        Options { long: true, .. } => Choice::Long,
        _ => Choice::All,
    };
    let programs = guest_programs(&checkout, choice.has_binder())?;
    let lab = Lab::open_parts(
        Release::Android10,
        Isa::X86_64,
        Variant::Hindsight,
        Parts::Programs,
    )?;
    let scratch = tempfile::tempdir()?;
    let out = match &options.keep {
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            dir.as_path()
        }
        None => scratch.path(),
    };
    let limit = Duration::from_secs(options.limit);
    let report = vm::run(&lab, &programs, choice, out, limit, &|what| {
        eprintln!("vm: {what}")
    })?;
    let mut checks = report.checks;
    let is_report = |file: &&PathBuf| {
        let name = file.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("report-")
    };
    let (mut reports, snapshots): (Vec<&PathBuf>, Vec<&PathBuf>) =
        report.snapshots.iter().partition(is_report);
    let mut judged = |name: &str, verdict: Verdict| {
        let name = name.to_owned();
        checks.push(Check { name, verdict });
    };
    if matches!(choice, Choice::All | Choice::Long) {
        let result = decode(&hindsight, &snapshots);
        judged("the host decodes every snapshot", verdict(result));
    }
    let binder = transactions::Reports::take(&hindsight, &mut reports);
    if choice != Choice::Binder {
        let result = decode_reports(&hindsight, &reports);
        judged("the host decodes every report", verdict(result));
    }
    if choice.has_binder() {
        let kernel = report.kernel_events.as_deref();
        for (name, verdict) in binder_checks(&hindsight, binder, kernel, out) {
            judged(name, verdict);
        }
    }
    let (mut failed, mut skipped) = (0, 0);
    for check in &checks {
        match &check.verdict {
            Verdict::Passed => println!("ok      {}", check.name),
            Verdict::Failed(why) => {
                failed += 1;
                println!("FAILED  {}: {why}", check.name);
            }
            Verdict::Skipped(why) => {
                skipped += 1;
                println!("skipped {}: {why}", check.name);
            }
        }
    }
    println!(
        "vm: {} checks, {failed} failed, {skipped} skipped",
        checks.len()
    );
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn verdict(result: anyhow::Result<()>) -> Verdict {
    match result {
        Ok(()) => Verdict::Passed,
        Err(error) => Verdict::Failed(format!("{error:#}")),
    }
}

/// The checks on transactions through the kernel's binder.
fn binder_checks(
    hindsight: &Path,
    reports: anyhow::Result<Option<transactions::Reports>>,
    kernel: Option<&Path>,
    out: &Path,
) -> [(&'static str, Verdict); 2] {
    const COMPARED: &str = "each transaction that was recorded is one of the kernel's";
    const EXPLAINED: &str = "the long wait is explained by the service's method";
    let both = |verdict: Verdict| [(COMPARED, verdict.clone()), (EXPLAINED, verdict)];
    let events = || {
        let text = kernel.map(std::fs::read_to_string).transpose()?;
        text.map(|text| KernelEvents::parse(&text)).transpose()
    };
    match (reports, events()) {
        (Err(error), _) | (_, Err(error)) => both(Verdict::Failed(format!("{error:#}"))),
        (Ok(Some(reports)), Ok(Some(events))) => [
            (
                COMPARED,
                verdict(transactions::compare(hindsight, &reports, &events)),
            ),
            (
                EXPLAINED,
                verdict(transactions::explain(hindsight, &reports, &events, out)),
            ),
        ],
        (Ok(None), Ok(Some(_))) => both(Verdict::Failed(
            "the two processes left no report".to_owned(),
        )),
        (Ok(_), Ok(None)) => both(Verdict::Skipped(
            "the kernel recorded no transactions".to_owned(),
        )),
    }
}

/// The only loss that a snapshot of the guest has: calls are under way when it is taken.
const UNDER_WAY: &str = "calls whose end was not seen";

/// Why this is not what the guest's app should have saved; `None` if it is.
fn objection(info: &Info) -> Option<String> {
    if !info.reason.starts_with("vm: ") {
        return Some(format!("its reason is '{}'", info.reason));
    }
    let others = info.losses.iter().filter(|loss| loss.what != UNDER_WAY);
    let others: Vec<String> = others
        .map(|loss| format!("{} {}", loss.count, loss.what))
        .collect();
    (!others.is_empty()).then(|| format!("it lacks {}", others.join(", ")))
}

/// Reads each snapshot with the tool: it has the calls of the program's source, and lacks nothing.
fn decode(hindsight: &Path, snapshots: &[&PathBuf]) -> anyhow::Result<()> {
    anyhow::ensure!(!snapshots.is_empty(), "there is none");
    for file in snapshots {
        if let Some(objection) = objection(&info(hindsight, file)?) {
            anyhow::bail!("{}: {objection}", file.display());
        }
        let calls = calls(hindsight, file, METHOD)?;
        anyhow::ensure!(
            calls == Some(ROUNDS),
            "{}: {METHOD} was called {ROUNDS} times, but in the snapshot {calls:?}",
            file.display()
        );
    }
    Ok(())
}

/// Reads each report of a killed process: of those without ART all calls, of the one with ART more than were made before it was
/// seen to go on.
fn decode_reports(hindsight: &Path, reports: &[&PathBuf]) -> anyhow::Result<()> {
    let mut of_art = 0;
    for file in reports {
        let reason = info(hindsight, file)?.reason;
        anyhow::ensure!(
            reason.starts_with("the process was killed"),
            "{}: its reason is '{reason}'",
            file.display()
        );
        if calls(hindsight, file, KILLED_METHOD)?.is_some_and(|calls| calls > KILLED_ROUNDS) {
            of_art += 1;
            continue;
        }
        let calls = calls(hindsight, file, GUEST_METHOD)?;
        anyhow::ensure!(
            calls == Some(GUEST_CALLS),
            "{}: {GUEST_METHOD} was called {GUEST_CALLS} times, but in the report {calls:?}",
            file.display()
        );
    }
    anyhow::ensure!(
        of_art == 1,
        "{of_art} of {} reports have more than {KILLED_ROUNDS} calls of {KILLED_METHOD}, instead of one",
        reports.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_snapshot_that_lacks_something_is_objected_to() {
        let objection = |reason: &str, losses: &str| {
            let json =
                format!(r#"{{"pid":1,"reason":"{reason}","threads":[],"losses":[{losses}]}}"#);
            super::objection(&serde_json::from_str(&json).unwrap())
        };
        let under_way = r#"{"what":"calls whose end was not seen","count":5}"#;
        assert_eq!(objection("vm: app", ""), None);
        assert_eq!(objection("vm: app", under_way), None);
        let nameless = r#"{"what":"methods without a name","count":3}"#;
        let found = objection("vm: app", &format!("{under_way},{nameless}"));
        assert_eq!(found.unwrap(), "it lacks 3 methods without a name");
        assert_eq!(objection("x", "").unwrap(), "its reason is 'x'");
    }
}
