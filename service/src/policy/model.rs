// SPDX-License-Identifier: Apache-2.0
//! A policy, and the built-in one.

use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::protocol::TriggerSeverity;
use hindsight_trace_query::Signature;

use super::consent::{ConsentRules, Level, Person};
use super::detectors::Detectors;
use super::selector::{Package, Selector};

/// The most of a process's log in a report, KiB.
pub(super) const MAX_LOG_KIB: u64 = 64;
/// Length of an hour, ns.
pub(super) const HOUR_NS: u64 = 3600 * 1_000_000_000;

/// The most processes that a policy may let join: the service takes no more connections.
pub const MAX_PROCESSES: u64 = 512;
/// The most of them of one user id.
pub const MAX_PROCESSES_PER_UID: u64 = 64;
/// The most reports that a policy may let wait for the disk.
pub const MAX_QUEUE: u64 = 64;

/// Memory of all traced processes together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The most memory of rings, events, stacks and names, of snapshots, and of the service when it reads them; bytes.
    pub budget_bytes: u64,
    /// The part of it for rings of calls, their snapshots and the service's copy; percent. The rest is for all else, so neither
    /// keeps processes from having the other.
    pub ring_share: u32,
    /// The most of that rest that processes of one user id may use; percent.
    pub uid_share: u32,
    /// The most rings of calls of all processes together.
    pub call_rings: u32,
    /// The most rings of calls of one process.
    pub rings_per_process: u32,
    /// The most processes.
    pub processes: u32,
    /// The most processes of one user id.
    pub processes_per_uid: u32,
}

impl Default for Memory {
    fn default() -> Self {
        Memory {
            budget_bytes: 512 << 20,
            ring_share: 50,
            uid_share: 25,
            call_rings: 2,
            rings_per_process: 1,
            processes: 128,
            processes_per_uid: 16,
        }
    }
}

impl Memory {
    /// The most memory for all but rings of calls, their snapshots and the service; bytes.
    pub const fn other_bytes(&self) -> u64 {
        self.budget_bytes / 100 * (100 - self.ring_share as u64)
    }

    /// The most of [`other_bytes`](Self::other_bytes) that processes of one user id may use; bytes.
    pub const fn other_bytes_per_uid(&self) -> u64 {
        self.other_bytes() / 100 * self.uid_share as u64
    }
}

/// A part of the policy for some processes. What is `None` is left to less specific parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// Which processes.
    pub of: Selector,
    /// Whether anything is recorded.
    pub enabled: Option<bool>,
    /// Categories of events, as bits of [`Category`].
    pub categories: Option<u32>,
    /// The most rings of calls of each such process.
    pub rings: Option<u32>,
    /// Whether a process gets rings also if it never was in the foreground.
    pub background: Option<bool>,
    /// The highest level of consent.
    pub consent: Option<Level>,
}

impl Override {
    /// Whether it leaves everything to less specific parts.
    pub(super) fn is_empty(&self) -> bool {
        let of = self.of.clone();
        *self
            == Override {
                of,
                ..Override::default()
            }
    }
}

/// What is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Categories of events, as bits of [`Category`].
    pub categories: u32,
    /// Exceptions, the most specific first.
    overrides: Vec<Override>,
}

impl Default for Record {
    /// Rules need a file that names them.
    fn default() -> Self {
        let categories = Category::ALL.iter().fold(0, |bits, c| bits | c.bit());
        Record {
            categories: categories & !Category::Rules.bit(),
            overrides: Vec::new(),
        }
    }
}

impl Record {
    /// Sorts the exceptions so that the most specific one comes first.
    pub fn new(categories: u32, mut overrides: Vec<Override>) -> Self {
        overrides.sort_by_key(|exception| std::cmp::Reverse(exception.of.rank()));
        Record {
            categories,
            overrides,
        }
    }

    /// Exceptions, the most specific first.
    pub fn overrides(&self) -> &[Override] {
        &self.overrides
    }

    /// The value of the most specific exception that has one.
    fn find<T>(&self, uid: u32, name: &str, value: impl Fn(&Override) -> Option<T>) -> Option<T> {
        let mut matching = self.overrides.iter().filter(|o| o.of.matches(uid, name));
        matching.find_map(value)
    }
}

/// Which ends without a farewell are worth a report, if no trigger waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Killed {
    /// Of processes that the user sees, or has seen a moment before.
    #[default]
    Foreground,
    /// Of all processes.
    All,
    /// Of none.
    None,
}

impl Killed {
    /// All values.
    pub const ALL: [Killed; 3] = [Killed::Foreground, Killed::All, Killed::None];

    /// Its name in policy files.
    pub const fn name(self) -> &'static str {
        match self {
            Killed::Foreground => "foreground",
            Killed::All => "all",
            Killed::None => "none",
        }
    }
}

/// What is worth a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reports {
    /// Ends of processes.
    pub killed: Killed,
    /// So long after a process has left the foreground, it keeps its rings of calls; ns.
    pub grace_ns: u64,
    /// So long after a process has left the foreground, its end counts as one in the foreground; ns.
    pub killed_ns: u64,
    /// An end is reported as one while memory was short if some work waited for it for a larger share of the last 10 s, percent; 100:
    /// never.
    pub memory_percent: u32,
    /// Severities of triggers.
    pub severities: Vec<TriggerSeverity>,
    /// The most reports that wait to be written.
    pub queue: u32,
    /// The most of the process's log in a report, bytes, where the level of consent is full; 0: none.
    pub log_bytes: usize,
    /// The most processes that are in the group of a report because it waited for them.
    pub peers: u32,
}

impl Default for Reports {
    fn default() -> Self {
        Reports {
            killed: Killed::default(),
            grace_ns: 5_000_000_000,
            killed_ns: 2_000_000_000,
            memory_percent: 10,
            severities: TriggerSeverity::ALL.into(),
            queue: 8,
            log_bytes: 0,
            peers: 3,
        }
    }
}

/// The most reports in a window of time; requests of users do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of the window, ns.
    pub window_ns: u64,
    /// The most reports.
    pub device: u32,
    /// The most of one user id.
    pub per_uid: u32,
    /// The most of one user id and detector.
    pub per_detector: u32,
    /// The most of one detector, of all user ids.
    pub device_per_detector: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            window_ns: 24 * HOUR_NS,
            device: 20,
            per_uid: 8,
            per_detector: 4,
            device_per_detector: 10,
        }
    }
}

/// Which reports are uploaded, of more than the limit allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// The first ones.
    #[default]
    First,
    /// Only the most severe: the process ends.
    Severe,
    /// Only of some apps.
    Campaign(Vec<Package>),
}

/// The most uploads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uploads {
    /// Length of the window, ns.
    pub window_ns: u64,
    /// The most uploads of the device.
    pub device: u32,
    /// Which ones.
    pub select: Select,
    /// What is looked for in reports, from the level of signatures on.
    pub signatures: Vec<Signature>,
}

impl Default for Uploads {
    fn default() -> Self {
        Uploads {
            window_ns: 7 * 24 * HOUR_NS,
            device: 3,
            select: Select::First,
            signatures: Vec::new(),
        }
    }
}

impl Uploads {
    /// Whether such a report may be uploaded at all.
    pub fn is_selected(&self, severity: TriggerSeverity, uid: u32, process: &str) -> bool {
        match &self.select {
            Select::First => true,
            Select::Severe => severity == TriggerSeverity::Fatal,
            Select::Campaign(packages) => packages.iter().any(|package| {
                let of = Selector {
                    package: Some(package.clone()),
                    ..Selector::default()
                };
                of.matches(uid, process)
            }),
        }
    }
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The file's own number, for people; 0: the built-in policy.
    pub revision: u64,
    /// Whether anything is recorded.
    pub enabled: bool,
    /// Memory.
    pub memory: Memory,
    /// What is recorded.
    pub record: Record,
    /// What is worth a report.
    pub reports: Reports,
    /// How many reports.
    pub limits: Limits,
    /// How many uploads.
    pub uploads: Uploads,
    /// What users may agree to.
    pub consent: ConsentRules,
    /// What detectors look for.
    pub detectors: Detectors,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            revision: 0,
            enabled: true,
            memory: Memory::default(),
            record: Record::default(),
            reports: Reports::default(),
            limits: Limits::default(),
            uploads: Uploads::default(),
            consent: ConsentRules::default(),
            detectors: Detectors::default(),
        }
    }
}

/// How one process is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Categories of events, as bits of [`Category`].
    pub categories: u32,
    /// The most rings of calls.
    pub rings: u32,
    /// Whether it gets them also if it never was in the foreground.
    pub background: bool,
    /// What may be kept; with [`Level::None`] nothing is recorded.
    pub level: Level,
}

impl Policy {
    /// The highest level of files about a process with this user id and name, whether it is recorded or not.
    pub fn level(&self, person: &Person, uid: u32, name: &str) -> Level {
        let consent = self.record.find(uid, name, |o| o.consent);
        let level = self.consent.level(person, uid);
        level.min(consent.unwrap_or(Level::Full))
    }

    /// How a process with this user id and name is recorded.
    pub fn recording(&self, person: &Person, uid: u32, name: &str) -> Recording {
        let record = &self.record;
        let enabled = record.find(uid, name, |o| o.enabled).unwrap_or(true);
        let level = self.level(person, uid, name);
        if !self.enabled || !enabled || level == Level::None {
            return Recording::default();
        }
        let categories = record.find(uid, name, |o| o.categories);
        let mut categories = categories.unwrap_or(record.categories);
        if categories != 0 && self.detectors.watches_methods(uid, name) {
            categories |= Category::Rules.bit();
        }
        let rings = record.find(uid, name, |o| o.rings);
        let background = record.find(uid, name, |o| o.background);
        Recording {
            categories,
            rings: rings.unwrap_or(self.memory.rings_per_process),
            background: background.unwrap_or(false),
            level,
        }
    }
}
