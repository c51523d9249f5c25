// SPDX-License-Identifier: Apache-2.0
//! A traced process forks while another thread holds the recorder's locks.

use std::sync::mpsc;
use std::time::Duration;

use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::container::{Reader, Symbol};
use hindsight_trace_format::slot::{Extension, Slot};

use super::*;
use crate::host::ProcessIdentity;

/// The thread under test is at a safepoint whenever the control thread wants it: it waits for it then.
struct WaitingHost;

impl Host for WaitingHost {
    fn attach_control_thread(&self) -> bool {
        true
    }
    fn detach_control_thread(&self) {}
    fn run_at_safepoint(&self, _tid: u32, action: &mut (dyn FnMut() + Send)) -> bool {
        action();
        true
    }
    fn symbolize(&self, _addresses: &[u64], _named: &mut dyn FnMut(Symbol)) {}
    fn identity(&self) -> ProcessIdentity {
        ProcessIdentity::default()
    }
    fn log(&self, _severity: Severity, _message: &str) {}
}

/// Runs `child` in a forked child; returns the child's status for `waitpid`. A child that hangs is ended by SIGALRM.
fn fork(child: impl FnOnce() -> libc::c_int) -> libc::c_int {
    const LIMIT_SECONDS: libc::c_uint = 60;
    // SAFETY: the child calls only what this test is about, and ends without unwinding or exit handlers.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "fork: {}", io::Error::last_os_error());
        if pid == 0 {
            libc::alarm(LIMIT_SECONDS);
            libc::_exit(child());
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        status
    }
}

fn gettid() -> u32 {
    // SAFETY: no precondition.
    unsafe { libc::gettid() }.unsigned_abs()
}

const PATIENCE: Duration = Duration::from_secs(60);

/// All calls that ART's hooks make. Returns the number of the first check that failed, or 0.
fn use_recorder(recorder: &Recorder, words: &ThreadWords, thread: &TracedThread) -> libc::c_int {
    let others = ThreadWords::new();
    // SAFETY: the calling thread's words, and words that nobody uses.
    unsafe {
        thread.record_event(Extension::Unwound.number(), &[1]);
        thread.record_event_suspended(Extension::Unwound.number(), &[1]);
        thread.record_resources(1, 1);
        if !thread.begin_stack(crate::stacks::Spacing::None).is_null() {
            return 1;
        }
        if thread.ask_for_stack(0, true) {
            return 2;
        }
        recorder.thread_started(1, "new", &others);
        if !others.state().is_null() {
            return 3;
        }
        recorder.thread_renamed(gettid(), "renamed");
    }
    if recorder.register_name("a name") != 0 {
        return 4;
    }
    recorder.loader_unloading(1);
    recorder.thread_in_foreground(1);
    let command = NanoscopeCommand::Start;
    if recorder.nanoscope(1, command, PATIENCE).is_ok()
        || recorder.trace_thread(1, true, PATIENCE).is_ok()
        || !matches!(
            recorder.snapshot("child".into(), 1, PATIENCE),
            SnapshotOutcome::Failed(_)
        )
    {
        return 5;
    }
    recorder.crashed("E", 1, PATIENCE);
    recorder.shutdown();
    if Recorder::start(Config::default(), Box::new(WaitingHost)).is_ok() {
        return 6;
    }
    // SAFETY: the calling thread's words.
    unsafe { recorder.thread_exiting(words) };
    0
}

#[test]
fn a_forked_child_records_nothing_and_waits_for_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let configuration = format!(
        "trace=all,ring=12,events=all,snapshot-at-crash=yes,dir={},socket={}",
        folder.path().display(),
        socket.display()
    );
    let config = Config::parse(&format!("rewind=off,{configuration}")).unwrap();
    let recorder = Recorder::start(config, Box::new(WaitingHost)).unwrap();
    let words = ThreadWords::new();
    let tid = gettid();
    // SAFETY: this thread's words, which live until `thread_exiting` below.
    unsafe { recorder.thread_started(tid, "forks", &words) };
    // SAFETY: `thread_started` has stored the address of this thread's object.
    let thread = unsafe { &*words.state().cast::<TracedThread>() };
    // SAFETY: this thread's own cursor.
    unsafe { thread.record_entry(0x1000) };
    let at = words.cursor().load(Ordering::Relaxed);
    assert!(at != 0 && words.is_marked_traced() && words.events() != 0);
    let entry = at - 8;
    let read = |address: usize| {
        // SAFETY: a slot of this thread's ring.
        Slot(unsafe { (address as *const u64).read() })
    };
    assert_ne!(read(entry), Slot(0));

    let (held, is_held) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let status = std::thread::scope(|scope| {
        let recorder = &recorder;
        scope.spawn(move || {
            let session = &*recorder.session;
            let locks = (
                session.registry.hold(),
                session.journal(),
                session.names(),
                session.rules(),
                thread.trace().lock(),
                lock(&recorder.socket),
                lock(&recorder.control_thread),
            );
            held.send(()).unwrap();
            let _ = released.recv();
            drop(locks);
        });
        is_held.recv().unwrap();
        let status = fork(|| {
            if words.cursor().load(Ordering::Relaxed) != 0
                || words.is_marked_traced()
                || words.events() != 0
            {
                return 10;
            }
            // A trace point that had tested its cursor before the fork still stores its slot.
            if read(entry) != Slot(0) {
                return 11;
            }
            // SAFETY: the next slot of this thread's ring.
            unsafe { (at as *mut u64).write(1) };
            use_recorder(recorder, &words, thread)
        });
        drop(release);
        status
    });
    assert_eq!(status, 0, "waitpid's status of the child: {status:#x}");

    assert_eq!(words.cursor().load(Ordering::Relaxed), at);
    assert!(words.is_marked_traced() && words.events() & Category::Waits.bit() != 0);
    assert_ne!(read(entry), Slot(0));
    assert_eq!(read(at), Slot(0));
    // The child has closed its copy of the socket, not removed the parent's.
    assert!(socket.exists());
    let outcome = recorder.snapshot("after the fork".into(), tid, PATIENCE);
    let SnapshotOutcome::Written(path) = outcome else {
        panic!("{outcome:?}");
    };
    let bytes = std::fs::read(path).unwrap();
    let file = Reader::new(&bytes).unwrap();
    assert_eq!(file.ring_indices().count(), 1);
    // SAFETY: this thread's words.
    unsafe { recorder.thread_exiting(&words) };
    recorder.shutdown();
    // The snapshot of the parent, and the list of its snapshots.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
