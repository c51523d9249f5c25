// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask lab vm`: the lab's virtual machine, and what the host finds in its snapshots.

use crate::start::{guest_programs, hindsight_program};
use hindsight_lab::vm::{self, Check, Choice, Verdict};
use hindsight_lab::{Isa, Lab, Parts, Release, Variant};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

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
    /// Also make memory short: the nightly form
    #[arg(long, conflicts_with = "service_only")]
    long: bool,
}

/// Runs the guest and checks its snapshots; prints each check, and last the counts.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let checkout = hindsight_lab::checkout_dir()?;
    let hindsight = hindsight_program(&checkout)?;
    let programs = guest_programs(&checkout)?;
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
    let choice = match (options.service_only, options.long) {
        (true, _) => Choice::Service,
        (false, true) => Choice::Long,
        (false, false) => Choice::All,
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
    let (reports, snapshots): (Vec<&PathBuf>, Vec<&PathBuf>) =
        report.snapshots.iter().partition(is_report);
    let mut decoded = |name: &str, result: anyhow::Result<()>| {
        let verdict = match result {
            Ok(()) => Verdict::Passed,
            Err(error) => Verdict::Failed(format!("{error:#}")),
        };
        let name = name.to_owned();
        checks.push(Check { name, verdict });
    };
    if choice != Choice::Service {
        let result = decode(&hindsight, &snapshots);
        decoded("the host decodes every snapshot", result);
    }
    let result = decode_reports(&hindsight, &reports);
    decoded("the host decodes every report", result);
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

/// What `info --json` says of a snapshot.
#[derive(Deserialize)]
struct Info {
    reason: String,
    losses: Vec<Loss>,
}

#[derive(Deserialize)]
struct Loss {
    what: String,
    count: u64,
}

/// The only loss that a snapshot of the guest has: calls are under way when it is taken.
const UNDER_WAY: &str = "calls whose end was not seen";

impl Info {
    /// Why this is not what the guest's app should have saved; `None` if it is.
    fn objection(&self) -> Option<String> {
        if !self.reason.starts_with("vm: ") {
            return Some(format!("its reason is '{}'", self.reason));
        }
        let others = self.losses.iter().filter(|loss| loss.what != UNDER_WAY);
        let others: Vec<String> = others
            .map(|loss| format!("{} {}", loss.count, loss.what))
            .collect();
        (!others.is_empty()).then(|| format!("it lacks {}", others.join(", ")))
    }
}

#[derive(Deserialize)]
struct Top {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    calls: u64,
}

/// What a command of the tool prints of a file.
fn said(hindsight: &Path, arguments: &[&str], file: &Path) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(hindsight).args(arguments).arg(file).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{}: {error}", file.display());
    Ok(output.stdout)
}

/// How often a method was called.
fn calls(hindsight: &Path, file: &Path, method: &str) -> anyhow::Result<Option<u64>> {
    let top: Top = serde_json::from_slice(&said(hindsight, &["top", "--json"], file)?)?;
    let found = top.rows.iter().find(|row| row.name == method);
    Ok(found.map(|row| row.calls))
}

fn info(hindsight: &Path, file: &Path) -> anyhow::Result<Info> {
    let text = said(hindsight, &["info", "--strict", "--json"], file)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Reads each snapshot with the tool: it has the calls of the program's source, and lacks nothing.
fn decode(hindsight: &Path, snapshots: &[&PathBuf]) -> anyhow::Result<()> {
    anyhow::ensure!(!snapshots.is_empty(), "there is none");
    for file in snapshots {
        if let Some(objection) = info(hindsight, file)?.objection() {
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
            reason == "the process was killed",
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
    use super::*;

    #[test]
    fn a_snapshot_that_lacks_something_is_objected_to() {
        let objection = |reason: &str, losses: &str| {
            let json = format!(r#"{{"reason":"{reason}","threads":[],"losses":[{losses}]}}"#);
            serde_json::from_str::<Info>(&json).unwrap().objection()
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
