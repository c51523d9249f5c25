// SPDX-License-Identifier: Apache-2.0
//! The words in the managed runtime's thread object that compiled trace points read.

use hindsight_trace_format::ring::CURSOR_OFF;

use crate::sync::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use crate::thread_trace::ThreadTrace;

/// What a thread object holds for Hindsight; the managed runtime declares the same layout.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | word | `cursor`: address of the next slot, 0 while tracing is off |
/// | word | word | `state`: the thread's [`ThreadTrace`], null while it is not registered |
/// | 2 words | 4 | `poll`: byte 0 is 1 while the thread is traced; byte 1 is the managed runtime's (1: it wants the thread to suspend); bytes 2 and 3 are 0 |
/// | 3 words | word | `exit_stub`: address of what an exit calls, 0 while the thread is not traced |
/// | 4 words | word | `leaf_stub`: the same for the entry of a method without suspend check |
///
/// Compiled code may test `poll` as one 32-bit word for "is there anything to do". Each side stores its
/// own byte only, with byte stores, so that neither can undo what the other one says.
///
/// All zeros is what a new thread has. Once the thread is registered, `cursor` and `poll`'s byte 0 change
/// only on the thread itself or while it is at a safepoint.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ThreadWords {
    cursor: AtomicUsize,
    state: AtomicPtr<ThreadTrace>,
    poll: Poll,
    exit_stub: AtomicUsize,
    leaf_stub: AtomicUsize,
    /// Used whenever the words are, so that loom sees who uses them after their end.
    #[cfg(feature = "loom")]
    alive: loom::cell::UnsafeCell<()>,
}

/// Where compiled code calls while its thread is traced; see [`ThreadWords`]. 0: nowhere. Not loom's: they
/// are constants once something is traced.
static EXIT_STUB: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
static LEAF_STUB: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Says what compiled code of traced threads calls: the addresses of the stub for exits, and of that for
/// entries of methods without suspend check. To be called before any thread is traced.
pub fn set_stubs(exit: usize, leaf_entry: usize) {
    EXIT_STUB.store(exit, std::sync::atomic::Ordering::Relaxed);
    LEAF_STUB.store(leaf_entry, std::sync::atomic::Ordering::Relaxed);
}

/// One aligned 32-bit word, as bytes.
#[derive(Debug, Default)]
#[repr(C, align(4))]
struct Poll {
    tracing: AtomicU8,
    /// Never stored to by us.
    suspend: AtomicU8,
    unused: [u8; 2],
}

/// [`ThreadWords::is_marked_traced`]'s byte of `poll`, as a bit of the 32-bit word.
pub const POLL_TRACING: u32 = 1;
/// The managed runtime's byte of `poll`, as a bit of the 32-bit word.
pub const POLL_SUSPEND: u32 = 1 << 8;

impl ThreadWords {
    /// Says that the words are used.
    #[cfg(feature = "loom")]
    pub(crate) fn watch(&self) {
        self.alive.with(|_| ());
    }

    /// Says that the words are used no more.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn end(&self) {
        self.alive.with_mut(|_| ());
    }

    /// The words of a thread that is not registered.
    #[cfg(feature = "loom")]
    pub fn new() -> Self {
        Self::default()
    }

    /// The words of a thread that is not registered.
    #[cfg(not(feature = "loom"))]
    pub const fn new() -> Self {
        ThreadWords {
            cursor: AtomicUsize::new(CURSOR_OFF as usize),
            state: AtomicPtr::new(std::ptr::null_mut()),
            poll: Poll {
                tracing: AtomicU8::new(0),
                suspend: AtomicU8::new(0),
                unused: [0; 2],
            },
            exit_stub: AtomicUsize::new(0),
            leaf_stub: AtomicUsize::new(0),
        }
    }

    /// Address of the next slot, 0 while tracing is off.
    pub fn cursor(&self) -> &AtomicUsize {
        &self.cursor
    }

    /// The thread's trace, null while the thread is not registered.
    pub fn state(&self) -> *const ThreadTrace {
        self.state.load(Ordering::Relaxed)
    }

    pub(crate) fn replace_state(&self, state: *const ThreadTrace) -> *const ThreadTrace {
        self.state.swap(state.cast_mut(), Ordering::Relaxed)
    }

    /// Whether compiled code is told that the thread is traced.
    pub fn is_marked_traced(&self) -> bool {
        self.poll.tracing.load(Ordering::Relaxed) != 0
    }

    /// Moves the cursor to another ring, or to [`CURSOR_OFF`], and tells compiled code whether there is
    /// one. The thread is the caller, or at a safepoint.
    pub(crate) fn set_cursor(&self, cursor: usize) {
        self.cursor.store(cursor, Ordering::Relaxed);
        let tracing = cursor as u64 != CURSOR_OFF;
        self.poll.tracing.store(tracing.into(), Ordering::Relaxed);
        let stub = |address: &std::sync::atomic::AtomicUsize| {
            if tracing {
                address.load(std::sync::atomic::Ordering::Relaxed)
            } else {
                0
            }
        };
        self.exit_stub.store(stub(&EXIT_STUB), Ordering::Relaxed);
        self.leaf_stub.store(stub(&LEAF_STUB), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_layout_is_what_the_other_side_declares() {
        let word = size_of::<usize>();
        assert_eq!(offset_of!(ThreadWords, cursor), 0);
        assert_eq!(offset_of!(ThreadWords, state), word);
        assert_eq!(offset_of!(ThreadWords, poll), 2 * word);
        assert_eq!(size_of::<Poll>(), 4);
        assert_eq!(offset_of!(ThreadWords, exit_stub), 3 * word);
        assert_eq!(offset_of!(ThreadWords, leaf_stub), 4 * word);
        assert_eq!(size_of::<ThreadWords>(), 5 * word);
    }

    #[test]
    fn the_managed_runtimes_byte_is_left_alone() {
        let words = ThreadWords::new();
        let poll = |words: &ThreadWords| {
            let bytes = &words.poll;
            u32::from_le_bytes([
                bytes.tracing.load(Ordering::Relaxed),
                bytes.suspend.load(Ordering::Relaxed),
                bytes.unused[0],
                bytes.unused[1],
            ])
        };
        words.poll.suspend.store(1, Ordering::Relaxed);
        words.set_cursor(0x1000);
        assert!(words.is_marked_traced());
        assert_eq!(poll(&words), POLL_TRACING | POLL_SUSPEND);
        words.set_cursor(0);
        assert!(!words.is_marked_traced());
        assert_eq!(poll(&words), POLL_SUSPEND);
    }
}
