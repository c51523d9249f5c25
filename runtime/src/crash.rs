// SPDX-License-Identifier: Apache-2.0
//! Notes a signal that ends the process in the memory that survives it. What the process did about the signal before, it still
//! does.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::Once;

use hindsight_trace_format::shared::{Crash, CrashKind, CrashNote};

use crate::clock;
use crate::shared::SharedMemory;

/// Signals that end a process because of a fault in it.
const SIGNALS: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Where a crash is noted.
static NOTE: AtomicPtr<CrashNote> = AtomicPtr::new(std::ptr::null_mut());
/// The process that the note is of.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// What was done about each signal before: handler and flags.
static BEFORE: [(AtomicUsize, AtomicUsize); SIGNALS.len()] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; SIGNALS.len()];

/// From now on the memory has a note of a signal that ends the process. Where that is not possible, it has none.
pub(crate) fn note_signals_in(memory: &SharedMemory) {
    static ONCE: Once = Once::new();
    let Ok(note) = memory.map_crash_for_ever() else {
        return;
    };
    OWNER.store(std::process::id(), Ordering::Relaxed);
    NOTE.store(note.as_ptr(), Ordering::Release);
    ONCE.call_once(|| {
        for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
            let is_own = match signal {
                // The managed runtime's own faults, such as the one at the end of a ring, must come first.
                libc::SIGSEGV => is_chained(signal),
                // Each reading of the counter comes as such a signal.
                libc::SIGILL => clock::access() != clock::Access::Illegal,
                _ => true,
            };
            if is_own {
                install(signal, before);
            }
        }
    });
}

/// Whether the managed runtime looks at the signal first, and passes only those on that are no business of its own.
fn is_chained(signal: libc::c_int) -> bool {
    let mut of_library = empty_action();
    // The kernel's struct begins with the handler on all architectures, and is shorter than this.
    let mut of_kernel = [0_usize; 64];
    // SAFETY: both are long enough for the action, and nothing is changed.
    let are_read = unsafe {
        let none = std::ptr::null::<libc::sigaction>();
        let kernel = (&raw mut of_kernel).cast::<libc::c_void>();
        libc::sigaction(signal, none, &raw mut of_library) == 0
            && libc::syscall(libc::SYS_rt_sigaction, signal, none, kernel, 8) == 0
    };
    are_read && of_kernel[0] != of_library.sa_sigaction
}

fn empty_action() -> libc::sigaction {
    // SAFETY: zeros are a valid action: the default one.
    unsafe { std::mem::zeroed() }
}

fn install(signal: libc::c_int, before: &(AtomicUsize, AtomicUsize)) {
    let mut old = empty_action();
    // SAFETY: `old` can be written, and nothing is changed.
    if unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut old) } != 0
        || old.sa_sigaction == libc::SIG_IGN
    {
        return;
    }
    // First: the signal may come at once.
    before.0.store(old.sa_sigaction, Ordering::Relaxed);
    before.1.store(old.sa_flags as usize, Ordering::Release);
    let mut new = old;
    new.sa_sigaction = on_signal as *const () as usize;
    new.sa_flags |= libc::SA_SIGINFO | libc::SA_ONSTACK;
    // The next handler may expect that its own flag is in force.
    new.sa_flags &= !libc::SA_RESETHAND;
    // SAFETY: the handler has the type that SA_SIGINFO asks for, and does only what is allowed in one.
    unsafe { libc::sigaction(signal, &raw const new, std::ptr::null_mut()) };
}

extern "C" fn on_signal(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let note = NOTE.load(Ordering::Acquire);
    // A forked child has no such memory. SAFETY: getpid has no precondition; in this process the note stays mapped for ever.
    let note = unsafe {
        let is_owner = libc::getpid() as u32 == OWNER.load(Ordering::Relaxed);
        is_owner.then_some(note.as_ref()).flatten()
    };
    if let Some(note) = note {
        note.note(&Crash {
            kind: CrashKind::Signal(signal as u8),
            // SAFETY: no precondition.
            tid: unsafe { libc::syscall(libc::SYS_gettid) } as u32,
            at_boottime_ns: clock::boottime_ns(),
        });
    }
    let index = SIGNALS.iter().position(|known| *known == signal);
    let Some((handler, flags)) = index.and_then(|index| BEFORE.get(index)) else {
        return;
    };
    let flags = flags.load(Ordering::Acquire) as libc::c_int;
    match handler.load(Ordering::Relaxed) {
        libc::SIG_DFL => end_by(signal),
        handler if flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler that was installed with SA_SIGINFO has this type.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler that was installed without SA_SIGINFO has this type.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// Ends the process by the signal, as if it had no handler: it comes again when this handler returns.
fn end_by(signal: libc::c_int) {
    let default = empty_action();
    // SAFETY: all calls are allowed in a signal handler; the signal stays blocked until it returns.
    unsafe {
        libc::sigaction(signal, &raw const default, std::ptr::null_mut());
        let thread = libc::syscall(libc::SYS_gettid);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal);
    }
}
