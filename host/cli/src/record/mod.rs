// SPDX-License-Identifier: Apache-2.0
//! `hindsight record`: records the calls of an app for a while.

mod adb;
mod app;
mod asking;
mod system;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use clap::Args;
use hindsight_control::{Device, ProcessReport};
use hindsight_export::Format;

use self::asking::{record, wait_until_ended, Early, Plan};
use self::system::SystemSession;

use crate::device::{pull_one, Which};

#[derive(Args)]
#[command(
    after_help = "All processes of the app get rings for this time, as far as the service's policy, its budget and the user's consent \
                  allow; an app that starts meanwhile, ends or is killed is recorded, too. The file has what is in the rings at the \
                  end: also what the app did before the command, if it was recorded then. Ctrl-C, or Enter at a terminal, ends the \
                  recording early."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,
    /// The app's package, such as com.example.notes; its processes com.example.notes:NAME belong to it
    #[arg(short, long)]
    app: String,
    /// For how long, such as 5s or 2min; at most 600 s [default: at a terminal until Enter, else 5s]
    #[arg(short, long, value_parser = seconds)]
    time: Option<u64>,
    /// The file [default: PACKAGE-DATE-TIME.hindsight]; each further file gets its report's number before the ending
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Start the app anew, so that its start is recorded
    #[arg(short, long)]
    restart: bool,
    /// Wait until the app is there, for up to 600 s with the recording: the time counts from then
    #[arg(short, long, conflicts_with = "restart")]
    wait: bool,
    /// Also record the whole device by its Perfetto, scheduler and binder, into the file with the ending .pftrace
    #[arg(long)]
    system: bool,
    /// The mapping.txt that R8 or ProGuard wrote for this build: names in the file are translated back
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    mapping: Option<PathBuf>,
}

/// The longest recording, s.
const MOST: u64 = 600;
/// Without a terminal, s.
const DEFAULT: u64 = 5;

/// 5, 5s, 500ms (rounded up), 2min.
fn seconds(text: &str) -> Result<u64, String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number
        .parse()
        .map_err(|_| format!("'{text}' is no time: 5s"))?;
    let seconds = match unit {
        "" | "s" => number,
        "ms" => number.div_ceil(1000),
        "min" | "m" => number.saturating_mul(60),
        _ => return Err(format!("'{unit}' is no unit: s, ms or min")),
    };
    match seconds {
        1..=MOST => Ok(seconds),
        _ => Err(format!("{text} is not within 1 to 600 s")),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let package = &arguments.app;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    ensure!(
        !package.is_empty() && package.chars().all(is_name),
        "'{package}' is no name of a package, such as com.example.notes"
    );
    if let Some(mapping) = &arguments.mapping {
        // Before the recording: an app is not started twice because of a wrong path.
        std::fs::metadata(mapping).with_context(|| format!("cannot read {}", mapping.display()))?;
    }
    let serial = arguments.which.adb();
    ensure!(
        !arguments.restart || serial.is_some(),
        "--restart starts the app by adb; an app of --lab is started by whoever runs the lab"
    );
    ensure!(
        !arguments.system || serial.is_some(),
        "--system asks the Perfetto of a device behind adb; --lab has none"
    );
    let device = arguments.which.device();
    let restarts = serial.filter(|_| arguments.restart);
    if let Some(serial) = restarts {
        // Before the recording: the end of the old process would be in it, with the old process's history.
        app::stop(serial, package)?;
        wait_until_ended(&device, package)?;
    }
    let has_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    let otherwise = if has_terminal { MOST } else { DEFAULT };
    let seconds = arguments.time.unwrap_or(otherwise);
    let plan = Plan {
        device: &device,
        package,
        time: Duration::from_secs(seconds),
        wait: arguments.wait.then_some(Duration::from_secs(MOST)),
    };
    let mut system = match serial.filter(|_| arguments.system) {
        Some(serial) => {
            let most = plan.wait.unwrap_or(plan.time).as_secs();
            Some(SystemSession::begin(serial, most)?)
        }
        None => None,
    };
    let early = Early::new(has_terminal)?;
    let begun = || {
        if has_terminal {
            let waits = if arguments.wait {
                " once it is there"
            } else {
                ""
            };
            let how = "Enter or Ctrl-C ends it";
            anstream::eprintln!("recording {package}{waits} for up to {seconds} s; {how}");
        }
        match restarts {
            Some(serial) => app::start(serial, package),
            None => Ok(()),
        }
    };
    let reports = record(&plan, &early, begun)?;
    let system_ended = system.as_mut().map_or(Ok(()), SystemSession::end);
    for report in &reports {
        if report.written().is_none() {
            anstream::eprintln!("note: {report}");
        }
    }
    let kept: Vec<u64> = reports.iter().filter_map(ProcessReport::written).collect();
    ensure!(!kept.is_empty(), "nothing was recorded");
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| default_name(package));
    let fetch_reports = || -> Result<()> {
        for (nth, number) in kept.iter().enumerate() {
            let path = match nth {
                0 => output.clone(),
                _ => numbered(&output, *number),
            };
            fetch(&device, *number, &path, arguments.mapping.as_deref())?;
            anstream::println!("{}", path.display());
        }
        Ok(())
    };
    // If one of both cannot be copied, the other one is copied all the same.
    let reports_fetched = fetch_reports();
    let system_fetched = match system {
        Some(system) => system_ended.and_then(|()| fetch_system(&system, &output)),
        None => Ok(()),
    };
    reports_fetched.and(system_fetched)
}

/// Copies the trace of the whole device to a file beside the recording, and says what is missing in it.
fn fetch_system(system: &SystemSession<'_>, recording: &Path) -> Result<()> {
    let path = recording.with_extension("pftrace");
    system.fetch(&path)?;
    anstream::println!("{}", path.display());
    match crate::system::read(&path) {
        Ok(trace) => {
            for missing in trace.missing().words() {
                anstream::eprintln!("note: {}: {missing}", path.display());
            }
        }
        Err(e) => anstream::eprintln!("note: {e:#}"),
    }
    Ok(())
}

fn default_name(package: &str) -> PathBuf {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    PathBuf::from(format!("{package}-{now}.hindsight"))
}

/// `a.hindsight` and 7: `a-7.hindsight`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path
        .extension()
        .map_or_else(String::new, |e| format!(".{}", e.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{ending}"))
}

/// Copies a report, with names translated back if there is a mapping.
fn fetch(device: &Device, number: u64, path: &Path, mapping: Option<&Path>) -> Result<()> {
    let Some(mapping) = mapping else {
        return pull_one(device, number, path);
    };
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let plain = folder.path().join("report.hindsight");
    pull_one(device, number, &plain)?;
    let reading = crate::input::Reading::with_mapping(mapping);
    let trace = reading.read(&plain)?;
    hindsight_export::write_file(&trace, Format::Hindsight, path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_limits() {
        assert_eq!(seconds("5s"), Ok(5));
        assert_eq!(seconds("1500ms"), Ok(2));
        assert_eq!(seconds("2min"), Ok(120));
        for bad in ["", "s", "0", "11min", "5h"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn further_files_have_the_number_of_their_report() {
        let second = numbered(Path::new("/x/a.hindsight"), 7);
        assert_eq!(second, Path::new("/x/a-7.hindsight"));
    }
}
