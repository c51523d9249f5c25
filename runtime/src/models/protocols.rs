// SPDX-License-Identifier: Apache-2.0
//! Model checks of both handshakes: loom runs the tests here in all interleavings, with the weak memory of C11.
//!
//! [`TracedThread`] is production code. A model of ART runs managed code on threads that can be brought to a safepoint:
//! each holds a lock while it runs, and releases it on request. loom watches slots and words: an access without the
//! right to it is reported as a race.
//!
//! `cargo test -p hindsight-runtime --features loom --release --lib model`

use hindsight_trace_format::ring::Geometry;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::handshake::request::{returned_to_managed_code, Request, Swap};
use crate::handshake::TracedThread;
use crate::models::clock::{be_prompt, tick};
use crate::sync::spin;
use crate::thread::ring::{write_slot, Ring, SLOTS, SLOT_STRIDE};
use crate::thread::taken::TakenRing;
use crate::thread::trace::StartReason;
use crate::thread::words::{set_stubs, StubTable, Stubs, ThreadWords};

pub(crate) fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // With so few steps, more than three involuntary switches find nothing that three do not; see loom.
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
    trace: Arc<TracedThread>,
    requested: AtomicBool,
    running: Mutex<()>,
}

impl Managed {
    fn new() -> Arc<Self> {
        let words = ThreadWords::new();
        let mut managed = Arc::new(Managed {
            words,
            // SAFETY: replaced before any use.
            trace: Arc::new(unsafe { TracedThread::new(1, "model", std::ptr::null()) }),
            requested: AtomicBool::new(false),
            running: Mutex::new(()),
        });
        let words: *const ThreadWords = &managed.words;
        if let Some(managed) = Arc::get_mut(&mut managed) {
            // SAFETY: the words live as long as the trace; their end is reported to loom when the thread ends.
            managed.trace = Arc::new(unsafe { TracedThread::new(1, "model", words) });
        }
        managed
    }

    /// Runs managed code on the calling thread, which then ends. Returns its ring.
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

    /// Runs `action` at a safepoint, as ART does for the control thread.
    fn at_safepoint<T>(&self, action: impl FnOnce(&TracedThread) -> T) -> T {
        self.requested.store(true, Ordering::Relaxed);
        let stopped = self.running.lock().unwrap();
        let result = action(&self.trace);
        self.requested.store(false, Ordering::Relaxed);
        drop(stopped);
        result
    }

    /// A compiled trace point: the entry of this method.
    fn trace_point(&self, method: u64) {
        record(&self.words, &self.trace, method);
    }
}

/// Records the entry of this method as compiled code or a recording stub does.
fn record(words: &ThreadWords, trace: &TracedThread, method: u64) {
    let cursor = words.cursor();
    let mut at = cursor.load(Ordering::Relaxed);
    if at == 0 {
        return;
    }
    let slot = crate::clock::counter() << 32 | method;
    if let Some(start) = trace.wrap(at, at) {
        at = start;
    }
    // SAFETY: a slot of the thread's own ring.
    unsafe { write_slot(at, slot) };
    cursor.store(at + SLOT_STRIDE, Ordering::Relaxed);
}

/// The methods entered according to the rings, oldest first, and the number of slots recorded.
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
        // Reads the ring as a snapshot does, while the thread records into the other one.
        let mut rings: Vec<_> = swapped.into_iter().collect();
        let (before, _) = entered(&rings);
        assert!(before.len() <= 2);
        rings.extend(thread.join().unwrap());
        let (methods, recorded) = entered(&rings);
        // The start and stop events have three slots; a ring has three, so the oldest may be overwritten.
        assert_eq!(recorded, 5);
        assert!([METHOD, METHOD + 1].ends_with(&methods), "{methods:x?}");
        // Two of the first ring's three slots are the start event: the second call overwrites them.
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
        assert!(!managed.trace.trace().is_traced());
        let rings: Vec<_> = stopped.into_iter().chain(at_end).collect();
        let (methods, recorded) = entered(&rings);
        assert!(!begun || (3..=5).contains(&recorded));
        assert!([METHOD, METHOD + 1].ends_with(&methods) || methods == [METHOD]);
    });
}

/// The stubs, as numbers.
const RECORDING: usize = 1;
const SLOW_PATH: usize = 2;

/// The trace points of compiled code, by the word that holds their stub's address, and of the interpreter.
#[derive(Clone, Copy, Debug)]
enum Point {
    Exit,
    Leaf,
    Entry,
    /// An entry with a suspend request, which calls its stub whether the thread is traced or not.
    Suspending,
    Interpreted,
}

/// A managed thread whose ring changes by the lock-free protocol.
struct Free {
    words: ThreadWords,
    trace: Option<TracedThread>,
    runs_managed_code: AtomicBool,
}

impl Free {
    fn new() -> Arc<Self> {
        let stubs = |stub| Stubs {
            exit: stub,
            leaf_entry: stub,
            entry: stub,
        };
        set_stubs(StubTable {
            recording: stubs(RECORDING),
            slow_path: stubs(SLOW_PATH),
            entry_slot: 0,
        });
        let mut free = Arc::new(Free {
            words: ThreadWords::new(),
            trace: None,
            runs_managed_code: AtomicBool::new(true),
        });
        let inside = Arc::get_mut(&mut free).unwrap();
        let words: *const ThreadWords = &inside.words;
        // SAFETY: the words live as long as the trace; their end is reported to loom when the thread ends.
        inside.trace = Some(unsafe { TracedThread::new_lock_free(1, 0, "model", words) });
        free
    }

    fn trace(&self) -> &TracedThread {
        self.trace.as_ref().unwrap()
    }

    /// Runs managed code on a thread, which then ends. Its result is the ring that it had.
    fn run(this: &Arc<Self>, code: fn(&Free)) -> thread::JoinHandle<Option<TakenRing>> {
        let free = Arc::clone(this);
        thread::spawn(move || {
            code(&free);
            // SAFETY: this is the thread.
            let taken = unsafe { free.trace().retire() };
            // The thread object is freed.
            free.words.end();
            taken
        })
    }

    /// Passes a trace point.
    fn point(&self, point: Point, method: u64) {
        returned_to_managed_code();
        let [exit, leaf, entry] = self.words.hooks();
        let stub = match point {
            Point::Exit => exit,
            Point::Leaf => leaf,
            Point::Entry if !self.words.is_marked_traced() => return,
            Point::Entry | Point::Suspending => entry,
            Point::Interpreted => {
                if self.words.cursor().load(Ordering::Relaxed) != 0 {
                    // SAFETY: this is the thread.
                    unsafe {
                        self.trace().record_entry(method);
                    }
                }
                return;
            }
        };
        match stub.load(Ordering::Relaxed) {
            RECORDING => {
                // Only an entry's stub checks for a cursor.
                let tests = matches!(point, Point::Entry | Point::Suspending);
                assert!(tests || self.words.cursor().load(Ordering::Relaxed) != 0);
                record(&self.words, self.trace(), method);
            }
            SLOW_PATH => {
                if !matches!(point, Point::Suspending) || self.words.is_marked_traced() {
                    // SAFETY: this is the thread.
                    unsafe { self.trace().trace_point(method) };
                }
            }
            _ => {}
        }
    }

    /// Runs native code.
    fn native(&self) {
        self.runs_managed_code.store(false, Ordering::Release);
        self.runs_managed_code.store(true, Ordering::Relaxed);
    }

    fn request(&self) -> &Request {
        self.trace().request().unwrap()
    }

    /// Requests the ring as the control thread does; `None` if the thread does not record.
    fn exchange(&self, replacement: Option<Ring>) -> Option<Swap> {
        let mut replacement = replacement;
        // SAFETY: this is the control thread.
        if !unsafe { (self.request()).ask_for_ring(self.trace().trace(), &mut replacement) } {
            return None;
        }
        loop {
            let look = |words: *const ThreadWords| {
                // SAFETY: `poll` only calls this while the words are valid.
                unsafe { &*words }.watch();
                self.runs_managed_code.load(Ordering::Relaxed)
            };
            if let Some(done) = self.request().poll(self.trace().trace(), &look) {
                return Some(done);
            }
            spin();
        }
    }
}

/// Runs a thread that does `code`, and `control` meanwhile. Returns the rings, oldest first.
fn lock_free(
    free: &Arc<Free>,
    code: fn(&Free),
    control: fn(&Free) -> Vec<TakenRing>,
) -> Vec<TakenRing> {
    let thread = Free::run(free, code);
    let mut rings = control(free);
    // Reads the rings as a snapshot does: a thread that still writes to one of them races with this.
    let (methods, _) = entered(&rings);
    rings.extend(thread.join().unwrap());
    assert!(entered(&rings).0.starts_with(&methods));
    assert!(!free.trace().trace().is_traced());
    rings
}

/// The same for a thread that records from its start on.
fn lock_free_from_its_start(
    code: fn(&Free),
    control: fn(&Free) -> Vec<TakenRing>,
) -> Vec<TakenRing> {
    let free = Free::new();
    // SAFETY: nobody else is there yet.
    let begun = unsafe { free.trace().begin(ring(), StartReason::Configuration) };
    assert!(begun.is_ok());
    lock_free(&free, code, control)
}

fn stop(free: &Free) -> Vec<TakenRing> {
    free.exchange(None)
        .and_then(|done| done.taken)
        .into_iter()
        .collect()
}

fn start(free: &Free) -> bool {
    // SAFETY: this is the control thread.
    unsafe { free.request().start(free.trace().trace(), ring()) }.is_ok()
}

/// The number of points recorded, where recording was started and stopped once: these events have three slots. Checks
/// that the points in the rings are the newest ones, each once and in order.
fn count(rings: &[TakenRing], first: u64) -> u64 {
    let (methods, slots) = entered(rings);
    let points = slots - 3;
    let all: Vec<_> = (first..first + points).map(|n| METHOD + n).collect();
    assert!(all.ends_with(&methods), "{methods:x?} of {points}");
    points
}

#[test]
fn lock_free_stop_of_a_thread_that_records() {
    check(|| {
        let rings = lock_free_from_its_start(
            |free| {
                free.point(Point::Exit, METHOD);
                free.point(Point::Leaf, METHOD + 1);
                free.point(Point::Exit, METHOD + 2);
            },
            stop,
        );
        assert!(count(&rings, 0) <= 3);
    });
}

#[test]
fn lock_free_stop_of_a_thread_that_is_interpreted_and_suspends() {
    check(|| {
        let rings = lock_free_from_its_start(
            |free| {
                free.point(Point::Interpreted, METHOD);
                free.point(Point::Suspending, METHOD + 1);
                free.point(Point::Entry, METHOD + 2);
            },
            stop,
        );
        assert!(count(&rings, 0) <= 3);
    });
}

#[test]
fn lock_free_stop_of_a_thread_that_comes_back_from_native_code() {
    for code in [
        |free: &Free| {
            free.point(Point::Exit, METHOD);
            free.native();
            free.point(Point::Exit, METHOD + 1);
            free.point(Point::Leaf, METHOD + 2);
        },
        |free: &Free| {
            free.point(Point::Entry, METHOD);
            free.native();
            free.point(Point::Suspending, METHOD + 1);
            free.point(Point::Interpreted, METHOD + 2);
        },
    ] {
        check(move || {
            let rings = lock_free_from_its_start(code, stop);
            assert!(count(&rings, 0) <= 3);
        });
    }
}

#[test]
fn lock_free_swap_while_the_thread_is_in_native_code() {
    check(|| {
        let rings = lock_free_from_its_start(
            |free| {
                free.point(Point::Exit, METHOD);
                free.native();
                free.point(Point::Suspending, METHOD + 1);
                free.point(Point::Leaf, METHOD + 2);
            },
            |free| {
                let done = free.exchange(Some(ring()));
                done.and_then(|done| done.taken).into_iter().collect()
            },
        );
        assert_eq!(count(&rings, 0), 3, "no gap");
    });
}

#[test]
fn lock_free_start_of_a_thread_that_runs() {
    for code in [
        |free: &Free| {
            free.point(Point::Entry, METHOD);
            free.point(Point::Leaf, METHOD + 1);
            free.point(Point::Exit, METHOD + 2);
        },
        |free: &Free| {
            free.point(Point::Suspending, METHOD);
            free.point(Point::Interpreted, METHOD + 1);
            free.point(Point::Exit, METHOD + 2);
        },
    ] {
        check(move || {
            let free = Free::new();
            let rings = lock_free(&free, code, |free| {
                start(free);
                Vec::new()
            });
            // From some moment on, all points are recorded.
            if !rings.is_empty() {
                let slots = entered(&rings).1;
                count(&rings, 6 - slots);
            }
        });
    }
}

#[test]
fn lock_free_stop_and_start_again() {
    check(|| {
        let rings = lock_free_from_its_start(
            |free| {
                free.point(Point::Exit, METHOD);
                free.native();
                free.point(Point::Suspending, METHOD + 1);
                free.point(Point::Leaf, METHOD + 2);
            },
            |free| {
                let stopped = stop(free);
                start(free);
                stopped
            },
        );
        let mut next = METHOD;
        for taken in &rings {
            let (methods, slots) = entered(std::slice::from_ref(taken));
            for method in &methods {
                assert!(*method >= next, "{methods:x?}");
                next = method + 1;
            }
            assert!((3..=6).contains(&slots));
            if let [first, .., last] = methods.as_slice() {
                assert_eq!(last - first, methods.len() as u64 - 1);
            }
        }
    });
}

#[test]
fn lock_free_request_that_is_withdrawn() {
    check(|| {
        let rings = lock_free_from_its_start(
            |free| {
                free.point(Point::Exit, METHOD);
                free.point(Point::Exit, METHOD + 1);
                free.point(Point::Leaf, METHOD + 2);
            },
            |free| {
                let mut replacement = None;
                // SAFETY: this is the control thread.
                let asked = unsafe {
                    (free.request()).ask_for_ring(free.trace().trace(), &mut replacement)
                };
                if !asked || free.request().withdraw(free.trace().trace()).is_some() {
                    return Vec::new();
                }
                loop {
                    if let Some(done) = free.request().poll(free.trace().trace(), &|_| true) {
                        return done.taken.into_iter().collect();
                    }
                    spin();
                }
            },
        );
        assert!(count(&rings, 0) <= 3);
    });
}
