// SPDX-License-Identifier: Apache-2.0
//! The lines of clients.

use std::path::PathBuf;

use crate::consent::Whose;
use crate::engine::{Report, RECORDING_SECONDS};
use crate::policy::Level;
use crate::upload::Kind;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The state of the service.
    Status,
    /// All reports.
    Reports,
    /// A report's trace.
    Get(Report),
    /// The device, metrics and log around a report.
    Context(Report),
    /// A report is not needed any more.
    Remove(Report),
    /// The policy in this file.
    PolicyFile(PathBuf),
    /// The policy that follows the line.
    PolicyText(String),
    /// The policy that the service was started with.
    PolicyDefault,
    /// The text of the policy in force.
    PolicyShow,
    /// Whether the text that follows the line is a policy.
    PolicyCheck(String),
    /// Whether anything is recorded at all: the recording switch.
    Switch {
        /// Whether it is.
        is_on: bool,
    },
    /// The state as lines for people.
    Dump,
    /// A recording of a package.
    Record {
        /// The package.
        package: String,
        /// For so long, s.
        seconds: u32,
    },
    /// The end of a recording before its time is over.
    EndRecording {
        /// The package.
        package: String,
    },
    /// Which choices about consent hold.
    Consent,
    /// A choice about consent.
    Choose {
        /// For whom.
        whose: Whose,
        /// The level.
        level: Level,
        /// All choices of single users end, too.
        ends_others: bool,
    },
    /// An Android user was removed: the choice and the reports go.
    Forget(u32),
    /// What may leave the device of a report.
    Preview(Report),
    /// Anything may leave for so many minutes.
    AllowUploads(u32),
    /// Nothing may leave any more.
    StopUploads,
    /// The next permission that is given after this time, CLOCK_BOOTTIME, ns.
    WaitUploads(u64),
    /// What may leave the device next.
    NextUpload,
    /// Whether a part of a report that was handed out may still leave.
    StillUpload {
        /// The report.
        report: Report,
        /// The part.
        kind: Kind,
    },
    /// The collector has a part of a report.
    Uploaded {
        /// The report.
        report: Report,
        /// The part.
        kind: Kind,
    },
    /// A report of these processes.
    Report {
        /// Name or process id.
        process: String,
        /// Why, for people.
        reason: String,
    },
    /// The newest report, once there is one with a higher number than this.
    Watch(Report),
}

impl Request {
    /// The command in a line, without its end.
    ///
    /// # Errors
    /// If it is none: why, and the remedy.
    pub fn parse(line: &str) -> Result<Request, String> {
        parse(line)
    }

    /// How long it takes at least until it can be answered, ns.
    pub(super) fn lasts_ns(&self) -> u64 {
        match self {
            Request::Record { seconds, .. } => {
                u64::from((*seconds).min(*RECORDING_SECONDS.end())) * 1_000_000_000
            }
            _ => 0,
        }
    }
}

const KNOWN: &str = "status, reports, get ID, context ID, preview ID, remove ID, policy PATH, policy -, policy default, policy show, policy check -, switch on, switch off, dump, record PACKAGE SECONDS, record PACKAGE end, consent show, consent set LEVEL [user N], consent withdraw [user N], consent forget user N, uploads allow MINUTES, uploads stop, report PROCESS REASON, watch ID";

/// The words after `consent`.
fn consent(rest: &str) -> Result<Request, String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let whose = |words: &[&str]| match words {
        [] => Ok(Whose::Device),
        ["user", number] => {
            let number = number.parse().map(Whose::User);
            number.map_err(|_| format!("'{}' is no number of an Android user: 'user 10'", words[1]))
        }
        _ => Err(format!(
            "'{}' is not understood: 'user 10', or nothing",
            words.join(" ")
        )),
    };
    match words.as_slice() {
        ["show"] => Ok(Request::Consent),
        ["set", level, rest @ ..] => Ok(Request::Choose {
            level: Level::from_name(level).ok_or_else(|| {
                format!("'{level}' is no level; known: none, summary, signatures, full")
            })?,
            whose: whose(rest)?,
            ends_others: false,
        }),
        ["withdraw", rest @ ..] => Ok(Request::Choose {
            level: Level::None,
            whose: whose(rest)?,
            ends_others: rest.is_empty(),
        }),
        ["forget", rest @ ..] => match whose(rest)? {
            Whose::User(user) => Ok(Request::Forget(user)),
            Whose::Device => Err("whose choice? 'consent forget user 10'".into()),
        },
        _ => Err(
            "what about consent? 'consent show', 'consent set LEVEL', 'consent withdraw', 'consent forget user N'".into(),
        ),
    }
}

/// The words after `uploads`.
fn uploads(rest: &str) -> Result<Request, String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    match words.as_slice() {
        ["allow", minutes] => match minutes.parse() {
            Ok(minutes) => Ok(Request::AllowUploads(minutes)),
            Err(_) => Err(format!(
                "'{minutes}' is no number of minutes: 'uploads allow 10'"
            )),
        },
        ["stop"] => Ok(Request::StopUploads),
        _ => Err("what about uploads? 'uploads allow MINUTES' or 'uploads stop'".into()),
    }
}

/// The command in a line, without its end. The text of a policy is added later.
pub(super) fn parse(line: &str) -> Result<Request, String> {
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    let number = || {
        rest.parse::<Report>().map_err(|_| {
            format!("'{rest}' is no number of a report; 'reports' lists them: '{command} 12'")
        })
    };
    let alone = |request| match rest {
        "" => Ok(request),
        more => Err(format!(
            "'{command}' takes nothing after it: remove '{more}'"
        )),
    };
    match command {
        "status" => alone(Request::Status),
        "reports" => alone(Request::Reports),
        "get" => number().map(Request::Get),
        "context" => number().map(Request::Context),
        "preview" => number().map(Request::Preview),
        "watch" => number().map(Request::Watch),
        "remove" => number().map(Request::Remove),
        "policy" => match rest {
            "" => Err("the file is missing: 'policy PATH', 'policy -' or 'policy default'".into()),
            "-" => Ok(Request::PolicyText(String::new())),
            "default" => Ok(Request::PolicyDefault),
            "show" => Ok(Request::PolicyShow),
            "check -" => Ok(Request::PolicyCheck(String::new())),
            path if path.starts_with('/') => Ok(Request::PolicyFile(path.into())),
            path => Err(format!(
                "'{path}' does not begin with '/': the service has another working directory"
            )),
        },
        "consent" => consent(rest),
        "uploads" => uploads(rest),
        "switch" => match rest {
            "on" | "off" => Ok(Request::Switch {
                is_on: rest == "on",
            }),
            _ => Err("which way? 'switch on' or 'switch off'".into()),
        },
        "dump" => alone(Request::Dump),
        "record" => match rest.split_once(' ') {
            Some((package, time)) if time.trim() == "end" => Ok(Request::EndRecording {
                package: package.to_owned(),
            }),
            Some((package, seconds)) => Ok(Request::Record {
                package: package.to_owned(),
                seconds: seconds.trim().parse().map_err(|_| {
                    format!(
                        "'{}' is no number of seconds: 'record {package} 5', or 'record {package} end'",
                        seconds.trim()
                    )
                })?,
            }),
            None => Err("the time is missing: 'record PACKAGE SECONDS'".into()),
        },
        "report" => match rest.split_once(' ') {
            Some((process, reason)) => Ok(Request::Report {
                process: process.to_owned(),
                reason: reason.trim().to_owned(),
            }),
            None => Err("the reason is missing: 'report PROCESS REASON'".into()),
        },
        _ => Err(format!("there is no command '{command}'; known: {KNOWN}")),
    }
}

/// The uploader's command in a line: it can ask for what may leave, and nothing else.
pub(super) fn parse_upload(line: &str) -> Result<Request, String> {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["next"] => Ok(Request::NextUpload),
        ["wait", after] => match after.parse() {
            Ok(after) => Ok(Request::WaitUploads(after)),
            Err(_) => Err("the time is no number of nanoseconds: 'wait 0'".into()),
        },
        ["done", report, kind] => match (report.parse(), Kind::from_name(kind)) {
            (Ok(report), Some(kind)) => Ok(Request::Uploaded { report, kind }),
            _ => Err("the report or its part is none: 'done 12 text'".into()),
        },
        ["still", report, kind] => match (report.parse(), Kind::from_name(kind)) {
            (Ok(report), Some(kind)) => Ok(Request::StillUpload { report, kind }),
            _ => Err("the report or its part is none: 'still 12 text'".into()),
        },
        _ => Err("known here: wait TIME, next, still ID KIND, done ID KIND".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_errors_with_a_remedy() {
        let good = [
            ("status", Request::Status),
            ("get 12", Request::Get(12)),
            ("watch 0", Request::Watch(0)),
            ("policy /a b", Request::PolicyFile("/a b".into())),
            ("policy -", Request::PolicyText(String::new())),
            ("policy default", Request::PolicyDefault),
            ("policy show", Request::PolicyShow),
            ("policy check -", Request::PolicyCheck(String::new())),
            ("switch off", Request::Switch { is_on: false }),
            ("dump", Request::Dump),
            (
                "record com.example 5",
                Request::Record {
                    package: "com.example".into(),
                    seconds: 5,
                },
            ),
            (
                "record com.example end",
                Request::EndRecording {
                    package: "com.example".into(),
                },
            ),
            ("consent show", Request::Consent),
            (
                "consent set summary user 10",
                Request::Choose {
                    whose: Whose::User(10),
                    level: Level::Summary,
                    ends_others: false,
                },
            ),
            (
                "consent withdraw",
                Request::Choose {
                    whose: Whose::Device,
                    level: Level::None,
                    ends_others: true,
                },
            ),
            ("consent forget user 10", Request::Forget(10)),
            ("uploads allow 10", Request::AllowUploads(10)),
            ("uploads stop", Request::StopUploads),
            (
                "report com.example it is  slow",
                Request::Report {
                    process: "com.example".into(),
                    reason: "it is  slow".into(),
                },
            ),
        ];
        for (line, request) in good {
            assert_eq!(parse(line), Ok(request));
        }
        for (line, part) in [
            ("", "known: status"),
            ("get", "'reports' lists them"),
            ("remove -1", "no number"),
            ("status now", "remove 'now'"),
            ("policy", "'policy PATH'"),
            ("policy a", "begin with '/'"),
            ("switch", "'switch on'"),
            ("record a", "the time is missing"),
            ("record a b", "no number of seconds"),
            ("report x", "the reason is missing"),
            ("consent", "'consent show'"),
            ("consent set", "'consent set LEVEL'"),
            ("consent set all", "known: none, summary"),
            ("consent set full 10", "'user 10'"),
            ("consent withdraw user me", "no number"),
            ("consent forget", "'consent forget user 10'"),
            ("consent forget 10", "'user 10'"),
            ("uploads", "'uploads allow MINUTES'"),
            ("uploads allow", "'uploads stop'"),
            ("uploads allow all", "'uploads allow 10'"),
            ("uploads allow -1", "no number of minutes"),
        ] {
            assert!(parse(line).unwrap_err().contains(part), "{line}");
        }
    }
}
