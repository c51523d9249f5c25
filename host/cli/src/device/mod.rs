// SPDX-License-Identifier: Apache-2.0
//! `hindsight device`: commands to hindsightd, the system service of a device.

mod answers;
mod pull;
mod show;
mod sign;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use hindsight_control::Device;

use crate::page::{Look, Page};

use self::answers::{object, reports};
pub(crate) use self::pull::pull_one;

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
        global = true,
        help_heading = "Device"
    )]
    serial: Option<String>,
    /// The lab's device whose files are in this folder, or the service whose socket for commands is at this path, instead of a device
    /// behind adb
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath, global = true, help_heading = "Device")]
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
        #[arg(default_value = "show")]
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
        } => pull::run(&device, reports, (*all, *group), output.as_deref()),
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
