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
    }
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
        assert_eq!(limiter.admit_upload(day * 24 * HOUR, &uploads), Ok(()));
    }
    let mut at = |hour| limiter.admit_upload(hour * HOUR, &uploads);
    assert_eq!(at(7 * 24 - 1), Err(Refusal::Device));
    assert_eq!(at(7 * 24), Ok(()));
    assert_eq!(at(7 * 24), Err(Refusal::Device));
    assert_eq!(limiter.uploads(7 * 24 * HOUR, &uploads), 3);
    assert_eq!(limiter.reports(7 * 24 * HOUR, &Limits::default()), 0);
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
    let upload = Limiter::closed("a", 0).admit_upload(25 * HOUR, &Uploads::default());
    assert_eq!(upload, Err(Refusal::Closed));
}

fn used() -> Limiter {
    let mut limiter = Limiter::fresh("6a1f-boot");
    limiter.skip_reports(40);
    for uid in 0..3 {
        limiter.number_report();
        let admitted = limiter.admit_report(HOUR, &Limits::default(), uid, "killed");
        assert_eq!(admitted, Ok(()));
    }
    limiter.admit_upload(2 * HOUR, &Uploads::default()).unwrap();
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
        4 => (0..8 * HOUR).prop_map(|ns| Step::Pass { ns }),
        1 => Just(Step::Restart),
        1 => (0..8 * HOUR, any::<bool>()).prop_map(|(off_ns, is_saved)| {
            Step::Reboot { off_ns, is_saved }
        }),
        1 => Just(Step::Damage),
    ]
}

proptest! {
    #[test]
    fn no_window_has_more_reports_than_its_limit(
        device in 0..6_u32,
        per_uid in 0..5_u32,
        per_detector in 0..4_u32,
        steps in prop::collection::vec(steps(), 1..120),
    ) {
        let limits = limits(device, per_uid, per_detector);
        let detectors = ["slow-message", "killed", ""];
        let (mut boot, mut boottime_ns, mut true_ns) = (0, 0, 0);
        let mut limiter = Limiter::fresh("0");
        let mut saved = limiter.save(0);
        let mut admitted: Vec<(u64, u32, usize)> = Vec::new();
        let load = |saved: &str, boot: u32, boottime_ns| {
            let boot = boot.to_string();
            let loaded = Limiter::load(saved, &boot, boottime_ns);
            loaded.unwrap_or_else(|_| Limiter::closed(&boot, boottime_ns))
        };
        for step in steps {
            match step {
                Step::Admit { uid, detector } => {
                    let name = detectors[detector];
                    if limiter.admit_report(boottime_ns, &limits, uid, name).is_ok() {
                        saved = limiter.save(boottime_ns);
                        admitted.push((true_ns, uid, detector));
                        let count = |is_it: &dyn Fn(u32, usize) -> bool| {
                            let window = admitted.iter().filter(|(at_ns, uid, detector)| {
                                true_ns - at_ns < limits.window_ns && is_it(*uid, *detector)
                            });
                            window.count()
                        };
                        prop_assert!(count(&|_, _| true) <= device as usize);
                        prop_assert!(count(&|other, _| other == uid) <= per_uid as usize);
                        let same = |u, d| u == uid && d == detector;
                        prop_assert!(count(&same) <= per_detector as usize);
                    }
                }
                Step::Pass { ns } => {
                    boottime_ns += ns;
                    true_ns += ns;
                }
                Step::Restart => limiter = load(&saved, boot, boottime_ns),
                Step::Reboot { off_ns, is_saved } => {
                    if is_saved {
                        saved = limiter.save(boottime_ns);
                    }
                    boot += 1;
                    boottime_ns = 0;
                    true_ns += off_ns;
                    limiter = load(&saved, boot, boottime_ns);
                }
                Step::Damage => {
                    saved.truncate(saved.len() / 2);
                    limiter = load(&saved, boot, boottime_ns);
                    saved = limiter.save(boottime_ns);
                }
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
