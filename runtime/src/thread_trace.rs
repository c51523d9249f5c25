// SPDX-License-Identifier: Apache-2.0
//! What is known of one thread: its ring, and the words that its trace points use.

use hindsight_trace_format::container::{Anchor, RingHeader};
use hindsight_trace_format::reverse::Slots;
use hindsight_trace_format::ring::{Position, CURSOR_OFF};
use hindsight_trace_format::slot::{payload_slots, Extension, Slot, FIRST_METHOD, SLOT_BYTES};

use crate::anchors::AnchorLog;
use crate::clock;
use crate::lock_free::{Exchange, StopWord};
use crate::ring::{write_slot, Ring, SLOT_STRIDE};
use crate::sync::{fence, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::thread_words::{Points, ThreadWords};

/// The trace of one thread that is registered with the managed runtime.
///
/// Three kinds of access, and what keeps them apart:
/// - the thread itself, at every event: [`append`](Self::append), and compiled trace points;
/// - whoever acts at a safepoint of the thread: [`begin`](Self::begin), [`take`](Self::take). The
///   thread is not recording then;
/// - the control thread, at any time: [`sample_anchor`](Self::sample_anchor), which only reads.
///
/// Without safepoints the second is done as [`lock_free`](crate::lock_free) says.
///
/// The [`ThreadWords`] belong to the managed runtime's thread object. They are used as long as the thread
/// is registered; [`retire`](Self::retire) ends that, under the lock that the other two take.
///
/// The laps and the cursor change together when the ring wraps. Like a sequence lock's counter,
/// `lap_changes` is odd meanwhile, so that the control thread can tell that it saw both before or both
/// after.
pub struct ThreadTrace {
    /// Address of the ring's first slot; 0 without a ring.
    base: AtomicUsize,
    /// Address of the guard page.
    end: AtomicUsize,
    /// Completed laps.
    laps: AtomicU64,
    lap_changes: AtomicU32,
    /// The thread that woke this one from the wait that it is in; 0: none so far.
    waker: AtomicU32,
    tid: u32,
    words: WordsAddress,
    pub(crate) stop_word: StopWord,
    /// Whether the thread is started and stopped as [`lock_free`](crate::lock_free) says.
    pub(crate) lock_free: bool,
    inner: Mutex<Inner>,
}

/// What whoever starts or stops the thread uses.
pub(crate) struct Inner {
    name: String,
    /// The thread has ended, or is about to: its words must not be touched any more.
    pub(crate) retired: bool,
    pub(crate) ring: Option<Ring>,
    /// What is being asked for, without a safepoint.
    pub(crate) exchange: Option<Exchange>,
    /// Calls that were under way when recording into the ring began are in an earlier ring, or in none.
    continues: bool,
    started_counter: u64,
    anchors: AnchorLog,
}

/// Address of the words in the managed runtime's thread object.
#[derive(Clone, Copy)]
struct WordsAddress(*const ThreadWords);

// SAFETY: an address; what may be done with it when is written at `ThreadTrace`.
unsafe impl Send for WordsAddress {}
// SAFETY: as above.
unsafe impl Sync for WordsAddress {}

impl WordsAddress {
    /// # Safety
    /// The thread has not retired: the caller is the thread, or holds the lock and has looked.
    unsafe fn get(&self) -> &ThreadWords {
        // SAFETY: aligned (`ThreadTrace::new` asks for it) and alive, says the caller. Compiled code
        // writes the cursor with plain aligned stores, which a relaxed load may race with.
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
    /// The configuration says so.
    Configuration = 0,
    /// Somebody asked for it.
    Request = 1,
}

/// A ring that was taken from its thread, with all that is needed to read it.
#[derive(Debug)]
pub struct TakenRing {
    /// The memory; nobody writes to it any more.
    pub ring: Ring,
    /// Whose it was, and where it stood.
    pub header: RingHeader,
    /// When its cursor stood where.
    pub anchors: Vec<Anchor>,
    /// It goes on where another ring of the thread was taken, or in the middle of the thread's life: its
    /// first exits may belong to entries that are not in it.
    pub continues: bool,
}

impl TakenRing {
    /// The slots recorded, oldest first.
    pub fn slots(&self) -> Slots<'_> {
        // SAFETY: the ring was taken from its thread at a safepoint, so nobody writes to it.
        Slots::new(unsafe { self.ring.bytes() }, self.header.position)
    }

    /// The part of the ring's memory that was written.
    pub fn written_bytes(&self) -> &[u8] {
        // SAFETY: as above.
        let bytes = unsafe { self.ring.bytes() };
        match self.header.position {
            Position { laps: 0, offset } => &bytes[..(offset as usize).min(bytes.len())],
            _ => bytes,
        }
    }
}

/// Calls `append` with the words that say that the method at this address is entered: one slot, or two above 4 GiB.
fn with_entry(method: u64, append: impl FnOnce(&[u64])) {
    let counter = clock::counter();
    match u32::try_from(method) {
        Ok(low) if low >= FIRST_METHOD => append(&[Slot::entry(low, counter).0]),
        _ => append(&[method, Slot::wide_entry(counter).0]),
    }
}

/// How far a ring's cursor is from its base, in bytes of slots.
fn offset(cursor: usize, base: usize) -> u64 {
    (cursor.wrapping_sub(base) / SLOT_STRIDE * SLOT_BYTES) as u64
}

impl ThreadTrace {
    /// A registered thread, not yet traced.
    ///
    /// # Safety
    /// `words` are the aligned words that the thread's trace points use, and stay valid until
    /// [`retire`](Self::retire).
    pub unsafe fn new(tid: u32, name: &str, words: *const ThreadWords) -> Self {
        ThreadTrace {
            base: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            laps: AtomicU64::new(0),
            lap_changes: AtomicU32::new(0),
            waker: AtomicU32::new(0),
            tid,
            words: WordsAddress(words),
            stop_word: StopWord::unused(),
            lock_free: false,
            inner: Mutex::new(Inner {
                name: name.to_owned(),
                retired: false,
                ring: None,
                exchange: None,
                continues: false,
                started_counter: 0,
                anchors: AnchorLog::default(),
            }),
        }
    }

    /// The kernel's id of the thread.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// The thread's name.
    pub fn name(&self) -> String {
        self.lock().name.clone()
    }

    /// Takes note of a new name.
    pub fn rename(&self, name: &str) {
        name.clone_into(&mut self.lock().name);
    }

    /// Whether the thread has a ring.
    pub fn is_traced(&self) -> bool {
        self.base.load(Ordering::Relaxed) != 0
    }

    /// The counter when recording into the ring that it has began; `None` without one. No event in the ring
    /// is older.
    pub(crate) fn started_counter(&self) -> Option<u64> {
        let inner = self.lock();
        inner.ring.as_ref().map(|_| inner.started_counter)
    }

    pub(crate) fn words_address(&self) -> *const ThreadWords {
        self.words.0
    }

    /// # Safety
    /// The thread has not retired: the caller is the thread, or holds the lock and has looked.
    pub(crate) unsafe fn words(&self) -> &ThreadWords {
        // SAFETY: says the caller.
        unsafe { self.words.get() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Starts recording into `ring`, with an event that says so; gives the ring back if the thread already
    /// records, or has retired.
    ///
    /// # Safety
    /// The thread is at a safepoint, or is the caller.
    pub unsafe fn begin(&self, ring: Ring, reason: StartReason) -> Result<(), Ring> {
        let mut inner = self.lock();
        if inner.ring.is_some() || inner.retired {
            return Err(ring);
        }
        // SAFETY: at a safepoint the thread is not recording.
        unsafe { self.install_first(&mut inner, ring, reason) };
        self.publish(&inner);
        Ok(())
    }

    /// Points the thread to a ring whose first event says that recording started.
    ///
    /// # Safety
    /// The thread is not recording, and has not retired.
    pub(crate) unsafe fn install_first(&self, inner: &mut Inner, ring: Ring, reason: StartReason) {
        // A thread that runs has calls under way.
        let continues = reason == StartReason::Request;
        self.install(inner, Some(ring), continues);
        self.forget_waker();
        let started = Slot::extension(Extension::Started, clock::counter()).0;
        // SAFETY: says the caller.
        unsafe { self.append_at(self.words.get().cursor(), &[reason as u64, started]) };
    }

    /// Points the thread to this ring, or to none.
    pub(crate) fn install(&self, inner: &mut Inner, ring: Option<Ring>, continues: bool) {
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
        let points = match (&ring, self.lock_free) {
            (None, _) => Points::Off,
            (Some(_), false) => Points::Record,
            (Some(_), true) => Points::Ask,
        };
        inner.ring = ring;
        // SAFETY: the callers hold the lock, and the thread has not retired.
        unsafe {
            self.words.get().set_cursor(cursor);
            if self.lock_free {
                self.set_points(points);
            } else {
                self.words.get().set_points(points);
            }
        }
    }

    /// Takes the ring. With a `replacement` recording goes on in that, without a gap; without one it
    /// stops, and the ring's last event says so. `None`, and the replacement given back, if the thread was not recording.
    ///
    /// # Safety
    /// The thread is at a safepoint, or is the caller.
    pub unsafe fn take(&self, replacement: &mut Option<Ring>) -> Option<TakenRing> {
        let mut inner = self.lock();
        let taken = self.take_locked(&mut inner, replacement);
        self.publish(&inner);
        taken
    }

    pub(crate) fn take_locked(
        &self,
        inner: &mut Inner,
        replacement: &mut Option<Ring>,
    ) -> Option<TakenRing> {
        if inner.retired {
            return None;
        }
        let ring = inner.ring.take()?;
        // SAFETY: the thread has not retired, and the lock is held.
        let words = unsafe { self.words.get() };
        if replacement.is_none() {
            let stopped = Slot::extension(Extension::Stopped, clock::counter()).0;
            // SAFETY: the thread is at a safepoint or the caller, and so is not recording.
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
            },
            anchors: inner.anchors.take(),
            continues: inner.continues,
            ring,
        };
        self.install(inner, replacement.take(), true);
        Some(taken)
    }

    /// The thread will record no more, and its words are about to go. Returns its ring.
    ///
    /// # Safety
    /// Called by the thread itself.
    pub unsafe fn retire(&self) -> Option<TakenRing> {
        let mut inner = self.lock();
        let taken = self.take_locked(&mut inner, &mut None);
        inner.retired = true;
        self.publish(&inner);
        taken
    }

    /// Appends words to the ring; `cursor` is the thread's cursor word. Does nothing while the thread
    /// is not traced.
    ///
    /// # Safety
    /// Called by the thread itself, which [may record](Self::may_record) and has read the counter since it asked, with
    /// the cursor among the words given to [`new`](Self::new).
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
    /// The caller is the thread itself, or the thread is at a safepoint; `cursor` is its cursor.
    unsafe fn append_at(&self, cursor: &AtomicUsize, words: &[u64]) {
        let mut at = cursor.load(Ordering::Relaxed);
        if at as u64 == CURSOR_OFF {
            return;
        }
        for word in words {
            if at == self.end.load(Ordering::Relaxed) {
                at = self.next_lap();
            }
            // SAFETY: a slot of the ring: at least one, since `at` is not the end.
            unsafe { write_slot(at, *word) };
            at += SLOT_STRIDE;
        }
        cursor.store(at, Ordering::Relaxed);
    }

    /// Starts the next lap; returns the address of the ring's first slot. Called by the thread itself.
    ///
    /// The cursor stands at the ring's start from here on, though the event being recorded is not
    /// complete: an event that wraps in its middle has slots before that, which count as written.
    fn next_lap(&self) -> usize {
        let base = self.base.load(Ordering::Relaxed);
        let changes = self.lap_changes.load(Ordering::Relaxed);
        self.lap_changes
            .store(changes.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let laps = self.laps.load(Ordering::Relaxed);
        self.laps.store(laps.wrapping_add(1), Ordering::Relaxed);
        // SAFETY: the caller is the thread.
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
    /// As `append`: called by the thread itself, with its cursor word.
    pub unsafe fn record_entry(&self, cursor: *mut usize, method: u64) {
        if self.may_record() {
            // SAFETY: passed on to the caller.
            with_entry(method, |words| unsafe { self.append(cursor, words) });
        }
    }

    /// Appends the entry of the method at this address, or an exit if that is 0, without looking whether the thread
    /// shall record.
    ///
    /// # Safety
    /// Called by the thread itself, which shall.
    pub(crate) unsafe fn append_point(&self, method: u64) {
        // SAFETY: the caller is the thread, whose words are valid.
        let append = |words: &[u64]| unsafe { self.append_at(self.words.get().cursor(), words) };
        match method {
            0 => append(&[Slot::exit(clock::counter()).0]),
            _ => with_entry(method, append),
        }
    }

    /// Records a method exit.
    ///
    /// # Safety
    /// As [`record_entry`](Self::record_entry).
    pub unsafe fn record_exit(&self, cursor: *mut usize) {
        if self.may_record() {
            // SAFETY: passed on to the caller.
            unsafe { self.append(cursor, &[Slot::exit(clock::counter()).0]) }
        }
    }

    /// Records an extension event with one word of payload.
    ///
    /// # Safety
    /// As [`record_entry`](Self::record_entry).
    pub unsafe fn record_extension(&self, cursor: *mut usize, extension: Extension, payload: u64) {
        debug_assert_eq!(payload_slots(extension.number()), 1);
        if self.may_record() {
            let closing = Slot::extension(extension, clock::counter()).0;
            // SAFETY: passed on to the caller.
            unsafe { self.append(cursor, &[payload, closing]) }
        }
    }

    /// Records that the thread is about to wait for a lock: who has it (the kernel's thread id, 0 if that is
    /// not known), and which it is (any number that is the same as long as the lock lives).
    ///
    /// # Safety
    /// As [`record_entry`](Self::record_entry).
    pub unsafe fn record_lock_wait(&self, cursor: *mut usize, owner_tid: u32, lock: u64) {
        if self.may_record() {
            let closing = Slot::extension(Extension::LockWait, clock::counter()).0;
            // SAFETY: passed on to the caller.
            unsafe { self.append(cursor, &[u64::from(owner_tid), lock, closing]) }
        }
    }

    /// The thread begins to wait: who will wake it is not known yet.
    pub fn forget_waker(&self) {
        self.waker.store(0, Ordering::Relaxed);
    }

    /// The thread, which waits, is woken by the thread with this id. Called by the latter.
    pub fn woken_by(&self, waker: u32) {
        self.waker.store(waker, Ordering::Relaxed);
    }

    /// Records that the thread was woken, if it was since [`forget_waker`](Self::forget_waker).
    ///
    /// # Safety
    /// As [`record_entry`](Self::record_entry).
    pub unsafe fn record_woken(&self, cursor: *mut usize) {
        let waker = self.waker.swap(0, Ordering::Relaxed);
        if waker != 0 {
            // SAFETY: passed on to the caller.
            unsafe { self.record_extension(cursor, Extension::WokenBy, u64::from(waker)) }
        }
    }

    /// Whether a fault at this address, with this in the cursor register, is a store onto this thread's
    /// guard page. Async-signal-safe.
    pub fn is_at_guard(&self, fault_address: usize, cursor: usize) -> bool {
        let end = self.end.load(Ordering::Relaxed);
        end != 0 && cursor == end && (end..end + SLOT_BYTES).contains(&fault_address)
    }

    /// For the handler of a fault: where to go on, if a trace point that had `cursor` in its cursor
    /// register ran onto this thread's guard page. Counts the lap. Async-signal-safe.
    pub fn wrap(&self, fault_address: usize, cursor: usize) -> Option<usize> {
        if !self.is_at_guard(fault_address, cursor) {
            return None;
        }
        Some(self.next_lap())
    }

    /// How many anchors there are.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn anchors(&self) -> usize {
        self.lock().anchors.len()
    }

    /// Notes when the cursor stood where. False if the thread recorded so busily that no moment
    /// between two events was found.
    ///
    /// The counter is read between two looks at the cursor that agree: slots before it were written
    /// no later, slots from it on are published later.
    pub fn sample_anchor(&self) -> bool {
        /// At some 50 ns each, while events are rarely closer than that.
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
        // A cursor before the ring's start cannot be; after a bug, it must not become an overflow.
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

    /// A thread of this test's own, with these words.
    fn traced(words: &ThreadWords) -> ThreadTrace {
        // SAFETY: the words outlive the trace in every test.
        let trace = unsafe { ThreadTrace::new(1, "test", words) };
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
        trace.woken_by(7); // Too late for the wait that it was meant for.
        trace.forget_waker();
        // SAFETY: this test is the thread.
        let taken = unsafe {
            trace.record_woken(words.cursor().as_ptr());
            trace.woken_by(8);
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
        let base = trace.base.load(Ordering::Relaxed);
        let end = base + 4096;
        assert_eq!(trace.wrap(end, end), Some(base));
        assert_eq!(trace.wrap(end + 4, end), Some(base));
        assert_eq!(trace.wrap(end + 8, end), None);
        assert_eq!(trace.wrap(end, base), None);
        assert_eq!(trace.wrap(0, 0), None);
        assert_eq!(trace.laps.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn anchors_of_a_thread_that_stands_still_are_two() {
        let words = ThreadWords::new();
        let trace = traced(&words);
        for _ in 0..5 {
            trace.sample_anchor();
        }
        // SAFETY: this test is the thread.
        let anchors = unsafe {
            trace.record_exit(words.cursor().as_ptr());
            trace.sample_anchor();
            trace.take(&mut None).unwrap().anchors
        };
        assert_eq!(
            anchors.iter().map(|a| a.slots_written).collect::<Vec<_>>(),
            [2, 2, 3]
        );
        assert!(anchors.windows(2).all(|w| w[0].counter <= w[1].counter));
    }
}
