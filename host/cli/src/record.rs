// SPDX-License-Identifier: Apache-2.0
//! `hindsight record`: records the calls of an app for a while.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use clap::Args;
use hindsight_control::{adb_command, Device, DeviceError, ProcessReport};
use hindsight_export::Format;

use crate::device::{pull_one, Which};

#[derive(Args)]
#[command(
    after_help = "All processes of the app get rings for this time, as far as the service's policy, its budget and the user's consent \
                  allow; an app that starts meanwhile, ends or is killed is recorded, too. The file has what is in the rings at the \
                  end: also what the app did before the command, if it was recorded then."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,
    /// The app's package, such as com.example.notes; its processes com.example.notes:NAME belong to it
    #[arg(short, long)]
    app: String,
    /// For how long, such as 5s or 2min; at most 600 s
    #[arg(short, long, default_value = "5s", value_parser = seconds)]
    time: u64,
    /// The file [default: PACKAGE-DATE-TIME.hindsight]; a second process's file gets its number before the ending
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Start the app anew, so that its start is recorded
    #[arg(short, long)]
    restart: bool,
    /// The mapping.txt that R8 or ProGuard wrote for this build: names in the file are translated back
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    mapping: Option<PathBuf>,
}

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
        1..=600 => Ok(seconds),
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
    let device = arguments.which.device();
    let restarts = serial.filter(|_| arguments.restart);
    if let Some(serial) = restarts {
        // Before the recording: the end of the old process would be in it, with the old process's history.
        stop(serial, package)?;
        wait_until_ended(&device, package)?;
    }
    let reports = record(&device, package, arguments.time, || match restarts {
        Some(serial) => start(serial, package),
        None => Ok(()),
    })?;
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
    for (nth, number) in kept.iter().enumerate() {
        let path = match nth {
            0 => output.clone(),
            _ => numbered(&output, *number),
        };
        fetch(&device, *number, &path, arguments.mapping.as_deref())?;
        anstream::println!("{}", path.display());
    }
    Ok(())
}

/// What the service says at the end of a recording.
type Answer = Result<Vec<ProcessReport>, DeviceError>;

/// Asks the service to record, and calls `begun` once it does. Returns its answer. A service that ends meanwhile, and is started
/// again, is asked for the rest of the time.
fn record(
    device: &Device,
    package: &str,
    seconds: u64,
    begun: impl FnOnce() -> Result<()>,
) -> Result<Vec<ProcessReport>> {
    /// The service is back within this time, or not at all.
    const BACK: Duration = Duration::from_secs(60);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut begun = Some(begun);
    let (mut has_begun, mut lost_at) = (false, None);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = (left.as_secs_f64().ceil() as u64).clamp(1, seconds);
        let (sender, answer) = mpsc::channel();
        let (asked, name) = (device.clone(), package.to_owned());
        std::thread::spawn(move || {
            let answer = asked.ask_for_reports(&format!("record {name} {left}"), left);
            // The receiver is gone after an error.
            let _ = sender.send(answer);
        });
        let answer = match begun.take() {
            None => answer.recv()?,
            Some(begun) => match wait_until_begun(device, package, &answer)? {
                Some(answer) => answer,
                None => {
                    has_begun = true;
                    begun()?;
                    answer.recv()?
                }
            },
        };
        match answer {
            Err(DeviceError::NoAnswer { .. })
                if has_begun && lost_at.get_or_insert_with(Instant::now).elapsed() < BACK =>
            {
                anstream::eprintln!("note: the service does not answer; it is asked again");
                std::thread::sleep(Duration::from_millis(500));
            }
            Err(DeviceError::Refused(message)) => bail!(message),
            answer => return Ok(answer?),
        }
    }
}

/// Waits until the service's status has the recording, or the answer is there.
fn wait_until_begun(
    device: &Device,
    package: &str,
    answer: &mpsc::Receiver<Answer>,
) -> Result<Option<Answer>> {
    loop {
        match answer.recv_timeout(Duration::from_millis(20)) {
            Ok(answer) => return Ok(Some(answer)),
            Err(RecvTimeoutError::Disconnected) => bail!("the service was not asked"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let status = status(device);
        let recordings = status["engine"]["recordings"].as_array();
        if recordings.is_some_and(|all| all.iter().any(|r| r["package"] == package)) {
            return Ok(None);
        }
    }
}

/// Waits until the service knows no process of the app any more. A service that does not answer is noticed later.
fn wait_until_ended(device: &Device, package: &str) -> Result<()> {
    /// Processes that were killed have ended within this time, however slow the device is.
    const PATIENCE: Duration = Duration::from_secs(60);
    let begin = Instant::now();
    loop {
        let status = status(device);
        let processes = status["engine"]["processes"].as_array();
        let is_of_app = |process: &&serde_json::Value| {
            let name = process["name"].as_str().unwrap_or("");
            let rest = name.strip_prefix(package);
            let is_app = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
            // Of an ended one, a report is written; it cannot be recorded.
            is_app && process["connection"] != "ended"
        };
        let Some(process) = processes.and_then(|all| all.iter().find(is_of_app)) else {
            return Ok(());
        };
        let pid = &process["pid"];
        ensure!(
            begin.elapsed() < PATIENCE,
            "process {pid} of {package} does not end: 'adb shell am force-stop {package}' should end it; without --restart it is recorded as it is"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The service's status; null if there is no answer.
fn status(device: &Device) -> serde_json::Value {
    let status = device.ask("status", "", 0).unwrap_or_default();
    let status = status
        .first()
        .and_then(|line| serde_json::from_str(line).ok());
    status.unwrap_or_default()
}

/// Ends the app.
fn stop(serial: Option<&str>, package: &str) -> Result<()> {
    adb(serial, package, &["shell", "am", "force-stop", package])
}

/// Starts the app, as its icon does.
fn start(serial: Option<&str>, package: &str) -> Result<()> {
    let category = "android.intent.category.LAUNCHER";
    let words = ["shell", "monkey", "-p", package, "-c", category, "1"];
    adb(serial, package, &words)
}

fn adb(serial: Option<&str>, package: &str, words: &[&str]) -> Result<()> {
    let output = adb_command(serial)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .context("adb cannot be run")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success() && !said.contains("No activities found"),
        "{package} cannot be started: adb {}: {}{}",
        words.join(" "),
        said.trim(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
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
