// SPDX-License-Identifier: Apache-2.0
//! Reports that become too old while the service has other work, while the device is suspended, or on a disk that refuses.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hindsight_service::engine::Now;
use hindsight_service::os::{PressureTriggers, Process, System};
use hindsight_service::report::{Done, Job, Outcome, Worker};
use hindsight_service::store::{Entry, PublishError, Quota, Store};
use hindsight_trace_format::container::{ClockSample, SectionKind};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// Longest wait for something that must happen.
const PATIENCE: Duration = Duration::from_secs(300);

/// A system whose time passes only when a test says so, and which counts looks at the disk: one for each removal.
#[derive(Default)]
struct Fake {
    boottime_s: AtomicU64,
    looks: AtomicUsize,
}

impl System for Fake {
    fn now(&self) -> Now {
        let seconds = self.boottime_s.load(Ordering::SeqCst);
        Now {
            boottime_ns: seconds * 1_000_000_000,
            realtime_ns: seconds * 1_000_000_000,
        }
    }

    fn sample(&self, _: &str) -> Option<ClockSample> {
        None
    }

    fn boot_id(&self) -> String {
        "boot".to_owned()
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Err(io::ErrorKind::Unsupported.into())
    }

    fn identify(&self, _: BorrowedFd<'_>) -> io::Result<Process> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn pressure(&self) -> io::Result<PressureTriggers> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A worker with a report of this time.
struct Setup {
    system: Arc<Fake>,
    worker: Worker,
    folder: tempfile::TempDir,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let system = Arc::new(Fake::default());
        let quota = Quota {
            reports: 10,
            bytes: 10 << 20,
            age_s: 7 * DAY,
            free_bytes: 0,
        };
        let of_store: Arc<dyn System> = system.clone();
        let mut store = Store::open(folder.path(), quota, of_store).unwrap();
        store.begin();
        let entry = Entry {
            report: 1,
            process: "app".into(),
            consent: "names".into(),
            ..Entry::default()
        };
        let written = store.publish(entry, |writer, _| {
            let section = writer.section(SectionKind::Ring, 0, &[&[7; 100]]);
            section
                .map(|_| ())
                .map_err(|e| PublishError::Contents(e.to_string()))
        });
        written.unwrap();
        let of_worker: Arc<dyn System> = system.clone();
        let worker = Worker::start(store, of_worker).unwrap();
        Setup {
            system,
            worker,
            folder,
        }
    }

    fn pass(&self, seconds: u64) {
        self.system.boottime_s.fetch_add(seconds, Ordering::SeqCst);
    }

    fn looks(&self) -> usize {
        self.system.looks.load(Ordering::SeqCst)
    }

    fn done(&mut self) -> Done {
        let begin = Instant::now();
        loop {
            if let Some(done) = self.worker.take_done() {
                return done;
            }
            assert!(begin.elapsed() < PATIENCE, "nothing is done");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The reports that a client is told of.
    fn list(&mut self) -> usize {
        self.worker.give(Job::List { client: 1 });
        loop {
            if let Outcome::Answer { result, .. } = self.done().outcome {
                return result.unwrap().len();
            }
        }
    }
}

#[test]
fn jobs_do_not_put_the_end_of_a_report_off() {
    let mut setup = Setup::new();
    for _ in 0..6 {
        assert_eq!(setup.list(), 1);
        setup.pass(DAY);
    }
    assert_eq!(setup.list(), 1);
    // As after a suspend: the thread has waited for no time, and the report is too old.
    setup.pass(DAY);
    assert_eq!(setup.list(), 0);
    assert!(!setup.folder.path().join("1.hindsight").exists());
}

#[test]
fn a_disk_that_refuses_to_remove_a_report_is_left_alone_for_hours() {
    let mut setup = Setup::new();
    // Nobody can remove a folder as a file.
    let trace = setup.folder.path().join("1.hindsight");
    fs::remove_file(&trace).unwrap();
    fs::create_dir(&trace).unwrap();
    let before = setup.looks();
    setup.pass(8 * DAY);
    assert_eq!(setup.list(), 1);
    assert_eq!(setup.looks(), before + 1);
    for _ in 0..3 {
        setup.pass(HOUR);
        assert_eq!(setup.list(), 1);
    }
    assert_eq!(setup.looks(), before + 1, "it was tried again too soon");
    setup.pass(HOUR);
    assert_eq!(setup.list(), 1);
    assert_eq!(setup.looks(), before + 2);
    fs::remove_dir(&trace).unwrap();
    fs::write(&trace, "x").unwrap();
    setup.pass(4 * HOUR);
    assert_eq!(setup.list(), 0);
    assert!(!trace.exists());
}
