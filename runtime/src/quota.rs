// SPDX-License-Identifier: Apache-2.0
//! Which threads have rings, where there may not be one for each.
//!
//! A ring is 32 MiB, so a process has few of them, for the threads that were wanted most recently: asked
//! for, or marked as being in the foreground. How many is a number that can change at any time
//! ([`Quota::set_limit`]), so that a service that sees all processes can share the memory out among them:
//! it reads who wants what from each process's `status`, and tells each its limit.

/// A thread that has a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The kernel's thread id.
    pub tid: u32,
    /// When it was last wanted: CLOCK_BOOTTIME, which all processes share, ns.
    pub wanted_at_ns: u64,
}

/// What has to go to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The oldest ring of a thread that has ended.
    Finished,
    /// This thread's.
    Thread(u32),
}

/// The bookkeeping. It has no rings itself; `finished` is how many rings of ended threads are kept.
#[derive(Clone, Debug, Default)]
pub struct Quota {
    limit: Option<usize>,
    /// Least recently wanted first.
    holders: Vec<Holder>,
}

impl Quota {
    /// So many rings at most, those of ended threads included; `None` is as many as there are threads.
    pub fn new(limit: Option<usize>) -> Self {
        Quota {
            limit,
            holders: Vec::new(),
        }
    }

    /// The limit.
    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// Changes the limit. [`next_to_go`](Self::next_to_go) then says what is too much.
    pub fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit;
    }

    /// The threads with rings, least recently wanted first.
    pub fn holders(&self) -> &[Holder] {
        &self.holders
    }

    /// What has to go before there is room for `more` rings: rings of ended threads first, then that of
    /// the thread that was wanted least recently.
    pub fn next_to_go(&self, finished: usize, more: usize) -> Option<Victim> {
        let held = self.holders.len() + finished;
        if held + more <= self.limit? {
            return None;
        }
        if finished != 0 {
            return Some(Victim::Finished);
        }
        self.holders
            .first()
            .map(|holder| Victim::Thread(holder.tid))
    }

    /// The thread gets a ring, if there is room for it.
    pub fn try_add(&mut self, tid: u32, finished: usize, now_ns: u64) -> bool {
        let has_room = self
            .limit
            .is_none_or(|limit| self.holders.len() + finished < limit);
        if has_room {
            self.remove(tid);
            self.holders.push(Holder {
                tid,
                wanted_at_ns: now_ns,
            });
        }
        has_room
    }

    /// The thread is wanted again; false if it has no ring.
    pub fn touch(&mut self, tid: u32, now_ns: u64) -> bool {
        let had = self.remove(tid);
        if had {
            self.holders.push(Holder {
                tid,
                wanted_at_ns: now_ns,
            });
        }
        had
    }

    /// The thread has no ring any more; false if it had none.
    pub fn remove(&mut self, tid: u32) -> bool {
        let before = self.holders.len();
        self.holders.retain(|holder| holder.tid != tid);
        self.holders.len() != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tids(quota: &Quota) -> Vec<u32> {
        quota.holders().iter().map(|h| h.tid).collect()
    }

    #[test]
    fn the_thread_wanted_least_recently_goes_first() {
        let mut quota = Quota::new(Some(2));
        assert!(quota.try_add(1, 0, 10) && quota.try_add(2, 0, 20));
        assert!(!quota.try_add(3, 0, 30), "full");
        assert_eq!(quota.next_to_go(0, 1), Some(Victim::Thread(1)));
        assert!(quota.touch(1, 40));
        assert_eq!(quota.next_to_go(0, 1), Some(Victim::Thread(2)));
        assert!(quota.remove(2));
        assert_eq!(quota.next_to_go(0, 1), None);
        assert!(quota.try_add(3, 0, 50));
        assert_eq!(tids(&quota), [1, 3]);
        assert!(!quota.touch(2, 60) && !quota.remove(2));
    }

    #[test]
    fn rings_of_ended_threads_count_and_go_before_all_others() {
        let mut quota = Quota::new(Some(2));
        assert!(quota.try_add(1, 1, 10));
        assert!(!quota.try_add(2, 1, 20));
        assert_eq!(quota.next_to_go(1, 1), Some(Victim::Finished));
        assert_eq!(quota.next_to_go(1, 0), None);
    }

    #[test]
    fn a_lower_limit_says_what_is_too_much_and_none_says_nothing() {
        let mut quota = Quota::new(None);
        for tid in 1..=100 {
            assert!(quota.try_add(tid, 50, u64::from(tid)));
        }
        assert_eq!(quota.next_to_go(50, 1), None);
        quota.set_limit(Some(99));
        assert_eq!(quota.next_to_go(0, 0), Some(Victim::Thread(1)));
        assert!(quota.remove(1));
        assert_eq!(quota.next_to_go(0, 0), None);
    }
}
