// SPDX-License-Identifier: Apache-2.0
//! The list as a text.
//!
//! ```text
//! hindsight-limits 1
//! boot 6a1f… before 0 now 5400000000000 next 8
//! closed 120000000000
//! report 10123 9e3779b97f4a7c15 3600000000000
//! upload 2 7 4000000000000
//! returned 10123 9e3779b97f4a7c15 4100000000000
//! end 3 b2d05e00a1f3c4d5
//! ```
//!
//! A line `report` or `returned` has the user id, a hash of the detector and the time; a line `upload` the number of reports in it, their group
//! (hexadecimal) and the time. The last line has the number of entries and a checksum of all before it, so a text that was cut or changed is not taken for
//! a list with room.

use std::fmt::Write as _;
use std::str::SplitAsciiWhitespace;

use super::limiter::{hash, word, Admitted, Limiter, Upload, MAX_ENTRIES};

/// Longest text that is read, bytes.
pub const MAX_SAVED_BYTES: usize = 1 << 20;

/// A text is no list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the list of admitted reports cannot be read: {0}; no report is admitted until a window has passed")]
pub struct SavedError(pub String);

impl Limiter {
    /// The list as a text, at this time.
    pub fn save(&self, boottime_ns: u64) -> String {
        let mut text = format!(
            "hindsight-limits 1\nboot {} before {} now {} next {}\n",
            self.boot,
            self.before_ns,
            self.time_ns(boottime_ns),
            self.next_report
        );
        if let Some(since) = self.closed_ns {
            let _ = writeln!(text, "closed {since}");
        }
        for (name, list) in [("report", &self.reports), ("returned", &self.returned)] {
            for Admitted {
                uid,
                detector,
                at_ns,
            } in list
            {
                let _ = writeln!(text, "{name} {uid} {detector:x} {at_ns}");
            }
        }
        for Upload {
            group,
            reports,
            at_ns,
        } in &self.uploads
        {
            let _ = writeln!(text, "upload {reports} {group:x} {at_ns}");
        }
        let count = self.reports.len() + self.returned.len() + self.uploads.len();
        let sum = hash(text.as_bytes());
        let _ = writeln!(text, "end {count} {sum:x}");
        text
    }

    /// From a text of [`save`](Self::save), in this boot or in an earlier one.
    ///
    /// # Errors
    /// If it is no such text. Use [`Limiter::closed`] then.
    pub fn load(text: &str, boot: &str, boottime_ns: u64) -> Result<Self, SavedError> {
        let error = |problem: &str| SavedError(problem.into());
        let lines = checked(text)?;
        let mut loaded = Limiter::fresh(boot);
        let mut now_ns = None;
        for line in lines.lines().skip(1) {
            let mut fields = line.split_ascii_whitespace();
            match fields.next() {
                Some("boot") => now_ns = Some(loaded.load_time(&mut fields, boottime_ns)?),
                Some("closed") => loaded.closed_ns = Some(number(&mut fields, 10)?),
                Some(kind @ ("report" | "returned")) => {
                    let list = match kind {
                        "report" => &mut loaded.reports,
                        _ => &mut loaded.returned,
                    };
                    let (uid, detector, at_ns) = entry(list.len(), &mut fields)?;
                    list.push(Admitted {
                        uid,
                        detector,
                        at_ns,
                    });
                }
                Some("upload") => {
                    let (reports, group, at_ns) = entry(loaded.uploads.len(), &mut fields)?;
                    loaded.uploads.push(Upload {
                        group,
                        reports,
                        at_ns,
                    });
                }
                _ => return Err(error("there is a line of an unknown kind")),
            }
        }
        let now_ns = now_ns.ok_or_else(|| error("it has no time"))?;
        let reports = loaded
            .reports
            .iter()
            .chain(&loaded.returned)
            .map(|report| report.at_ns);
        let mut times = reports.chain(loaded.uploads.iter().map(|upload| upload.at_ns));
        if times.any(|at_ns| at_ns > now_ns) || loaded.closed_ns > Some(now_ns) {
            return Err(error("it has an entry from the future"));
        }
        Ok(loaded)
    }

    /// Returns the time in operation at the save.
    fn load_time(
        &mut self,
        fields: &mut SplitAsciiWhitespace<'_>,
        boottime_ns: u64,
    ) -> Result<u64, SavedError> {
        let error = |problem: &str| SavedError(problem.into());
        let boot = fields.next().ok_or_else(|| error("it has no boot"))?;
        let is_same = boot == word(&self.boot);
        let before_ns = named(fields, "before")?;
        let now_ns = named(fields, "now")?;
        self.next_report = named(fields, "next")?;
        self.before_ns = if is_same { before_ns } else { now_ns };
        if now_ns < before_ns || (is_same && self.time_ns(boottime_ns) < now_ns) {
            return Err(error("its times contradict each other"));
        }
        if self.next_report == 0 || self.next_report.max(now_ns) > u64::MAX / 2 {
            return Err(error("a number is too large"));
        }
        Ok(now_ns)
    }
}

/// All lines but the last one, if that one fits.
fn checked(text: &str) -> Result<&str, SavedError> {
    let error = |problem: &str| SavedError(problem.into());
    if text.len() > MAX_SAVED_BYTES {
        return Err(error("it is too long"));
    }
    if !text.starts_with("hindsight-limits 1\n") {
        return Err(error("it is not of version 1"));
    }
    let body = text.strip_suffix('\n').ok_or_else(|| error("it was cut"))?;
    let end = body.rfind('\n').ok_or_else(|| error("it was cut"))? + 1;
    let (lines, last) = text.split_at(end);
    let kinds = ["report ", "upload ", "returned "];
    let is_entry = |line: &&str| kinds.iter().any(|kind| line.starts_with(kind));
    let count = lines.lines().filter(is_entry).count();
    let sum = hash(lines.as_bytes());
    if last != format!("end {count} {sum:x}\n") {
        return Err(error("its checksum does not fit: it was cut or changed"));
    }
    Ok(lines)
}

fn number(fields: &mut SplitAsciiWhitespace<'_>, radix: u32) -> Result<u64, SavedError> {
    let field = fields.next().unwrap_or("");
    u64::from_str_radix(field, radix).map_err(|_| SavedError(format!("\"{field}\" is no number")))
}

fn named(fields: &mut SplitAsciiWhitespace<'_>, name: &str) -> Result<u64, SavedError> {
    match fields.next() {
        Some(found) if found == name => number(fields, 10),
        _ => Err(SavedError(format!("it has no {name}"))),
    }
}

/// The fields of an entry, after so many others of its kind.
fn entry(
    others: usize,
    fields: &mut SplitAsciiWhitespace<'_>,
) -> Result<(u32, u64, u64), SavedError> {
    if others >= MAX_ENTRIES {
        return Err(SavedError("it has too many entries".into()));
    }
    let first = number(fields, 10)?;
    let first = u32::try_from(first)
        .map_err(|_| SavedError(format!("{first} is no user id or number of reports")))?;
    Ok((first, number(fields, 16)?, number(fields, 10)?))
}
