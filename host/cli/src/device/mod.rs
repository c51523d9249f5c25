// SPDX-License-Identifier: Apache-2.0
//! `hindsight device`: commands to hindsightd, the system service of a device.

mod show;
mod sign;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context as _, Result};
use clap::{Args, Subcommand};
use hindsight_control::Device;
use serde_json::Value;

use crate::output::write_file;
use crate::page::{Look, Page};

/// Which device.
#[derive(Args)]
pub(crate) struct Which {
    /// The device with this serial number; needed only if adb has several
    #[arg(
        short,
        long,
        value_name = "SERIAL",
        env = "ANDROID_SERIAL",
        conflicts_with = "lab",
        help_heading = "Device"
    )]
    serial: Option<String>,
    /// The lab's device whose files are in this folder, or the service whose socket for commands is at this path, instead of a device
    /// behind adb
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath, help_heading = "Device")]
    lab: Option<PathBuf>,
}

impl Which {
    pub(crate) fn device(&self) -> Device {
        match &self.lab {
            Some(path) if path.is_dir() => Device::Socket(path.join("commands")),
            Some(path) => Device::Socket(path.clone()),
            None => Device::Adb {
                serial: self.serial.clone(),
            },
        }
    }

    /// adb's serial number; `None` is no device behind adb.
    pub(crate) fn adb(&self) -> Option<Option<&str>> {
        self.lab.is_none().then_some(self.serial.as_deref())
    }
}

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows what the service does: processes with their rings, memory, limits, what became of reports
    Status {
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows, checks or changes the policy: what is recorded and kept
    #[command(subcommand)]
    Policy(Policy),
    /// Lists the reports on the device, oldest first
    Reports {
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows the device, metrics and log around a report, as the service keeps them (TOML)
    Context {
        /// Its number
        report: u64,
    },
    /// Copies reports from the device, each with its context, NAME.context, if it has one
    Pull {
        /// Their numbers
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        reports: Vec<u64>,
        /// All reports that are not there yet
        #[arg(long)]
        all: bool,
        /// Also the other reports of their groups: of processes that were waited for, or recorded together
        #[arg(long, conflicts_with = "all")]
        group: bool,
        /// The file, for one report; or a folder, for NUMBER-PROCESS.hindsight [default: the current folder]
        #[arg(short, long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
        output: Option<PathBuf>,
    },
    /// Removes reports from the device
    Remove {
        /// Their numbers
        #[arg(required = true)]
        reports: Vec<u64>,
    },
    /// Saves a report of a running process now
    Report {
        /// Its name or id
        process: String,
        /// Why, for people
        #[arg(default_value = "asked for by hindsight device report")]
        reason: String,
    },
    /// The recording switch: off stops all recording at once, until it is on again, also over restarts
    Switch {
        /// on or off
        #[arg(value_parser = ["on", "off"])]
        way: String,
    },
    /// What users agreed to: 'show', 'set LEVEL [user N]', 'withdraw [user N]', 'forget user N'
    Consent {
        /// The words for the service
        #[arg(default_value = "show", trailing_var_arg = true)]
        words: Vec<String>,
    },
    /// Shows the service's state as lines for people, to be attached to a bug report by hand
    Dump,
}

#[derive(Subcommand)]
enum Policy {
    /// Writes the policy in force
    Show,
    /// Puts the policy of a file in force, at once and after restarts
    Load {
        /// The file, TOML
        file: PathBuf,
    },
    /// Says whether the service would take the policy of a file
    Check {
        /// The file, TOML
        file: PathBuf,
    },
    /// Puts the policy in force that the service was started with
    Reset,
    /// Makes a key that signs policies: NAME.key, and NAME.pem for the ROM
    NewKey {
        /// Its name, with its folder
        #[arg(value_hint = clap::ValueHint::AnyPath)]
        name: PathBuf,
    },
    /// Signs the policy of a file, so that devices with the key take it
    Sign {
        /// The file, TOML, with a revision
        file: PathBuf,
        /// The private key, NAME.key
        #[arg(long)]
        key: PathBuf,
        /// The signed file [default: the file itself]
        #[arg(short, long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
        output: Option<PathBuf>,
    },
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let device = arguments.which.device();
    let ask = |command: &str| device.ask(command, "", 0);
    match &arguments.command {
        Command::Status { json: true } => crate::output::write_json(&object(&ask("status")?)?),
        Command::Status { json: false } => {
            let status = object(&ask("status")?)?;
            Page::new(look).show(|page| show::status(page, &status))
        }
        Command::Policy(policy) => change_policy(&device, policy, look),
        Command::Reports { json } => {
            let reports = reports(&device)?;
            match json {
                true => crate::output::write_json(&reports),
                false => Page::new(look).show(|page| show::reports(page, &reports)),
            }
        }
        Command::Context { report } => print(look, &ask(&format!("context {report}"))?),
        Command::Pull {
            reports,
            all,
            group,
            output,
        } => pull(&device, reports, (*all, *group), output.as_deref()),
        Command::Remove { reports } => {
            for report in reports {
                ask(&format!("remove {report}"))?;
            }
            Ok(())
        }
        Command::Report { process, reason } => {
            let reason = reason.replace(['\n', '\r'], " ");
            let reports = device.ask_for_reports(&format!("report {process} {reason}"), 0)?;
            let lines: Vec<String> = reports.iter().map(ToString::to_string).collect();
            print(look, &lines)
        }
        Command::Switch { way } => ask(&format!("switch {way}")).map(drop).map_err(Into::into),
        Command::Consent { words } => print(look, &ask(&format!("consent {}", words.join(" ")))?),
        Command::Dump => print(look, &ask("dump")?),
    }
}

fn print(look: &Look, lines: &[String]) -> Result<()> {
    Page::new(look).show(|page| lines.iter().try_for_each(|line| page.plain(line)))
}

fn change_policy(device: &Device, policy: &Policy, look: &Look) -> Result<()> {
    let with_file = |command: &str, file: &Path| -> Result<()> {
        let name = file.display();
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        let asked = device.ask(command, &text, 0);
        asked.map(drop).with_context(|| format!("{name}"))
    };
    match policy {
        Policy::Show => print(look, &device.ask("policy show", "", 0)?),
        Policy::Load { file } => with_file("policy -", file),
        Policy::Check { file } => with_file("policy check -", file),
        Policy::NewKey { name } => sign::new_key(name),
        Policy::Sign { file, key, output } => sign::sign(file, key, output.as_deref()),
        Policy::Reset => Ok(device.ask("policy default", "", 0).map(drop)?),
    }
}

/// The one line of an answer, an object.
fn object(lines: &[String]) -> Result<Value> {
    let line = lines.first().context("the service's answer is empty")?;
    let value: Value = serde_json::from_str(line).context("the service's answer is no JSON")?;
    ensure!(
        value.is_object(),
        "the service's answer is no object: {line}"
    );
    Ok(value)
}

/// The descriptions of all reports.
pub(crate) fn reports(device: &Device) -> Result<Vec<Value>> {
    let lines = device.ask("reports", "", 0)?;
    let parse = |line: &String| serde_json::from_str(line);
    let reports: Result<Vec<Value>, _> = lines.iter().map(parse).collect();
    reports.context("the service's list of reports is no JSON")
}

/// The name of a report's file: nothing in it comes from the process but letters, digits, dots, dashes and underscores.
fn file_name(about: &Value) -> String {
    let process = about["process"].as_str().unwrap_or_default();
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' | '_' => c,
        _ => '_',
    };
    let process: String = process.chars().take(100).map(plain).collect();
    let number = about["report"].as_u64().unwrap_or(0);
    format!("{number}-{process}.hindsight")
}

fn pull(
    device: &Device,
    numbers: &[u64],
    (all, group): (bool, bool),
    output: Option<&Path>,
) -> Result<()> {
    let known = reports(device)?;
    let wanted: Vec<&Value> = match all {
        true => known.iter().collect(),
        false => {
            let find = |number: &u64| {
                let mut all = known.iter();
                let found = all.find(|about| about["report"].as_u64() == Some(*number));
                found.with_context(|| {
                    format!("there is no report {number}: 'hindsight device reports' lists them")
                })
            };
            let found = numbers.iter().map(find).collect::<Result<Vec<_>>>()?;
            match group {
                true => with_groups(&known, &found),
                false => found,
            }
        }
    };
    let folder = output.unwrap_or(Path::new("."));
    let is_file = !all && !group && wanted.len() == 1 && output.is_some() && !folder.is_dir();
    if !is_file {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    for about in wanted {
        let Some(number) = about["report"].as_u64() else {
            bail!("the service lists a report without a number");
        };
        let path = match is_file {
            true => folder.to_owned(),
            false => folder.join(file_name(about)),
        };
        let length = fs::metadata(&path).map(|file| file.len()).ok();
        if all && length.is_some() && length == about["bytes"].as_u64() {
            anstream::println!("{}: is there already", path.display());
            continue;
        }
        pull_one(device, number, &path)?;
        pull_context(device, number, &path)?;
        anstream::println!("{}", path.display());
    }
    Ok(())
}

/// All reports of the groups of these, each once, oldest first.
fn with_groups<'a>(known: &'a [Value], found: &[&'a Value]) -> Vec<&'a Value> {
    let groups: Vec<&Value> = found
        .iter()
        .flat_map(|about| show::group_of(known, about))
        .collect();
    known
        .iter()
        .filter(|about| groups.contains(about))
        .collect()
}

/// Copies a report to a file, which gets its name when all of it is there.
pub(crate) fn pull_one(device: &Device, number: u64, path: &Path) -> Result<()> {
    let mut problem = None;
    let written = write_file(path, |out| {
        device.pull(number, out).map(drop).map_err(|e| {
            problem = Some(e);
            std::io::Error::other("the report did not come")
        })
    });
    match problem {
        Some(problem) => Err(problem).with_context(|| format!("report {number}")),
        None => written,
    }
}

/// Copies the context of a report beside its trace. A service that has none, or is older than contexts, is no error.
fn pull_context(device: &Device, number: u64, trace: &Path) -> Result<()> {
    let path = crate::context::path_of(trace);
    let lines = match device.ask(&format!("context {number}"), "", 0) {
        Ok(lines) if !lines.is_empty() && path != trace => lines,
        _ => return Ok(()),
    };
    let text = lines.join("\n") + "\n";
    write_file(&path, |out| out.write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_process_chooses_the_folder_of_its_report() {
        let about = serde_json::json!({"report": 7, "process": "../a b/c"});
        assert_eq!(file_name(&about), "7-.._a_b_c.hindsight");
    }

    #[test]
    fn whole_groups_are_pulled_each_report_once_and_oldest_first() {
        let known = [(1, 1), (2, 2), (3, 1), (4, 4), (5, 1), (6, 4)]
            .map(|(report, group)| serde_json::json!({"report": report, "group": group}));
        let groups_of = |found: &[usize]| -> Vec<u64> {
            let found: Vec<&Value> = found.iter().map(|of| &known[*of - 1]).collect();
            let all = with_groups(&known, &found).into_iter();
            all.filter_map(|about| about["report"].as_u64()).collect()
        };
        assert_eq!(groups_of(&[3]), [1, 3, 5]);
        assert_eq!(groups_of(&[2]), [2]);
        assert_eq!(groups_of(&[6, 5, 1]), [1, 3, 4, 5, 6]);
    }
}
