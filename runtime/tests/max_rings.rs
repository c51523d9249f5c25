// SPDX-License-Identifier: Apache-2.0
//! A limited number of rings, for the threads wanted most recently. The tests measure the memory of the whole process, so
//! they run one after the other.

mod common;

use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Scope;
use std::time::{Duration, Instant};

use common::{gettid, FakeHost, Managed, World};
use hindsight_runtime::{Recorder, SnapshotOutcome, ThreadWords};
use hindsight_trace_format::container::Reader;
use hindsight_trace_format::slot::Extension;

const PATIENCE: Duration = Duration::from_secs(60);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn start(configuration: &str) -> (MutexGuard<'static, ()>, Recorder, Arc<World>) {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let world = Arc::new(World::default());
    let host = Box::new(FakeHost(Arc::clone(&world)));
    let recorder = Recorder::start(common::parse(configuration).unwrap(), host).unwrap();
    (alone, recorder, world)
}

/// Physical memory of the process, bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    // SAFETY: no precondition.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize
}

/// A task for a worker.
enum Task {
    /// Record until the ring is full.
    Fill,
    /// Report whether the thread is traced.
    Look,
    End,
}

/// A managed thread that executes tasks, and is in native code in between.
struct Worker {
    tid: u32,
    tasks: Sender<Task>,
    traced: Receiver<bool>,
}

impl Worker {
    fn start<'s>(
        scope: &'s Scope<'s, '_>,
        recorder: &'s Recorder,
        world: &'s World,
        ring_bytes: usize,
    ) -> Self {
        let (tasks, to_do) = channel();
        let (answer, traced) = channel();
        let (tid, is) = channel();
        scope.spawn(move || {
            Managed::run(recorder, world, |thread| {
                tid.send(gettid()).unwrap();
                while let Ok(task) = thread.native(|| to_do.recv()) {
                    match task {
                        Task::Fill => {
                            for _ in 0..ring_bytes / 8 {
                                thread.enter(0x1_0000);
                            }
                        }
                        Task::Look => {}
                        Task::End => break,
                    }
                    answer.send(thread.is_traced()).unwrap();
                }
            });
        });
        Worker {
            tid: is.recv().unwrap(),
            tasks,
            traced,
        }
    }

    fn ask(&self, task: Task) -> bool {
        self.tasks.send(task).unwrap();
        self.traced.recv().unwrap()
    }
}

/// Asks until the answer is yes. Fails if it is not within a minute.
fn becomes_true(mut condition: impl FnMut() -> bool) {
    let asked = Instant::now();
    while !condition() {
        assert!(asked.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
}

/// Waits until the control thread has executed all commands so far.
fn settled(recorder: &Recorder) {
    let outcome = recorder.snapshot(String::new(), 0, Duration::from_secs(60));
    assert!(!matches!(outcome, SnapshotOutcome::TimedOut));
}

#[test]
fn memory_of_an_evicted_ring_is_returned() {
    const RING: usize = 1 << 24;
    // Snapshots fail, as the folder does not exist: a file would need memory, too.
    let (_alone, recorder, world) = start("trace=off,ring=24,max-rings=2,dir=/nonexistent");
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| Worker::start(scope, &recorder, &world, RING))
            .collect();
        let want = |n: usize| {
            let tid = workers[n].tid;
            recorder.trace_thread(tid, true, PATIENCE).unwrap();
        };
        let traced = || -> Vec<bool> { workers.iter().map(|w| w.ask(Task::Look)).collect() };
        let nothing = resident();

        want(0);
        want(1);
        settled(&recorder);
        assert_eq!(traced(), [true, true, false]);
        for worker in &workers[..2] {
            worker.ask(Task::Fill);
        }
        let two = resident();
        assert!(two - nothing > RING * 18 / 10, "{two} {nothing}");

        // The first thread is wanted again, so the ring of the second is evicted.
        want(0);
        want(2);
        settled(&recorder);
        assert_eq!(traced(), [true, false, true]);
        let one = resident().saturating_sub(nothing);
        // `settled` took a snapshot, which returned the memory of all rings.
        assert!(one < RING / 5, "{one}");
        workers[0].ask(Task::Fill);
        workers[2].ask(Task::Fill);
        let two = resident();
        assert!(two - nothing > RING * 18 / 10, "{two} {nothing}");

        // Without a snapshot: only the memory of the evicted ring is returned.
        want(1);
        let one = resident() - nothing;
        assert!((RING * 8 / 10..RING * 12 / 10).contains(&one), "{one}");
        assert_eq!(traced(), [false, true, true]);
        for worker in &workers {
            worker.tasks.send(Task::End).unwrap();
        }
    });
}

#[test]
fn when_the_system_trims_memory_threads_go_on_in_empty_rings() {
    const RING: usize = 1 << 24;
    let folder = tempfile::tempdir().unwrap();
    let (_alone, recorder, world) = start(&format!(
        "trace=all,ring=24,dir={}",
        folder.path().display()
    ));
    std::thread::scope(|scope| {
        let nothing = resident();
        let ended = Worker::start(scope, &recorder, &world, RING);
        let worker = Worker::start(scope, &recorder, &world, RING);
        for filled in [&ended, &worker] {
            assert!(filled.ask(Task::Fill));
        }
        ended.tasks.send(Task::End).unwrap();
        becomes_true(|| ended.tasks.send(Task::Look).is_err());
        let two = resident() - nothing;
        assert!(two > RING * 18 / 10, "{two}");

        recorder.trim_memory();
        // The snapshot comes after it.
        let outcome = recorder.snapshot("x".into(), 0, PATIENCE);
        let SnapshotOutcome::Written(path) = outcome else {
            panic!("{outcome:?}");
        };
        let left = resident().saturating_sub(nothing);
        assert!(left < RING / 5, "{left}");
        assert!(worker.ask(Task::Look), "it is still traced");
        let bytes = std::fs::read(path).unwrap();
        let reader = Reader::new(&bytes).unwrap();
        let rings: Vec<_> = reader.ring_indices().collect();
        let ring = reader.ring(rings[0]).unwrap().unwrap();
        assert_eq!((rings.len(), ring.header.tid), (1, worker.tid));
        // No more than what was under way when it began.
        let newest = ring.slots().events().next().map(|event| event.slot.low());
        assert_eq!(newest, Some(Extension::PartBegins.number()));
        worker.tasks.send(Task::End).unwrap();
    });
}

#[test]
fn starting_a_thread_evicts_no_ring_and_a_retired_ring_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let (_alone, recorder, world) = start(&format!(
        "trace=all,ring=12,max-rings=2,dir={}",
        folder.path().display()
    ));
    let snapshot = || {
        let outcome = recorder.snapshot("x".into(), 0, Duration::from_secs(60));
        let SnapshotOutcome::Written(path) = outcome else {
            panic!("{outcome:?}");
        };
        let bytes = std::fs::read(path).unwrap();
        let reader = Reader::new(&bytes).unwrap();
        let mut tids: Vec<u32> = reader
            .ring_indices()
            .map(|i| reader.ring(i).unwrap().unwrap().header.tid)
            .collect();
        tids.sort_unstable();
        (tids, reader.losses().unwrap().counts)
    };
    std::thread::scope(|scope| {
        let start = || Worker::start(scope, &recorder, &world, 4096);
        let (first, second, third) = (start(), start(), start());
        assert!(first.ask(Task::Look) && second.ask(Task::Look));
        assert!(!third.ask(Task::Look));

        first.tasks.send(Task::End).unwrap();
        // A worker's channel is closed after its ring was retired.
        becomes_true(|| first.tasks.send(Task::Look).is_err());
        recorder.thread_in_foreground(third.tid);
        becomes_true(|| third.ask(Task::Look));
        assert!(second.ask(Task::Look), "the retired ring was enough");
        let (tids, losses) = snapshot();
        let mut expected = [second.tid, third.tid];
        expected.sort_unstable();
        assert_eq!(tids, expected);
        let max_rings: Vec<_> = losses
            .iter()
            .filter(|(what, _)| what.contains("max-rings"))
            .map(|(_, n)| *n)
            .collect();
        assert_eq!(max_rings, [1, 1], "{losses:?}");
        for worker in [second, third] {
            worker.tasks.send(Task::End).unwrap();
        }
    });
}

/// A thread's words, which the test passes from thread to thread.
struct Words(Box<ThreadWords>);

// SAFETY: one thread at a time uses them.
unsafe impl Send for Words {}

#[test]
fn a_thread_that_gets_the_id_of_one_that_is_being_stopped_keeps_its_ring() {
    const TID: u32 = 77;
    let (_alone, recorder, world) = start("trace=all,ring=12,max-rings=2,dir=/nonexistent");
    let recorder = Arc::new(recorder);
    let new = || Words(Box::new(ThreadWords::new()));
    let has_ring = |words: &Words| words.0.cursor().load(Ordering::Relaxed) != 0;
    let (ended, successor, other) = (new(), new(), new());
    // SAFETY: this test is all the threads; the words live until they have ended.
    unsafe { recorder.thread_started(TID, "ended", &*ended.0) };
    assert!(has_ring(&ended));
    let (done, is_done) = channel();
    let at_work = Arc::clone(&recorder);
    *world.before_safepoint.lock().unwrap() = Some(Box::new(move |_| {
        // SAFETY: this test is all the threads.
        unsafe {
            at_work.thread_exiting(&*ended.0);
            at_work.thread_started(TID, "successor", &*successor.0);
        }
        done.send(successor).unwrap();
    }));
    let stopped = recorder.trace_thread(TID, false, Duration::from_secs(60));
    assert_eq!(stopped, Err(format!("thread {TID} is not traced")));
    let successor = is_done.recv().unwrap();
    assert!(has_ring(&successor));
    // The successor has one ring, the ended thread's is retired: there is no room for a third.
    // SAFETY: this test is all the threads.
    unsafe { recorder.thread_started(TID + 1, "other", &*other.0) };
    assert!(!has_ring(&other));
    // SAFETY: this test is all the threads.
    unsafe {
        recorder.thread_exiting(&*successor.0);
        recorder.thread_exiting(&*other.0);
    }
}
