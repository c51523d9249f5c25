// SPDX-License-Identifier: Apache-2.0
//! The words in the managed runtime's thread object that compiled trace points read.

use std::sync::OnceLock;

#[cfg(not(feature = "loom"))]
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
/// All zeros is what a new thread has. Once the thread is registered, the words change only on the thread itself
/// or while it is at a safepoint; or as [`lock_free`](crate::lock_free) says.
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
    /// In place of the word at [`StubTable::entry_slot`].
    #[cfg(feature = "loom")]
    entry: AtomicUsize,
}

/// The addresses of what compiled code calls at its trace points.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stubs {
    /// At an exit.
    pub exit: usize,
    /// At the entry of a method without suspend check.
    pub leaf_entry: usize,
    /// At the entry of a method with one.
    pub entry: usize,
}

/// All that compiled code may call.
#[derive(Clone, Copy, Debug, Default)]
pub struct StubTable {
    /// Stubs that record.
    pub recording: Stubs,
    /// Stubs that ask [`ThreadTrace::trace_point`] what to do. Used by the
    /// [lock-free protocol](crate::lock_free) only.
    pub asking: Stubs,
    /// Distance in bytes from the [`ThreadWords`] to the word of the thread object that has the address of what
    /// the entry of a method with suspend check calls; 0 if there is none.
    pub entry_slot: isize,
}

/// What the words lead compiled trace points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Points {
    /// Nothing.
    Off,
    /// The stubs that record.
    Record,
    /// The stubs that ask.
    Ask,
}

static STUBS: OnceLock<StubTable> = OnceLock::new();

/// Says what compiled code of traced threads calls; 0, and so nothing, without. To be called before any thread is
/// traced; only the first call counts.
pub fn set_stubs(table: StubTable) {
    let _ = STUBS.set(table);
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

    /// What exits, entries of methods without suspend check, and entries of those with one lead to.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn led_to(&self) -> [&AtomicUsize; 3] {
        [&self.exit_stub, &self.leaf_stub, &self.entry]
    }

    /// Whether compiled code is told that the thread is traced.
    pub fn is_marked_traced(&self) -> bool {
        self.poll.tracing.load(Ordering::Relaxed) != 0
    }

    /// Moves the cursor to another ring, or to [`CURSOR_OFF`].
    pub(crate) fn set_cursor(&self, cursor: usize) {
        self.cursor.store(cursor, Ordering::Relaxed);
    }

    /// Tells compiled code what its trace points lead to, but for those that [`set_entry`](Self::set_entry) is about.
    pub(crate) fn set_points(&self, points: Points) {
        let stubs = stubs(points);
        let tracing = points != Points::Off;
        self.poll.tracing.store(tracing.into(), Ordering::Relaxed);
        self.exit_stub.store(stubs.exit, Ordering::Relaxed);
        self.leaf_stub.store(stubs.leaf_entry, Ordering::Relaxed);
    }

    /// Tells compiled code what the entries of methods with suspend checks lead to, if they come to that: they test
    /// `poll` before. Needed only where they shall ask.
    ///
    /// # Safety
    /// `words` are in the thread object that [`StubTable::entry_slot`] is about, and valid.
    pub(crate) unsafe fn set_entry(words: *const Self, points: Points) {
        let address = stubs(points).entry;
        #[cfg(feature = "loom")]
        // SAFETY: says the caller.
        unsafe { &*words }.entry.store(address, Ordering::Relaxed);
        #[cfg(not(feature = "loom"))]
        {
            let slot = STUBS.get().map_or(0, |table| table.entry_slot);
            if slot != 0 {
                // SAFETY: an aligned word of the same object, says the caller. Compiled code reads it with plain
                // loads.
                let slot = unsafe { &*words.byte_offset(slot).cast::<AtomicUsize>() };
                slot.store(address, Ordering::Relaxed);
            }
        }
    }
}

fn stubs(points: Points) -> Stubs {
    let table = STUBS.get().copied().unwrap_or_default();
    match points {
        Points::Off => Stubs::default(),
        Points::Record => table.recording,
        Points::Ask => table.asking,
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
        words.set_points(Points::Record);
        assert!(words.is_marked_traced());
        assert_eq!(poll(&words), POLL_TRACING | POLL_SUSPEND);
        words.set_points(Points::Off);
        assert!(!words.is_marked_traced());
        assert_eq!(poll(&words), POLL_SUSPEND);
    }
}
