// SPDX-License-Identifier: Apache-2.0
//! What waits for the disk, and what came of it.

use std::fs::File;
use std::path::PathBuf;

use crate::consent::Allowed;
use crate::engine::Report;
use crate::upload::Kind;

use super::boot_names::GivenNames;
use super::saving::Saving;
use super::write::WriteJob;

/// Something that waits for the disk.
#[derive(Debug)]
pub enum Job {
    /// Write a report.
    Write(Box<WriteJob>),
    /// Keep the names of the boot image that a process gives.
    LearnNames(GivenNames),
    /// Numbers up to this one are used: the next service uses higher ones.
    Reserve(Report),
    /// Save the list of admitted reports. Reports after it are only written if it could be.
    SaveLimits(String),
    /// Save texts under names.
    Save {
        /// The texts, in this order.
        texts: Vec<Saving>,
        /// The client that waits for it.
        client: u64,
    },
    /// Save the choices about consent, or make sure that none are found.
    SaveChoices {
        /// The text.
        text: String,
        /// The client that waits for it.
        client: u64,
    },
    /// Remove all reports that are not allowed.
    Enforce {
        /// What is allowed.
        allowed: Box<Allowed>,
        /// Only reports of this Android user; `None`: of all.
        of_user: Option<u32>,
        /// The client that waits for it, and its answer.
        client: Option<(u64, String)>,
    },
    /// Remove all reports of an Android user.
    RemoveOfUser {
        /// The user's number.
        user: u32,
        /// The client that waits for it, and its answer.
        client: (u64, String),
    },
    /// Say what may leave the device next.
    NextUpload {
        /// The client that asks.
        client: u64,
        /// What is allowed.
        allowed: Box<Allowed>,
        /// This report counts as an upload from now on.
        admitted: Option<Report>,
    },
    /// Say whether a part that was handed out may still leave.
    StillUpload {
        /// The client that asks.
        client: u64,
        /// What is allowed.
        allowed: Box<Allowed>,
        /// The report.
        report: Report,
        /// The part.
        kind: Kind,
    },
    /// The collector has a part of a report.
    Uploaded {
        /// The client that says so.
        client: u64,
        /// The report.
        report: Report,
        /// The part.
        kind: Kind,
    },
    /// Show what may leave of a report.
    Preview {
        /// The client that asks.
        client: u64,
        /// What is allowed.
        allowed: Box<Allowed>,
        /// The report.
        report: Report,
    },
    /// Say which reports there are.
    List {
        /// The client that asks.
        client: u64,
    },
    /// Open a report.
    Open {
        /// The client that asks.
        client: u64,
        /// What is allowed.
        allowed: Box<Allowed>,
        /// The report.
        report: Report,
    },
    /// Show the context of a report.
    Context {
        /// The client that asks.
        client: u64,
        /// What is allowed.
        allowed: Box<Allowed>,
        /// The report.
        report: Report,
    },
    /// Remove a report.
    Remove {
        /// The client that asks.
        client: u64,
        /// The report.
        report: Report,
    },
    /// Read a policy file.
    ReadPolicy {
        /// The client that asks.
        client: u64,
        /// Where it is.
        path: PathBuf,
    },
}

/// What came of a job.
#[derive(Debug)]
pub enum Outcome {
    /// Nobody asks.
    Nothing,
    /// Of [`Job::Write`].
    Written {
        /// The report.
        report: Report,
        /// Whether there is one now.
        is_kept: bool,
    },
    /// Of jobs of clients that are answered by text: lines after the first one, or why it failed.
    Answer {
        /// The client.
        client: u64,
        /// What it is told.
        result: Result<Vec<String>, String>,
    },
    /// Of [`Job::SaveChoices`].
    Chosen {
        /// The client.
        client: u64,
        /// Why they are not saved.
        result: Result<(), String>,
    },
    /// Of [`Job::Open`].
    Opened {
        /// The client.
        client: u64,
        /// The trace, and the report as JSON.
        file: File,
        /// The report as JSON.
        json: String,
    },
    /// Of [`Job::NextUpload`]: reports of which one may leave if it may count as an upload.
    Candidates {
        /// The client.
        client: u64,
        /// Each report and its group, oldest first; at least one.
        reports: Vec<(Report, Report)>,
    },
    /// Of [`Job::ReadPolicy`].
    Policy {
        /// The client.
        client: u64,
        /// The text.
        result: Result<String, String>,
    },
}

/// The end of a job.
#[derive(Debug)]
pub struct Done {
    /// What came of it.
    pub outcome: Outcome,
    /// Lines for the log.
    pub log: Vec<String>,
    /// Reports in the store now.
    pub reports: usize,
    /// Bytes in the store now.
    pub bytes: u64,
    /// Only the store had something to do; no job has ended.
    pub is_by_itself: bool,
}

/// The outcome of a job that panicked.
pub(super) fn failed(job: &Job) -> Outcome {
    let why = || "the service has a bug; its log has more".to_owned();
    match job {
        Job::Write(job) => Outcome::Written {
            report: job.report,
            is_kept: false,
        },
        Job::List { client }
        | Job::Open { client, .. }
        | Job::Context { client, .. }
        | Job::Remove { client, .. }
        | Job::NextUpload { client, .. }
        | Job::StillUpload { client, .. }
        | Job::Uploaded { client, .. }
        | Job::Preview { client, .. }
        | Job::Save { client, .. } => Outcome::Answer {
            client: *client,
            result: Err(why()),
        },
        Job::ReadPolicy { client, .. } => Outcome::Policy {
            client: *client,
            result: Err(why()),
        },
        Job::SaveChoices { client, .. } => Outcome::Chosen {
            client: *client,
            result: Err(why()),
        },
        Job::RemoveOfUser {
            client: (client, _),
            ..
        }
        | Job::Enforce {
            client: Some((client, _)),
            ..
        } => Outcome::Answer {
            client: *client,
            result: Err(why()),
        },
        Job::Reserve(_)
        | Job::LearnNames(_)
        | Job::SaveLimits(_)
        | Job::Enforce { client: None, .. } => Outcome::Nothing,
    }
}
