// SPDX-License-Identifier: Apache-2.0
//! Which reports are removed. Pure.

use std::collections::BTreeMap;

use hindsight_trace_format::protocol::TriggerSeverity;

use crate::engine::Report;

/// What may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The most reports.
    pub reports: u32,
    /// The most bytes of all files in the folder together, also while one is written.
    pub bytes: u64,
    /// Reports are removed at this age, s.
    pub age_s: u64,
    /// So many bytes of the disk stay free for others.
    pub free_bytes: u64,
}

impl Default for Quota {
    fn default() -> Self {
        Quota {
            reports: 50,
            bytes: 256 << 20,
            age_s: 7 * 86_400,
            free_bytes: 512 << 20,
        }
    }
}

/// A report that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its number; reports with lower numbers are older.
    pub report: Report,
    /// Number of the first report of its group.
    pub group: Report,
    /// User id of its process.
    pub uid: u32,
    /// How bad it was.
    pub severity: TriggerSeverity,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its age, s.
    pub age_s: u64,
}

/// A report that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Number of the first report of its group.
    pub group: Report,
    /// User id of its process.
    pub uid: u32,
    /// How bad it was.
    pub severity: TriggerSeverity,
    /// Bytes that it will have then.
    pub bytes: u64,
    /// How many of them are not on the disk yet.
    pub more_bytes: u64,
}

/// What the disk holds beside the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Bytes of other files in the folder.
    pub other_bytes: u64,
    /// Bytes that are free; `None`: nobody knows.
    pub free_bytes: Option<u64>,
}

/// What prevents a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// It is larger than all that may be kept, or nothing may be kept.
    #[error("the quota has no room for it, even if nothing else is kept; raise the quota")]
    Quota,
    /// All reports that are kept are more severe.
    #[error("all reports that are kept are more severe; remove some, or raise the quota")]
    Severity,
    /// What could be removed belongs to user ids that have fewer reports.
    #[error("its user id would have more than others that have reports; remove some, or raise the quota")]
    Share,
    /// The disk is full.
    #[error("the disk is nearly full; free some space, or lower the quota's free space")]
    Disk,
}

/// Reports that are removed together.
struct Group<'a> {
    reports: Vec<&'a Kept>,
    /// Of the process of the first of them.
    uid: u32,
    is_old: bool,
    /// Of the most severe of them.
    severity: TriggerSeverity,
}

/// All groups but this one, in the order in which they are removed.
fn groups<'a>(kept: &'a [Kept], quota: &Quota, own: Option<Report>) -> Vec<Group<'a>> {
    let mut all: BTreeMap<Report, Group<'a>> = BTreeMap::new();
    for report in kept.iter().filter(|report| Some(report.group) != own) {
        let group = all.entry(report.group).or_insert(Group {
            reports: Vec::new(),
            uid: report.uid,
            is_old: false,
            severity: report.severity,
        });
        group.reports.push(report);
        group.is_old |= report.age_s >= quota.age_s;
        group.severity = group.severity.max(report.severity);
    }
    // Those of one rank stay in the order of their numbers.
    let mut order: Vec<Group<'a>> = all.into_values().collect();
    order.sort_by_key(|group| (!group.is_old, group.severity));
    order
}

/// What one user id has in the store.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    reports: u64,
    bytes: u64,
}

/// What each user id has.
struct Shares(BTreeMap<u32, Share>);

impl Shares {
    fn of(kept: &[Kept], incoming: Option<Incoming>) -> Self {
        let mut shares = Shares(BTreeMap::new());
        let new = incoming.map(|new| (new.uid, new.bytes));
        let all = kept.iter().map(|kept| (kept.uid, kept.bytes)).chain(new);
        for (uid, bytes) in all {
            let share = shares.0.entry(uid).or_default();
            share.reports += 1;
            share.bytes = share.bytes.saturating_add(bytes);
        }
        shares
    }

    fn remove(&mut self, kept: &Kept) {
        if let Some(share) = self.0.get_mut(&kept.uid) {
            share.reports -= 1;
            share.bytes -= kept.bytes;
        }
    }

    /// Whether a report of this user id may take the place of a report of the other: if the other has at least as many reports, and
    /// at least as many bytes if the first one has much. A process says how severe its report is, so severity alone must not remove the reports of others.
    fn may_take(&self, uid: u32, other: u32, quota: &Quota) -> bool {
        let of = |uid| self.0.get(&uid).copied().unwrap_or_default();
        let (own, other_share) = (of(uid), of(other));
        let is_much = own.bytes > quota.bytes / 4;
        let has_more = other_share.reports >= own.reports;
        uid == other || (has_more && (!is_much || other_share.bytes >= own.bytes))
    }
}

/// The reports that must be removed before anything more is written, in this order: those that are too old, then the oldest of
/// the least severe ones. Reports of a group go together, and count as severe as the most severe of them. A report never makes room
/// for one that is less severe, or that belongs to its own group, or to a user id that would have more than its own.
///
/// # Errors
/// If there is no room for the incoming report. Nothing needs to be removed then.
pub fn plan(
    kept: &[Kept],
    incoming: Option<Incoming>,
    quota: &Quota,
    disk: Disk,
) -> Result<Vec<Report>, NoRoom> {
    let mut order = groups(kept, quota, incoming.map(|new| new.group));
    let (new, new_bytes, more_bytes) =
        incoming.map_or((0, 0, 0), |new| (1, new.bytes, new.more_bytes));
    let mut bytes: u64 = kept.iter().map(|kept| kept.bytes).sum();
    let mut free = disk.free_bytes.unwrap_or(u64::MAX);
    let mut removed = Vec::new();
    let mut shares = Shares::of(kept, incoming);
    loop {
        let count = (kept.len() - removed.len()) as u64 + new;
        let total = bytes.saturating_add(disk.other_bytes);
        let over =
            if total.saturating_add(new_bytes) > quota.bytes || count > u64::from(quota.reports) {
                Some(NoRoom::Quota)
            } else if free < quota.free_bytes.saturating_add(more_bytes) {
                Some(NoRoom::Disk)
            } else {
                None
            };
        let next_is_old = order.first().is_some_and(|next| next.is_old);
        if over.is_none() && !next_is_old {
            return Ok(removed);
        }
        let may_go = |group: &Group<'_>| {
            group.is_old || incoming.is_none_or(|new| shares.may_take(new.uid, group.uid, quota))
        };
        let next = order.iter().position(may_go);
        let next = next.map(|index| order.remove(index));
        match (next, over) {
            (Some(next), Some(_))
                if !next.is_old && incoming.is_some_and(|new| next.severity > new.severity) =>
            {
                return Err(NoRoom::Severity)
            }
            (Some(next), _) => {
                for report in next.reports {
                    shares.remove(report);
                    bytes -= report.bytes;
                    free = free.saturating_add(report.bytes);
                    removed.push(report.report);
                }
            }
            (None, Some(_)) if incoming.is_some() && !order.is_empty() => {
                return Err(NoRoom::Share)
            }
            (None, Some(why)) if incoming.is_some() => return Err(why),
            (None, _) => return Ok(removed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TriggerSeverity::{Fatal, Requested, Slow, Stuck};
    use super::*;
    use proptest::prelude::*;

    const QUOTA: Quota = Quota {
        reports: 4,
        bytes: 100,
        age_s: 50,
        free_bytes: 1000,
    };
    const DISK: Disk = Disk {
        other_bytes: 10,
        free_bytes: Some(5000),
    };

    fn kept(report: Report, severity: TriggerSeverity, bytes: u64, age_s: u64) -> Kept {
        Kept {
            report,
            group: report,
            uid: 7,
            severity,
            bytes,
            age_s,
        }
    }

    fn new(severity: TriggerSeverity, bytes: u64) -> Option<Incoming> {
        Some(Incoming {
            group: 100,
            uid: 7,
            severity,
            bytes,
            more_bytes: bytes,
        })
    }

    #[test]
    fn the_oldest_of_the_least_severe_makes_room() {
        let all = [
            kept(1, Fatal, 20, 40),
            kept(2, Slow, 20, 30),
            kept(3, Stuck, 20, 20),
            kept(4, Slow, 20, 10),
        ];
        let cases = [
            (new(Stuck, 1), Ok(vec![2])),
            (new(Fatal, 50), Ok(vec![2, 4])),
            (new(Fatal, 90), Ok(vec![2, 4, 3, 1])),
            (new(Fatal, 91), Err(NoRoom::Quota)),
            (new(Stuck, 71), Err(NoRoom::Severity)),
            (new(Slow, 10), Ok(vec![2])),
            (new(Slow, 51), Err(NoRoom::Severity)),
            (new(Requested, 1), Err(NoRoom::Severity)),
            (None, Ok(vec![])),
        ];
        for (incoming, expected) in cases {
            let planned = plan(&all, incoming, &QUOTA, DISK);
            assert_eq!(planned, expected, "{incoming:?}");
        }
    }

    #[test]
    fn what_is_too_old_goes_first_and_by_itself() {
        let all = [
            kept(1, Fatal, 20, 50),
            kept(2, Slow, 20, 49),
            kept(3, Slow, 20, 70),
        ];
        assert_eq!(plan(&all, None, &QUOTA, DISK), Ok(vec![3, 1]));
        // Room enough after that.
        let planned = plan(&all, new(Requested, 70), &QUOTA, DISK);
        assert_eq!(planned, Ok(vec![3, 1]));
    }

    #[test]
    fn free_space_is_left_to_others() {
        let all = [kept(1, Slow, 20, 0), kept(2, Stuck, 30, 0)];
        let free = |bytes| Disk {
            other_bytes: 0,
            free_bytes: bytes,
        };
        let of = |incoming, bytes| plan(&all, incoming, &QUOTA, free(bytes));
        assert_eq!(of(None, Some(1000)), Ok(vec![]));
        assert_eq!(of(None, Some(990)), Ok(vec![1]));
        assert_eq!(of(None, Some(0)), Ok(vec![1, 2]));
        assert_eq!(of(new(Fatal, 10), Some(1009)), Ok(vec![1]));
        assert_eq!(of(new(Fatal, 10), Some(900)), Err(NoRoom::Disk));
        assert_eq!(of(new(Fatal, 10), None), Ok(vec![]));
    }

    #[test]
    fn reports_of_a_group_go_together() {
        let of = |group, report| Kept { group, ..report };
        let all = [
            of(1, kept(1, Fatal, 20, 10)),
            of(2, kept(2, Slow, 20, 10)),
            of(1, kept(3, Slow, 20, 10)),
            of(2, kept(4, Slow, 20, 10)),
        ];
        let planned = |incoming| plan(&all, incoming, &QUOTA, DISK);
        assert_eq!(planned(new(Slow, 10)), Ok(vec![2, 4]));
        // The group is as severe as its first report.
        assert_eq!(planned(new(Slow, 60)), Err(NoRoom::Severity));
        assert_eq!(planned(new(Fatal, 60)), Ok(vec![2, 4, 1, 3]));
        // A report does not take the place of its own group.
        let of_group = |group, bytes| new(Fatal, bytes).map(|new| Incoming { group, ..new });
        assert_eq!(planned(of_group(2, 10)), Ok(vec![1, 3]));
        assert_eq!(planned(of_group(2, 60)), Err(NoRoom::Quota));
        let old = [of(1, kept(1, Slow, 1, 60)), of(1, kept(2, Slow, 1, 49))];
        assert_eq!(plan(&old, None, &QUOTA, DISK), Ok(vec![1, 2]));
    }

    /// What is left of all but user id 1, which says of 30 reports of so many bytes each that they are fatal.
    fn left_by_one(mut all: Vec<Kept>, bytes: u64) -> usize {
        for report in 100..130 {
            let incoming = Incoming {
                group: report,
                uid: 1,
                severity: Fatal,
                bytes,
                more_bytes: bytes,
            };
            if let Ok(removed) = plan(&all, Some(incoming), &QUOTA, DISK) {
                all.retain(|kept| !removed.contains(&kept.report));
                let uid = 1;
                all.push(Kept {
                    uid,
                    ..kept(report, Fatal, bytes, 0)
                });
            }
        }
        all.iter().filter(|kept| kept.uid != 1).count()
    }

    #[test]
    fn a_user_id_does_not_remove_those_of_others_beyond_its_share() {
        let of = |uid, report, bytes| Kept {
            uid,
            ..kept(report, Slow, bytes, 40)
        };
        let of_one: Vec<Kept> = (1..=4).map(|n| of(2, n, 5)).collect();
        assert_eq!(left_by_one(of_one.clone(), 5), 2);
        assert_eq!(left_by_one(of_one, 60), 4, "it is too large for its share");
        let of_many = (1..=4).map(|n| of(n as u32 + 1, n, 5)).collect();
        assert_eq!(left_by_one(of_many, 5), 3);
        // Whoever has none yet gets a place; then its own make room.
        let all = [of(2, 1, 5), of(3, 2, 5), of(4, 3, 5), of(5, 4, 5)];
        let of_six = |severity| new(severity, 5).map(|new| Incoming { uid: 6, ..new });
        assert_eq!(plan(&all, of_six(Slow), &QUOTA, DISK), Ok(vec![1]));
        let own = [of(6, 1, 5), of(6, 2, 5), of(3, 3, 5), of(4, 4, 5)];
        assert_eq!(plan(&own, of_six(Stuck), &QUOTA, DISK), Ok(vec![1]));
        let own = [of(6, 1, 5), of(3, 2, 5), of(4, 3, 5)];
        let large = of_six(Stuck).map(|new| Incoming { bytes: 81, ..new });
        assert_eq!(plan(&own, large, &QUOTA, DISK), Err(NoRoom::Share));
    }

    fn severities() -> impl Strategy<Value = TriggerSeverity> {
        prop::sample::select(TriggerSeverity::ALL.to_vec())
    }

    proptest! {
        #[test]
        fn the_quota_is_kept_and_nothing_is_removed_without_need(
            all in prop::collection::vec((severities(), 0..60_u64, 0..60_u64, 0..6_u64), 0..8),
            incoming in prop::option::of((severities(), 1..120_u64)),
            free in prop::option::of(900..1200_u64),
        ) {
            let all = (1..).zip(all);
            let of = |(id, (s, b, a, back)): (u64, (_, _, _, u64))| Kept {
                group: id.saturating_sub(back).max(1),
                ..kept(id, s, b, a)
            };
            let all: Vec<Kept> = all.map(of).collect();
            let of_group = |group| all.iter().filter(move |k| k.group == group);
            let is_old = |group| of_group(group).any(|k| k.age_s >= 50);
            let severity = |group| of_group(group).map(|k| k.severity).max().unwrap();
            let incoming = incoming.and_then(|(severity, bytes)| new(severity, bytes));
            let disk = Disk { other_bytes: 10, free_bytes: free };
            let fits = |removed: &[Report]| {
                let left = all.iter().filter(|k| !removed.contains(&k.report));
                let bytes: u64 = left.clone().map(|k| k.bytes).sum();
                let freed: u64 = all.iter().map(|k| k.bytes).sum::<u64>() - bytes;
                let new = incoming.map_or(0, |new| new.bytes);
                left.clone().count() + usize::from(incoming.is_some()) <= 4
                    && bytes + 10 + new <= 100
                    && free.is_none_or(|free| free + freed >= 1000 + new)
                    && left.into_iter().all(|k| k.age_s < 50)
            };
            match plan(&all, incoming, &QUOTA, disk) {
                Ok(removed) => {
                    let is_all = removed.len() == all.len() && incoming.is_none();
                    prop_assert!(fits(&removed) || is_all);
                    // A group less would not do.
                    if let Some(last) = removed.last() {
                        let last = all[*last as usize - 1].group;
                        let is_of_last = |report: &u64| all[*report as usize - 1].group == last;
                        let fewer: Vec<Report> =
                            removed.iter().copied().filter(|r| !is_of_last(r)).collect();
                        prop_assert!(!fits(&fewer));
                    }
                    for gone in all.iter().filter(|k| removed.contains(&k.report)) {
                        prop_assert!(of_group(gone.group).all(|k| removed.contains(&k.report)));
                        if is_old(gone.group) {
                            continue;
                        }
                        let gone = (severity(gone.group), gone.group);
                        prop_assert!(incoming.is_none_or(|new| gone.0 <= new.severity));
                        let left = all.iter().filter(|k| !removed.contains(&k.report));
                        for kept in left {
                            prop_assert!(gone < (severity(kept.group), kept.group));
                        }
                    }
                }
                Err(_) => {
                    let new = incoming.unwrap();
                    let may_go = |k: &&Kept| is_old(k.group) || severity(k.group) <= new.severity;
                    let may_go = all.iter().filter(may_go);
                    let may_go: Vec<Report> = may_go.map(|k| k.report).collect();
                    prop_assert!(!fits(&may_go));
                }
            }
        }
    }
}
