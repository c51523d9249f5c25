// SPDX-License-Identifier: Apache-2.0
//! A process whose system service is not there, goes away, or misbehaves.

mod common;

use std::os::fd::AsRawFd;
use std::time::Duration;

use common::service::{until, FakeService};
use common::workers::{numbers, waits, Process, Task, Worker, PATIENCE};
use hindsight_runtime::{Severity, SnapshotOutcome};
use hindsight_trace_format::container::Reader;
use hindsight_trace_format::protocol::{FromService, TakeOutcome};

#[test]
fn a_service_that_comes_later_is_found() {
    let (process, ()) = Process::start("trace=all,ring=16", |_| ());
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        until("without a service it records what is configured", || {
            worker.is_traced()
        });
        worker.record(5);
        for (nth, service) in [FakeService::at, FakeService::slowly_at]
            .into_iter()
            .enumerate()
        {
            let service = service(&process.socket());
            let (peer, hello, held) = service.welcome(2, 0);
            assert_eq!((hello.held, held), (1, 1));
            assert_eq!(numbers(&peer.read().rings).len(), 5 * (nth + 1));
            worker.record(5);
            drop((peer, service));
            std::fs::remove_file(process.socket()).unwrap();
        }
    });
    process.recorder.shutdown();
}

#[test]
fn rings_stay_when_the_service_is_killed_and_the_next_one_releases_them() {
    let options = "trace=all,ring=16,socket=DIR/control";
    let (process, service) = Process::start(options, FakeService::at);
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        let (mut peer, ..) = service.welcome(1, 0);
        process.recorder.thread_in_foreground(worker.tid);
        assert!(peer.next().is_some());
        worker.record(10);
        assert_eq!(peer.take(3), TakeOutcome::Taken);
        worker.record(10);
        drop((peer, service));
        worker.record(10);
        assert!(worker.is_traced());
        let service = FakeService::at(&process.socket());
        let (mut peer, hello, held) = service.welcome(1, 0);
        assert_eq!((hello.taken, hello.held, held), (3, 2, 2));
        assert!(hello.is_foreground);
        assert_eq!(peer.read().rings.len(), 2);
        assert_eq!(peer.take(4), TakeOutcome::Refused);
        // A snapshot does not take them from the service.
        let answer = process.command("snapshot mine");
        let file = std::fs::read(answer.trim().strip_prefix("ok ").unwrap()).unwrap();
        let losses = Reader::new(&file).unwrap().losses().unwrap().counts;
        let lost = (
            "rings that were taken for a report of the service".into(),
            1,
        );
        assert!(losses.contains(&lost), "{losses:?}");
        peer.release(3);
        assert_eq!(peer.configure(1, 0), 1);

        // Nobody comes for them: the process's own snapshot has them.
        worker.record(10);
        assert_eq!(peer.take(5), TakeOutcome::Taken);
        worker.record(10);
        drop((peer, service));
        until("the connection is lost", || {
            process.command("status").contains(r#""connected":false"#)
        });
        let answer = process.command("snapshot mine");
        let file = std::fs::read(answer.trim().strip_prefix("ok ").unwrap()).unwrap();
        let reader = Reader::new(&file).unwrap();
        assert_eq!(reader.ring_indices().count(), 2);
        let service = FakeService::at(&process.socket());
        let (mut peer, hello, held) = service.welcome(1, 0);
        assert_eq!((hello.taken, hello.held, held), (0, 1, 1));

        // The system needs memory: they go only if nobody reads them.
        assert_eq!(peer.take(6), TakeOutcome::Taken);
        assert_eq!(process.command("trim"), "ok\n");
        assert_eq!(peer.configure(1, 0), 2);
        drop((peer, service));
        until("the connection is lost", || {
            process.command("status").contains(r#""connected":false"#)
        });
        assert_eq!(process.command("trim"), "ok\n");
        let service = FakeService::at(&process.socket());
        let (_, hello, held) = service.welcome(1, 0);
        assert_eq!((hello.taken, hello.held, held), (0, 1, 1));
    });
    process.recorder.shutdown();
}

#[test]
fn a_service_without_answer_or_with_nonsense_does_no_harm() {
    let (process, service) = Process::start("trace=all,ring=16", FakeService::at);
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let (mut peer, ..) = service.welcome(2, 0);
        let before = descriptors();
        let zero = std::fs::File::open("/dev/zero").unwrap();
        // Unknown messages are ignored, and descriptors closed.
        for _ in 0..100 {
            assert!(peer.send_raw(&99_u32.to_le_bytes(), Some(zero.as_raw_fd())));
        }
        assert_eq!(peer.configure(2, 0), 1);
        assert_eq!(descriptors(), before + 1);
        drop(zero);
        // Nonsense ends the connection; the process comes again.
        let nonsense: [&[u8]; 6] = [
            &[],
            &[1],
            &[3, 0, 0, 0, 1],
            &[0; 5000],
            &[7; 100_000],
            &FromService::Refused {
                reason: String::new(),
            }
            .encode()[..6],
        ];
        for packet in nonsense {
            peer.send_raw(packet, None);
            assert!(peer.ends());
            (peer, ..) = service.welcome(2, 0);
        }
        // A request before the welcome.
        peer.send_raw(&[3, 0], None);
        let (early, _) = service.accept();
        early.send(&FromService::Take { report: 1 });
        (peer, ..) = service.welcome(2, 0);
        // More requests than can be executed.
        while peer.send(&FromService::Release { report: 9 }) {}
        (peer, ..) = service.welcome(2, 0);
        assert!(worker.is_traced());
        // Refused: it does not come again, until there is another service, or the user sees it.
        peer.send_raw(&[3, 0], None);
        let (mut refused, _) = service.accept();
        refused.send(&FromService::Refused {
            reason: "too many".into(),
        });
        assert!(refused.ends());
        until("the log says why", || {
            process
                .world
                .logged(Severity::Warning, "does not want this process: too many")
        });
        process.settle();
        std::thread::sleep(Duration::from_millis(100));
        assert!(!service.has_client());
        assert!(!worker.is_traced());
        // A process that gave way to another one: it comes again when the user sees it.
        process.recorder.thread_in_foreground(worker.tid);
        let (mut refused, hello) = service.accept();
        assert!(hello.is_foreground && hello.held == 0);
        refused.send(&FromService::Refused {
            reason: "too many".into(),
        });
        assert!(refused.ends());
        drop((refused, service));
        let service = FakeService::at(&process.socket());
        let (_, hello, _) = service.welcome(2, 0);
        // A service had configured it: refused, it gave its rings up.
        assert_eq!(hello.held, 0);
    });
    process.recorder.shutdown();
}

#[test]
fn a_process_that_a_service_always_hangs_up_on_records_nothing() {
    let options = "trace=all,ring=16,events=waits";
    let (process, service) = Process::start(options, FakeService::at);
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        let look = || worker.ask(Task::Look);
        // Until it does not come any more.
        until("it records no events", || {
            if service.has_client() {
                drop(service.accept());
            }
            let (is_traced, events) = look();
            assert!(!is_traced);
            events & waits() == 0
        });
        drop(service);
        let service = FakeService::at(&process.socket());
        let (_peer, _, held) = service.welcome(2, waits());
        assert_eq!((held, look().0), (1, true));
    });
    process.recorder.shutdown();
}

#[test]
fn a_service_that_never_reads_blocks_nobody() {
    let (process, service) = Process::start("trace=all,ring=16", FakeService::at);
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        let (silent, ..) = service.welcome(2, 0);
        // Until the process gives the connection up.
        until("it is given up", || {
            process.recorder.thread_in_foreground(worker.tid);
            process.settle();
            !silent.send(&FromService::Release { report: 9 })
        });
        let outcome = process.recorder.snapshot("odd".into(), 0, PATIENCE);
        assert!(
            matches!(
                outcome,
                SnapshotOutcome::Written(_) | SnapshotOutcome::Reported
            ),
            "{outcome:?}"
        );
        // It tries again.
        let (_, hello, _) = service.welcome(2, 0);
        assert!(hello.is_foreground);
    });
    process.recorder.shutdown();
}

#[test]
fn a_service_in_a_folder_that_comes_later_is_found_when_somebody_wants_it() {
    let (process, ()) = Process::start("trace=all,ring=16,service=DIR/later/service", |_| ());
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        until("it is traced", || worker.is_traced());
        std::fs::create_dir(process.folder.path().join("later")).unwrap();
        let service = FakeService::at(&process.folder.path().join("later/service"));
        process.recorder.thread_in_foreground(worker.tid);
        let (_, hello, _) = service.welcome(2, 0);
        assert!(hello.is_foreground);
    });
    process.recorder.shutdown();
}

/// How often the thread with this name has gone to sleep.
fn sleeps(name: &str) -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of = |thread: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
        let field = |key| {
            status
                .lines()
                .find_map(|line| Some(line.strip_prefix(key)?.trim()))
        };
        (field("Name:")? == name).then(|| field("voluntary_ctxt_switches:")?.parse::<u64>().ok())?
    };
    threads.filter_map(of).sum()
}

#[test]
fn an_idle_process_never_wakes_up_for_the_service() {
    let (process, ()) = Process::start("trace=all,ring=16", |_| ());
    // A thread that wakes up once a second or more often never passes.
    let stays_asleep = || {
        process.settle();
        until("it sleeps for a second", || {
            let before = (sleeps("hindsight-io"), sleeps("hindsight"));
            std::thread::sleep(Duration::from_secs(1));
            (sleeps("hindsight-io"), sleeps("hindsight")) == before
        });
    };
    stays_asleep();
    let service = FakeService::at(&process.socket());
    let (peer, ..) = service.welcome(2, waits());
    stays_asleep();
    drop((peer, service));
    stays_asleep();
    process.recorder.shutdown();
}
