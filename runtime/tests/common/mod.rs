// SPDX-License-Identifier: Apache-2.0
//! A managed runtime for tests: threads that can be brought to a safepoint.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use hindsight_runtime::{Host, ProcessIdentity, Recorder, Severity, ThreadWords};
use hindsight_trace_format::container::Symbol;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// How a thread is held: it owns `running` while it runs managed code.
#[derive(Default)]
struct Gate {
    /// Somebody wants to act while the thread is not running.
    requested: AtomicBool,
    running: Mutex<()>,
    released: Condvar,
}

type BeforeSafepoint = Box<dyn FnOnce(u32) + Send>;

/// What the tests share with the recorder's host.
#[derive(Default)]
pub(crate) struct World {
    gates: Mutex<HashMap<u32, Arc<Gate>>>,
    pub(crate) log: Mutex<Vec<(Severity, String)>>,
    pub(crate) panic_in_symbolize: AtomicBool,
    /// What else happens while the host is asked for names, once.
    pub(crate) meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What else happens before a thread, whose id it is given, is held at a safepoint, once.
    pub(crate) before_safepoint: Mutex<Option<BeforeSafepoint>>,
    /// Methods of the loader with this number; they are no longer alive when it has been unloaded.
    pub(crate) loaders: Mutex<HashMap<usize, Vec<Symbol>>>,
}

impl World {
    pub(crate) fn logged(&self, severity: Severity, part: &str) -> bool {
        lock(&self.log)
            .iter()
            .any(|(s, m)| *s == severity && m.contains(part))
    }
}

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
        gate.requested.store(true, Ordering::SeqCst);
        let stopped = lock(&gate.running);
        action();
        gate.requested.store(false, Ordering::SeqCst);
        drop(stopped);
        gate.released.notify_all();
        true
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

    fn name_methods_of_loader(&self, loader: usize, named: &mut dyn FnMut(Symbol)) {
        for symbol in lock(&self.0.loaders).remove(&loader).into_iter().flatten() {
            named(symbol);
        }
    }

    fn identity(&self) -> ProcessIdentity {
        ProcessIdentity {
            name: "test".into(),
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
    words: &'a ThreadWords,
}

impl Managed<'_> {
    /// Registers the calling thread, runs `f` on it as managed code, and unregisters it.
    pub(crate) fn run<T>(
        recorder: &Recorder,
        world: &World,
        f: impl FnOnce(&mut Managed<'_>) -> T,
    ) -> T {
        let gate = Arc::new(Gate::default());
        let tid = gettid();
        lock(&world.gates).insert(tid, Arc::clone(&gate));
        let words = ThreadWords::new();
        let mut managed = Managed {
            recorder,
            world,
            gate: &gate,
            running: Some(lock(&gate.running)),
            words: &words,
        };
        // SAFETY: this is the thread, and the words live until `thread_exiting` below.
        unsafe { recorder.thread_started(tid, "worker", &words) };
        let result = f(&mut managed);
        // SAFETY: as above.
        unsafe { recorder.thread_exiting(&words) };
        assert_eq!(words.cursor().load(Ordering::Relaxed), 0);
        assert!(!words.is_marked_traced());
        managed.running = None;
        lock(&world.gates).remove(&tid);
        result
    }

    pub(crate) fn is_traced(&self) -> bool {
        let traced = self.words.cursor().load(Ordering::Relaxed) != 0;
        assert_eq!(self.words.is_marked_traced(), traced);
        traced
    }

    pub(crate) fn enter(&mut self, method: u64) {
        if self.is_traced() {
            // SAFETY: this is the thread, with its own words.
            unsafe { (*self.words.state()).record_entry(self.words.cursor().as_ptr(), method) };
        }
    }

    pub(crate) fn exit(&mut self) {
        if self.is_traced() {
            // SAFETY: as above.
            unsafe { (*self.words.state()).record_exit(self.words.cursor().as_ptr()) };
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
        self.running = None;
        let result = f();
        self.running = Some(lock(&self.gate.running));
        result
    }
}
