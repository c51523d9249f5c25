// SPDX-License-Identifier: Apache-2.0
//! The trace of one thread: its ring, its cursor and its anchors.

use hindsight_trace_format::container::{Anchor, RingHeader};
use hindsight_trace_format::reverse::Slots;
use hindsight_trace_format::ring::{Position, CURSOR_OFF};
use hindsight_trace_format::slot::{payload_slots, Extension, Slot, FIRST_METHOD, SLOT_BYTES};

use crate::clock;
use crate::sync::{fence, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::thread::anchors::AnchorLog;
use crate::thread::ring::{write_slot, Ring, SLOT_STRIDE};
use crate::thread::words::ThreadWords;

/// The trace of one thread that is registered with the managed runtime.
///
/// Three parties access it:
/// - the thread itself, at every event: the `record_` functions, and compiled trace points;
/// - the party that changes the ring: [`begin`](Self::begin), [`take`](Self::take). The thread does not record
///   meanwhile, because it is at a safepoint, is the caller, or has agreed to it by a handshake;
/// - the control thread, at any time: [`take_anchor`](Self::take_anchor), which only reads.
///
/// The [`ThreadWords`] belong to the managed runtime's thread object, and are valid while the thread is registered.
/// [`retire`](Self::retire) ends that, under the lock that the other two parties take.
///
/// The lap count and the cursor change together when the ring wraps. `lap_changes` works like the counter of a
/// sequence lock: it is odd during the change, so the control thread can tell that it read both before or both
/// after the change.
pub(crate) struct ThreadTrace {
    /// Address of the ring's first slot; 0 without a ring.
    base: AtomicUsize,
    /// Address of the guard page; 0 without a ring.
    end: AtomicUsize,
    /// Completed laps.
    laps: AtomicU64,
    lap_changes: AtomicU32,
    /// Kernel id of the thread that ended this thread's current wait; 0: none yet.
    waker: AtomicU32,
    tid: u32,
    words: WordsAddress,
    inner: Mutex<Inner>,
}

/// The state that changes when the thread's ring changes. The lock is held for every change.
pub(crate) struct Inner {
    name: String,
    /// The thread has ended, or is about to: its words must not be accessed any more.
    retired: bool,
    ring: Option<Ring>,
    /// Calls that were under way when recording into the ring began are in an earlier ring, or in none.
    continues: bool,
    /// The counter when recording into the ring began.
    started_counter: u64,
    anchors: AnchorLog,
}

impl Inner {
    /// Whether the thread has a ring.
    pub(crate) fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Whether the thread has ended, or is about to.
    #[cfg(feature = "lock-free")]
    pub(crate) fn is_retired(&self) -> bool {
        self.retired
    }
}

/// Address of the words in the managed runtime's thread object.
#[derive(Clone, Copy)]
struct WordsAddress(*const ThreadWords);

// SAFETY: an address is not tied to a thread; `get` is unsafe and states when it may be dereferenced.
unsafe impl Send for WordsAddress {}
// SAFETY: a shared reference only gives the address, which never changes.
unsafe impl Sync for WordsAddress {}

impl WordsAddress {
    /// # Safety
    /// The thread has not retired: the caller is the thread, or holds the lock and has checked it.
    unsafe fn get(&self) -> &ThreadWords {
        // SAFETY: `ThreadTrace::new` requires the words to be aligned, and valid until the thread retires, which
        // the caller rules out. Compiled code writes the cursor with plain aligned stores; all accesses here are
        // atomic.
        let words = unsafe { &*self.0 };
        #[cfg(feature = "loom")]
        words.watch();
        words
    }
}

/// Why a thread is traced: the payload of [`Extension::Started`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum StartReason {
    /// By the configuration, from the thread's start on.
    Configuration = 0,
    /// By a request, while the thread runs.
    Request = 1,
}

/// A ring that was taken from its thread, with the data that readers need.
#[derive(Debug)]
pub struct TakenRing {
    /// The memory; no thread writes to it any more.
    pub ring: Ring,
    /// The ring's thread, and the position of its cursor.
    pub header: RingHeader,
    /// Positions of the cursor, with the counter at that time.
    pub anchors: Vec<Anchor>,
    /// Calls were under way when recording into the ring began: its first exits may belong to entries that are not
    /// in it.
    #[cfg_attr(
        not(feature = "check-balance"),
        allow(dead_code, reason = "for the check")
    )]
    pub continues: bool,
}

impl TakenRing {
    /// The slots recorded, oldest first.
    pub fn slots(&self) -> Slots<'_> {
        // SAFETY: the ring was taken from its thread, which has not written to it since.
        Slots::new(unsafe { self.ring.bytes() }, self.header.position)
    }

    /// The written part of the ring's memory.
    pub fn written_bytes(&self) -> &[u8] {
        // SAFETY: the ring was taken from its thread, which has not written to it since.
        let bytes = unsafe { self.ring.bytes() };
        match self.header.position {
            Position { laps: 0, offset } => &bytes[..(offset as usize).min(bytes.len())],
            _ => bytes,
        }
    }
}

/// Calls `append` with the slots of an entry of the method at this address: one slot, or two above 4 GiB.
fn with_entry(method: u64, append: impl FnOnce(&[u64])) {
    let counter = clock::counter();
    match u32::try_from(method) {
        Ok(low) if low >= FIRST_METHOD => append(&[Slot::entry(low, counter).0]),
        _ => append(&[method, Slot::wide_entry(counter).0]),
    }
}

/// Distance of a cursor from its ring's base, in bytes of slots.
fn offset(cursor: usize, base: usize) -> u64 {
    (cursor.wrapping_sub(base) / SLOT_STRIDE * SLOT_BYTES) as u64
}

impl ThreadTrace {
    /// A registered thread that is not traced yet.
    ///
    /// # Safety
    /// `words` are the aligned words that the thread's trace points use, and stay valid until
    /// [`retire`](Self::retire).
    pub(crate) unsafe fn new(tid: u32, name: &str, words: *const ThreadWords) -> Self {
        ThreadTrace {
            base: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            laps: AtomicU64::new(0),
            lap_changes: AtomicU32::new(0),
            waker: AtomicU32::new(0),
            tid,
            words: WordsAddress(words),
            inner: Mutex::new(Inner {
                name: name.to_owned(),
                retired: false,
                ring: None,
                continues: false,
                started_counter: 0,
                anchors: AnchorLog::default(),
            }),
        }
    }

    /// The thread's kernel id.
    pub(crate) fn tid(&self) -> u32 {
        self.tid
    }

    /// Changes the name that later files have.
    pub(crate) fn rename(&self, name: &str) {
        name.clone_into(&mut self.lock().name);
    }

    /// Whether the thread has a ring.
    pub(crate) fn is_traced(&self) -> bool {
        self.base.load(Ordering::Relaxed) != 0
    }

    /// The counter when recording into the current ring began; `None` without a ring. No event in the ring is
    /// older.
    pub(crate) fn started_counter(&self) -> Option<u64> {
        let inner = self.lock();
        inner.ring.as_ref().map(|_| inner.started_counter)
    }

    /// Address of the thread's words.
    #[cfg(feature = "lock-free")]
    pub(crate) fn words_address(&self) -> *const ThreadWords {
        self.words.0
    }

    /// The thread's words.
    ///
    /// # Safety
    /// The thread has not retired: the caller is the thread, or holds the lock and has checked it.
    pub(crate) unsafe fn words(&self) -> &ThreadWords {
        // SAFETY: the caller guarantees that the thread has not retired.
        unsafe { self.words.get() }
    }

    /// Locks the state that changes with the ring.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Starts recording into `ring`, with an event that says so. Gives the ring back if the thread already records,
    /// or has retired.
    ///
    /// # Safety
    /// The thread does not record meanwhile.
    pub(crate) unsafe fn begin(
        &self,
        inner: &mut Inner,
        ring: Ring,
        reason: StartReason,
    ) -> Result<(), Ring> {
        if inner.ring.is_some() || inner.retired {
            return Err(ring);
        }
        // A thread that runs has calls under way.
        let continues = reason == StartReason::Request;
        self.install(inner, Some(ring), continues);
        self.forget_waker();
        let started = Slot::extension(Extension::Started, clock::counter()).0;
        // SAFETY: the caller guarantees that the thread does not record; it has not retired.
        unsafe { self.append_at(self.words.get().cursor(), &[reason as u64, started]) };
        Ok(())
    }

    /// Points the thread to this ring, or to none.
    fn install(&self, inner: &mut Inner, ring: Option<Ring>, continues: bool) {
        debug_assert!(!inner.retired);
        let (base, end) = ring.as_ref().map_or((0, 0), |r| (r.base(), r.end()));
        self.base.store(base, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.laps.store(0, Ordering::Relaxed);
        inner.started_counter = clock::counter_in_order();
        inner.anchors.clear();
        inner.continues = continues;
        let cursor = if ring.is_some() {
            base
        } else {
            CURSOR_OFF as usize
        };
        inner.ring = ring;
        // SAFETY: `inner` shows that the lock is held, and both callers have checked that the thread has not retired.
        unsafe { self.words.get().set_cursor(cursor) };
    }

    /// Takes the ring. With a `replacement` recording goes on in that, without a gap. Without one recording stops,
    /// and the ring's last event says so. `None`, with the replacement left in place, if the thread does not record.
    ///
    /// # Safety
    /// The thread does not record meanwhile.
    pub(crate) unsafe fn take(
        &self,
        inner: &mut Inner,
        replacement: &mut Option<Ring>,
    ) -> Option<TakenRing> {
        if inner.retired {
            return None;
        }
        let ring = inner.ring.take()?;
        // SAFETY: the thread has not retired, and `inner` shows that the lock is held.
        let words = unsafe { self.words.get() };
        if replacement.is_none() {
            let stopped = Slot::extension(Extension::Stopped, clock::counter()).0;
            // SAFETY: the caller guarantees that the thread does not record.
            unsafe { self.append_at(words.cursor(), &[stopped]) };
        }
        let cursor = words.cursor().load(Ordering::Relaxed);
        let taken = TakenRing {
            header: RingHeader {
                tid: self.tid,
                name: inner.name.clone(),
                geometry: ring.geometry(),
                position: Position {
                    laps: self.laps.load(Ordering::Relaxed),
                    offset: offset(cursor, ring.base()),
                },
                started_counter: inner.started_counter,
                stopped_counter: clock::counter_in_order(),
                ..RingHeader::default()
            },
            anchors: inner.anchors.take(),
            continues: inner.continues,
            ring,
        };
        self.install(inner, replacement.take(), true);
        Some(taken)
    }

    /// Marks the thread as ended. Its words are not accessed after the lock is released.
    pub(crate) fn retire(&self, inner: &mut Inner) {
        inner.retired = true;
    }

    /// Appends slots to the ring; `cursor` is the thread's cursor word. Does nothing while the thread is not traced.
    ///
    /// # Safety
    /// Called by the thread itself, which may record, with the cursor among the words given to [`new`](Self::new).
    #[inline]
    unsafe fn append(&self, cursor: *mut usize, words: &[u64]) {
        #[cfg(not(feature = "loom"))]
        {
            debug_assert_eq!(cursor.cast_const().cast(), self.words.0);
            // SAFETY: the thread's own, aligned word.
            unsafe { self.append_at(AtomicUsize::from_ptr(cursor), words) }
        }
        #[cfg(feature = "loom")]
        {
            let _ = cursor;
            // SAFETY: the caller is the thread.
            unsafe { self.append_at(self.words.get().cursor(), words) }
        }
    }

    /// # Safety
    /// The caller is the thread itself, or the thread does not record meanwhile; `cursor` is its cursor.
    unsafe fn append_at(&self, cursor: &AtomicUsize, words: &[u64]) {
        let mut at = cursor.load(Ordering::Relaxed);
        if at as u64 == CURSOR_OFF {
            return;
        }
        for word in words {
            if at == self.end.load(Ordering::Relaxed) {
                at = self.next_lap();
            }
            // SAFETY: `at` is not the ring's end, so there is a slot.
            unsafe { write_slot(at, *word) };
            at += SLOT_STRIDE;
        }
        cursor.store(at, Ordering::Relaxed);
    }

    /// Starts the next lap; returns the address of the ring's first slot. Called by the thread itself, or while it
    /// does not record.
    ///
    /// The cursor is at the ring's start from here on, though the current event is not complete: if an event wraps,
    /// its slots before the wrap count as written.
    fn next_lap(&self) -> usize {
        let base = self.base.load(Ordering::Relaxed);
        let changes = self.lap_changes.load(Ordering::Relaxed);
        self.lap_changes
            .store(changes.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let laps = self.laps.load(Ordering::Relaxed);
        self.laps.store(laps.wrapping_add(1), Ordering::Relaxed);
        // SAFETY: a thread that has a ring has not retired.
        unsafe { self.words.get() }
            .cursor()
            .store(base, Ordering::Relaxed);
        self.lap_changes
            .store(changes.wrapping_add(2), Ordering::Release);
        base
    }

    /// Records the entry of the method at this address: one slot, or two above 4 GiB.
    ///
    /// # Safety
    /// As [`append`](Self::append).
    pub(crate) unsafe fn record_entry(&self, cursor: *mut usize, method: u64) {
        // SAFETY: the caller fulfils the conditions of `append`.
        with_entry(method, |words| unsafe { self.append(cursor, words) });
    }

    /// Records the entry of the method at this address, or an exit if that is 0, at the thread's own cursor.
    ///
    /// # Safety
    /// Called by the thread itself, which may record.
    pub(crate) unsafe fn record_point(&self, method: u64) {
        // SAFETY: the caller is the thread, so its words are valid.
        let append = |words: &[u64]| unsafe { self.append_at(self.words.get().cursor(), words) };
        match method {
            0 => append(&[Slot::exit(clock::counter()).0]),
            _ => with_entry(method, append),
        }
    }

    /// Records a method exit.
    ///
    /// # Safety
    /// As [`append`](Self::append).
    pub(crate) unsafe fn record_exit(&self, cursor: *mut usize) {
        // SAFETY: the caller fulfils the conditions of `append`.
        unsafe { self.append(cursor, &[Slot::exit(clock::counter()).0]) }
    }

    /// Records an extension event with one word of payload.
    ///
    /// # Safety
    /// As [`append`](Self::append).
    pub(crate) unsafe fn record_extension(
        &self,
        cursor: *mut usize,
        extension: Extension,
        payload: u64,
    ) {
        debug_assert_eq!(payload_slots(extension.number()), 1);
        let closing = Slot::extension(extension, clock::counter()).0;
        // SAFETY: the caller fulfils the conditions of `append`.
        unsafe { self.append(cursor, &[payload, closing]) }
    }

    /// Records that the thread is about to wait for a lock. `owner_tid` is the kernel id of the lock's owner (0:
    /// unknown), `lock` a number that identifies the lock as long as it lives.
    ///
    /// # Safety
    /// As [`append`](Self::append).
    pub(crate) unsafe fn record_lock_wait(&self, cursor: *mut usize, owner_tid: u32, lock: u64) {
        let closing = Slot::extension(Extension::LockWait, clock::counter()).0;
        // SAFETY: the caller fulfils the conditions of `append`.
        unsafe { self.append(cursor, &[u64::from(owner_tid), lock, closing]) }
    }

    /// The thread begins to wait: its waker is not known yet.
    pub(crate) fn forget_waker(&self) {
        self.waker.store(0, Ordering::Relaxed);
    }

    /// The calling thread, `waker`, ends this thread's wait.
    pub(crate) fn woken_by(&self, waker: u32) {
        self.waker.store(waker, Ordering::Relaxed);
    }

    /// The thread that ended this thread's wait since [`forget_waker`](Self::forget_waker), if any. It is returned
    /// once.
    pub(crate) fn take_waker(&self) -> Option<u32> {
        Some(self.waker.swap(0, Ordering::Relaxed)).filter(|waker| *waker != 0)
    }

    /// Whether a fault at this address, with `cursor` in the cursor register, is a store onto this thread's guard
    /// page. Async-signal-safe.
    pub(crate) fn is_at_guard(&self, fault_address: usize, cursor: usize) -> bool {
        let end = self.end.load(Ordering::Relaxed);
        end != 0 && cursor == end && (end..end + SLOT_BYTES).contains(&fault_address)
    }

    /// For the fault handler: if a trace point with `cursor` in its cursor register ran onto this thread's guard
    /// page, counts the lap and returns the address at which to go on. Async-signal-safe.
    pub(crate) fn wrap(&self, fault_address: usize, cursor: usize) -> Option<usize> {
        if !self.is_at_guard(fault_address, cursor) {
            return None;
        }
        Some(self.next_lap())
    }

    /// The number of anchors taken of the current ring.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn anchors(&self) -> usize {
        self.lock().anchors.len()
    }

    /// Takes an anchor: notes the position of the cursor together with the counter. False if the thread recorded so
    /// often that no moment between two events was found.
    ///
    /// The counter is read between two equal readings of the cursor: slots before the cursor were written no later,
    /// slots from the cursor on are published later.
    pub(crate) fn take_anchor(&self) -> bool {
        /// A try takes about 50 ns, and events are rarely closer to each other.
        const TRIES: u32 = if cfg!(feature = "loom") { 1 } else { 1000 };
        let mut inner = self.lock();
        let Some(ring) = inner.ring.as_ref().filter(|_| !inner.retired) else {
            return true;
        };
        let (base, slots) = (ring.base(), ring.slots());
        // SAFETY: the thread has not retired, and the lock is held.
        let cursor = unsafe { self.words.get() }.cursor();
        let found = (0..TRIES).find_map(|_| {
            let changes = self.lap_changes.load(Ordering::Acquire);
            let laps = self.laps.load(Ordering::Relaxed);
            let at = cursor.load(Ordering::Acquire);
            let counter = clock::counter_in_order();
            let still = cursor.load(Ordering::Relaxed) == at;
            fence(Ordering::Acquire);
            let same_lap = self.lap_changes.load(Ordering::Relaxed) == changes;
            (changes % 2 == 0 && same_lap && still).then_some((counter, laps, at))
        });
        let Some((counter, laps, at)) = found else {
            return false;
        };
        // Wrapping, so that a bug that moved the cursor before the ring's start does not become a panic.
        let slots_written = laps
            .wrapping_mul(slots)
            .wrapping_add(offset(at, base) / SLOT_BYTES as u64);
        inner.anchors.note(
            Anchor {
                counter,
                slots_written,
            },
            slots,
        );
        true
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::handshake::TracedThread;
    use hindsight_trace_format::ring::{Geometry, MIN_LOG2_BYTES};
    use hindsight_trace_format::slot::Event;

    fn ring() -> Ring {
        Ring::new(Geometry::new(MIN_LOG2_BYTES).unwrap()).unwrap()
    }

    fn extension(extension: Extension) -> Event {
        Event::Extension {
            number: extension.number(),
        }
    }

    /// A traced thread with these words; the test itself plays the thread.
    fn traced(words: &ThreadWords) -> TracedThread {
        // SAFETY: the words outlive the trace in every test.
        let trace = unsafe { TracedThread::new(1, "test", words) };
        // SAFETY: this test is the thread.
        unsafe { trace.begin(ring(), StartReason::Request) }.unwrap();
        trace
    }

    #[test]
    fn what_is_recorded_is_what_is_taken() {
        let words = ThreadWords::new();
        let trace = traced(&words);
        // SAFETY: this test is the thread.
        let taken = unsafe {
            trace.record_entry(words.cursor().as_ptr(), 0x7000_1000);
            trace.record_entry(words.cursor().as_ptr(), 0x12_3456_7890);
            trace.record_extension(words.cursor().as_ptr(), Extension::Unwound, 1);
            trace.record_lock_wait(words.cursor().as_ptr(), 77, 0xabcd);
            trace.record_exit(words.cursor().as_ptr());
            trace.take(&mut None).unwrap()
        };
        assert_eq!(words.cursor().load(Ordering::Relaxed), 0);
        assert!(!words.is_marked_traced());
        let mut events: Vec<_> = taken
            .slots()
            .events()
            .map(|e| (e.event(), e.payloads().collect::<Vec<_>>()))
            .collect();
        events.reverse();
        assert_eq!(
            events,
            [
                (extension(Extension::Started), vec![1]),
                (
                    Event::Entry {
                        method: 0x7000_1000
                    },
                    vec![]
                ),
                (Event::WideEntry, vec![0x12_3456_7890]),
                (extension(Extension::Unwound), vec![1]),
                (extension(Extension::LockWait), vec![77, 0xabcd]),
                (Event::Exit, vec![]),
                (extension(Extension::Stopped), vec![]),
            ]
        );
        assert_eq!(taken.written_bytes().len(), 12 * SLOT_BYTES);
    }

    #[test]
    fn a_wait_that_somebody_ends_says_who() {
        let words = ThreadWords::new();
        let trace = traced(&words);
        trace.trace().woken_by(7); // Too late for the wait that it was meant for.
        trace.forget_waker();
        // SAFETY: this test is the thread.
        let taken = unsafe {
            trace.record_woken(words.cursor().as_ptr());
            trace.trace().woken_by(8);
            trace.record_woken(words.cursor().as_ptr());
            trace.record_woken(words.cursor().as_ptr());
            trace.take(&mut None).unwrap()
        };
        let woken: Vec<_> = taken
            .slots()
            .events()
            .filter(|e| e.event() == extension(Extension::WokenBy))
            .map(|e| e.payloads().collect::<Vec<_>>())
            .collect();
        assert_eq!(woken, [[8]]);
    }

    #[test]
    fn a_swap_loses_nothing_and_recording_goes_on() {
        let words = ThreadWords::new();
        let trace = traced(&words);
        // SAFETY: this test is the thread.
        unsafe {
            trace.record_exit(words.cursor().as_ptr());
            assert!(words.is_marked_traced());
            let first = trace.take(&mut Some(ring())).unwrap();
            assert!(words.is_marked_traced());
            trace.record_exit(words.cursor().as_ptr());
            trace.record_exit(words.cursor().as_ptr());
            let second = trace.retire().unwrap();
            assert!(!words.is_marked_traced());
            let events = |taken: &TakenRing| -> Vec<_> {
                taken.slots().events().map(|e| e.event()).collect()
            };
            let started = extension(Extension::Started);
            assert_eq!(events(&first), [Event::Exit, started]);
            let stopped = extension(Extension::Stopped);
            assert_eq!(events(&second), [stopped, Event::Exit, Event::Exit]);
            assert!(second.header.started_counter >= first.header.stopped_counter);
            assert!(
                trace.begin(ring(), StartReason::Request).is_err(),
                "a retired thread stays so"
            );
        }
    }

    #[test]
    fn appending_wraps_before_the_guard_page() {
        let words = ThreadWords::new();
        let trace = traced(&words);
        let slots = 4096 / SLOT_BYTES;
        // SAFETY: this test is the thread.
        let taken = unsafe {
            for i in 0..slots + 3 {
                trace.record_entry(words.cursor().as_ptr(), 0x1_0000 + i as u64);
            }
            trace.take(&mut None).unwrap()
        };
        assert_eq!(
            taken.header.position,
            Position {
                laps: 1,
                offset: 6 * 8
            }
        );
        let newest = taken.slots().events().nth(1).unwrap();
        assert_eq!(newest.entered_method(), Some(0x1_0000 + slots as u64 + 2));
        // Two slots say that tracing started, one that it stopped.
        assert_eq!(taken.slots().get(0).unwrap().low(), 0x1_0000 + 4);
    }

    #[test]
    fn only_the_cursor_at_the_end_wraps() {
        let words = ThreadWords::new();
        let trace = traced(&words);
        let base = trace.trace().base.load(Ordering::Relaxed);
        let end = base + 4096;
        assert_eq!(trace.wrap(end, end), Some(base));
        assert_eq!(trace.wrap(end + 4, end), Some(base));
        assert_eq!(trace.wrap(end + 8, end), None);
        assert_eq!(trace.wrap(end, base), None);
        assert_eq!(trace.wrap(0, 0), None);
        assert_eq!(trace.trace().laps.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn anchors_of_a_thread_that_stands_still_are_two() {
        let words = ThreadWords::new();
        let trace = traced(&words);
        for _ in 0..5 {
            trace.take_anchor();
        }
        // SAFETY: this test is the thread.
        let anchors = unsafe {
            trace.record_exit(words.cursor().as_ptr());
            trace.take_anchor();
            trace.take(&mut None).unwrap().anchors
        };
        assert_eq!(
            anchors.iter().map(|a| a.slots_written).collect::<Vec<_>>(),
            [2, 2, 3]
        );
        assert!(anchors.windows(2).all(|w| w[0].counter <= w[1].counter));
    }
}
