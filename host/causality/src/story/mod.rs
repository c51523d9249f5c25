// SPDX-License-Identifier: Apache-2.0
//! The facts of a diagnosis as text and, by `serde`, as JSON.

mod make;
mod not_stuck;
mod remedy;
mod report;
mod scheduled;
mod text;

pub use make::{cause, hop, report};
pub use not_stuck::last_before;
pub use report::{
    process_name, CauseStep, CulpritReport, CulpritThreadReport, DifferenceReport, EndReport,
    FieldReport, HopReport, MissingReport, NodeName, Report, SimilarReport, ThenReport, ThreadName,
    TraceName, TriggerReport, UnknownReport,
};
pub use scheduled::ScheduledReport;
pub use text::{cause_text, culprit_text, hop_text, standstill, text, verdict, waits, Block};
