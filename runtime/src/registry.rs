// SPDX-License-Identifier: Apache-2.0
//! The threads of the process, which of them have rings, and the rings of threads that have ended.
//!
//! A ring is 8 MiB by default, so a process has few of them: they go to the threads that were wanted most recently,
//! by a request or because they came to the foreground. [`RingTable`] decides which thread keeps its ring;
//! `control/retention.rs` carries that out. The limit can change at any time, so that a service that sees all
//! processes can share the memory out among them: it reads each process's `status`, and sets each process's limit.
//!
//! One lock guards all of it. It is never held while a thread is brought to a safepoint, a ring's memory is returned,
//! or the host is called. Every thread of the process takes it when it starts and ends, is renamed, or wakes another one,
//! so these threads wait for each other: each for a look into a table, and at a traced thread's end also for its ring to
//! be retired (and checked, with `check-balance`).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use hindsight_trace_format::container::RingMode;

use crate::handshake::TracedThread;
use crate::sync::lock;
use crate::thread::spool::Spool;
use crate::thread::taken::TakenRing;

/// Maximum number of retired rings; the oldest go first.
const MAX_RETIRED_RINGS: usize = 4;

/// A thread that has a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The thread's kernel id.
    pub(crate) tid: u32,
    /// When it was last wanted: CLOCK_BOOTTIME, which all processes share, ns.
    pub(crate) wanted_at_ns: u64,
}

/// The ring that has to go to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Candidate {
    /// The oldest retired ring.
    Retired,
    /// The ring of this thread.
    Thread(u32),
}

/// Which threads have the right to a ring. It has no rings itself; `retired` is the number of retired rings.
#[derive(Clone, Debug, Default)]
struct RingTable {
    /// `None` is unlimited.
    limit: Option<usize>,
    /// Least recently wanted first.
    holders: Vec<Holder>,
}

impl RingTable {
    fn new(limit: Option<usize>) -> Self {
        RingTable {
            limit,
            holders: Vec::new(),
        }
    }

    /// The ring that has to go before there is room for `more` rings: first retired rings, then the ring of the thread
    /// that was wanted least recently. `None` if there is room.
    fn eviction_candidate(&self, retired: usize, more: usize) -> Option<Candidate> {
        if self.holders.len() + retired + more <= self.limit? {
            return None;
        }
        if retired != 0 {
            return Some(Candidate::Retired);
        }
        self.holders
            .first()
            .map(|holder| Candidate::Thread(holder.tid))
    }

    /// Gives the thread the right to a ring, if there is room.
    fn try_add(&mut self, tid: u32, retired: usize, now_ns: u64) -> bool {
        let has_room = self
            .limit
            .is_none_or(|limit| self.holders.len() + retired < limit);
        if has_room {
            self.remove(tid);
            self.holders.push(Holder {
                tid,
                wanted_at_ns: now_ns,
            });
        }
        has_room
    }

    /// Makes the thread the one wanted most recently; false if it has no ring.
    fn touch(&mut self, tid: u32, now_ns: u64) -> bool {
        let had = self.remove(tid);
        if had {
            self.holders.push(Holder {
                tid,
                wanted_at_ns: now_ns,
            });
        }
        had
    }

    /// Ends the thread's right to a ring; false if it had none.
    fn remove(&mut self, tid: u32) -> bool {
        let before = self.holders.len();
        self.holders.retain(|holder| holder.tid != tid);
        self.holders.len() != before
    }
}

/// A registered thread.
struct Entry {
    thread: Arc<TracedThread>,
    /// The thread's last request was to stop tracing it.
    stopped_by_request: bool,
}

struct Tables {
    /// By kernel id.
    threads: HashMap<u32, Entry>,
    rings: RingTable,
    /// Oldest first.
    retired: VecDeque<TakenRing>,
    /// Tracing has ended: no thread gets the right to a ring any more.
    closed: bool,
}

/// The outcome of a thread's end.
pub(crate) enum Ended {
    /// This ring is not kept.
    Unwanted(TakenRing),
    /// The thread's ring for events is in the spool.
    EventsKept,
}

/// A ring that was evicted, or is to be.
pub(crate) enum Eviction {
    /// A retired ring, no longer kept.
    Retired(TakenRing),
    /// This thread has lost its right to a ring, which is to be taken from it.
    Thread(u32),
}

/// The numbers of [`Registry`] that `status` shows, all from one moment.
pub(crate) struct Counts {
    pub(crate) limit: Option<usize>,
    pub(crate) retired: usize,
    /// Least recently wanted first.
    pub(crate) holders: Vec<Holder>,
}

/// See the module's description.
pub(crate) struct Registry {
    tables: Mutex<Tables>,
    /// The control thread executes a command, and may have taken retired rings for it. Set before it takes them, so a
    /// thread that then finds none sees this.
    in_control: AtomicBool,
}

impl Registry {
    /// An empty registry with at most this many rings, retired rings included; `None` is unlimited.
    pub(crate) fn new(max_rings: Option<usize>) -> Self {
        Registry {
            tables: Mutex::new(Tables {
                threads: HashMap::new(),
                rings: RingTable::new(max_rings),
                retired: VecDeque::new(),
                closed: false,
            }),
            in_control: AtomicBool::new(false),
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.tables)
    }

    /// Locks the registry, as another thread may have done when the process forks.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn hold(&self) -> impl Sized + '_ {
        self.tables()
    }

    /// Registers a thread.
    pub(crate) fn add(&self, thread: Arc<TracedThread>) {
        let entry = Entry {
            stopped_by_request: false,
            thread,
        };
        let tid = entry.thread.trace().tid();
        self.tables().threads.insert(tid, entry);
    }

    /// Retires the calling thread, removes it from the registry, and keeps its ring if the thread still has the right
    /// to one. `check` is called with a ring of calls; a ring of events goes to the spool. Returns a ring that is not kept:
    /// this one, or the oldest retired one.
    ///
    /// Atomic under the registry's lock: either the thread has the ring, or the ring is retired.
    ///
    /// # Safety
    /// Called by the thread itself, whose words are valid.
    pub(crate) unsafe fn end(
        &self,
        thread: &Arc<TracedThread>,
        spool: &Spool,
        check: impl FnOnce(&TakenRing),
    ) -> Option<Ended> {
        let tid = thread.trace().tid();
        let mut tables = self.tables();
        // SAFETY: the caller is the thread.
        let taken = unsafe { thread.retire() };
        // The kernel may have given the id to a new thread already.
        if (tables.threads.get(&tid)).is_some_and(|entry| Arc::ptr_eq(&entry.thread, thread)) {
            tables.threads.remove(&tid);
        }
        let taken = taken?;
        if taken.header.mode == RingMode::Events {
            spool.keep(taken);
            return Some(Ended::EventsKept);
        }
        check(&taken);
        if !tables.rings.remove(tid) {
            return Some(Ended::Unwanted(taken));
        }
        tables.retired.push_back(taken);
        if tables.retired.len() > MAX_RETIRED_RINGS {
            tables.retired.pop_front().map(Ended::Unwanted)
        } else {
            None
        }
    }

    /// The thread with this kernel id.
    pub(crate) fn find(&self, tid: u32) -> Option<Arc<TracedThread>> {
        let tables = self.tables();
        tables.threads.get(&tid).map(|e| Arc::clone(&e.thread))
    }

    /// All threads.
    pub(crate) fn threads(&self) -> Vec<Arc<TracedThread>> {
        let tables = self.tables();
        tables
            .threads
            .values()
            .map(|e| Arc::clone(&e.thread))
            .collect()
    }

    /// Gives the thread the right to a ring, if there is room.
    pub(crate) fn reserve_ring(&self, tid: u32, now_ns: u64) -> bool {
        let mut tables = self.tables();
        let retired = tables.retired.len();
        !tables.closed && tables.rings.try_add(tid, retired, now_ns)
    }

    /// From now on, no thread gets the right to a ring.
    pub(crate) fn close(&self) {
        self.tables().closed = true;
    }

    /// Whether [`close`](Self::close) was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.tables().closed
    }

    /// Makes the thread the one wanted most recently; false if it has no ring.
    pub(crate) fn touch(&self, tid: u32, now_ns: u64) -> bool {
        self.tables().rings.touch(tid, now_ns)
    }

    /// Ends the thread's right to a ring.
    pub(crate) fn release_ring(&self, tid: u32) {
        self.tables().rings.remove(tid);
    }

    /// Notes whether the last request for the thread was one to stop tracing it.
    pub(crate) fn set_stopped_by_request(&self, tid: u32, stopped: bool) {
        if let Some(entry) = self.tables().threads.get_mut(&tid) {
            entry.stopped_by_request = stopped;
        }
    }

    /// Whether the last request for the thread was one to stop tracing it.
    pub(crate) fn is_stopped_by_request(&self, tid: u32) -> bool {
        let tables = self.tables();
        tables
            .threads
            .get(&tid)
            .is_some_and(|entry| entry.stopped_by_request)
    }

    /// Whether no thread may have a ring.
    pub(crate) fn is_without_rings(&self) -> bool {
        self.tables().rings.limit == Some(0)
    }

    /// Whether there is no room for another ring.
    pub(crate) fn is_full(&self) -> bool {
        let tables = self.tables();
        let used = tables.rings.holders.len() + tables.retired.len();
        tables.closed || tables.rings.limit.is_some_and(|limit| used >= limit)
    }

    /// Rings in use: those of threads, and retired ones.
    pub(crate) fn rings(&self) -> usize {
        let tables = self.tables();
        tables.rings.holders.len() + tables.retired.len()
    }

    /// Changes the limit. [`evict`](Self::evict) then says which rings are too many.
    pub(crate) fn set_limit(&self, limit: Option<usize>) {
        self.tables().rings.limit = limit;
    }

    /// Makes one step towards room for `more` rings; `None` if there is room.
    pub(crate) fn evict(&self, more: usize) -> Option<Eviction> {
        let mut tables = self.tables();
        match tables
            .rings
            .eviction_candidate(tables.retired.len(), more)?
        {
            Candidate::Retired => tables.retired.pop_front().map(Eviction::Retired),
            Candidate::Thread(tid) => {
                tables.rings.remove(tid);
                Some(Eviction::Thread(tid))
            }
        }
    }

    /// Takes the retired rings for which `wanted` is true.
    pub(crate) fn take_retired(&self, wanted: impl Fn(&TakenRing) -> bool) -> Vec<TakenRing> {
        let mut tables = self.tables();
        let (taken, kept) = tables.retired.drain(..).partition::<Vec<_>, _>(wanted);
        tables.retired.extend(kept);
        taken
    }

    /// The counter when recording into the oldest retired ring began.
    pub(crate) fn oldest_retired_counter(&self) -> Option<u64> {
        let tables = self.tables();
        tables
            .retired
            .iter()
            .map(|r| r.header.started_counter)
            .min()
    }

    /// Bytes of slots in the retired rings.
    pub(crate) fn retired_bytes(&self) -> u64 {
        let tables = self.tables();
        let bytes = tables.retired.iter().map(|r| r.written_bytes().len());
        bytes.sum::<usize>() as u64
    }

    /// Whether any thread records, or any ring that was recorded into is kept.
    pub(crate) fn has_rings(&self) -> bool {
        let tables = self.tables();
        !tables.retired.is_empty()
            || !tables.rings.holders.is_empty()
            || self.in_control.load(Ordering::Relaxed)
    }

    /// Notes that the control thread executes a command, or has done so.
    pub(crate) fn set_in_control(&self, in_control: bool) {
        self.in_control.store(in_control, Ordering::Relaxed);
    }

    /// The numbers for `status`.
    pub(crate) fn counts(&self) -> Counts {
        let tables = self.tables();
        Counts {
            limit: tables.rings.limit,
            retired: tables.retired.len(),
            holders: tables.rings.holders.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tids(table: &RingTable) -> Vec<u32> {
        table.holders.iter().map(|h| h.tid).collect()
    }

    #[test]
    fn the_thread_wanted_least_recently_goes_first() {
        let mut table = RingTable::new(Some(2));
        assert!(table.try_add(1, 0, 10) && table.try_add(2, 0, 20));
        assert!(!table.try_add(3, 0, 30), "full");
        assert_eq!(table.eviction_candidate(0, 1), Some(Candidate::Thread(1)));
        assert!(table.touch(1, 40));
        assert_eq!(table.eviction_candidate(0, 1), Some(Candidate::Thread(2)));
        assert!(table.remove(2));
        assert_eq!(table.eviction_candidate(0, 1), None);
        assert!(table.try_add(3, 0, 50));
        assert_eq!(tids(&table), [1, 3]);
        assert!(!table.touch(2, 60) && !table.remove(2));
    }

    #[test]
    fn retired_rings_count_and_go_before_all_others() {
        let mut table = RingTable::new(Some(2));
        assert!(table.try_add(1, 1, 10));
        assert!(!table.try_add(2, 1, 20));
        assert_eq!(table.eviction_candidate(1, 1), Some(Candidate::Retired));
        assert_eq!(table.eviction_candidate(1, 0), None);
    }

    #[test]
    fn a_lower_limit_evicts_and_no_limit_does_not() {
        let mut table = RingTable::new(None);
        for tid in 1..=100 {
            assert!(table.try_add(tid, 50, u64::from(tid)));
        }
        assert_eq!(table.eviction_candidate(50, 1), None);
        table.limit = Some(99);
        assert_eq!(table.eviction_candidate(0, 0), Some(Candidate::Thread(1)));
        assert!(table.remove(1));
        assert_eq!(table.eviction_candidate(0, 0), None);
    }
}
