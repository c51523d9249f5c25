// SPDX-License-Identifier: Apache-2.0
//! A managed runtime for tests: its threads can be brought to a safepoint, and pass trace points like those of compiled
//! code and of the interpreter.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod service;
pub(crate) mod workers;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use hindsight_runtime::{
    clock, set_stubs, Config, ConfigError, Host, LinkedClasses, ProcessIdentity, Recorder,
    Severity, StubTable, Stubs, ThreadWords, TracedThread,
};
use hindsight_trace_format::container::Symbol;
use hindsight_trace_format::shared::BootImage;
use hindsight_trace_format::slot::{Slot, SLOT_BYTES};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// How a thread is held at a safepoint: it owns `running` while it runs managed code.
#[derive(Default)]
struct Gate {
    /// The host wants to act while the thread is not running.
    requested: AtomicBool,
    running: Mutex<()>,
    released: Condvar,
    /// Whether the thread runs managed code, for requests that do not stop it.
    runs_managed_code: AtomicBool,
}

/// The stubs of compiled code, as numbers.
const RECORDING: usize = 1;
const SLOW_PATH: usize = 2;

/// A thread object.
#[repr(C)]
struct ThreadObject {
    words: ThreadWords,
    /// Address of the stub for entries of methods with a suspend check.
    entry: AtomicUsize,
}

/// The words for exits and for entries of methods without suspend check.
const EXIT: usize = 3;
const LEAF_ENTRY: usize = 4;

type BeforeSafepoint = Box<dyn FnOnce(u32) + Send>;

/// The state that the tests share with the recorder's host.
#[derive(Default)]
pub(crate) struct World {
    gates: Mutex<HashMap<u32, Arc<Gate>>>,
    /// As `gates`, by the address of the thread's words.
    gates_by_words: Mutex<HashMap<usize, Arc<Gate>>>,
    /// How often a thread was brought to a safepoint.
    pub(crate) safepoints: AtomicUsize,
    /// The host has an objection to the lock-free protocol.
    pub(crate) needs_safepoints: AtomicBool,
    pub(crate) log: Mutex<Vec<(Severity, String)>>,
    /// The process's name; `None` is `test`.
    pub(crate) name: Mutex<Option<String>>,
    pub(crate) panic_in_symbolize: AtomicBool,
    /// Runs once, while the host is asked for names.
    pub(crate) meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Runs once, before a thread is held at a safepoint; it is given the thread's id.
    pub(crate) before_safepoint: Mutex<Option<BeforeSafepoint>>,
    /// Methods that share their address with another.
    pub(crate) ambiguous: Mutex<Vec<u64>>,
    /// The methods of classes outside the boot image that are linked when the recorder starts.
    pub(crate) linked_others: Mutex<Vec<Symbol>>,
    /// The methods of the boot image's classes.
    pub(crate) linked: Mutex<Vec<Symbol>>,
    /// Runs once, before the boot image's classes are named.
    pub(crate) before_names: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// The methods of the loader with this number.
    pub(crate) loaders: Mutex<HashMap<usize, Vec<Symbol>>>,
}

impl World {
    pub(crate) fn logged(&self, severity: Severity, part: &str) -> bool {
        lock(&self.log)
            .iter()
            .any(|(s, m)| *s == severity && m.contains(part))
    }
}

/// The snapshots in a folder, by name.
pub(crate) fn snapshots(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|x| x == "hindsight"))
        .collect();
    files.sort();
    files
}

/// Of all processes with a fake host; the methods of [`workers`] are in it.
pub(crate) const BOOT_IMAGE: BootImage = BootImage {
    checksum: 7,
    begin: workers::METHOD - 0x100,
    bytes: 0x100 + 8 * 50,
};

pub(crate) struct FakeHost(pub(crate) Arc<World>);

impl Host for FakeHost {
    fn attach_control_thread(&self) -> bool {
        true
    }

    fn detach_control_thread(&self) {}

    fn run_at_safepoint(&self, tid: u32, action: &mut (dyn FnMut() + Send)) -> bool {
        let before = lock(&self.0.before_safepoint).take();
        if let Some(before) = before {
            before(tid);
        }
        let Some(gate) = lock(&self.0.gates).get(&tid).cloned() else {
            return false;
        };
        self.0.safepoints.fetch_add(1, Ordering::Relaxed);
        gate.requested.store(true, Ordering::SeqCst);
        let stopped = lock(&gate.running);
        action();
        gate.requested.store(false, Ordering::SeqCst);
        drop(stopped);
        gate.released.notify_all();
        true
    }

    fn is_ambiguous(&self, address: u64) -> bool {
        lock(&self.0.ambiguous).contains(&address)
    }

    fn runs_managed_code(&self, words: *const ThreadWords) -> bool {
        let gates = lock(&self.0.gates_by_words);
        gates[&(words as usize)]
            .runs_managed_code
            .load(Ordering::Acquire)
    }

    fn obstacle_to_lock_free(&self) -> Option<&'static str> {
        let needs_safepoints = self.0.needs_safepoints.load(Ordering::Relaxed);
        needs_safepoints.then_some("the test does not want it")
    }

    fn symbolize(&self, addresses: &[u64], named: &mut dyn FnMut(Symbol)) {
        assert!(
            !self.0.panic_in_symbolize.load(Ordering::SeqCst),
            "asked to panic"
        );
        let meanwhile = lock(&self.0.meanwhile).take();
        if let Some(action) = meanwhile {
            action();
        }
        // Odd addresses have no name.
        for address in addresses.iter().filter(|a| **a % 2 == 0) {
            named(Symbol {
                address: *address,
                class: "Test".into(),
                name: format!("m{address:x}"),
                ..Symbol::default()
            });
        }
    }

    fn name_linked_classes(&self, which: LinkedClasses, named: &mut dyn FnMut(Symbol)) {
        if which == LinkedClasses::Others {
            lock(&self.0.linked_others).drain(..).for_each(named);
            return;
        }
        let before = lock(&self.0.before_names).take();
        if let Some(before) = before {
            before();
        }
        lock(&self.0.linked).drain(..).for_each(named);
    }

    fn name_methods_of_loader(&self, loader: usize, named: &mut dyn FnMut(Symbol)) {
        for symbol in lock(&self.0.loaders).remove(&loader).into_iter().flatten() {
            named(symbol);
        }
    }

    fn boot_image(&self) -> BootImage {
        BOOT_IMAGE
    }

    fn identity(&self) -> ProcessIdentity {
        ProcessIdentity {
            name: lock(&self.0.name).clone().unwrap_or("test".into()),
            extra: vec![("host".into(), "fake".into())],
        }
    }

    fn log(&self, severity: Severity, message: &str) {
        lock(&self.0.log).push((severity, message.to_owned()));
    }
}

pub(crate) fn gettid() -> u32 {
    // SAFETY: no precondition.
    unsafe { libc::gettid() as u32 }
}

/// The calling thread, as a managed one.
pub(crate) struct Managed<'a> {
    recorder: &'a Recorder,
    world: &'a World,
    gate: &'a Gate,
    running: Option<MutexGuard<'a, ()>>,
    object: &'a ThreadObject,
    /// Entries and exits so far: they are now interpreted, now compiled.
    points: usize,
}

impl Managed<'_> {
    /// Registers the calling thread, runs `f` on it as managed code, and unregisters it.
    pub(crate) fn run<T>(
        recorder: &Recorder,
        world: &World,
        f: impl FnOnce(&mut Managed<'_>) -> T,
    ) -> T {
        // A change of the counter's upper half is an event of its own: none comes for at least half its period.
        while hindsight_runtime::clock::counter() as u32 > u32::MAX / 2 {
            std::thread::yield_now();
        }
        let stubs = |stub| Stubs {
            exit: stub,
            leaf_entry: stub,
            entry: stub,
        };
        set_stubs(StubTable {
            recording: stubs(RECORDING),
            slow_path: stubs(SLOW_PATH),
            entry_slot: std::mem::offset_of!(ThreadObject, entry) as isize,
        });
        let gate = Arc::new(Gate::default());
        let tid = gettid();
        let object = ThreadObject {
            words: ThreadWords::new(),
            entry: AtomicUsize::new(RECORDING),
        };
        let words: *const ThreadWords = std::ptr::from_ref(&object).cast();
        lock(&world.gates).insert(tid, Arc::clone(&gate));
        lock(&world.gates_by_words).insert(words as usize, Arc::clone(&gate));
        let mut managed = Managed {
            recorder,
            world,
            gate: &gate,
            running: Some(lock(&gate.running)),
            object: &object,
            points: 0,
        };
        gate.runs_managed_code.store(true, Ordering::Relaxed);
        // SAFETY: this is the thread, and the words live until `thread_exiting` below.
        unsafe { recorder.thread_started(tid, "worker", words) };
        let result = f(&mut managed);
        // SAFETY: the calling thread is the registered one, and passes the words that `thread_started` got.
        unsafe { recorder.thread_exiting(words) };
        assert_eq!(object.words.cursor().load(Ordering::Relaxed), 0);
        assert!(!object.words.is_marked_traced());
        managed.running = None;
        lock(&world.gates).remove(&tid);
        lock(&world.gates_by_words).remove(&(words as usize));
        result
    }

    pub(crate) fn is_traced(&self) -> bool {
        self.object.words.cursor().load(Ordering::Relaxed) != 0
    }

    /// The categories of events that the thread records, as bits.
    pub(crate) fn events(&self) -> u32 {
        self.object.words.events()
    }

    pub(crate) fn enter(&mut self, method: u64) {
        // Compiled code has methods below 4 GiB.
        let wide = u32::try_from(method).is_err();
        match self.next_point() % 3 {
            0 if !wide => self.compiled(self.stub(LEAF_ENTRY), method),
            1 if !wide && self.object.words.is_marked_traced() => {
                self.compiled(self.object.entry.load(Ordering::Relaxed), method);
            }
            1 if !wide => {}
            _ if self.is_traced() => {
                // SAFETY: this is the thread, with its own words.
                unsafe { self.state().record_entry(method) };
            }
            _ => {}
        }
    }

    pub(crate) fn exit(&mut self) {
        if self.next_point() % 2 == 0 {
            self.compiled(self.stub(EXIT), 0);
        } else if self.is_traced() {
            // SAFETY: this is the thread, with its own words.
            unsafe { self.state().record_exit() };
        }
    }

    /// The recorder's object for the thread.
    pub(crate) fn state(&self) -> &TracedThread {
        // SAFETY: the thread is registered, so its words hold a reference to such an object.
        unsafe { &*self.object.words.state().cast() }
    }

    fn next_point(&mut self) -> usize {
        self.points += 1;
        // A pattern of its own, which no test's methods have.
        self.points * 7 / 5
    }

    /// One of the words that compiled code reads.
    fn stub(&self, word: usize) -> usize {
        let words = std::ptr::from_ref(&self.object.words).cast::<AtomicUsize>();
        // SAFETY: `ThreadWords` documents its layout, and `word` is within it.
        unsafe { &*words.add(word) }.load(Ordering::Relaxed)
    }

    /// Calls the stub: for the entry of `method`, or for an exit if that is 0.
    fn compiled(&self, stub: usize, method: u64) {
        let words = &self.object.words;
        match stub {
            RECORDING => {
                let at = words.cursor().load(Ordering::Relaxed);
                assert_ne!(at, 0, "a recording stub was called without a cursor");
                let slot = match method {
                    0 => Slot::exit(clock::counter()),
                    _ => Slot::entry(method as u32, clock::counter()),
                };
                let at = self.state().wrap(at, at).unwrap_or(at);
                // SAFETY: `at` is a slot of the thread's ring.
                unsafe { (at as *mut u64).write(slot.0.to_le()) };
                words.cursor().store(at + SLOT_BYTES, Ordering::Relaxed);
            }
            // SAFETY: this is the thread.
            SLOW_PATH => unsafe { self.state().trace_point(method) },
            _ => {}
        }
    }

    /// A place where the thread can be stopped.
    pub(crate) fn safepoint(&mut self) {
        if self.gate.requested.load(Ordering::SeqCst) {
            if let Some(running) = self.running.take() {
                let running = self
                    .gate
                    .released
                    .wait_while(running, |()| self.gate.requested.load(Ordering::SeqCst))
                    .unwrap_or_else(|e| e.into_inner());
                self.running = Some(running);
            }
        }
    }

    /// Runs `f` in native code: others may act on the thread's behalf.
    pub(crate) fn native<T>(&mut self, f: impl FnOnce() -> T) -> T {
        self.gate.runs_managed_code.store(false, Ordering::Release);
        self.running = None;
        let result = f();
        self.running = Some(lock(&self.gate.running));
        self.gate.runs_managed_code.store(true, Ordering::Relaxed);
        result
    }
}

/// The configuration, with all calls kept unless it says otherwise: the calls of tests are short.
pub(crate) fn parse(configuration: &str) -> Result<Config, ConfigError> {
    Config::parse(&format!("rewind=off,{configuration}"))
}
