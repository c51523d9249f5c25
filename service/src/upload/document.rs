// SPDX-License-Identifier: Apache-2.0
//! The text that leaves the device about a report.

use std::fmt::Write as _;

use hindsight_trace_query::Answer;

use crate::policy::{Level, UserType};
use crate::store::Entry;
use crate::text::one_line;

use super::sha256::Sha256;

/// What the text says about the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// A random number of the device that never leaves it, in hexadecimal.
    pub secret: String,
    /// Who uses it.
    pub user: UserType,
    /// Where.
    pub region: String,
    /// Revision of its policy.
    pub policy: u64,
}

impl Device {
    /// A name of the device for one app of one Android user. Nobody can tell whether two such names are of one device.
    pub fn name_for(&self, uid: u32) -> String {
        Sha256::of(format!("hindsight-device {} {uid}", self.secret).as_bytes())
    }
}

/// The whole text. It has no time of day, no ids of processes, threads or users, and no names of threads.
pub fn document(entry: &Entry, answer: &Answer, device: &Device, level: Level) -> String {
    let mut text = String::from("hindsight-report 1\n");
    let severity = entry.severity().name();
    let fields = [
        ("device", device.name_for(entry.uid)),
        ("level", level.name().to_owned()),
        ("user", device.user.name().to_owned()),
        ("region", device.region.clone()),
        ("policy", device.policy.to_string()),
        ("service", entry.service.clone()),
        ("process", entry.process.clone()),
        ("severity", severity.to_owned()),
        ("detector", entry.detector.clone()),
        ("has-ended", entry.has_ended.to_string()),
    ];
    for (name, value) in fields {
        let _ = writeln!(text, "{name} {}", one_line(&value));
    }
    // Programs compose reasons, which may have anything in them.
    if level >= Level::Full {
        let _ = writeln!(text, "reason {}", one_line(&entry.reason));
    }
    let _ = write!(text, "\n{answer}");
    text
}
