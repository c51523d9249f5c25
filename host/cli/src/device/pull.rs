// SPDX-License-Identifier: Apache-2.0
//! `hindsight device pull`: copies reports from a device, each with its context.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{bail, Context as _, Result};
use hindsight_control::{Device, DeviceError};
use hindsight_decoder::Trace;
use serde_json::Value;

use super::answers::reports;
use super::show;
use crate::output::write_file;

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

/// Copies these reports, or all reports; or these and all others of their groups.
pub(super) fn run(
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
        // A file that the user names is replaced, as of other commands.
        let there = if is_file {
            There::Nothing
        } else {
            There::at(&path, about)
        };
        match there {
            There::Copy if all => {
                anstream::println!("{}: is there already", path.display());
                continue;
            }
            There::Nothing | There::Copy => {}
            There::Other => bail!(
                "{} is there, and is no copy of report {number} of this device: devices number their reports alike; name \
                 another folder by -o, or remove the file",
                path.display()
            ),
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

/// What is at the place of a report's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    Nothing,
    /// This report.
    Copy,
    Other,
}

impl There {
    /// Compares what is there with the service's description of a report.
    fn at(path: &Path, about: &Value) -> Self {
        let length = match fs::metadata(path) {
            Ok(file) => file.len(),
            Err(e) if e.kind() == ErrorKind::NotFound => return There::Nothing,
            Err(_) => return There::Other,
        };
        if about["bytes"].as_u64() != Some(length) {
            return There::Other;
        }
        match Trace::open(path) {
            Ok(trace) if is_of(&trace, about) => There::Copy,
            _ => There::Other,
        }
    }
}

/// Whether a trace has the process and the reason of a report. A fact that the service does not tell is not compared.
fn is_of(trace: &Trace, about: &Value) -> bool {
    let facts = &trace.process;
    let is = |field: &str, text: &str| about[field].as_str().is_none_or(|of| of == text);
    let pid = about["pid"].as_u64();
    is("process", &facts.name)
        && is("reason", &facts.reason)
        && pid.is_none_or(|pid| pid == u64::from(facts.pid))
}

/// Copies a report to a file, which gets its name when all of it is there. The context of what was there before goes.
pub(crate) fn pull_one(device: &Device, number: u64, path: &Path) -> Result<()> {
    let mut problem = None;
    let written = write_file(path, |out| {
        device.pull(number, out).map(drop).map_err(|e| {
            problem = Some(e);
            std::io::Error::other("the report did not come")
        })
    });
    match problem {
        Some(problem) => Err(problem).with_context(|| format!("report {number}"))?,
        None => written?,
    }
    let context = crate::context::path_of(path);
    if context == path {
        return Ok(());
    }
    match fs::remove_file(&context) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e)
            .with_context(|| format!("cannot remove {}, of an earlier trace", context.display())),
        _ => Ok(()),
    }
}

/// Copies the context of a report beside its trace. A service that has none, or is older than contexts, is no error.
fn pull_context(device: &Device, number: u64, trace: &Path) -> Result<()> {
    let path = crate::context::path_of(trace);
    if path == trace {
        return Ok(());
    }
    let lines = match device.ask(&format!("context {number}"), "", 0) {
        Ok(lines) => lines,
        Err(DeviceError::Refused(_)) => Vec::new(),
        Err(e) => {
            return Err(e)
                .with_context(|| format!("{} is there, but not its context", trace.display()));
        }
    };
    if lines.is_empty() {
        return Ok(());
    }
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
