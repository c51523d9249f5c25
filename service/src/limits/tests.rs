// SPDX-License-Identifier: Apache-2.0
use proptest::prelude::*;

use super::*;
use crate::policy::{Limits, Uploads};

const HOUR: u64 = 3600 * 1_000_000_000;

fn limits(device: u32, per_uid: u32, per_detector: u32) -> Limits {
    Limits {
        window_ns: 24 * HOUR,
        device,
        per_uid,
        per_detector,
        device_per_detector: device,
    }
}

#[test]
fn one_detector_leaves_room_for_others() {
    let limits = Limits {
        device_per_detector: 2,
        ..limits(3, 3, 3)
    };
    let mut limiter = Limiter::fresh("a");
    let mut admit = |uid, detector| limiter.admit_report(0, &limits, uid, detector);
    assert_eq!(admit(1, "killed"), Ok(()));
    assert_eq!(admit(2, "killed"), Ok(()));
    assert_eq!(admit(3, "killed"), Err(Refusal::Detector));
    assert_eq!(admit(3, "anr"), Ok(()));
    assert_eq!(admit(4, "anr"), Err(Refusal::Device));
    let built_in = Limits::default();
    assert!(built_in.device_per_detector < built_in.device);
}

#[test]
fn each_limit_refuses_and_makes_room_again_after_a_window() {
    let limits = limits(5, 3, 2);
    let mut limiter = Limiter::fresh("a");
    let cases = [
        (0, 1, "slow-message", Ok(())),
        (1, 1, "slow-message", Ok(())),
        (1, 1, "slow-message", Err(Refusal::Detector)),
        (2, 1, "killed", Ok(())),
        (2, 1, "anr", Err(Refusal::Uid)),
        (3, 2, "slow-message", Ok(())),
        (4, 2, "slow-message", Ok(())),
        (5, 3, "slow-message", Err(Refusal::Device)),
        (23, 3, "slow-message", Err(Refusal::Device)),
        (24, 3, "slow-message", Ok(())),
        (24, 3, "slow-message", Err(Refusal::Device)),
        (25, 1, "slow-message", Ok(())),
        (25, 1, "slow-message", Err(Refusal::Device)),
        (1000, 1, "slow-message", Ok(())),
    ];
    for (hour, uid, detector, expected) in cases {
        let found = limiter.admit_report(hour * HOUR, &limits, uid, detector);
        assert_eq!(found, expected, "hour {hour}, {uid}, {detector}");
    }
}

#[test]
fn uploads_have_a_limit_of_their_own() {
    let uploads = Uploads::default();
    let mut limiter = Limiter::fresh("a");
    for day in 0..3 {
        let admitted = limiter.admit_upload(day * 24 * HOUR, &uploads, 4, &[day + 1]);
        assert_eq!(admitted, Ok(0));
    }
    let mut at = |hour| limiter.admit_upload(hour * HOUR, &uploads, 4, &[hour]);
    assert_eq!(at(7 * 24 - 1), Err(Refusal::Device));
    assert_eq!(at(7 * 24), Ok(0));
    assert_eq!(at(7 * 24 + 1), Err(Refusal::Device));
    assert_eq!(limiter.uploads(7 * 24 * HOUR, &uploads), 3);
    assert_eq!(limiter.reports(7 * 24 * HOUR, &Limits::default()), 0);
}

#[test]
fn the_reports_of_a_group_are_one_upload() {
    const WEEK: u64 = 7 * 24;
    let uploads = Uploads {
        device: 2,
        ..Uploads::default()
    };
    // When, the groups of the reports that may leave, which one may, and how many uploads count then.
    let steps = [
        (0, &[5, 6, 5][..], Ok(0), 1),
        // The other report of the group comes before an older one of another group.
        (1, &[6, 5], Ok(1), 1),
        (2, &[6, 5], Ok(1), 1),
        // It has as many reports as a process and two peers leave.
        (3, &[5], Ok(0), 2),
        (4, &[6, 7], Err(Refusal::Device), 2),
        // It has begun another one.
        (5, &[6, 7, 5], Ok(2), 2),
        // The first one counts no more, the second one has room for one.
        (WEEK, &[5], Ok(0), 1),
        (WEEK, &[5], Ok(0), 2),
        (WEEK, &[6], Err(Refusal::Device), 2),
        (WEEK + 3, &[6], Ok(0), 2),
        // What an older service has counted has no group.
        (2 * WEEK, &[0], Ok(0), 2),
        (2 * WEEK, &[0], Err(Refusal::Device), 2),
        (3 * WEEK, &[], Err(Refusal::Device), 0),
    ];
    let mut limiter = Limiter::fresh("a");
    for (hour, groups, expected, count) in steps {
        let found = limiter.admit_upload(hour * HOUR, &uploads, 3, groups);
        assert_eq!(found, expected, "hour {hour}, {groups:?}");
        assert_eq!(limiter.uploads(hour * HOUR, &uploads), count, "hour {hour}");
        limiter = Limiter::load(&limiter.save(hour * HOUR), "a", hour * HOUR).unwrap();
    }
    // Without peers each report counts.
    let mut limiter = Limiter::fresh("a");
    for expected in [Ok(0), Ok(0), Err(Refusal::Device)] {
        assert_eq!(limiter.admit_upload(0, &uploads, 1, &[5]), expected);
    }
    // The list of an older service is read, and each of its entries counts.
    let lines = "hindsight-limits 1\nboot a before 0 now 0 next 1\nupload 0 0 0\nupload 0 0 0\n";
    let sum = limiter::hash(lines.as_bytes());
    let mut old = Limiter::load(&format!("{lines}end 2 {sum:x}\n"), "a", 0).unwrap();
    assert_eq!(old.admit_upload(0, &uploads, 4, &[5]), Err(Refusal::Device));
}

#[test]
fn a_list_that_cannot_be_read_admits_nothing_for_a_window() {
    let limits = Limits::default();
    let mut limiter = Limiter::closed("a", 10 * HOUR);
    assert_eq!(limiter.closed_for_ns(11 * HOUR, &limits), 23 * HOUR);
    let mut admit = |hour| limiter.admit_report(hour * HOUR, &limits, 1, "killed");
    assert_eq!(admit(10), Err(Refusal::Closed));
    assert_eq!(admit(33), Err(Refusal::Closed));
    assert_eq!(admit(34), Ok(()));
    // Also over a reboot: an hour of this boot has passed.
    let saved = Limiter::closed("a", 10 * HOUR).save(11 * HOUR);
    let mut limiter = Limiter::load(&saved, "b", 0).unwrap();
    let mut admit = |hour| limiter.admit_report(hour * HOUR, &limits, 1, "killed");
    assert_eq!(admit(22), Err(Refusal::Closed));
    assert_eq!(admit(23), Ok(()));
    // A longer window of a new policy holds as well.
    let upload = Limiter::closed("a", 0).admit_upload(25 * HOUR, &Uploads::default(), 4, &[1]);
    assert_eq!(upload, Err(Refusal::Closed));
}

#[test]
fn a_report_that_came_to_nothing_does_not_count_but_not_without_end() {
    let limits = limits(5, 3, 3);
    let mut limiter = Limiter::fresh("a");
    let begin_in_vain = |limiter: &mut Limiter, ns: u64, uid| {
        limiter.admit_report(ns, &limits, uid, "killed")?;
        let admitted = limiter.newest_report().unwrap();
        Ok(limiter.give_back(ns, &limits, admitted))
    };
    // Three times for a user id, five times in all; then they count until a window has passed.
    for uid in [1, 1, 1, 2, 3] {
        assert_eq!(begin_in_vain(&mut limiter, 0, uid), Ok(true), "{uid}");
        assert_eq!(limiter.reports(0, &limits), 0);
    }
    let counts = limiter.save(0);
    assert!(counts.contains("returned 1 "), "{counts}");
    let mut limiter = Limiter::load(&counts, "a", 0).unwrap();
    for (at, uid) in [1, 1, 1, 4, 5].into_iter().enumerate() {
        assert_eq!(begin_in_vain(&mut limiter, 0, uid), Ok(false), "{uid}");
        assert_eq!(limiter.reports(0, &limits), at + 1);
    }
    assert_eq!(begin_in_vain(&mut limiter, 0, 6), Err(Refusal::Device));
    // What counts is given back by nobody else.
    let other = Admitted {
        uid: 9,
        detector: 0,
        at_ns: 0,
    };
    assert!(!limiter.give_back(HOUR, &limits, other));
    let old = limiter.newest_report().unwrap();
    assert!(limiter.give_back(HOUR, &limits, old));
    assert!(!limiter.give_back(HOUR, &limits, old), "twice");
}

fn used() -> Limiter {
    let mut limiter = Limiter::fresh("6a1f-boot");
    limiter.skip_reports(40);
    for uid in 0..3 {
        limiter.number_report();
        let admitted = limiter.admit_report(HOUR, &Limits::default(), uid, "killed");
        assert_eq!(admitted, Ok(()));
    }
    let admitted = limiter.newest_report().unwrap();
    limiter
        .admit_report(HOUR, &Limits::default(), 9, "anr")
        .unwrap();
    let other = limiter.newest_report().unwrap();
    assert!(admitted != other && limiter.give_back(HOUR, &Limits::default(), other));
    for _ in 0..2 {
        let admitted = limiter.admit_upload(2 * HOUR, &Uploads::default(), 4, &[41]);
        assert_eq!(admitted, Ok(0));
    }
    limiter
}

#[test]
fn a_list_comes_back_as_it_was_saved() {
    let limiter = used();
    let saved = limiter.save(3 * HOUR);
    let loaded = Limiter::load(&saved, "6a1f-boot", 3 * HOUR);
    assert_eq!(loaded.as_ref(), Ok(&limiter));
    assert_eq!(loaded.unwrap().next_report(), 43);
    // In the next boot time goes on where it was saved.
    let loaded = Limiter::load(&saved, "other boot", HOUR).unwrap();
    let window = |hours| Limits {
        window_ns: hours * HOUR,
        ..Limits::default()
    };
    assert_eq!(loaded.reports(HOUR, &window(4)), 3);
    assert_eq!(loaded.reports(HOUR, &window(3)), 0);
    // Nothing was lost by saving twice.
    let again = Limiter::load(&loaded.save(HOUR), "other boot", 2 * HOUR);
    assert_eq!(again, Ok(loaded));
}

#[test]
fn the_largest_list_can_be_loaded() {
    let limits = limits(5000, 5000, 5000);
    let mut limiter = Limiter::fresh(&"b".repeat(1000));
    for _ in 0..5200 {
        let _ = limiter.admit_report(u64::MAX / 4, &limits, u32::MAX - 1, "killed");
    }
    assert_eq!(limiter.reports(u64::MAX / 4, &limits), 5000);
    // And in the window after it.
    for _ in 0..10 {
        let admitted = limiter.admit_report(u64::MAX / 3, &limits, 1, "killed");
        assert_eq!(admitted, Ok(()));
    }
    let saved = limiter.save(u64::MAX / 3);
    assert!(saved.len() < MAX_SAVED_BYTES);
    let loaded = Limiter::load(&saved, &"b".repeat(1000), u64::MAX / 3);
    assert_eq!(loaded, Ok(limiter));
}

#[test]
fn a_changed_or_cut_list_is_refused() {
    let saved = used().save(3 * HOUR);
    let load = |text: &str| Limiter::load(text, "6a1f-boot", 3 * HOUR);
    for at in 0..saved.len() {
        assert!(load(&saved[..at]).is_err(), "cut at {at}");
        let mut changed = saved.clone().into_bytes();
        changed[at] ^= 1;
        if let Ok(changed) = String::from_utf8(changed) {
            assert!(load(&changed).is_err(), "changed at {at}");
        }
    }
    assert!(load(&format!("{saved}\n")).is_err());
    assert!(load(&saved.repeat(2)).is_err());
    assert!(load("").is_err());
    assert!(load(&"x".repeat(MAX_SAVED_BYTES + 1)).is_err());
    // Less time has passed in this boot than when it was saved.
    assert!(Limiter::load(&saved, "6a1f-boot", HOUR).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Admit {
        uid: u32,
        detector: usize,
    },
    /// Nothing comes of the newest report.
    GiveBack,
    Pass {
        ns: u64,
    },
    /// The service is started again.
    Restart,
    /// The device is off for this time; nothing of this boot was saved since the last report.
    Reboot {
        off_ns: u64,
        is_saved: bool,
    },
    Damage,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3_u32, 0..3_usize).prop_map(|(uid, detector)| Step::Admit { uid, detector }),
        4 => Just(Step::GiveBack),
        4 => (0..8 * HOUR).prop_map(|ns| Step::Pass { ns }),
        1 => Just(Step::Restart),
        1 => (0..8 * HOUR, any::<bool>()).prop_map(|(off_ns, is_saved)| {
            Step::Reboot { off_ns, is_saved }
        }),
        1 => Just(Step::Damage),
    ]
}

/// A device with a limiter.
struct Device {
    boot: u32,
    boottime_ns: u64,
    true_ns: u64,
    limiter: Limiter,
    saved: String,
}

impl Device {
    fn new() -> Self {
        let limiter = Limiter::fresh("0");
        Device {
            boot: 0,
            boottime_ns: 0,
            true_ns: 0,
            saved: limiter.save(0),
            limiter,
        }
    }

    fn save(&mut self) {
        self.saved = self.limiter.save(self.boottime_ns);
    }

    fn load(&mut self) {
        let boot = self.boot.to_string();
        let loaded = Limiter::load(&self.saved, &boot, self.boottime_ns);
        self.limiter = loaded.unwrap_or_else(|_| Limiter::closed(&boot, self.boottime_ns));
    }

    /// Anything but a report.
    fn happens(&mut self, step: Step) {
        match step {
            Step::Admit { .. } | Step::GiveBack => {}
            Step::Pass { ns } => {
                self.boottime_ns += ns;
                self.true_ns += ns;
            }
            Step::Restart => self.load(),
            Step::Reboot { off_ns, is_saved } => {
                if is_saved {
                    self.save();
                }
                self.boot += 1;
                self.boottime_ns = 0;
                self.true_ns += off_ns;
                self.load();
            }
            Step::Damage => {
                self.saved.truncate(self.saved.len() / 2);
                self.load();
                self.save();
            }
        }
    }
}

proptest! {
    #[test]
    fn no_window_has_more_reports_than_its_limit(
        of_device in 0..6_u32,
        per_uid in 0..5_u32,
        per_detector in 0..4_u32,
        steps in prop::collection::vec(steps(), 1..120),
    ) {
        let limits = limits(of_device, per_uid, per_detector);
        let detectors = ["slow-message", "killed", ""];
        let mut device = Device::new();
        let mut admitted: Vec<(u64, u32, usize)> = Vec::new();
        let mut given_back: Vec<u64> = Vec::new();
        for step in steps {
            match step {
                Step::GiveBack => {
                    let newest = device.limiter.newest_report();
                    let now_ns = device.boottime_ns;
                    let limiter = &mut device.limiter;
                    if newest.is_some_and(|it| limiter.give_back(now_ns, &limits, it)) {
                        device.save();
                        admitted.pop();
                        given_back.push(device.true_ns);
                        let since = |at_ns: &&u64| device.true_ns - **at_ns < HOUR;
                        prop_assert!(given_back.iter().filter(since).count() <= of_device as usize);
                    }
                }
                Step::Admit { uid, detector } => {
                    let name = detectors[detector];
                    if device.limiter.admit_report(device.boottime_ns, &limits, uid, name).is_ok() {
                        device.save();
                        admitted.push((device.true_ns, uid, detector));
                        let count = |is_it: &dyn Fn(u32, usize) -> bool| {
                            let window = admitted.iter().filter(|(at_ns, uid, detector)| {
                                device.true_ns - at_ns < limits.window_ns && is_it(*uid, *detector)
                            });
                            window.count()
                        };
                        prop_assert!(count(&|_, _| true) <= of_device as usize);
                        prop_assert!(count(&|other, _| other == uid) <= per_uid as usize);
                        let same = |u, d| u == uid && d == detector;
                        prop_assert!(count(&same) <= per_detector as usize);
                    }
                }
                other => device.happens(other),
            }
        }
    }

    /// Whatever happens, a window has no more uploads than the limit, and an upload has reports of one group only, no more than `most`.
    #[test]
    fn no_upload_has_more_reports_than_a_process_and_its_peers(
        of_device in 0..4_u32,
        most in 1..5_u32,
        steps in prop::collection::vec((steps(), prop::collection::vec(1..4_u64, 1..4)), 1..120),
    ) {
        let uploads = Uploads { device: of_device, window_ns: 24 * HOUR, ..Uploads::default() };
        let mut device = Device::new();
        // When an upload began; of each group, how many have begun, and its reports.
        let mut begun: Vec<u64> = Vec::new();
        let mut groups = [(0_u32, 0_u32); 4];
        for (step, candidates) in steps {
            match step {
                Step::Admit { .. } => {
                    let before = device.limiter.uploads.len();
                    let found = device.limiter.admit_upload(device.boottime_ns, &uploads, most, &candidates);
                    let Ok(index) = found else {
                        prop_assert_eq!(device.limiter.uploads.len(), before);
                        continue;
                    };
                    device.save();
                    let (uploads_begun, reports) = &mut groups[candidates[index] as usize];
                    *reports += 1;
                    if device.limiter.uploads.len() > before {
                        *uploads_begun += 1;
                        begun.push(device.true_ns);
                    }
                    prop_assert!(*reports <= most * *uploads_begun);
                    let window = begun.iter().filter(|at_ns| device.true_ns - **at_ns < 24 * HOUR);
                    prop_assert!(window.count() <= of_device as usize);
                }
                other => device.happens(other),
            }
        }
    }

    /// Time that was saved is not lost, so room comes back whatever happens.
    #[test]
    fn a_list_makes_room_after_a_window_of_saved_time(
        hours in prop::collection::vec(1..8_u64, 24..40),
    ) {
        let limits = limits(1, 1, 1);
        let mut limiter = Limiter::fresh("0");
        limiter.admit_report(0, &limits, 1, "killed").unwrap();
        for (boot, hours) in hours.into_iter().enumerate() {
            let saved = limiter.save(hours * HOUR);
            limiter = Limiter::load(&saved, &format!("after {boot}"), 0).unwrap();
        }
        prop_assert_eq!(limiter.admit_report(0, &limits, 1, "killed"), Ok(()));
    }

    #[test]
    fn no_text_panics(text in "(hindsight-limits 1\n)?((boot|report|upload|end|closed|before|now|next|[0-9a-f]{1,20}|\n| |é){0,40})") {
        let _ = Limiter::load(&text, "a", 5);
    }
}
