// SPDX-License-Identifier: Apache-2.0
//! The folder of reports on disks that are full, read-only or damaged, with clocks that jump, and a service that is killed.

mod common;

use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use common::SmallDisk;
use hindsight_service::engine::Now;
use hindsight_service::os::{PressureTriggers, Process, System};
use hindsight_service::store::{
    Entry, NoRoom, PublishError, Quota, State, Store, StoreError, RESERVED_AT_ONCE,
};
use hindsight_trace_format::container::{ClockSample, SectionKind};
use hindsight_trace_format::protocol::TriggerSeverity;

const S: u64 = 1_000_000_000;
const DAY: u64 = 86_400;

/// A system that says what a test wants.
struct Fake(Mutex<Facts>);

#[derive(Clone)]
struct Facts {
    boot: String,
    boottime_s: u64,
    realtime_s: u64,
    free_bytes: Option<u64>,
}

impl Fake {
    fn new() -> Arc<Self> {
        Arc::new(Fake(Mutex::new(Facts {
            boot: "first".into(),
            boottime_s: 1000,
            realtime_s: 1_800_000_000,
            free_bytes: None,
        })))
    }

    fn change(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.0.lock().unwrap());
    }
}

impl System for Fake {
    fn now(&self) -> Now {
        let facts = self.0.lock().unwrap();
        Now {
            boottime_ns: facts.boottime_s * S,
            realtime_ns: facts.realtime_s * S,
        }
    }

    fn sample(&self, _: &str) -> Option<ClockSample> {
        None
    }

    fn boot_id(&self) -> String {
        self.0.lock().unwrap().boot.clone()
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        let free = self.0.lock().unwrap().free_bytes;
        free.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    fn identify(&self, _: BorrowedFd<'_>) -> io::Result<Process> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn pressure(&self) -> io::Result<PressureTriggers> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

const QUOTA: Quota = Quota {
    reports: 10,
    bytes: 10 << 20,
    age_s: 8 * DAY,
    free_bytes: 0,
};

fn open(folder: &Path, quota: Quota, system: &Arc<Fake>) -> Store {
    let system: Arc<dyn System> = Arc::clone(system) as Arc<dyn System>;
    let mut store = Store::open(folder, quota, system).unwrap();
    store.begin();
    store
}

fn entry(report: u64, severity: TriggerSeverity) -> Entry {
    Entry {
        report,
        severity: severity.name().into(),
        process: format!("p{report}"),
        consent: "names".into(),
        ..Entry::default()
    }
}

/// Publishes a trace of about so many bytes, and looks at the folder after each part of it.
fn publish(
    store: &mut Store,
    report: u64,
    severity: TriggerSeverity,
    bytes: usize,
    mut look: impl FnMut(),
) -> Result<(), PublishError> {
    let part = vec![7_u8; 64 << 10];
    let result = store.publish(entry(report, severity), |writer, _| {
        for index in 0..(bytes / part.len()).max(1) as u32 {
            let failed = |e: io::Error| PublishError::Contents(e.to_string());
            writer
                .section(SectionKind::Ring, index, &[&part])
                .map_err(failed)?;
            look();
        }
        Ok(())
    });
    result.map(drop)
}

fn numbers(store: &Store) -> Vec<u64> {
    store.reports().map(|entry| entry.report).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = files
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn bytes_in(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).unwrap();
    files.map(|f| f.unwrap().metadata().unwrap().len()).sum()
}

use TriggerSeverity::{Fatal, Requested, Slow, Stuck};

#[test]
fn the_quota_is_not_exceeded_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let quota = Quota {
        bytes: 2 << 20,
        reports: 5,
        ..QUOTA
    };
    let mut store = open(folder, quota, &Fake::new());
    let mut most = 0;
    for report in 1..60 {
        let severity = TriggerSeverity::ALL[report as usize * 7 % 4];
        let bytes = (report as usize * 7919) % (900 << 10);
        let look = || most = most.max(bytes_in(folder));
        let result = publish(&mut store, report, severity, bytes, look);
        let is_refused = matches!(result, Err(PublishError::NoRoom(NoRoom::Severity)));
        assert!(result.is_ok() || is_refused, "{result:?}");
        assert!(bytes_in(folder) <= quota.bytes);
        assert_eq!(bytes_in(folder), store.total_bytes());
        assert!(store.reports().count() <= 5);
    }
    assert!(most <= quota.bytes, "{most}");
    assert!(most > quota.bytes / 2, "the test fills it: {most}");
    // One that is too large for all of it leaves nothing behind; what was removed for it is gone.
    let result = publish(&mut store, 100, Fatal, 3 << 20, || {});
    let is_refused = matches!(result, Err(PublishError::NoRoom(NoRoom::Quota)));
    assert!(is_refused, "{result:?}");
    assert!(!names(folder).iter().any(|name| name.contains("100")));
}

#[test]
fn severe_reports_stay_and_free_space_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let system = Fake::new();
    let quota = Quota {
        reports: 3,
        free_bytes: 5 << 20,
        ..QUOTA
    };
    let mut store = open(folder.path(), quota, &system);
    for (report, severity) in [(1, Fatal), (2, Slow), (3, Stuck), (4, Slow), (5, Fatal)] {
        publish(&mut store, report, severity, 1000, || {}).unwrap();
    }
    assert_eq!(numbers(&store), [1, 3, 5]);
    let refused = publish(&mut store, 6, Requested, 1000, || {});
    assert!(matches!(
        refused,
        Err(PublishError::NoRoom(NoRoom::Severity))
    ));
    // Others have filled the disk.
    system.change(|facts| facts.free_bytes = Some((5 << 20) - 1));
    store.make_room();
    assert_eq!(numbers(&store), [1, 5]);
    system.change(|facts| facts.free_bytes = Some(1000));
    let refused = publish(&mut store, 7, Fatal, 1000, || {});
    assert!(matches!(refused, Err(PublishError::NoRoom(NoRoom::Disk))));
}

#[test]
fn what_an_interrupted_service_left_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut store = open(folder, QUOTA, &Fake::new());
    publish(&mut store, 1, Slow, 1000, || {}).unwrap();
    drop(store);
    let before = names(folder);
    fs::write(folder.join(".2.hindsight.tmp"), "half").unwrap();
    fs::write(folder.join(".2.toml.tmp"), "half").unwrap();
    fs::write(folder.join(".limits.state.tmp"), "half").unwrap();
    fs::write(folder.join("3.toml"), "report = 3").unwrap();
    fs::write(folder.join("notes.txt"), "not the store's").unwrap();
    let mut store = open(folder, QUOTA, &Fake::new());
    assert_eq!(store.take_log().len(), 4);
    assert_eq!(numbers(&store), [1]);
    let mut expected = before;
    expected.push("notes.txt".into());
    expected.sort();
    assert_eq!(names(folder), expected);
}

#[test]
fn a_damaged_entry_is_the_first_to_go_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut store = open(folder, QUOTA, &Fake::new());
    publish(&mut store, 1, Fatal, 1000, || {}).unwrap();
    publish(&mut store, 2, Fatal, 1000, || {}).unwrap();
    publish(&mut store, 3, Slow, 1000, || {}).unwrap();
    drop(store);
    fs::write(folder.join("2.toml"), [0xff; 100]).unwrap();
    let quota = Quota {
        reports: 3,
        ..QUOTA
    };
    let mut store = open(folder, quota, &Fake::new());
    assert!(store.take_log()[0].contains("2.toml"));
    assert_eq!(numbers(&store), [1, 2, 3]);
    publish(&mut store, 4, Slow, 1000, || {}).unwrap();
    assert_eq!(numbers(&store), [1, 3, 4]);
}

#[test]
fn numbers_are_never_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut store = open(folder, QUOTA, &Fake::new());
    assert_eq!(store.first_report(), 1);
    publish(&mut store, 1, Slow, 1000, || {}).unwrap();
    let far = 3 * RESERVED_AT_ONCE;
    publish(&mut store, far, Slow, 1000, || {}).unwrap();
    store.remove(far).unwrap();
    let refused = publish(&mut store, 1, Slow, 1000, || {});
    assert!(matches!(refused, Err(PublishError::Exists(1))));
    // As if it had been killed.
    drop(store);
    let store = open(folder, QUOTA, &Fake::new());
    let first = store.first_report();
    assert!(first > far, "{first}");
    drop(store);
    // The counter is damaged, or gone: no number of the past comes again.
    for damage in [Some(&b"next = 1\n"[..]), Some(b""), None] {
        let counter = folder.join("counter.state");
        match damage {
            Some(bytes) => fs::write(counter, bytes).unwrap(),
            None => fs::remove_file(counter).unwrap(),
        }
        let mut store = open(folder, QUOTA, &Fake::new());
        assert!(store.first_report() > 1_000_000_000);
        assert!(store.take_log()[0].contains("counter"));
    }
}

#[test]
fn clocks_that_jump_do_not_empty_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let system = Fake::new();
    let mut store = open(folder, QUOTA, &system);
    publish(&mut store, 1, Slow, 1000, || {}).unwrap();
    // While it runs: a century forward, and back again.
    system.change(|facts| facts.realtime_s += 100 * 365 * DAY);
    store.make_room();
    publish(&mut store, 2, Slow, 1000, || {}).unwrap();
    system.change(|facts| facts.realtime_s = 0);
    store.make_room();
    assert_eq!(numbers(&store), [1, 2]);
    drop(store);
    // While it was off, again and again: a quarter of the limit each time.
    for boot in ["b", "c", "d"] {
        system.change(|facts| {
            facts.boot = boot.into();
            facts.boottime_s = 10;
            facts.realtime_s += 100 * 365 * DAY;
        });
        let store = open(folder, QUOTA, &system);
        assert_eq!(numbers(&store), [1, 2], "{boot}");
    }
    system.change(|facts| {
        facts.boot = "e".into();
        facts.realtime_s += 100 * 365 * DAY;
    });
    assert_eq!(numbers(&open(folder, QUOTA, &system)), [0; 0]);
}

#[test]
fn reports_go_at_their_age() {
    let folder = tempfile::tempdir().unwrap();
    let system = Fake::new();
    let mut store = open(folder.path(), QUOTA, &system);
    assert_eq!(store.next_expiry_s(), None);
    publish(&mut store, 1, Fatal, 1000, || {}).unwrap();
    system.change(|facts| facts.boottime_s += DAY);
    publish(&mut store, 2, Slow, 1000, || {}).unwrap();
    assert_eq!(store.next_expiry_s(), Some(7 * DAY));
    system.change(|facts| facts.boottime_s += 7 * DAY);
    store.make_room();
    assert_eq!(numbers(&store), [2]);
    drop(store);
    // The clock file is damaged: the reports say how old the store is at least.
    fs::write(folder.path().join("age.state"), "x").unwrap();
    let mut store = open(folder.path(), QUOTA, &system);
    assert!(store.take_log()[0].contains("age.state"));
    assert_eq!(store.next_expiry_s(), Some(8 * DAY));
}

#[test]
fn one_service_uses_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), QUOTA, &Fake::new());
    let second = Store::open(folder.path(), QUOTA, Fake::new());
    assert!(matches!(second, Err(StoreError::InUse(_))));
    drop(store);
    assert!(Store::open(folder.path(), QUOTA, Fake::new()).is_ok());
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let none = Store::open(&file, QUOTA, Fake::new());
    assert!(matches!(none, Err(StoreError::Folder(..))));
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let open = |mode: u32| {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        Store::open(folder.path(), QUOTA, Fake::new())
    };
    for mode in [0o777, 0o770, 0o702, 0o1777] {
        let refused = open(mode).err().map(|e| e.to_string());
        let why = "others may write to the folder";
        assert!(refused.is_some_and(|e| e.contains(why)), "{mode:o}");
    }
    assert!(open(0o755).is_ok());
}

/// Makes the folder immutable or not, which even root cannot write to then. False: the file system cannot.
fn set_immutable(folder: &Path, is_immutable: bool) -> bool {
    const GET: libc::Ioctl = 0x8008_6601;
    const SET: libc::Ioctl = 0x4008_6602;
    const IMMUTABLE: libc::c_long = 0x10;
    use std::os::fd::AsRawFd;
    let folder = File::open(folder).unwrap();
    let mut flags: libc::c_long = 0;
    // SAFETY: the calls read and write one number.
    unsafe {
        if libc::ioctl(folder.as_raw_fd(), GET, &mut flags) != 0 {
            return false;
        }
        flags = match is_immutable {
            true => flags | IMMUTABLE,
            false => flags & !IMMUTABLE,
        };
        libc::ioctl(folder.as_raw_fd(), SET, &flags) == 0
    }
}

/// Makes a folder writable again.
struct ReadOnly<'a>(&'a Path);

impl<'a> ReadOnly<'a> {
    /// `None`: this user can write everywhere.
    fn new(folder: &'a Path) -> Option<Self> {
        let read_only = ReadOnly(folder);
        fs::set_permissions(folder, fs::Permissions::from_mode(0o500)).unwrap();
        let probe = folder.join("probe");
        if fs::write(&probe, "").is_ok() && !set_immutable(folder, true) {
            println!("skipped: a folder that cannot be written to: not for this user");
            fs::remove_file(probe).unwrap();
            return None;
        }
        Some(read_only)
    }
}

impl Drop for ReadOnly<'_> {
    fn drop(&mut self) {
        set_immutable(self.0, false);
        let _ = fs::set_permissions(self.0, fs::Permissions::from_mode(0o700));
        let _ = fs::remove_file(self.0.join("probe"));
    }
}

#[test]
fn a_folder_that_cannot_be_written_to_is_reported_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut store = open(folder, QUOTA, &Fake::new());
    publish(&mut store, 1, Slow, 1000, || {}).unwrap();
    drop(store);
    let Some(read_only) = ReadOnly::new(folder) else {
        return;
    };
    let mut store = open(folder, QUOTA, &Fake::new());
    let log = store.take_log().join("\n");
    assert!(log.contains("make it writable"), "{log}");
    assert_eq!(numbers(&store), [1]);
    assert!(store.open_report(1).is_ok());
    assert!(store.remove(1).is_err());
    assert_eq!(numbers(&store), [1]);
    let first = store.first_report();
    let refused = publish(&mut store, first, Slow, 1000, || {});
    assert!(matches!(refused, Err(PublishError::Disk(..))));
    assert!(store.save_state("limits", "x").is_err());
    drop(read_only);
    publish(&mut store, first, Slow, 1000, || {}).unwrap();
    store.save_state("limits", "x").unwrap();
    assert_eq!(store.load_state("limits"), State::Found("x".into()));
    store.spoil_state("limits").unwrap();
    assert!(matches!(store.load_state("limits"), State::Damaged(_)));
}

#[test]
fn a_full_disk_refuses_reports_and_keeps_what_is_there() {
    let Some(disk) = SmallDisk::new(1 << 20) else {
        return;
    };
    let folder = disk.path();
    let mut store = open(folder, QUOTA, &Fake::new());
    publish(&mut store, 1, Slow, 300 << 10, || {}).unwrap();
    store.save_state("limits", "old").unwrap();
    // The fake system does not say that there is no room: writing fails.
    let refused = publish(&mut store, 2, Fatal, 2 << 20, || {});
    assert!(refused.is_err());
    assert_eq!(numbers(&store), [1]);
    assert!(!names(folder).iter().any(|name| name.starts_with(".2")));
    fs::write(folder.join("filler"), vec![1; 2 << 20]).unwrap_err();
    assert!(publish(&mut store, 3, Fatal, 1000, || {}).is_err());
    assert!(store.save_state("limits", &"new".repeat(20_000)).is_err());
    assert_eq!(store.load_state("limits"), State::Found("old".into()));
    fs::remove_file(folder.join("filler")).unwrap();
    publish(&mut store, 4, Fatal, 1000, || {}).unwrap();
    assert_eq!(numbers(&store), [1, 4]);
    drop(store);
    assert_eq!(numbers(&open(folder, QUOTA, &Fake::new())), [1, 4]);
}

/// Bytes of all files in the folder.
fn folder_bytes(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).unwrap();
    files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum()
}

#[test]
fn what_the_service_remembers_is_part_of_the_quota() {
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota {
        bytes: 4 << 20,
        ..QUOTA
    };
    let system = Fake::new();
    let mut store = open(folder.path(), quota, &system);
    for report in 1..=3 {
        publish(&mut store, report, TriggerSeverity::Slow, 1 << 20, || {}).unwrap();
    }
    // Names are no reason to remove a report, and leave the disk to others.
    let names = vec![7; 1200 << 10];
    let refused = store.save_bytes("names-64", &names).unwrap_err();
    assert!(refused.to_string().contains("no room"), "{refused}");
    assert_eq!(numbers(&store), [1, 2, 3]);
    // The old text and the new one are there at once while it is replaced.
    let text = "x".repeat(900 << 10);
    for _ in 0..3 {
        store.save_state("policy", &text).unwrap();
        assert_eq!(folder_bytes(folder.path()), store.total_bytes());
        assert!(store.total_bytes() <= quota.bytes);
    }
    assert!(store.total_bytes() + text.len() as u64 <= quota.bytes);
    assert_eq!(numbers(&store), [2, 3], "the oldest one made room");
    store.remove(2).unwrap();
    store.save_bytes("names-64", &names).unwrap();
    system.change(|facts| facts.free_bytes = Some(100));
    assert!(store.save_bytes("names-32", b"names").is_ok());
    let mut store = {
        drop(store);
        let quota = Quota {
            free_bytes: 100,
            ..quota
        };
        open(folder.path(), quota, &system)
    };
    assert!(store.save_bytes("names-32", b"names").is_err());
    // What must be known is saved in any case.
    let text = "y".repeat(900 << 10);
    store.save_state("policy", &text).unwrap();
    assert_eq!(store.load_state("policy"), State::Found(text));
}
