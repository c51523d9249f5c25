// SPDX-License-Identifier: Apache-2.0
//! The trace of one thread: its ring, its cursor and its anchors.

use std::sync::Arc;

use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::container::{Anchor, RingHeader, RingMode};
use hindsight_trace_format::ring::{Position, CURSOR_OFF};
use hindsight_trace_format::slot::{
    payload_slots, Extension, Slot, FIRST_METHOD, PAYLOAD_MASK, SLOT_BYTES,
};

use crate::clock;
use crate::sync::{fence, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::thread::anchors::AnchorLog;
use crate::thread::resources::Resources;
use crate::thread::ring::{write_slot, Ring, SLOT_STRIDE};
use crate::thread::spool::Spool;
use crate::thread::taken::TakenRing;
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
/// The ring's mode says what the thread records. Compiled trace points use the cursor among the thread's words, which is 0
/// unless the thread records calls; a thread that records events only has its cursor here.
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
    /// Address of the next slot of a ring for events only; 0 without such a ring.
    events_cursor: AtomicUsize,
    /// The counter at the newest event in a ring for events only, ticks.
    newest: AtomicU64,
    /// The counter at the newest event with a whole counter in a ring for events only, ticks.
    newest_whole: AtomicU64,
    resources: Resources,
    tid: u32,
    number: u64,
    words: WordsAddress,
    /// The categories of events that the thread records while it has a ring, as bits.
    categories: AtomicU32,
    /// Takes full rings of a thread that records events only. Without it, or while it is busy, the ring wraps.
    spool: Option<Arc<Spool>>,
    inner: Mutex<Inner>,
}

/// The most slots that an event has.
const MAX_EVENT_SLOTS: usize = PAYLOAD_MASK as usize + 1;
/// Ticks after which a thread that records events only records the whole counter: half a wrap of the 32 bits in a slot.
const WHOLE_COUNTER_AFTER: u64 = 1 << 31;

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
    /// Rings that the thread had before this one.
    parts: u32,
    anchors: AnchorLog,
}

impl Inner {
    /// Whether the thread has a ring.
    #[cfg(feature = "lock-free")]
    pub(crate) fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// What the thread records; `None` without a ring.
    pub(crate) fn mode(&self) -> Option<RingMode> {
        self.ring.as_ref().map(Ring::mode)
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
    /// The thread has not retired: the caller is the thread before its retirement, or holds the lock of `inner` and has
    /// read there that it has not.
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
    /// A registered thread that is not traced yet; `number` is unique in the process.
    ///
    /// # Safety
    /// `words` are the aligned words that the thread's trace points use, and stay valid until
    /// [`retire`](Self::retire).
    pub(crate) unsafe fn new(
        tid: u32,
        number: u64,
        name: &str,
        words: *const ThreadWords,
        spool: Option<Arc<Spool>>,
    ) -> Self {
        ThreadTrace {
            base: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            laps: AtomicU64::new(0),
            lap_changes: AtomicU32::new(0),
            events_cursor: AtomicUsize::new(0),
            newest: AtomicU64::new(0),
            newest_whole: AtomicU64::new(0),
            resources: Resources::default(),
            tid,
            number,
            words: WordsAddress(words),
            categories: AtomicU32::new(0),
            spool,
            inner: Mutex::new(Inner {
                name: name.to_owned(),
                retired: false,
                ring: None,
                continues: false,
                started_counter: 0,
                parts: 0,
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

    /// Whether the thread records its calls.
    pub(crate) fn is_traced(&self) -> bool {
        self.records() && !self.records_events_only()
    }

    /// Whether the thread has a ring.
    pub(crate) fn records(&self) -> bool {
        self.base.load(Ordering::Relaxed) != 0
    }

    /// Whether the thread has a ring for events only.
    pub(crate) fn records_events_only(&self) -> bool {
        self.events_cursor.load(Ordering::Relaxed) != 0
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
        // SAFETY: the caller guarantees that the thread does not record; it has not retired.
        unsafe { self.record_event(Extension::Started.number(), &[reason as u64]) };
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
        self.newest.store(inner.started_counter, Ordering::Relaxed);
        self.newest_whole
            .store(inner.started_counter, Ordering::Relaxed);
        let (calls, events) = match ring.as_ref().map(Ring::mode) {
            None => (CURSOR_OFF as usize, 0),
            Some(RingMode::Calls) => (base, 0),
            Some(RingMode::Events) => (CURSOR_OFF as usize, base),
        };
        inner.ring = ring;
        self.events_cursor.store(events, Ordering::Relaxed);
        // SAFETY: `inner` shows that the lock is held, and all callers have checked that the thread has not retired.
        unsafe {
            self.words.get().set_cursor(calls);
            self.show_events(inner);
        }
    }

    /// The cursor of the ring that the thread records into.
    ///
    /// # Safety
    /// The thread has not retired: the caller is the thread, or holds the lock and has checked it.
    unsafe fn cursor(&self) -> &AtomicUsize {
        if self.records_events_only() {
            &self.events_cursor
        } else {
            // SAFETY: the caller guarantees that the thread has not retired.
            unsafe { self.words.get() }.cursor()
        }
    }

    /// Changes with each event that is recorded, and with each change of the ring.
    ///
    /// # Safety
    /// The thread has not retired: the caller is the thread, or holds the lock and has checked it.
    pub(crate) unsafe fn place(&self) -> [u64; 3] {
        // SAFETY: the caller guarantees that the thread has not retired.
        let cursor = unsafe { self.cursor() }.load(Ordering::Relaxed);
        [
            cursor as u64,
            self.laps.load(Ordering::Relaxed),
            // Since each ring's start.
            self.newest.load(Ordering::Relaxed),
        ]
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
        if replacement.is_none() {
            // SAFETY: the thread has not retired, and `inner` shows that the lock is held. The caller guarantees that
            // the thread does not record.
            unsafe { self.record_event(Extension::Stopped.number(), &[]) };
        }
        // SAFETY: the thread has not retired, and `inner` shows that the lock is held.
        let cursor = unsafe { self.cursor() }.load(Ordering::Relaxed);
        let taken = self.taken(inner, ring, cursor);
        self.install(inner, replacement.take(), true);
        Some(taken)
    }

    /// The ring that `inner` had, with the data that readers need; `cursor` is its cursor.
    fn taken(&self, inner: &mut Inner, ring: Ring, cursor: usize) -> TakenRing {
        let mut taken = TakenRing {
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
                thread: self.number,
                part: inner.parts,
                mode: ring.mode(),
            },
            anchors: inner.anchors.take(),
            continues: inner.continues,
            ring,
        };
        inner.parts += 1;
        if taken.header.mode == RingMode::Events {
            // Binds the newest event; `FullTime` events bind the others.
            taken.anchors = vec![Anchor {
                counter: self.newest.load(Ordering::Relaxed),
                slots_written: taken.header.position.slots_written(taken.header.geometry),
            }];
        }
        taken
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
        unsafe { self.cursor() }.store(base, Ordering::Relaxed);
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

    /// Records an event. Does nothing if the payload is not as long as the event's number says.
    ///
    /// # Safety
    /// Called by the thread itself, which may record; or the thread does not record meanwhile, and the caller holds the
    /// lock.
    #[inline]
    pub(crate) unsafe fn record_event(&self, number: u32, payload: &[u64]) {
        if payload.len() != payload_slots(number) {
            debug_assert!(false, "event {number:#x} with {} words", payload.len());
            return;
        }
        let counter = clock::counter();
        let mut words = [0; MAX_EVENT_SLOTS];
        let slots = payload.len() + 1;
        words[..payload.len()].copy_from_slice(payload);
        words[payload.len()] = Slot::new(number, counter).0;
        if self.records_events_only() {
            // SAFETY: the caller is the thread and may record, or holds the lock while the thread does not record.
            unsafe { self.append_event(counter, &words[..slots]) };
        } else {
            // SAFETY: the caller is the thread and may record, or holds the lock while the thread does not record.
            unsafe { self.append_at(self.cursor(), &words[..slots]) };
        }
    }

    /// Appends an event of this time, in ticks, to a ring for events only.
    ///
    /// # Safety
    /// As [`record_event`](Self::record_event).
    unsafe fn append_event(&self, counter: u64, words: &[u64]) {
        let before = self.newest.load(Ordering::Relaxed);
        // The counters of two processors may differ by some ticks.
        let counter = counter.max(before);
        let whole = self.newest_whole.load(Ordering::Relaxed);
        if counter - whole >= WHOLE_COUNTER_AFTER {
            let closing = Slot::extension(Extension::FullTime, counter).0;
            self.make_room(3);
            self.newest_whole.store(counter, Ordering::Relaxed);
            // SAFETY: the caller is the thread and may record, or holds the lock while the thread does not record.
            unsafe { self.append_at(&self.events_cursor, &[before, counter, closing]) };
        }
        self.make_room(words.len());
        self.newest.store(counter, Ordering::Relaxed);
        // SAFETY: the caller is the thread and may record, or holds the lock while the thread does not record.
        unsafe { self.append_at(&self.events_cursor, words) };
    }

    /// If this many slots do not fit into the rest of the ring for events only, gives the ring to the spool and goes on in
    /// another one. If the spool is busy, or has none, the ring wraps: its oldest events are overwritten.
    #[inline]
    fn make_room(&self, slots: usize) {
        let at = self.events_cursor.load(Ordering::Relaxed);
        if at + slots * SLOT_STRIDE > self.end.load(Ordering::Relaxed) {
            self.exchange_full_ring(at);
        }
    }

    #[cold]
    fn exchange_full_ring(&self, cursor: usize) {
        let Some(spool) = &self.spool else {
            return;
        };
        // Never waits: the control thread may hold the lock, to take the ring.
        let Ok(mut inner) = self.inner.try_lock() else {
            return;
        };
        if inner.retired || inner.mode() != Some(RingMode::Events) {
            return;
        }
        let Some(next) = spool.take_free() else {
            return;
        };
        if let Some(ring) = inner.ring.take() {
            let full = self.taken(&mut inner, ring, cursor);
            self.install(&mut inner, Some(next), true);
            spool.put_soon(full);
        }
    }

    /// As [`record_event`](Self::record_event), for a thread that is in native code, or suspended: there the control thread
    /// may change its ring, which the lock rules out.
    ///
    /// # Safety
    /// Called by the thread itself, which does not hold the lock.
    pub(crate) unsafe fn record_event_suspended(&self, number: u32, payload: &[u64]) {
        let inner = self.lock();
        if inner.ring.is_some() && !inner.retired {
            // A full ring wraps here: the exchange needs the lock.
            // SAFETY: the caller is the thread, and the lock is held.
            unsafe { self.record_event(number, payload) };
        }
    }

    /// Records what the thread has used, unless it did so less than a millisecond ago. `objects` and `bytes` are what it has
    /// allocated so far.
    ///
    /// # Safety
    /// As [`record_event`](Self::record_event).
    pub(crate) unsafe fn record_resources(&self, objects: u64, bytes: u64) {
        self.resources.read(objects, bytes, |event, payload| {
            // SAFETY: the caller of `record_resources` is the thread and may record.
            unsafe { self.record_event(event.number(), payload) }
        });
    }

    /// Changes the categories of events, as bits, that the thread records while it has a ring.
    pub(crate) fn set_events(&self, categories: u32) {
        self.categories.store(categories, Ordering::Relaxed);
        let inner = self.lock();
        if !inner.retired {
            // SAFETY: the lock is held, and the thread has not retired.
            unsafe { self.show_events(&inner) };
        }
    }

    /// Tells the managed runtime which events the thread records now.
    ///
    /// # Safety
    /// `inner` belongs to this thread, which has not retired.
    unsafe fn show_events(&self, inner: &Inner) {
        let categories = self.categories.load(Ordering::Relaxed);
        let mask = match inner.mode() {
            None => 0,
            Some(RingMode::Calls) => categories | Category::Recording.bit(),
            Some(RingMode::Events) => categories,
        };
        // SAFETY: the caller holds the lock, and the thread has not retired.
        unsafe { self.words.get() }.set_events(mask);
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
        // A ring for events only has whole counters in it.
        let recording = |ring: &&Ring| !inner.retired && ring.mode() == RingMode::Calls;
        let Some(ring) = inner.ring.as_ref().filter(recording) else {
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
    use crate::thread::ring::RingPool;
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
            trace.record_unwound(1);
            trace.record_event(Extension::LockWait.number(), &[77, 0xabcd]);
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

    fn events_ring() -> Ring {
        ring().with_mode(RingMode::Events)
    }

    /// A thread that records these events only; the test itself plays the thread.
    fn with_events(words: &ThreadWords, spool: Option<Arc<Spool>>) -> TracedThread {
        // SAFETY: the words outlive the trace in every test.
        let thread = unsafe { TracedThread::new_in_process(1, 5, "test", words, spool) };
        thread.trace().set_events(Category::Waits.bit());
        // SAFETY: this test is the thread.
        unsafe { thread.begin(events_ring(), StartReason::Configuration) }.unwrap();
        thread
    }

    /// The events in a ring, oldest first, with their payloads.
    fn events(taken: &TakenRing) -> Vec<(Extension, Vec<u64>)> {
        let mut events: Vec<_> = (taken.slots().events())
            .filter_map(|e| match e.event() {
                Event::Extension { number } => {
                    Some((Extension::from_number(number)?, e.payloads().collect()))
                }
                _ => None,
            })
            .collect();
        events.reverse();
        events
    }

    #[test]
    fn a_thread_with_events_only_has_no_trace_points() {
        let words = ThreadWords::new();
        let thread = with_events(&words, None);
        assert_eq!(words.events(), Category::Waits.bit());
        assert!(!words.is_marked_traced() && !thread.trace().is_traced());
        let wakes = Extension::Wakes.number();
        // SAFETY: this test is the thread.
        let (only_events, with_calls) = unsafe {
            thread.record_entry(words.cursor().as_ptr(), 0x7000_1000);
            thread.record_event(wakes, &[1]);
            thread.record_event_suspended(wakes, &[2]);
            let only_events = thread.take(&mut Some(ring())).unwrap();
            assert!(words.is_marked_traced() && thread.trace().is_traced());
            thread.record_event(wakes, &[3]);
            thread.record_exit(words.cursor().as_ptr());
            (only_events, thread.retire().unwrap())
        };
        let wakes = |n| (Extension::Wakes, vec![n]);
        assert_eq!(
            events(&only_events),
            [(Extension::Started, vec![0]), wakes(1), wakes(2)]
        );
        assert_eq!(only_events.slots().events().count(), 3, "no calls");
        assert_eq!(
            events(&with_calls),
            [wakes(3), (Extension::Stopped, vec![])]
        );
        assert_eq!(with_calls.slots().events().count(), 3, "and an exit");
        let header =
            |taken: &TakenRing| (taken.header.thread, taken.header.part, taken.header.mode);
        assert_eq!(header(&only_events), (5, 0, RingMode::Events));
        assert_eq!(header(&with_calls), (5, 1, RingMode::Calls));
        assert_eq!(words.events(), 0);
    }

    #[test]
    fn full_rings_of_events_go_to_the_spool_oldest_out_first() {
        let pool = RingPool::with_mode(ring().geometry(), RingMode::Events);
        let spool = Arc::new(Spool::new(2, pool));
        let words = ThreadWords::new();
        let thread = with_events(&words, Some(Arc::clone(&spool)));
        // An event has 2 slots, and the first ring 2 for the start.
        let a_ring = (4096 / SLOT_BYTES / 2) as u64;
        let count = 4 * a_ring + 3;
        for i in 0..count {
            // SAFETY: this test is the thread.
            unsafe { thread.record_event(Extension::Wakes.number(), &[i]) };
        }
        // SAFETY: this test is the thread.
        let last = unsafe { thread.retire() }.unwrap();
        let (mut rings, dropped) = spool.take_all();
        assert_eq!((rings.len(), dropped), (2, 2));
        rings.push(last);
        assert_eq!(
            rings.iter().map(|r| r.header.part).collect::<Vec<_>>(),
            [2, 3, 4]
        );
        let numbers: Vec<u64> = (rings.iter().flat_map(events))
            .filter(|(e, _)| *e == Extension::Wakes)
            .map(|(_, payload)| payload[0])
            .collect();
        let oldest = 2 * a_ring - 1;
        assert_eq!(numbers, (oldest..count).collect::<Vec<_>>());
    }

    #[test]
    fn a_ring_of_events_wraps_where_the_spool_is_busy() {
        let words = ThreadWords::new();
        let thread = with_events(&words, None);
        for i in 0..1000 {
            // SAFETY: this test is the thread.
            unsafe { thread.record_event(Extension::Wakes.number(), &[i]) };
        }
        // SAFETY: this test is the thread.
        let taken = unsafe { thread.retire() }.unwrap();
        assert_eq!(taken.header.position.laps, 3);
        let events = events(&taken);
        assert_eq!(events[events.len() - 2], (Extension::Wakes, vec![999]));
        // The stop has one slot, so the oldest event is cut.
        assert_eq!(events.len(), 256);
    }

    #[test]
    fn whole_counters_bound_a_long_pause() {
        let words = ThreadWords::new();
        let thread = with_events(&words, None);
        let record = || {
            // SAFETY: this test is the thread.
            unsafe { thread.record_event(Extension::Wakes.number(), &[1]) }
        };
        record();
        let before = thread.trace().newest.load(Ordering::Relaxed);
        let long_ago = before.saturating_sub(WHOLE_COUNTER_AFTER);
        thread
            .trace()
            .newest_whole
            .store(long_ago, Ordering::Relaxed);
        record();
        record();
        // SAFETY: this test is the thread.
        let taken = unsafe { thread.retire() }.unwrap();
        let events = events(&taken);
        let (kind, payload) = &events[2];
        assert_eq!((*kind, payload[0]), (Extension::FullTime, before));
        assert!(payload[1] >= before);
        assert_eq!(events.len(), 6, "{events:?}");
        let [anchor] = taken.anchors[..] else {
            panic!("{:?}", taken.anchors);
        };
        assert!(anchor.counter >= payload[1]);
        let newest = taken.slots().events().next().unwrap();
        assert_eq!(
            newest.counter(),
            anchor.counter as u32,
            "of the newest event"
        );
        assert_eq!(anchor.slots_written, 2 + 2 + 3 + 2 + 2 + 1);
    }

    #[test]
    fn an_event_with_the_wrong_payload_is_not_recorded() {
        let words = ThreadWords::new();
        let thread = with_events(&words, None);
        let wrong = std::panic::catch_unwind(|| {
            // SAFETY: this test is the thread.
            unsafe { thread.record_event(Extension::Wakes.number(), &[1, 2]) }
        });
        assert_eq!(wrong.is_err(), cfg!(debug_assertions));
        // SAFETY: this test is the thread.
        let taken = unsafe { thread.retire() }.unwrap();
        assert_eq!(events(&taken).len(), 2);
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
