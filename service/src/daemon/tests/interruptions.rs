// SPDX-License-Identifier: Apache-2.0
//! What is in force after the service was interrupted while it saved a policy, and after saves that failed.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ed25519_compact::{KeyPair, Seed};

use super::super::saved::{read_accepted, texts_of_policy, Saved, POLICY};
use super::super::{Decide, Decider, Dispatcher, Limits};
use super::Noted;
use crate::engine::{Engine, Facts, Now};
use crate::limits::Limiter;
use crate::os::Real;
use crate::policy::{encode, Keys, Policy, Trust};
use crate::report::{save, Saving};
use crate::store::{Quota, Store};

const ROM: &str = "version = 1\n";
const NOW: Now = Now {
    boottime_ns: 1,
    realtime_ns: 1,
};

fn pair() -> KeyPair {
    KeyPair::from_seed(Seed::new([9; 32]))
}

/// A signed policy; `name` tells policies of the same revision apart.
fn signed(revision: u64, name: &str) -> String {
    let text = format!("version = 1\nrevision = {revision}\n# {name}\n");
    let signature = pair().sk.sign(&text, None);
    format!("{text}# signature: rom {}\n", encode(&signature[..]))
}

/// A policy to be loaded; `None`: the ROM's.
type Load = Option<String>;

/// The revision of a signed policy; 0 of any other one.
fn revision(load: &Load) -> u64 {
    let text = load.as_deref().filter(|text| text.contains("# signature"));
    text.map_or(0, |text| Policy::parse(text).unwrap().revision)
}

/// A service that has begun.
struct Device {
    store: Store,
    dispatcher: Dispatcher<Decider>,
    is_lost: bool,
}

impl Device {
    fn start(folder: &Path) -> Self {
        let quota = Quota {
            reports: 1,
            bytes: 1 << 20,
            age_s: 1000,
            free_bytes: 0,
        };
        let mut store = Store::open(folder, quota, Arc::new(Real::default())).unwrap();
        let der = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
        let key = encode(&[&der[..], &pair().pk[..]].concat());
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----\n");
        let mut keys = Keys::default();
        keys.add("rom.pem", &pem).unwrap();
        let trust = Trust {
            keys: Some(keys),
            takes_unsigned: true,
        };
        let accepted = read_accepted(&mut store, &trust);
        store.begin();
        let policy = Policy::parse(ROM).unwrap();
        let engine = Engine::new(policy, Limiter::fresh("boot"), Facts::default());
        let decider = Decider::new(engine, ROM.to_owned()).with_trust(trust, accepted);
        let mut dispatcher = Dispatcher::new(decider, Limits::default());
        let saved = Saved::load(&mut store);
        let is_lost = saved.put_in_force(&mut dispatcher, NOW, &mut Noted::default());
        Device {
            store,
            dispatcher,
            is_lost,
        }
    }

    /// Puts it in force, and says what is to be saved; `None`: it is refused.
    fn load(&mut self, load: &Load) -> Option<Vec<Saving>> {
        let before = self.dispatcher.engine().accepted();
        let loaded = self
            .dispatcher
            .load_policy(NOW, load.as_deref(), &mut Noted::default());
        loaded.ok()?;
        let after = self.dispatcher.engine().accepted();
        Some(texts_of_policy(before, after, load.clone()))
    }

    fn in_force(&self) -> Load {
        let text = self.dispatcher.engine().policy_text();
        (text != ROM).then(|| text.to_owned())
    }

    fn takes(&self, load: &Load) -> bool {
        let text = load.as_deref().unwrap();
        self.dispatcher.engine().check_policy(text).is_ok()
    }
}

/// Everything that a device may have loaded before, and the policy that is loaded when the power fails.
fn cases() -> Vec<(Vec<Load>, Load)> {
    let unsigned = || Some("version = 1\nrevision = 9\n".to_owned());
    let five = || Some(signed(5, "first"));
    let histories = [
        vec![],
        vec![unsigned()],
        vec![five()],
        vec![five(), Some(signed(6, "second"))],
        vec![five(), unsigned()],
        vec![five(), None],
    ];
    let next = [
        None,
        unsigned(),
        Some(signed(6, "next")),
        Some(signed(7, "next")),
    ];
    let of = |history: &Vec<Load>| next.clone().map(|next| (history.clone(), next));
    histories.iter().flat_map(of).collect()
}

fn state(folder: &Path, name: &str) -> std::path::PathBuf {
    folder.join(format!("{name}.state"))
}

/// Loads all of the history and then this policy, of whose texts only so many are saved; `None`: that are all.
fn interrupt(folder: &Path, history: &[Load], next: &Load, saved: usize) -> Option<()> {
    let mut device = Device::start(folder);
    for load in history {
        let texts = device.load(load).unwrap();
        save(&mut device.store, &texts).unwrap();
    }
    let texts = device.load(next).unwrap();
    save(&mut device.store, texts.get(..saved)?).unwrap();
    Some(())
}

#[test]
fn after_each_interruption_the_old_or_the_new_policy_is_in_force_and_no_older_one_is_taken() {
    for (history, next) in cases() {
        for saved in 0.. {
            let folder = tempfile::tempdir().unwrap();
            if interrupt(folder.path(), &history, &next, saved).is_none() {
                assert!(saved > 2, "all cuts were seen");
                break;
            }
            let what = format!("{history:?}, then {next:?}, interrupted after {saved} texts");
            let old = history.last().cloned().flatten();
            let highest = history.iter().map(revision).max().unwrap_or(0);
            // The second start finds what the first one has mended.
            for _ in 0..2 {
                let device = Device::start(folder.path());
                assert!(!device.is_lost, "{what}");
                let found = device.in_force();
                assert!([&old, &next].contains(&&found), "{what}: {found:?}");
                assert!(saved < 2 || found == next, "{what}: {found:?}");
                let highest = highest.max(revision(&found));
                for revision in 1..9 {
                    let is_taken = device.takes(&Some(signed(revision, "again")));
                    assert_eq!(is_taken, revision >= highest, "{what}: {revision}");
                }
            }
        }
    }
}

#[test]
fn a_file_that_is_damaged_by_an_interruption_makes_no_older_policy_new() {
    for (history, next) in cases() {
        for (saved, damaged) in (0..3).flat_map(|saved| [(saved, POLICY), (saved, "revision")]) {
            let folder = tempfile::tempdir().unwrap();
            interrupt(folder.path(), &history, &next, saved).unwrap();
            let what = format!("{history:?}, then {next:?}: {damaged} after {saved} texts");
            let old = history.last().cloned().flatten();
            let path = state(folder.path(), damaged);
            if !path.exists() {
                continue;
            }
            fs::write(path, "?").unwrap();
            let mut highest = history.iter().map(revision).max().unwrap_or(0);
            if saved == 2 {
                highest = highest.max(revision(&next));
            }
            for _ in 0..2 {
                let device = Device::start(folder.path());
                let found = device.in_force();
                let is_known = [&old, &next].contains(&&found);
                assert!(device.is_lost || is_known, "{what}: {found:?}");
                for revision in 1..highest {
                    assert!(!device.takes(&Some(signed(revision, "again"))), "{what}");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_saved_leaves_no_older_policy() {
    for (history, next) in cases() {
        for fails in [POLICY, "revision"] {
            let folder = tempfile::tempdir().unwrap();
            let mut device = Device::start(folder.path());
            for load in &history {
                let texts = device.load(load).unwrap();
                save(&mut device.store, &texts).unwrap();
            }
            let texts = device.load(&next).unwrap();
            // In the way of the file that would be renamed.
            let obstacle = folder.path().join(format!(".{fails}.state.tmp"));
            fs::create_dir(&obstacle).unwrap();
            let told = save(&mut device.store, &texts);
            drop(device);
            fs::remove_dir(&obstacle).unwrap();
            let what = format!("{history:?}, then {next:?} without {fails}: {told:?}");
            let device = Device::start(folder.path());
            let found = device.in_force();
            let is_next = !device.is_lost && found == next;
            assert!(told.is_err() || is_next, "{what}: {found:?}");
            assert!(device.is_lost || is_next, "{what}: {found:?}");
            let all = history.iter().chain([&next]);
            let highest = all.map(revision).max().unwrap_or(0);
            for revision in 1..9 {
                let is_taken = device.takes(&Some(signed(revision, "again")));
                assert_eq!(is_taken, revision >= highest, "{what}: {revision}");
            }
        }
    }
}

#[test]
fn the_start_after_an_interruption_saves_the_revision_that_was_not_saved() {
    let five_is_old = |device: &Device| {
        let takes = |revision| device.takes(&Some(signed(revision, "again")));
        assert!(!takes(5) && takes(6));
    };
    let interrupted = || {
        let folder = tempfile::tempdir().unwrap();
        let history = [Some(signed(5, "first"))];
        interrupt(folder.path(), &history, &Some(signed(6, "next")), 1).unwrap();
        folder
    };
    let folder = interrupted();
    five_is_old(&Device::start(folder.path()));
    fs::write(state(folder.path(), POLICY), "?").unwrap();
    five_is_old(&Device::start(folder.path()));
    // If it could not be saved then, it is saved before the policy is removed.
    let folder = interrupted();
    let obstacle = folder.path().join(".revision.state.tmp");
    fs::create_dir(&obstacle).unwrap();
    let mut device = Device::start(folder.path());
    five_is_old(&device);
    fs::remove_dir(&obstacle).unwrap();
    let texts = device.load(&None).unwrap();
    save(&mut device.store, &texts[..1]).unwrap();
    drop(device);
    five_is_old(&Device::start(folder.path()));
}
