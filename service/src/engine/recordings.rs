// SPDX-License-Identifier: Apache-2.0
//! The recordings that users have asked for, and what they change about processes.

use super::event::Report;
use crate::policy::{Level, Recording};

/// The most recordings at a time.
pub(super) const MAX_RECORDINGS: usize = 4;
/// How long a recording may take, s.
pub(crate) const SECONDS: std::ops::RangeInclusive<u32> = 1..=600;

/// A recording under way.
#[derive(Clone, Debug)]
pub(super) struct UserRecording {
    pub(super) reply: u64,
    pub(super) package: String,
    pub(super) until_ns: u64,
    /// Its time is over, and these reports begin: until their rings are taken, processes keep them.
    pub(super) ending: Option<Vec<Report>>,
}

/// All recordings under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Recordings(pub(super) Vec<UserRecording>);

/// Whether a process of this name belongs to the package: `com.example`, `com.example:remote`.
pub(super) fn is_of(package: &str, name: &str) -> bool {
    let rest = name.strip_prefix(package);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

impl Recordings {
    /// Whether the process is being recorded.
    pub(super) fn covers(&self, name: &str) -> bool {
        self.0.iter().any(|r| is_of(&r.package, name))
    }

    /// The requests whose recordings of this process go on.
    pub(super) fn replies_of(&self, name: &str) -> Vec<u64> {
        let going_on = self.0.iter().filter(|r| r.ending.is_none());
        let of_process = going_on.filter(|r| is_of(&r.package, name));
        of_process.map(|r| r.reply).collect()
    }

    /// What the policy says about a process, changed by a recording of it: it gets up to `rings` rings, also in the background. A
    /// policy that allows it none holds.
    pub(super) fn apply(&self, recording: Recording, name: &str, rings: u32) -> Recording {
        if recording.level == Level::None || recording.rings == 0 || !self.covers(name) {
            return recording;
        }
        Recording {
            rings: recording.rings.max(rings),
            background: true,
            ..recording
        }
    }

    /// When the next one ends, ns.
    pub(super) fn next_end(&self) -> Option<u64> {
        let going_on = self.0.iter().filter(|r| r.ending.is_none());
        going_on.map(|r| r.until_ns).min()
    }

    /// Packages, and how much longer they are recorded, ns.
    pub(super) fn left(&self, now_ns: u64) -> Vec<(String, u64)> {
        let left = |r: &UserRecording| (r.package.clone(), r.until_ns.saturating_sub(now_ns));
        let going_on = self.0.iter().filter(|r| r.ending.is_none());
        going_on.map(left).collect()
    }
}
