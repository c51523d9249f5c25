// SPDX-License-Identifier: Apache-2.0
//! Who ended a wait, and who let a thread into a lock.

use hindsight_decoder::catalogue::Field;
use hindsight_decoder::{field, Extension, Thread, ThreadEvent};

use super::found::{Found, WaitName};
use super::model::{PairKind, Side, Why};
use super::recorded::{event, Alone, At, Joined, Recorded, Tids};

/// Waits for another thread.
pub(super) struct Waits<'a> {
    threads: &'a [Recorded<'a>],
    tids: &'a Tids,
    pairs: &'a mut Vec<Joined>,
    unmatched: &'a mut Alone,
}

impl<'a> Waits<'a> {
    pub(super) fn new(
        threads: &'a [Recorded<'a>],
        tids: &'a Tids,
        pairs: &'a mut Vec<Joined>,
        unmatched: &'a mut Alone,
    ) -> Self {
        Waits {
            threads,
            tids,
            pairs,
            unmatched,
        }
    }

    fn thread(&self, i: u32) -> &'a Thread {
        self.threads[i as usize].thread
    }

    fn event(&self, at: At) -> &'a ThreadEvent {
        event(self.threads, at)
    }

    fn pair(&mut self, kind: PairKind, from: At, to: At) {
        let at_ns = self.event(to).at_ns;
        self.pairs.push(Joined {
            at_ns,
            kind,
            from,
            to,
        });
    }

    /// A waker names the wait that it ended by the thread and the wait's number.
    pub(super) fn wakes(&mut self, found: &mut Found) {
        let Found {
            wakers,
            begins,
            ends,
            ..
        } = found;
        wakers.sort_unstable();
        // Those of each thread are in order.
        begins.sort();
        ends.sort();
        for claims in wakers.chunk_by(|a, b| a.0 == b.0) {
            let (tid, number) = claims[0].0;
            let count = claims.len() as u64;
            if number == 0 {
                self.unmatched
                    .add(PairKind::Wake, Side::From, Why::WaitNotKnown, count);
                continue;
            }
            let found = named(ends, claims[0].0);
            // No thread waits so often with one number: this bounds the time that a hostile file can cost.
            if found.len() > MOST_CLAIMS || claims.len() > MOST_CLAIMS {
                self.unmatched
                    .add(PairKind::Wake, Side::From, Why::Ambiguous, count);
                continue;
            }
            for &(_, claim) in claims {
                let at_ns = self.event(claim).at_ns;
                // The kernel gives ids of ended threads to new ones: only a wait of that time is meant.
                let alive = |&&(_, (t, _)): &&(WaitName, At)| {
                    let thread = self.thread(t);
                    thread.start_ns <= at_ns && at_ns <= thread.end_ns
                };
                let mut ends = found.iter().filter(alive).map(|&(_, at)| at);
                let outcome = match (ends.next(), ends.next()) {
                    (None, _) => Err(self.tids.missing(tid)),
                    (Some(end), None) => {
                        // The last wait of this number in the thread of this end.
                        let begins = named(begins, claims[0].0);
                        let mut begins = begins.iter().filter(|(_, at)| at.0 == end.0);
                        let began_ns = begins
                            .next_back()
                            .map_or(0, |&(_, at)| self.event(at).at_ns);
                        self.woken(end, claim, claims, began_ns)
                    }
                    _ => Err(Why::Ambiguous),
                };
                match outcome {
                    Ok(end) => self.pair(PairKind::Wake, claim, end),
                    Err(why) => self.unmatched.add(PairKind::Wake, Side::From, why, 1),
                }
            }
        }
    }

    /// Whether this claim, and no other one, ended the wait.
    fn woken(
        &self,
        end: At,
        claim: At,
        claims: &[(WaitName, At)],
        began_ns: u64,
    ) -> Result<At, Why> {
        /// Results of waits that another thread ended: signalled and interrupted.
        const ENDED_BY_OTHERS: [u64; 2] = [0, 2];
        const RESULT: Field = field(Extension::WaitEnd, "result");
        let ended = self.event(end);
        let at_ns = self.event(claim).at_ns;
        let result = RESULT.get(&ended.payload);
        if !ENDED_BY_OTHERS.contains(&result) || at_ns > ended.at_ns || claim.0 == end.0 {
            return Err(Why::NotTheCause);
        }
        if at_ns < began_ns {
            return Err(Why::Ambiguous);
        }
        let rivals = claims.iter().filter(|&&(_, c)| {
            let at_ns = self.event(c).at_ns;
            began_ns <= at_ns && at_ns <= ended.at_ns
        });
        match rivals.count() {
            1 => Ok(end),
            _ => Err(Why::Ambiguous),
        }
    }

    /// A thread that waits for a lock records its owner each time it finds the lock taken. If exactly one thread released
    /// the lock between the last time and the end of the wait, and this is the recorded owner, it let the other one in.
    pub(super) fn locks(&mut self, found: &mut Found) {
        let releases = &mut found.releases;
        releases.sort_unstable();
        for &(wait, end) in &found.lock_waits {
            match self.let_in(wait, end, releases) {
                Ok(from) => self.pair(PairKind::Lock, from, end),
                Err(why) => self.unmatched.add(PairKind::Lock, Side::To, why, 1),
            }
        }
    }

    fn let_in(&self, wait: At, end: At, releases: &[(u64, u64, At)]) -> Result<At, Why> {
        const OWNER: Field = field(Extension::LockWait, "held by");
        const LOCK: Field = field(Extension::LockWait, "lock");
        let (since_ns, until_ns) = (self.event(wait).at_ns, self.event(end).at_ns);
        let owner = OWNER.get(&self.event(wait).payload) as u32;
        let lock = LOCK.get(&self.event(wait).payload);
        let from = releases.partition_point(|&(of, at_ns, _)| (of, at_ns) < (lock, since_ns));
        let to = releases.partition_point(|&(of, at_ns, _)| (of, at_ns) <= (lock, until_ns));
        match releases.get(from..to).unwrap_or_default() {
            [(.., at)] if self.thread(at.0).tid == owner && lock != 0 && at.0 != wait.0 => Ok(*at),
            [] => Err(self.tids.missing(owner)),
            _ => Err(Why::Ambiguous),
        }
    }
}

/// The events of this name in a sorted list.
fn named(all: &[(WaitName, At)], name: WaitName) -> &[(WaitName, At)] {
    let from = all.partition_point(|(other, _)| *other < name);
    let length = all[from..].partition_point(|(other, _)| *other == name);
    &all[from..from + length]
}

/// Most threads that may claim to have ended one wait, and most waits of one number and thread id.
const MOST_CLAIMS: usize = 64;
