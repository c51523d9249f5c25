// SPDX-License-Identifier: Apache-2.0
//! A traced process that forks without `exec`, as heap dumpers do.
//!
//! The child has one thread: the one that called `fork`. Its locks may be held by threads that do not exist in it, so there
//! the recorder does nothing at all: [`is_child`] is true, each call into the recorder returns at once, and the
//! thread's trace points are off. A fork by a raw `clone` system call, which calls no handler of libc, is not noticed.
//!
//! Of each ring the child has an empty copy, which the kernel makes ([`Ring`](crate::Ring)). Memory that the process shares is
//! not mapped in a child; its handler puts zeros there.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::Once;

use hindsight_trace_format::ring::CURSOR_OFF;

use crate::thread::words::{HookMode, ThreadWords};

/// This process is a forked child of a traced process.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// A descriptor that a child closes, as it would keep alive what belongs to the parent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Descriptor {
    /// The control socket, which nobody serves in the child.
    ControlSocket,
    /// The connection to the service.
    Service,
    /// The watch for the service's socket.
    Watch,
    /// The calls that end waiting for the service.
    Calls,
    /// The memory that the process shares.
    Memory,
}

/// The descriptors, by number of their [`Descriptor`]; -1: none.
static DESCRIPTORS: [AtomicI32; 5] = [const { AtomicI32::new(-1) }; 5];

/// The addresses that a child gets zeros at: start, and number of bytes.
static SHARED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

thread_local! {
    /// The words of this thread while it is registered. The child's handler cannot look for them: it must not lock.
    static WORDS: Cell<Option<NonNull<ThreadWords>>> = const { Cell::new(None) };
}

extern "C" {
    // The crate libc has it for Linux only in recent versions.
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> libc::c_int;
}

/// Whether this process is a forked child of a traced process, and so must not touch the recorder's state.
#[inline]
pub(crate) fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// Makes forked children of this process notice that they are. Called before the first thread is traced: a zygote, which
/// is not traced, does not come here.
pub(crate) fn watch() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // Without memory for the handler a child records into its own copies of the rings, as it would without this.
        // SAFETY: `in_child` may be called in a child of a process with threads: it takes no lock and does not allocate.
        unsafe { pthread_atfork(None, None, Some(in_child)) };
    });
}

/// The words of the calling thread, from now on; `None`: they are about to become invalid.
pub(crate) fn set_words(words: Option<NonNull<ThreadWords>>) {
    // During the destruction of a thread's locals there is nothing to note.
    let _ = WORDS.try_with(|place| place.set(words));
}

/// A child closes this descriptor.
pub(crate) fn close_in_child(which: Descriptor, descriptor: RawFd) {
    DESCRIPTORS[which as usize].store(descriptor, Ordering::Relaxed);
}

/// A child does not close this descriptor any more: its owner is about to.
pub(crate) fn leave_in_child(which: Descriptor, descriptor: RawFd) {
    let place = &DESCRIPTORS[which as usize];
    // Another one may have taken its place.
    let _ = place.compare_exchange(descriptor, -1, Ordering::Relaxed, Ordering::Relaxed);
}

/// A descriptor that a child closes. Of two of one kind, a child closes the newer one.
#[derive(Debug)]
pub(crate) struct ParentOnly {
    descriptor: OwnedFd,
    which: Descriptor,
}

impl ParentOnly {
    pub(crate) fn new(descriptor: OwnedFd, which: Descriptor) -> Self {
        close_in_child(which, descriptor.as_raw_fd());
        ParentOnly { descriptor, which }
    }
}

impl AsFd for ParentOnly {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for ParentOnly {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl Drop for ParentOnly {
    fn drop(&mut self) {
        leave_in_child(self.which, self.descriptor.as_raw_fd());
    }
}

/// A child has zeros of its own at these addresses, where this process has memory that it shares; 0 bytes: nowhere.
pub(crate) fn replace_in_child(start: usize, bytes: usize) {
    SHARED[1].store(0, Ordering::Relaxed);
    SHARED[0].store(start, Ordering::Relaxed);
    SHARED[1].store(bytes, Ordering::Release);
}

/// Runs in the child, on its only thread, before `fork` returns there.
unsafe extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
    let [start, bytes] = [0, 1].map(|i: usize| SHARED[i].load(Ordering::Relaxed));
    if bytes != 0 {
        // SAFETY: the range is the parent's reservation, and nothing of it is mapped in the child. A trace point in which a
        // signal handler has forked stores there when it goes on.
        unsafe {
            libc::mmap(
                start as *mut libc::c_void,
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            );
        }
    }
    let _ = WORDS.try_with(|place| {
        if let Some(words) = place.get() {
            // SAFETY: the words of the calling thread, valid until it calls `set_words` again.
            let words = unsafe { words.as_ref() };
            // The state stays: code that has read it before the fork may use it, and the fault handler needs it if a
            // signal handler has forked within a trace point, which goes on in the wiped ring.
            words.set_hook_mode(HookMode::Off);
            words.set_cursor(CURSOR_OFF as usize);
            words.set_events(0);
        }
    });
    for place in &DESCRIPTORS {
        let descriptor = place.swap(-1, Ordering::Relaxed);
        if descriptor >= 0 {
            // SAFETY: those who use the descriptor are threads that do not exist here, and functions that look at `is_child`.
            unsafe { libc::close(descriptor) };
        }
    }
}
