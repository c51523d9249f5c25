// SPDX-License-Identifier: Apache-2.0
//! The trace of one thread: its ring and its cursor.

mod place;

use std::sync::Arc;

use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::container::{Anchor, Epochs, RingHeader, RingMode};
use hindsight_trace_format::ring::CURSOR_OFF;
#[cfg(feature = "check-rewind")]
use hindsight_trace_format::ring::{Geometry, MIN_LOG2_BYTES};
#[cfg(not(feature = "loom"))]
use hindsight_trace_format::shared::UnderWay;
use hindsight_trace_format::slot::{
    payload_slots, Event, Extension, Slot, FIRST_METHOD, PAYLOAD_MASK, SLOT_BYTES,
};

use crate::clock;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::thread::resources::Resources;
#[cfg(feature = "check-rewind")]
use crate::thread::rewind_log::{with_calls, RewindLog, TakenBack};
#[cfg(not(feature = "loom"))]
use crate::thread::ring;
use crate::thread::ring::{read_slot, write_slot, Ring, SLOT_STRIDE};
use crate::thread::spool::Spool;
use crate::thread::taken::TakenRing;
#[cfg(not(feature = "loom"))]
use crate::thread::under_way;
use crate::thread::words::ThreadWords;
use place::{Description, Place};

/// The trace of one thread that is registered with the managed runtime.
///
/// Two parties access it:
/// - the thread itself, at every event: the `record_` functions, and compiled trace points;
/// - the party that changes the ring: [`begin`](Self::begin), [`take`](Self::take). The thread does not record
///   meanwhile, because it is at a safepoint, is the caller, or has agreed to it by a handshake.
///
/// The [`ThreadWords`] belong to the managed runtime's thread object, and are valid while the thread is registered.
/// [`retire`](Self::retire) ends that, under the lock that the other party takes.
///
/// The ring's mode says what the thread records. Compiled trace points use the cursor among the thread's words, which is 0
/// unless the thread records calls; a thread that records events only has its cursor here.
///
/// A slot has the low 32 bits of the counter. Whoever appends to a ring of calls first compares the upper 32 bits with those
/// at the last slot ([`ThreadWords`]' epoch), and records [`Extension::FullTime`] if they differ: between two such events
/// the low half is enough. The exit of a call in which nothing was recorded moves the cursor back over the call's entry, if
/// the call was short. Compiled trace points do the same.
pub(crate) struct ThreadTrace {
    /// Where in its ring the thread records.
    place: Place,
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
    /// Calls that took fewer ticks are taken back; 0: none.
    rewind_below: AtomicU32,
    /// Takes full rings of a thread that records events only. Without it, or while it is busy, the ring wraps.
    spool: Option<Arc<Spool>>,
    inner: Mutex<Inner>,
}

/// The largest ring whose open calls are noted at the end of each lap, bytes: the thread reads the whole lap, in a signal
/// handler, some nanoseconds a slot.
#[cfg(not(feature = "loom"))]
const MAX_NOTED_BYTES: usize = 1 << 24;
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
    /// The largest limit of the calls taken back since recording into the ring began, ticks.
    longest_rewind: u32,
    /// The calls that the thread took back from this ring, for a test.
    #[cfg(feature = "check-rewind")]
    log: Option<RewindLog>,
    /// Whether each ring gets a log.
    #[cfg(feature = "check-rewind")]
    is_logged: bool,
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

/// Set once compiled code is there whose trace points do not mark epochs.
static HAS_UNMARKED_CODE: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// The process has compiled code that records in place, which neither marks epochs nor takes calls back. From now on rings
/// do not claim that their times are exact.
pub fn has_unmarked_code() {
    HAS_UNMARKED_CODE.store(true, Ordering::Relaxed);
}

fn are_epochs_marked() -> bool {
    !HAS_UNMARKED_CODE.load(Ordering::Relaxed)
}

/// Calls `append` with the slots of an entry, at this counter, of the method at this address: one slot, or two above 4 GiB.
fn with_entry(method: u64, counter: u64, append: impl FnOnce(&[u64])) {
    match u32::try_from(method) {
        Ok(low) if low >= FIRST_METHOD => append(&[Slot::entry(low, counter).0]),
        _ => append(&[method, Slot::wide_entry(counter).0]),
    }
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
            place: Place::default(),
            events_cursor: AtomicUsize::new(0),
            newest: AtomicU64::new(0),
            newest_whole: AtomicU64::new(0),
            resources: Resources::default(),
            tid,
            number,
            words: WordsAddress(words),
            categories: AtomicU32::new(0),
            rewind_below: AtomicU32::new(0),
            spool,
            inner: Mutex::new(Inner {
                name: name.to_owned(),
                retired: false,
                ring: None,
                continues: false,
                started_counter: 0,
                parts: 0,
                longest_rewind: 0,
                #[cfg(feature = "check-rewind")]
                log: None,
                #[cfg(feature = "check-rewind")]
                is_logged: false,
            }),
        }
    }

    /// The thread's kernel id.
    pub(crate) fn tid(&self) -> u32 {
        self.tid
    }

    /// Changes the name that later files have.
    pub(crate) fn rename(&self, name: &str) {
        let mut inner = self.lock();
        name.clone_into(&mut inner.name);
        self.place.rename(name);
    }

    /// Whether the thread records its calls.
    pub(crate) fn is_traced(&self) -> bool {
        self.records() && !self.records_events_only()
    }

    /// Whether the thread has a ring.
    pub(crate) fn records(&self) -> bool {
        self.place.base() != 0
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
        self.place.install(ring.as_ref());
        let base = self.place.base();
        inner.started_counter = now;
        inner.continues = continues;
        inner.longest_rewind = self.rewind_below.load(Ordering::Relaxed);
        if let Some(ring) = &ring {
            self.place.describe(&Description {
                mode: ring.mode(),
                log2_bytes: ring.geometry().log2_bytes(),
                slots: ring.offset(),
                tid: self.tid,
                part: inner.parts,
                thread: self.number,
                name: &inner.name,
                started: now,
                rewind_below: inner.longest_rewind,
                continues,
                epochs_marked: are_epochs_marked(),
            });
        }
        self.newest.store(inner.started_counter, Ordering::Relaxed);
        self.newest_whole
            .store(inner.started_counter, Ordering::Relaxed);
        let (calls, events) = match ring.as_ref().map(Ring::mode) {
            None => (CURSOR_OFF as usize, 0),
            Some(RingMode::Calls) => (base, 0),
            Some(RingMode::Events) => (CURSOR_OFF as usize, base),
        };
        inner.ring = ring;
        #[cfg(feature = "check-rewind")]
        self.install_log(inner);
        self.events_cursor.store(events, Ordering::Relaxed);
        // SAFETY: `inner` shows that the lock is held, and all callers have checked that the thread has not retired.
        unsafe {
            let words = self.words.get();
            words.set_epoch((now >> 32) as u32);
            words.set_taken_back(0);
            words.set_rewind_below(self.rewind_below.load(Ordering::Relaxed));
            words.set_cursor(calls);
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
            self.place.done(),
            // Since each ring's start.
            self.newest.load(Ordering::Relaxed),
        ]
    }

    /// Bytes of slots that the thread's ring has now; 0 without a ring. The thread may record meanwhile.
    pub(crate) fn written_bytes(&self) -> u64 {
        let inner = self.lock();
        let Some(ring) = inner.ring.as_ref().filter(|_| !inner.retired) else {
            return 0;
        };
        // SAFETY: the lock is held, and the thread has not retired.
        let cursor = unsafe { self.cursor() }.load(Ordering::Relaxed);
        let position = self.place.position(cursor);
        position.used_bytes(ring.geometry()) as u64
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
        let position = self.place.position(cursor);
        let epochs = match ring.mode() {
            // SAFETY: `inner` shows that the lock is held, and the callers have checked that the thread has not retired.
            RingMode::Calls => unsafe { self.epochs(inner) },
            RingMode::Events => None,
        };
        // Binds the newest event; `FullTime` events bind the others.
        let newest = match (ring.mode(), epochs) {
            (RingMode::Calls, Some(epochs)) => now.min(epochs.end()),
            (RingMode::Calls, None) => now,
            (RingMode::Events, _) => self.newest.load(Ordering::Relaxed),
        };
        let taken = TakenRing {
            header: RingHeader {
                tid: self.tid,
                name: inner.name.clone(),
                geometry: ring.geometry(),
                position,
                started_counter: inner.started_counter,
                stopped_counter: now,
                thread: self.number,
                part: inner.parts,
                mode: ring.mode(),
                epochs,
            },
            anchors: vec![Anchor {
                counter: newest,
                slots_written: position.slots_written(ring.geometry()),
            }],
            continues: inner.continues,
            segments_done: self.place.done(),
            ring,
        };
        self.place.taken(&taken.header);
        inner.parts += 1;
        #[cfg(feature = "check-rewind")]
        // SAFETY: `inner` shows that the lock is held; the callers have checked that the thread has not retired, and
        // guarantee that it does not record.
        let taken = unsafe { self.with_calls_taken_back(inner, taken) };
        taken
    }

    /// Nothing: rings of models do not have the page for it.
    #[cfg(feature = "loom")]
    pub(crate) fn note_under_way(&self, _taken: &TakenRing) {}

    /// Notes what was under way at the end of the ring that was taken, for readers of the one that the thread has now, if it has
    /// one. Not for the time while the thread is held: it may record meanwhile, and only the lock is held while a page is written.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn note_under_way(&self, taken: &TakenRing) {
        let is_next =
            |inner: &Inner| !inner.retired && Some(inner.parts) == taken.header.part.checked_add(1);
        let next = |inner: &Inner| inner.mode().filter(|_| is_next(inner));
        let begun = {
            let inner = self.lock();
            next(&inner).map(|mode| (mode, inner.started_counter))
        };
        let Some((mode, started)) = begun else {
            return;
        };
        let open = under_way::for_mode(under_way::at_end_of(taken), mode);
        let noted = UnderWay::new(started, &open);
        let inner = self.lock();
        if let Some(ring) = inner.ring.as_ref().filter(|_| is_next(&inner)) {
            ring.note_under_way(&noted);
        }
    }

    /// How the thread makes its times exact, and which calls of its ring it took back. `None` if it has code that does not
    /// mark epochs.
    ///
    /// # Safety
    /// The caller holds the lock, and the thread has not retired.
    unsafe fn epochs(&self, inner: &Inner) -> Option<Epochs> {
        // SAFETY: the caller guarantees it.
        let words = unsafe { self.words.get() };
        are_epochs_marked().then(|| Epochs {
            rewind_below: inner.longest_rewind,
            taken_back: words.taken_back(),
            epoch: words.epoch(),
        })
    }

    /// Changes which calls are taken back: calls in which nothing was recorded, and which took fewer ticks; 0: none. `ticks`
    /// is called with the lock held, so that of two calls the later one has the last word.
    pub(crate) fn set_rewind_below(&self, ticks: impl FnOnce() -> u32) {
        let mut inner = self.lock();
        let ticks = ticks();
        self.rewind_below.store(ticks, Ordering::Relaxed);
        inner.longest_rewind = inner.longest_rewind.max(ticks);
        self.place.rewinds(inner.longest_rewind);
        if !inner.retired {
            // SAFETY: the lock is held, and the thread has not retired.
            unsafe { self.words.get() }.set_rewind_below(ticks);
        }
    }

    /// From its next ring on, the thread notes which calls it takes back; a ring that is taken has them, too.
    #[cfg(feature = "check-rewind")]
    pub(crate) fn log_rewinding(&self) {
        self.lock().is_logged = true;
    }

    #[cfg(feature = "check-rewind")]
    fn install_log(&self, inner: &mut Inner) {
        let is_logged = inner.is_logged && inner.mode() == Some(RingMode::Calls);
        inner.log = is_logged.then(|| RewindLog::new().ok()).flatten();
        let start = inner.log.as_ref().map_or(0, RewindLog::start);
        // SAFETY: the lock is held, and all callers of `install` have checked that the thread has not retired.
        unsafe { self.words.get() }
            .rewind_log()
            .store(start, Ordering::Relaxed);
    }

    /// The ring with all calls that were taken back from it, if they were noted.
    ///
    /// # Safety
    /// The caller holds the lock; the thread has not retired, and does not record meanwhile.
    #[cfg(feature = "check-rewind")]
    unsafe fn with_calls_taken_back(&self, inner: &mut Inner, mut taken: TakenRing) -> TakenRing {
        let Some(log) = inner.log.take() else {
            return taken;
        };
        // SAFETY: the caller guarantees that the thread has not retired, and does not record.
        let (calls, base) = unsafe {
            let end = self.words.get().rewind_log().load(Ordering::Relaxed);
            (log.calls(end), taken.ring.base())
        };
        let limit = inner.longest_rewind;
        let slots: Vec<u64> = taken.slots().iter().map(|slot| slot.0).collect();
        assert_eq!(
            taken.header.position.laps, 0,
            "rewind-log=yes: the ring is too small"
        );
        let all = with_calls(&slots, base, &calls, limit).expect("only short calls are taken back");
        let bytes = all.len() * SLOT_BYTES;
        let log2 = (bytes as u64).next_power_of_two().trailing_zeros();
        let geometry = Geometry::new(log2.max(MIN_LOG2_BYTES)).expect("a ring for all calls");
        let ring = Ring::new(geometry).expect("memory for a ring with all calls");
        for (index, word) in all.iter().enumerate() {
            // SAFETY: only this function knows the ring, which has at least so many slots.
            unsafe { write_slot(ring.base() + index * SLOT_STRIDE, *word) };
        }
        if let Some(under_way) = taken.under_way() {
            ring.note_under_way(&under_way);
        }
        taken.header.geometry = geometry;
        taken.header.position.offset = bytes as u64;
        for anchor in &mut taken.anchors {
            anchor.slots_written = all.len() as u64;
        }
        taken.ring = ring;
        taken
    }

    /// Marks the thread as ended. Its words are not accessed after the lock is released.
    pub(crate) fn retire(&self, inner: &mut Inner) {
        inner.retired = true;
    }

    /// Appends the slots of an event at this counter to the ring of calls, after a `FullTime` if the counter's upper half has
    /// changed. Does nothing while the thread is not traced.
    ///
    /// # Safety
    /// The caller is the thread itself, which may record, or the thread does not record meanwhile and the caller holds the
    /// lock. The thread has not retired.
    #[inline]
    unsafe fn append(&self, counter: u64, slots: &[u64]) {
        // SAFETY: the caller guarantees that the thread has not retired.
        let words = unsafe { self.words.get() };
        let cursor = words.cursor();
        if cursor.load(Ordering::Relaxed) as u64 == CURSOR_OFF {
            return;
        }
        let (before, epoch) = (words.epoch(), (counter >> 32) as u32);
        if before != epoch {
            words.set_epoch(epoch);
            let last_before = u64::from(before) << 32 | u64::from(u32::MAX);
            let closing = Slot::extension(Extension::FullTime, counter).0;
            // SAFETY: the caller is the thread, or the thread does not record meanwhile.
            unsafe { self.append_at(cursor, &[last_before, counter, closing]) };
        }
        // SAFETY: the caller is the thread, or the thread does not record meanwhile.
        unsafe { self.append_at(cursor, slots) };
    }

    /// If the last slot is the entry of the innermost call, and less than the limit older than this counter: moves the cursor
    /// back over it, and marks the slot as taken back. False if not.
    ///
    /// # Safety
    /// As [`append`](Self::append).
    #[inline]
    unsafe fn take_back(&self, counter: u64) -> bool {
        // SAFETY: the caller guarantees that the thread has not retired.
        let words = unsafe { self.words.get() };
        let (cursor, limit) = (words.cursor(), words.rewind_below());
        let at = cursor.load(Ordering::Relaxed);
        if limit == 0 || at as u64 == CURSOR_OFF || words.epoch() != (counter >> 32) as u32 {
            return false;
        }
        let last = at - SLOT_STRIDE;
        // SAFETY: at the start of a ring, the zero page before it is read.
        let slot = Slot(unsafe { read_slot(last) });
        let is_entry = matches!(slot.event(), Event::Entry { .. });
        if !is_entry || (counter as u32).wrapping_sub(slot.counter()) >= limit {
            return false;
        }
        #[cfg(feature = "check-rewind")]
        // SAFETY: the caller is the thread.
        unsafe {
            self.note_taken_back(slot, counter, last)
        };
        // SAFETY: an entry stands there, so `last` is a slot of the ring, not in the page before it.
        unsafe { write_slot(last, Slot::taken_back(counter).0) };
        cursor.store(last, Ordering::Relaxed);
        words.set_taken_back(words.taken_back().wrapping_add(1));
        true
    }

    /// Notes that the call with this entry was taken back, as the trace stubs do.
    ///
    /// # Safety
    /// As [`append`](Self::append).
    #[cfg(feature = "check-rewind")]
    unsafe fn note_taken_back(&self, entry: Slot, counter: u64, address: usize) {
        // SAFETY: the caller guarantees that the thread has not retired.
        let log = unsafe { self.words.get() }.rewind_log();
        let at = log.load(Ordering::Relaxed);
        if at != 0 {
            let call = TakenBack {
                entry: entry.0,
                exit: counter as u32,
                address: address as u32,
            };
            // SAFETY: the log is aligned, and has room, or ends with a guard page.
            unsafe { (at as *mut TakenBack).write(call) };
            log.store(at + std::mem::size_of::<TakenBack>(), Ordering::Relaxed);
        }
    }

    /// # Safety
    /// The caller is the thread itself, or the thread does not record meanwhile; `cursor` is its cursor.
    unsafe fn append_at(&self, cursor: &AtomicUsize, words: &[u64]) {
        let mut at = cursor.load(Ordering::Relaxed);
        if at as u64 == CURSOR_OFF {
            return;
        }
        if words.len() > 1 {
            self.place.begin_event(at);
        }
        for (written, word) in words.iter().enumerate() {
            if at == self.place.end() {
                at = self.next_segment(Some(written));
            }
            // SAFETY: `at` is not the segment's end, so there is a slot.
            unsafe { write_slot(at, *word) };
            at += SLOT_STRIDE;
        }
        cursor.store(at, Ordering::Relaxed);
        if words.len() > 1 {
            self.place.end_event();
        }
    }

    /// Goes on in the ring's next segment, or lap; returns the address of its first slot. Called by the thread itself, or while
    /// it does not record. Async-signal-safe.
    ///
    /// The cursor is at that slot from here on, though the current event is not complete: if an event spans two segments, its
    /// slots in the first one count as written. `unfinished` is their number, if it is known.
    fn next_segment(&self, unfinished: Option<usize>) -> usize {
        self.note_open_calls(unfinished);
        // SAFETY: a thread that has a ring has not retired.
        let words = unsafe { self.words.get() };
        let base = self
            .place
            .next(clock::counter(), words.epoch(), words.taken_back());
        // SAFETY: a thread that has a ring has not retired.
        unsafe { self.cursor() }.store(base, Ordering::Relaxed);
        base
    }

    /// Notes the calls that are open at the end of the current segment, for readers of the ring.
    #[cfg(not(feature = "loom"))]
    fn note_open_calls(&self, unfinished: Option<usize>) {
        if self.records_events_only() {
            return;
        }
        let (base, end) = (self.place.base(), self.place.end());
        if end - base > MAX_NOTED_BYTES {
            return;
        }
        let (notes, done) = (self.place.notes(), self.place.done().wrapping_add(1));
        // SAFETY: the caller is the thread, or the thread does not record; these are the addresses of its ring.
        unsafe { ring::note_open_calls(notes, base, end, unfinished, done) };
    }

    #[cfg(feature = "loom")]
    fn note_open_calls(&self, _unfinished: Option<usize>) {}

    /// Records the entry of the method at this address: one slot, or two above 4 GiB.
    ///
    /// # Safety
    /// As [`append`](Self::append).
    #[inline]
    pub(crate) unsafe fn record_entry(&self, method: u64) {
        let counter = clock::counter();
        // SAFETY: the caller fulfils the conditions of `append`.
        with_entry(method, counter, |slots| unsafe {
            self.append(counter, slots)
        });
    }

    /// Records a method exit, or takes the call back.
    ///
    /// # Safety
    /// As [`append`](Self::append).
    #[inline]
    pub(crate) unsafe fn record_exit(&self) {
        let counter = clock::counter();
        // SAFETY: the caller fulfils the conditions of `append`.
        unsafe {
            if !self.take_back(counter) {
                self.append(counter, &[Slot::exit(counter).0]);
            }
        }
    }

    /// Records that an exception left this number of calls; takes those back that are short.
    ///
    /// # Safety
    /// As [`append`](Self::append).
    unsafe fn record_unwound(&self, mut calls: u64) {
        if self.records_events_only() {
            return;
        }
        let counter = clock::counter();
        // SAFETY: the caller fulfils the conditions of `append`.
        while calls != 0 && unsafe { self.take_back(counter) } {
            calls -= 1;
        }
        if calls != 0 {
            let closing = Slot::extension(Extension::Unwound, counter).0;
            // SAFETY: the caller fulfils the conditions of `append`.
            unsafe { self.append(counter, &[calls, closing]) };
        }
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
        if number == Extension::Unwound.number() {
            // SAFETY: the caller is the thread and may record, or holds the lock while the thread does not record.
            return unsafe { self.record_unwound(payload[0]) };
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
            unsafe { self.append(counter, &words[..slots]) };
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
        let cursor = self.events_cursor.load(Ordering::Relaxed);
        self.place.recorded(counter, cursor);
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
        at + slots * SLOT_STRIDE <= self.place.end()
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
        let end = self.place.end();
        end != 0 && cursor == end && (end..end + SLOT_BYTES).contains(&fault_address)
    }

    /// For the fault handler: if a trace point with `cursor` in its cursor register ran onto this thread's guard
    /// page, goes on in the next segment and returns the address at which to go on. Async-signal-safe.
    pub(crate) fn wrap(&self, fault_address: usize, cursor: usize) -> Option<usize> {
        if !self.is_at_guard(fault_address, cursor) {
            return None;
        }
        Some(self.next_segment(None))
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
