// SPDX-License-Identifier: Apache-2.0
//! The words in the managed runtime's thread object that compiled trace points read.

use std::sync::OnceLock;

#[cfg(not(feature = "loom"))]
use hindsight_trace_format::ring::CURSOR_OFF;

use crate::sync::{AtomicPtr, AtomicU32, AtomicU8, AtomicUsize, Ordering};

/// Hindsight's part of a thread object; the managed runtime declares the same layout.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | word | `cursor`: address of the next slot, 0 while tracing is off |
/// | word | word | `state`: the recorder's object for the thread, null while the thread is not registered |
/// | 2 words | 4 | `poll`: byte 0 is 1 while the thread is traced; byte 1 is the managed runtime's (1: it wants the thread to suspend); bytes 2 and 3 are 0 |
/// | 3 words | word | `exit_stub`: address of the stub for method exits, 0 while the thread is not traced |
/// | 4 words | word | `leaf_stub`: address of the stub for entries of methods without suspend check, 0 while the thread is not traced |
/// | 5 words | 4 | `events`: the categories of events that the thread records, as bits (`hindsight_trace_format::catalogue::Category`); 0: none |
/// | 5 words + 4 | 12 | the managed runtime's: the number of the thread's current wait, and which thread ended it |
/// | 5 words + 16 | 16 | the managed runtime's: the objects and bytes that the thread has allocated |
/// | 5 words + 32 | 4 | `epoch`: the upper half of the counter at the thread's last slot |
/// | 5 words + 36 | 4 | `rewind_below`: a call in which nothing was recorded is taken back at its exit if it took fewer ticks than this; 0: none is |
/// | 5 words + 40 | 8 | `taken_back`: how many calls were taken back since the ring was installed, its lower half first |
/// | 5 words + 48 | word | `rewind_log`: where the next call that is taken back is noted; 0: nowhere, as always without the feature `check-rewind` |
///
/// Compiled code may test `poll` as one 32-bit word for "is there anything to do". Hindsight and the managed
/// runtime each store only their own byte, with byte stores, so neither can overwrite the other's.
///
/// A new thread's words are all zero. Once the thread is registered, the words change only on the thread itself,
/// while it is at a safepoint, or as the lock-free handshake defines. Exceptions: the control thread changes `events` at
/// any time, and the managed runtime's own words.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ThreadWords {
    cursor: AtomicUsize,
    state: AtomicPtr<()>,
    poll: Poll,
    exit_stub: AtomicUsize,
    leaf_stub: AtomicUsize,
    events: AtomicU32,
    /// The managed runtime's.
    waits: [u32; 3],
    /// The managed runtime's.
    allocations: [u32; 4],
    epoch: AtomicU32,
    rewind_below: AtomicU32,
    taken_back: [AtomicU32; 2],
    rewind_log: AtomicUsize,
    /// Shadow cell touched on every access, so that loom reports use after the thread has gone.
    #[cfg(feature = "loom")]
    alive: loom::cell::UnsafeCell<()>,
    /// Stands in for the word at [`StubTable::entry_slot`].
    #[cfg(feature = "loom")]
    entry: AtomicUsize,
}

/// Addresses of the stubs that compiled code calls at its trace points.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stubs {
    /// At a method exit.
    pub exit: usize,
    /// At the entry of a method without suspend check.
    pub leaf_entry: usize,
    /// At the entry of a method with a suspend check.
    pub entry: usize,
}

/// All stubs that compiled code may call.
#[derive(Clone, Copy, Debug, Default)]
pub struct StubTable {
    /// Stubs that record.
    pub recording: Stubs,
    /// Stubs that call [`TracedThread::trace_point`](crate::TracedThread::trace_point), which checks for a request
    /// before it records. Only the lock-free handshake uses them.
    pub slow_path: Stubs,
    /// Distance in bytes from the [`ThreadWords`] to the word of the thread object that holds the address of the
    /// stub for entries of methods with a suspend check; 0 if there is no such word.
    pub entry_slot: isize,
}

/// Which stubs compiled trace points call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookMode {
    /// None.
    Off,
    /// The stubs that record.
    Record,
    /// The stubs that check for a request before they record.
    #[cfg(feature = "lock-free")]
    SlowPath,
}

static STUBS: OnceLock<StubTable> = OnceLock::new();

/// Sets the stubs that compiled code of traced threads calls; without this call it calls none. To be called before
/// any thread is traced. Only the first call has an effect.
pub fn set_stubs(table: StubTable) {
    let _ = STUBS.set(table);
}

/// One aligned 32-bit word, as bytes.
#[derive(Debug, Default)]
#[repr(C, align(4))]
struct Poll {
    tracing: AtomicU8,
    /// Only the managed runtime stores here.
    suspend: AtomicU8,
    unused: [u8; 2],
}

/// [`ThreadWords::is_marked_traced`]'s byte of `poll`, as a bit of the 32-bit word.
pub const POLL_TRACING: u32 = 1;
/// The managed runtime's byte of `poll`, as a bit of the 32-bit word.
pub const POLL_SUSPEND: u32 = 1 << 8;

impl ThreadWords {
    /// Reports a use of the words to loom.
    #[cfg(feature = "loom")]
    pub(crate) fn watch(&self) {
        self.alive.with(|_| ());
    }

    /// Reports the end of the words to loom.
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
            events: AtomicU32::new(0),
            waits: [0; 3],
            allocations: [0; 4],
            epoch: AtomicU32::new(0),
            rewind_below: AtomicU32::new(0),
            taken_back: [const { AtomicU32::new(0) }; 2],
            rewind_log: AtomicUsize::new(0),
        }
    }

    /// The upper half of the counter at the thread's last slot.
    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    pub(crate) fn set_epoch(&self, epoch: u32) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// Ticks: calls in which nothing was recorded are taken back if they took less.
    #[inline]
    pub(crate) fn rewind_below(&self) -> u32 {
        self.rewind_below.load(Ordering::Relaxed)
    }

    pub(crate) fn set_rewind_below(&self, ticks: u32) {
        self.rewind_below.store(ticks, Ordering::Relaxed);
    }

    /// How many calls were taken back since [`set_taken_back`](Self::set_taken_back).
    pub(crate) fn taken_back(&self) -> u64 {
        let [low, high] = &self.taken_back;
        u64::from(high.load(Ordering::Relaxed)) << 32 | u64::from(low.load(Ordering::Relaxed))
    }

    /// Address at which the next call that is taken back is noted; 0: nowhere.
    #[cfg(feature = "check-rewind")]
    pub(crate) fn rewind_log(&self) -> &AtomicUsize {
        &self.rewind_log
    }

    /// Only the thread itself may do so, or another while the thread does not record.
    pub(crate) fn set_taken_back(&self, count: u64) {
        let [low, high] = &self.taken_back;
        low.store(count as u32, Ordering::Relaxed);
        high.store((count >> 32) as u32, Ordering::Relaxed);
    }

    /// The categories of events that the thread records, as bits.
    #[inline]
    pub fn events(&self) -> u32 {
        self.events.load(Ordering::Relaxed)
    }

    pub(crate) fn set_events(&self, categories: u32) {
        self.events.store(categories, Ordering::Relaxed);
    }

    /// Address of the next slot, 0 while tracing is off.
    pub fn cursor(&self) -> &AtomicUsize {
        &self.cursor
    }

    /// The recorder's object for the thread ([`TracedThread`](crate::TracedThread)), null while the thread is not
    /// registered.
    pub fn state(&self) -> *const () {
        self.state.load(Ordering::Relaxed)
    }

    pub(crate) fn replace_state(&self, state: *const ()) -> *const () {
        self.state.swap(state.cast_mut(), Ordering::Relaxed)
    }

    /// The stubs for exits, for entries of methods without suspend check, and for entries of methods with one.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn hooks(&self) -> [&AtomicUsize; 3] {
        [&self.exit_stub, &self.leaf_stub, &self.entry]
    }

    /// Whether compiled code sees the thread as traced.
    pub fn is_marked_traced(&self) -> bool {
        self.poll.tracing.load(Ordering::Relaxed) != 0
    }

    /// Moves the cursor to another ring, or to [`CURSOR_OFF`](hindsight_trace_format::ring::CURSOR_OFF).
    pub(crate) fn set_cursor(&self, cursor: usize) {
        self.cursor.store(cursor, Ordering::Relaxed);
    }

    /// Sets the stubs that compiled trace points call, except for entries of methods with a suspend check (see
    /// [`set_entry`](Self::set_entry)).
    pub(crate) fn set_hook_mode(&self, mode: HookMode) {
        let stubs = stubs(mode);
        let tracing = mode != HookMode::Off;
        self.poll.tracing.store(tracing.into(), Ordering::Relaxed);
        self.exit_stub.store(stubs.exit, Ordering::Relaxed);
        self.leaf_stub.store(stubs.leaf_entry, Ordering::Relaxed);
    }

    /// Sets the stub for entries of methods with a suspend check, which test `poll` before they call it. Only
    /// needed with slow-path stubs: otherwise it is always the recording one.
    ///
    /// # Safety
    /// `words` are valid, and part of the thread object that [`StubTable::entry_slot`] describes.
    #[cfg(feature = "lock-free")]
    pub(crate) unsafe fn set_entry(words: *const Self, mode: HookMode) {
        let address = stubs(mode).entry;
        #[cfg(feature = "loom")]
        // SAFETY: the caller guarantees that the words are valid.
        unsafe { &*words }.entry.store(address, Ordering::Relaxed);
        #[cfg(not(feature = "loom"))]
        {
            let slot = STUBS.get().map_or(0, |table| table.entry_slot);
            if slot != 0 {
                // SAFETY: an aligned word of the thread object around the words, which the caller guarantees to be
                // the one that `entry_slot` describes. Compiled code reads it with plain loads.
                let slot = unsafe { &*words.byte_offset(slot).cast::<AtomicUsize>() };
                slot.store(address, Ordering::Relaxed);
            }
        }
    }
}

fn stubs(mode: HookMode) -> Stubs {
    let table = STUBS.get().copied().unwrap_or_default();
    match mode {
        HookMode::Off => Stubs::default(),
        HookMode::Record => table.recording,
        #[cfg(feature = "lock-free")]
        HookMode::SlowPath => table.slow_path,
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
        assert_eq!(offset_of!(ThreadWords, events), 5 * word);
        assert_eq!(offset_of!(ThreadWords, waits), 5 * word + 4);
        assert_eq!(offset_of!(ThreadWords, epoch), 5 * word + 32);
        assert_eq!(offset_of!(ThreadWords, rewind_below), 5 * word + 36);
        assert_eq!(offset_of!(ThreadWords, taken_back), 5 * word + 40);
        assert_eq!(offset_of!(ThreadWords, rewind_log), 5 * word + 48);
        assert_eq!(size_of::<ThreadWords>(), 6 * word + 48);
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
        words.set_hook_mode(HookMode::Record);
        assert!(words.is_marked_traced());
        assert_eq!(poll(&words), POLL_TRACING | POLL_SUSPEND);
        words.set_hook_mode(HookMode::Off);
        assert!(!words.is_marked_traced());
        assert_eq!(poll(&words), POLL_SUSPEND);
    }
}
