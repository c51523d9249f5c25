// SPDX-License-Identifier: Apache-2.0
//! The list of what was admitted.

use serde::Serialize;

use crate::policy::{Limits, Uploads};

/// The most entries of a list: the highest limit of a policy.
pub(super) const MAX_ENTRIES: usize = 5000;

/// Which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The list could not be read, and a window has not passed since.
    Closed,
    /// The device's.
    Device,
    /// The user id's.
    Uid,
    /// The limit of the user id and detector, or of the detector on the device.
    Detector,
}

/// Something that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The user id.
    pub uid: u32,
    /// A hash of the detector's name: equal hashes share a limit, which admits fewer.
    pub detector: u64,
    /// When, in ns of the device's time in operation.
    pub at_ns: u64,
}

/// An upload that was admitted: of one report, or of several that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Upload {
    /// The number of the group. 0: of an older service, which counted each report.
    pub(super) group: u64,
    /// So many reports of the group are in it.
    pub(super) reports: u32,
    /// When the first of them was admitted, in ns of the device's time in operation.
    pub(super) at_ns: u64,
}

/// Counts reports and uploads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limiter {
    /// Identity of the boot, one word.
    pub(super) boot: String,
    /// Time in operation before this boot, ns.
    pub(super) before_ns: u64,
    /// Nothing is admitted for a window from here on, in ns of the time in operation.
    pub(super) closed_ns: Option<u64>,
    /// Number of the next report.
    pub(super) next_report: u64,
    /// Reports, the oldest first.
    pub(super) reports: Vec<Admitted>,
    /// Uploads, the oldest first.
    pub(super) uploads: Vec<Upload>,
    /// Reports that do not count any more, because nothing came of them; when that was. The oldest first.
    pub(super) returned: Vec<Admitted>,
}

/// Within this time, or a window if that is shorter, only so many reports are given back as the device's and the user id's limits
/// allow: so a full disk does not use the limits up, and whoever makes reports fail cannot have them begun without end. ns.
const RETURN_NS: u64 = 3600 * 1_000_000_000;

/// FNV-1a, 64 bits.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The boot's identity as one short word.
pub(super) fn word(boot: &str) -> String {
    let mut word: String = boot.chars().filter(char::is_ascii_graphic).collect();
    word.truncate(64);
    match word.as_str() {
        "" => "-".into(),
        _ => word,
    }
}

impl Limiter {
    /// Nothing was admitted yet: only for a device that has no list yet. `boot` tells boots apart
    /// (`/proc/sys/kernel/random/boot_id`).
    pub fn fresh(boot: &str) -> Self {
        Limiter {
            boot: word(boot),
            before_ns: 0,
            closed_ns: None,
            next_report: 1,
            reports: Vec::new(),
            uploads: Vec::new(),
            returned: Vec::new(),
        }
    }

    /// For a list that cannot be read: nothing is admitted until a window has passed.
    pub fn closed(boot: &str, boottime_ns: u64) -> Self {
        Limiter {
            closed_ns: Some(boottime_ns),
            ..Limiter::fresh(boot)
        }
    }

    /// The device's time in operation, ns.
    pub(super) fn time_ns(&self, boottime_ns: u64) -> u64 {
        self.before_ns.saturating_add(boottime_ns)
    }

    fn is_closed(&self, now_ns: u64, window_ns: u64) -> bool {
        let passed = |since: u64| now_ns.saturating_sub(since) >= window_ns;
        self.closed_ns.is_some_and(|since| !passed(since))
    }

    /// Whether one more report is allowed; then it counts.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn admit_report(
        &mut self,
        boottime_ns: u64,
        limits: &Limits,
        uid: u32,
        detector: &str,
    ) -> Result<(), Refusal> {
        let entry = Admitted {
            uid,
            detector: hash(detector.as_bytes()),
            at_ns: self.time_ns(boottime_ns),
        };
        if self.is_closed(entry.at_ns, limits.window_ns) {
            return Err(Refusal::Closed);
        }
        let mut counts = [0_u32; 4];
        for other in within(&self.reports, entry.at_ns, limits.window_ns) {
            counts[0] += 1;
            counts[3] += u32::from(other.detector == entry.detector);
            if other.uid == entry.uid {
                counts[1] += 1;
                counts[2] += u32::from(other.detector == entry.detector);
            }
        }
        if counts[0] >= limits.device {
            return Err(Refusal::Device);
        }
        if counts[1] >= limits.per_uid {
            return Err(Refusal::Uid);
        }
        if counts[2] >= limits.per_detector || counts[3] >= limits.device_per_detector {
            return Err(Refusal::Detector);
        }
        admit(&mut self.reports, entry);
        Ok(())
    }

    /// The report that was admitted last.
    pub fn newest_report(&self) -> Option<Admitted> {
        self.reports.last().copied()
    }

    /// Nothing came of a report that was admitted: it does not count any more, unless that was so too often lately. Returns whether it
    /// does not.
    pub fn give_back(&mut self, boottime_ns: u64, limits: &Limits, admitted: Admitted) -> bool {
        let now_ns = self.time_ns(boottime_ns);
        let window_ns = limits.window_ns.min(RETURN_NS);
        self.returned
            .retain(|entry| is_within(entry.at_ns, now_ns, window_ns));
        let of_uid = self.returned.iter().filter(|e| e.uid == admitted.uid);
        let is_often = self.returned.len() >= limits.device as usize
            || of_uid.count() >= limits.per_uid as usize;
        let Some(at) = self.reports.iter().rposition(|entry| *entry == admitted) else {
            return false;
        };
        if is_often {
            return false;
        }
        self.reports.remove(at);
        let at_ns = now_ns;
        admit(&mut self.returned, Admitted { at_ns, ..admitted });
        true
    }

    /// Which report may be uploaded, of reports with these groups: its index. First comes one whose group has begun an upload in
    /// this window that has fewer reports than `most`: it is in that upload. Any other one counts as a further upload.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn admit_upload(
        &mut self,
        boottime_ns: u64,
        uploads: &Uploads,
        most: u32,
        groups: &[u64],
    ) -> Result<usize, Refusal> {
        let at_ns = self.time_ns(boottime_ns);
        if self.is_closed(at_ns, uploads.window_ns) {
            return Err(Refusal::Closed);
        }
        if uploads.device == 0 {
            return Err(Refusal::Device);
        }
        for (index, group) in groups.iter().enumerate() {
            let mut begun = self.uploads.iter_mut().filter(|upload| {
                let is_of_it = upload.group == *group && *group != 0;
                is_of_it
                    && upload.reports < most
                    && is_within(upload.at_ns, at_ns, uploads.window_ns)
            });
            if let Some(upload) = begun.next() {
                upload.reports += 1;
                return Ok(index);
            }
        }
        let group = *groups.first().ok_or(Refusal::Device)?;
        if self.uploads(boottime_ns, uploads) >= uploads.device as usize {
            return Err(Refusal::Device);
        }
        let reports = 1;
        let upload = Upload {
            group,
            reports,
            at_ns,
        };
        admit(&mut self.uploads, upload);
        Ok(0)
    }

    /// A number for a report: never 0, and never the same again if the list is saved before the number is used.
    pub fn number_report(&mut self) -> u64 {
        let number = self.next_report;
        self.next_report = number.saturating_add(1);
        number
    }

    /// The number that the next report gets.
    pub const fn next_report(&self) -> u64 {
        self.next_report
    }

    /// All reports from now on have this number or a higher one.
    pub fn skip_reports(&mut self, first: u64) {
        self.next_report = self.next_report.max(first).max(1);
    }

    /// How many reports count now.
    pub fn reports(&self, boottime_ns: u64, limits: &Limits) -> usize {
        within(&self.reports, self.time_ns(boottime_ns), limits.window_ns).count()
    }

    /// How many uploads count now.
    pub fn uploads(&self, boottime_ns: u64, uploads: &Uploads) -> usize {
        let now_ns = self.time_ns(boottime_ns);
        let is_within = |upload: &&Upload| is_within(upload.at_ns, now_ns, uploads.window_ns);
        self.uploads.iter().filter(is_within).count()
    }

    /// How long nothing is admitted because the list could not be read, ns; 0: it is not so.
    pub fn closed_for_ns(&self, boottime_ns: u64, limits: &Limits) -> u64 {
        let passed = |since: u64| self.time_ns(boottime_ns).saturating_sub(since);
        self.closed_ns
            .map_or(0, |since| limits.window_ns.saturating_sub(passed(since)))
    }

    /// Whether there is anything to lose.
    pub fn is_empty(&self) -> bool {
        let are_empty = self.reports.is_empty() && self.returned.is_empty();
        are_empty && self.uploads.is_empty() && self.closed_ns.is_none()
    }
}

fn is_within(at_ns: u64, now_ns: u64, window_ns: u64) -> bool {
    now_ns.saturating_sub(at_ns) < window_ns
}

fn within(list: &[Admitted], now_ns: u64, window_ns: u64) -> impl Iterator<Item = &Admitted> {
    list.iter()
        .filter(move |entry| is_within(entry.at_ns, now_ns, window_ns))
}

/// No limit is higher than [`MAX_ENTRIES`], so the oldest entry is not needed any more when the list is full.
fn admit<T>(list: &mut Vec<T>, entry: T) {
    if list.len() >= MAX_ENTRIES {
        list.remove(0);
    }
    list.push(entry);
}
