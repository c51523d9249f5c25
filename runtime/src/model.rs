// SPDX-License-Identifier: Apache-2.0
//! Model checks: loom runs what is here in all interleavings, with the weak memory of C11.
//!
//! [`ThreadTrace`] is the production code. What stands in for ART are threads that run managed code, and
//! can be acted on while they are at a safepoint: each holds a lock while it runs, and gives it up where
//! asked to. Slots and words are watched: using them without the right to is a race, and found.
//!
//! `cargo test -p hindsight-runtime --features loom --release --lib model`

use hindsight_trace_format::ring::Geometry;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::lock_free::LockFreeTrace;
use crate::ring::{write_slot, Ring, SLOTS, SLOT_STRIDE};
use crate::thread_trace::{StartReason, TakenRing, ThreadTrace};
use crate::thread_words::ThreadWords;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // More than three involuntary switches in so few steps find nothing that two do not; see loom.
    builder.preemption_bound = Some(3);
    builder.max_branches = 20_000;
    builder.check(model);
}

fn ring() -> Ring {
    Ring::new(Geometry::default()).unwrap()
}

/// A managed thread, as the control thread sees it.
struct Managed {
    words: ThreadWords,
    trace: Arc<ThreadTrace>,
    requested: AtomicBool,
    running: Mutex<()>,
}

impl Managed {
    fn new() -> Arc<Self> {
        let words = ThreadWords::new();
        let mut managed = Arc::new(Managed {
            words,
            // SAFETY: replaced before anything is done with it.
            trace: Arc::new(unsafe { ThreadTrace::new(1, "model", std::ptr::null()) }),
            requested: AtomicBool::new(false),
            running: Mutex::new(()),
        });
        let words: *const ThreadWords = &managed.words;
        if let Some(managed) = Arc::get_mut(&mut managed) {
            // SAFETY: the words live as long as the trace, and are said to end when the thread does.
            managed.trace = Arc::new(unsafe { ThreadTrace::new(1, "model", words) });
        }
        managed
    }

    /// Runs managed code on the calling thread, which then ends. Returns the ring it had.
    fn run(&self, code: impl FnOnce(&mut dyn FnMut())) -> Option<TakenRing> {
        let mut running = Some(self.running.lock().unwrap());
        let mut safepoint = || {
            if self.requested.load(Ordering::Relaxed) {
                running = None;
                thread::yield_now();
                running = Some(self.running.lock().unwrap());
            }
        };
        code(&mut safepoint);
        // SAFETY: this is the thread.
        let taken = unsafe { self.trace.retire() };
        drop(running);
        // The thread object is freed.
        self.words.end();
        taken
    }

    /// What ART does for the control thread.
    fn at_safepoint<T>(&self, action: impl FnOnce(&ThreadTrace) -> T) -> T {
        self.requested.store(true, Ordering::Relaxed);
        let stopped = self.running.lock().unwrap();
        let result = action(&self.trace);
        self.requested.store(false, Ordering::Relaxed);
        drop(stopped);
        result
    }

    /// A compiled trace point: the entry of this method.
    fn trace_point(&self, method: u64) {
        let cursor = self.words.cursor();
        let mut at = cursor.load(Ordering::Relaxed);
        if at == 0 {
            return;
        }
        let slot = crate::clock::counter() << 32 | method;
        if let Some(start) = self.trace.wrap(at, at) {
            at = start;
        }
        // SAFETY: a slot of the thread's own ring.
        unsafe { write_slot(at, slot) };
        cursor.store(at + SLOT_STRIDE, Ordering::Relaxed);
    }
}

/// The methods that the rings say were entered, oldest first, and how many slots were recorded.
fn entered(rings: &[TakenRing]) -> (Vec<u64>, u64) {
    let mut methods = Vec::new();
    let mut recorded = 0;
    for taken in rings {
        let mut of_ring: Vec<_> = taken
            .slots()
            .events()
            .filter_map(|e| e.entered_method())
            .collect();
        of_ring.reverse();
        methods.extend(of_ring);
        let position = taken.header.position;
        recorded += position.laps * SLOTS as u64 + position.offset / 8;
    }
    (methods, recorded)
}

const METHOD: u64 = 0x1000;

#[test]
fn a_swap_while_the_thread_records_and_ends() {
    check(|| {
        let managed = Managed::new();
        // SAFETY: nobody else is there yet.
        assert!(unsafe { managed.trace.begin(ring(), StartReason::Request) }.is_ok());
        let thread = {
            let managed = Arc::clone(&managed);
            thread::spawn(move || {
                managed.run(|safepoint| {
                    managed.trace_point(METHOD);
                    safepoint();
                    managed.trace_point(METHOD + 1);
                    safepoint();
                })
            })
        };
        let mut replacement = Some(ring());
        let swapped = managed.at_safepoint(|trace| {
            // SAFETY: at a safepoint.
            unsafe { trace.take(&mut replacement) }
        });
        // As the persist does, while the thread records on in the other ring.
        let mut rings: Vec<_> = swapped.into_iter().collect();
        let (before, _) = entered(&rings);
        assert!(before.len() <= 2);
        rings.extend(thread.join().unwrap());
        let (methods, recorded) = entered(&rings);
        // What started and what stopped it has three slots; rings have three, so the oldest may be gone.
        assert_eq!(recorded, 5);
        assert!([METHOD, METHOD + 1].ends_with(&methods), "{methods:x?}");
        // The first ring holds three slots, two of which say what started: the second call overwrites them.
        if rings.len() == 2 {
            assert_eq!(methods.len(), 2, "{methods:x?}");
        }
    });
}

#[test]
fn start_and_stop_while_the_thread_ends() {
    check(|| {
        let managed = Managed::new();
        let thread = {
            let managed = Arc::clone(&managed);
            thread::spawn(move || {
                managed.run(|safepoint| {
                    managed.trace_point(METHOD);
                    safepoint();
                    managed.trace_point(METHOD + 1);
                })
            })
        };
        let begun = managed.at_safepoint(|trace| {
            // SAFETY: at a safepoint.
            unsafe { trace.begin(ring(), StartReason::Request) }.is_ok()
        });
        let stopped = managed.at_safepoint(|trace| {
            // SAFETY: at a safepoint.
            unsafe { trace.take(&mut None) }
        });
        let at_end = thread.join().unwrap();
        assert_eq!(begun, stopped.is_some() || at_end.is_some());
        assert!(stopped.is_none() || at_end.is_none(), "one ring, one owner");
        assert!(!managed.trace.is_traced());
        let rings: Vec<_> = stopped.into_iter().chain(at_end).collect();
        let (methods, recorded) = entered(&rings);
        assert!(!begun || (3..=5).contains(&recorded));
        assert!([METHOD, METHOD + 1].ends_with(&methods) || methods == [METHOD]);
    });
}

/// Anchors of a thread that records, wraps and ends. With a prompt clock they must be right about the
/// slots that were written later, too.
fn anchors(prompt: bool) {
    crate::model_clock::be_prompt(prompt);
    check(move || {
        let managed = Managed::new();
        // SAFETY: nobody else is there yet.
        assert!(unsafe { managed.trace.begin(ring(), StartReason::Request) }.is_ok());
        let thread = {
            let managed = Arc::clone(&managed);
            thread::spawn(move || {
                let mut times = Vec::new();
                let taken = managed.run(|_| {
                    for n in 0..3 {
                        let before = crate::model_clock::tick();
                        managed.trace_point(METHOD + n);
                        times.push((before, crate::model_clock::tick()));
                    }
                });
                (taken, times)
            })
        };
        managed.trace.sample_anchor();
        managed.trace.sample_anchor();
        let (taken, times) = thread.join().unwrap();
        let taken = taken.unwrap();
        for anchor in &taken.anchors {
            // The two slots of the start are there before the model begins.
            assert!((2..=5).contains(&anchor.slots_written), "{anchor:?}");
            for (n, (before, after)) in (2..).zip(&times) {
                if n < anchor.slots_written {
                    assert!(*before < anchor.counter, "{anchor:?} {times:?}");
                } else if prompt && n > anchor.slots_written {
                    // The one at `slots_written` may have been under way.
                    assert!(*after > anchor.counter, "{anchor:?} {times:?}");
                }
            }
        }
    });
}

#[test]
fn anchors_are_no_older_than_the_slots_before_them() {
    anchors(false);
}

#[test]
fn anchors_are_no_newer_than_the_slots_after_them() {
    anchors(true);
}

/// A stop by the published protocol, of a thread that records, runs native code and records again. `code`
/// is what the thread does. Then the ring is read.
fn lock_free(code: fn(&LockFreeTrace)) {
    check(move || {
        let trace = Arc::new(LockFreeTrace::new());
        let thread = {
            let trace = Arc::clone(&trace);
            thread::spawn(move || {
                code(&trace);
                trace.retire();
            })
        };
        let ring = ring();
        // SAFETY: this thread is the only one that starts and stops; the ring lives on.
        let stopped = unsafe {
            trace
                .start(&ring)
                .then(|| trace.stop())
                .flatten()
                .map(|position| (position, ring.snapshot()))
        };
        thread.join().unwrap();
        if let Some((position, slots)) = stopped {
            // Whatever was recorded is there, in order, without a hole: slots hold 1, 2, 3.
            let recorded = (position.offset / 8) as usize;
            assert_eq!(position.laps, 0);
            let slots: Vec<u64> = slots.iter().step_by(8).map(|b| u64::from(*b)).collect();
            assert!(
                slots[..recorded].windows(2).all(|w| w[0] + 1 == w[1]),
                "{slots:?}"
            );
            assert!(slots[..recorded].iter().all(|s| *s != 0));
            assert!(slots[recorded..].iter().all(|s| *s == 0));
            assert_eq!(
                ring.snapshot()
                    .iter()
                    .step_by(8)
                    .map(|b| u64::from(*b))
                    .collect::<Vec<_>>(),
                slots
            );
        }
    });
}

fn point(trace: &LockFreeTrace, slot: u64) {
    // SAFETY: called by the thread, in managed code.
    unsafe { trace.record(|| slot) }
}

#[test]
fn lock_free_stop_of_a_thread_that_records() {
    lock_free(|trace| {
        point(trace, 1);
        point(trace, 2);
    });
}

#[test]
fn lock_free_stop_of_a_thread_that_comes_back_from_native_code() {
    lock_free(|trace| {
        point(trace, 1);
        trace.enter_native();
        trace.leave_native();
        point(trace, 2);
    });
}

#[test]
fn lock_free_stop_and_start_again() {
    check(|| {
        let trace = Arc::new(LockFreeTrace::new());
        let thread = {
            let trace = Arc::clone(&trace);
            thread::spawn(move || {
                point(&trace, 1);
                trace.enter_native();
                trace.leave_native();
                point(&trace, 2);
                trace.retire();
            })
        };
        let (first, second) = (ring(), ring());
        // SAFETY: this thread is the only one that starts and stops; the rings live on.
        unsafe {
            if trace.start(&first) {
                trace.stop();
                let before = first.snapshot();
                if trace.start(&second) {
                    trace.stop();
                }
                assert_eq!(first.snapshot(), before, "nobody writes to it any more");
            }
        }
        thread.join().unwrap();
    });
}
