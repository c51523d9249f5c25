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
/// Slots of a `FullTime` event.
const FULL_TIME_SLOTS: usize = 3;
/// Slots of the last events of a ring: `StackAgain` and `Stopped`, each after a `FullTime`.
const LAST_SLOTS: usize = 3 + 1 + 2 * FULL_TIME_SLOTS;

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
        let now = clock::counter_in_order();
        self.install(inner, Some(ring), continues, now);
        // SAFETY: the caller guarantees that the thread does not record; it has not retired.
        unsafe { self.record_event(Extension::Started.number(), &[reason as u64]) };
        Ok(())
    }

    /// Points the thread to this ring, or to none.
    fn install(&self, inner: &mut Inner, ring: Option<Ring>, continues: bool, now: u64) {
        debug_assert!(!inner.retired);
        let (base, end) = ring.as_ref().map_or((0, 0), |r| (r.base(), r.end()));
        self.base.store(base, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.laps.store(0, Ordering::Relaxed);
        inner.started_counter = now;
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
        let taken = self.taken(inner, ring, cursor, clock::counter_in_order());
        let now = clock::counter_in_order();
        self.install(inner, replacement.take(), true, now);
        Some(taken)
    }

    /// The ring that `inner` had, with the data that readers need; `cursor` is its cursor, and no event in it is newer than
    /// `now`.
    fn taken(&self, inner: &mut Inner, ring: Ring, cursor: usize, now: u64) -> TakenRing {
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
                stopped_counter: now,
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
        if self.needs_full_time(counter) {
            self.make_room(FULL_TIME_SLOTS, counter);
        }
        // Another ring begins with the whole time.
        if self.needs_full_time(counter) {
            let closing = Slot::extension(Extension::FullTime, counter).0;
            self.newest_whole.store(counter, Ordering::Relaxed);
            // SAFETY: the caller is the thread and may record, or holds the lock while the thread does not record.
            unsafe { self.append_at(&self.events_cursor, &[before, counter, closing]) };
        }
        self.make_room(words.len(), counter);
        self.newest.store(counter, Ordering::Relaxed);
        // SAFETY: the caller is the thread and may record, or holds the lock while the thread does not record.
        unsafe { self.append_at(&self.events_cursor, words) };
    }

    /// Whether the low half of this counter does not show how long ago the last whole one was.
    #[inline]
    fn needs_full_time(&self, counter: u64) -> bool {
        counter - self.newest_whole.load(Ordering::Relaxed) >= WHOLE_COUNTER_AFTER
    }

    /// If this many slots of an event of this time do not fit into the rest of the ring for events only, gives the ring to
    /// the spool and goes on in another one. If the spool is busy, or has none, the ring wraps: its oldest events are
    /// overwritten.
    #[inline]
    fn make_room(&self, slots: usize, counter: u64) {
        if !self.has_room(slots) {
            self.exchange_full_ring(counter);
        }
    }

    #[inline]
    fn has_room(&self, slots: usize) -> bool {
        let at = self.events_cursor.load(Ordering::Relaxed);
        at + slots * SLOT_STRIDE <= self.end.load(Ordering::Relaxed)
    }

    #[cold]
    fn exchange_full_ring(&self, counter: u64) {
        // Never waits: the control thread may hold the lock, to take the ring.
        if let Ok(mut inner) = self.inner.try_lock() {
            self.exchange(&mut inner, counter);
        }
    }

    /// Exchanges the ring for an empty one, in which the event of this time will be the first.
    fn exchange(&self, inner: &mut Inner, counter: u64) {
        let Some(spool) = &self.spool else {
            return;
        };
        if inner.retired || inner.mode() != Some(RingMode::Events) {
            return;
        }
        let Some(next) = spool.take_free() else {
            return;
        };
        if let Some(ring) = inner.ring.take() {
            let cursor = self.events_cursor.load(Ordering::Relaxed);
            // The time of the event was read before: a later one would not be that of the ring's start.
            let full = self.taken(inner, ring, cursor, counter);
            self.install(inner, Some(next), true, counter);
            spool.put_soon(full);
        }
    }

    /// Makes room for the last events of a ring. The lock is held, so that they cannot exchange it themselves.
    ///
    /// # Safety
    /// The thread does not record meanwhile, or is the caller.
    pub(crate) unsafe fn make_room_for_last(&self, inner: &mut Inner) {
        self.make_room_locked(inner, LAST_SLOTS);
    }

    /// As [`make_room`](Self::make_room), with the lock: events that are recorded while it is held cannot exchange the ring.
    fn make_room_locked(&self, inner: &mut Inner, slots: usize) {
        if self.records_events_only() && !self.has_room(slots) {
            let newest = self.newest.load(Ordering::Relaxed);
            self.exchange(inner, clock::counter().max(newest));
        }
    }

    /// As [`record_event`](Self::record_event), for a thread that is in native code, or suspended: there the control thread
    /// may change its ring, which the lock rules out.
    ///
    /// # Safety
    /// Called by the thread itself, which does not hold the lock.
    pub(crate) unsafe fn record_event_suspended(&self, number: u32, payload: &[u64]) {
        let mut inner = self.lock();
        if inner.ring.is_some() && !inner.retired {
            self.make_room_locked(&mut inner, payload.len() + 1 + FULL_TIME_SLOTS);
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
mod tests;
