// SPDX-License-Identifier: Apache-2.0
//! What each thread does, as columns.

use crate::records::{Gap, Record};
use crate::state::State;
use crate::sweep::{Change, Seen, Sink, Sweep, BY_INTERRUPT, BY_UNKNOWN};

/// The waker is uncertain.
const UNCERTAIN: u8 = 0x80;

/// Who woke a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// Another thread: its number.
    Thread(u32),
    /// This thread was on the processor that woke it; whether an interrupt was being handled there is not recorded.
    Perhaps(u32),
    /// An interrupt, as of a device or a timer.
    Interrupt,
    /// It is not recorded, or it was not woken.
    Unknown,
}

/// What a thread does in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// CLOCK_BOOTTIME, ns.
    pub from_ns: u64,
    /// CLOCK_BOOTTIME, ns.
    pub to_ns: u64,
    /// What it does.
    pub state: State,
    /// Of a wait that ends with the stretch: who ended it.
    pub ended_by: Waker,
}

/// The changes of all threads: of one thread after the other, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// By thread, its first change; one more than threads.
    firsts: Vec<u32>,
    at_ns: Vec<u64>,
    /// [`State`], and [`UNCERTAIN`].
    state: Vec<u8>,
    by: Vec<u32>,
    /// Stretches of time in which events are missing, in order.
    gaps: Vec<(u64, u64)>,
    end_ns: u64,
}

/// Counts the changes of each thread.
#[derive(Default)]
struct Counts(Vec<u32>);

impl Sink for Counts {
    fn change(&mut self, change: Change) {
        let thread = change.thread as usize;
        if self.0.len() <= thread {
            self.0.resize(thread + 1, 0);
        }
        self.0[thread] += 1;
    }

    fn blocked(&mut self, _: u32, _: bool) {}
}

/// Writes the changes of each thread to their places.
struct Filler<'s> {
    schedule: &'s mut Schedule,
    /// By thread, the place of its next change.
    next: Vec<u32>,
}

impl Sink for Filler<'_> {
    fn change(&mut self, change: Change) {
        let place = self.next[change.thread as usize] as usize;
        self.next[change.thread as usize] += 1;
        self.schedule.at_ns[place] = change.at_ns;
        let uncertain = if change.is_uncertain { UNCERTAIN } else { 0 };
        self.schedule.state[place] = change.state as u8 | uncertain;
        self.schedule.by[place] = change.by;
    }

    fn blocked(&mut self, thread: u32, is_io: bool) {
        /// The wait may have ended before the event, and the thread may even run.
        const MOST_LATER: usize = 3;
        let first = self.schedule.firsts[thread as usize] as usize;
        let next = self.next[thread as usize] as usize;
        let states = &mut self.schedule.state[first..next];
        let mut last = states.iter_mut().rev().take(MOST_LATER);
        if let Some(state) = last.find(|s| **s == State::Uninterruptible as u8) {
            *state = match is_io {
                true => State::Io as u8,
                false => State::Blocked as u8,
            };
        }
    }
}

impl Schedule {
    /// Of events in the order of time. Returns the threads, too.
    pub(crate) fn of(records: &[Record], gaps: &[Gap], end_ns: u64) -> (Vec<Seen>, Schedule) {
        let mut counts = Counts::default();
        let mut sweep = Sweep::default();
        sweep.run(records, &mut counts);
        let threads = sweep.threads;
        counts.0.resize(threads.len(), 0);
        let mut firsts = vec![0];
        let mut sum = 0_u32;
        for count in counts.0 {
            // Each event changes three threads at most, and there are fewer than 2^26 of them.
            sum += count;
            firsts.push(sum);
        }
        let mut schedule = Schedule {
            at_ns: vec![0; sum as usize],
            state: vec![State::Unknown as u8; sum as usize],
            by: vec![BY_UNKNOWN; sum as usize],
            gaps: merged(gaps),
            end_ns,
            firsts,
        };
        let next = schedule.firsts.clone();
        // The same pass once more: so that the changes need not be kept in another order first.
        Sweep::default().run(
            records,
            &mut Filler {
                schedule: &mut schedule,
                next,
            },
        );
        (threads, schedule)
    }

    /// The time of a thread's first change, ns.
    pub(crate) fn first_ns(&self, thread: u32) -> Option<u64> {
        let (first, end) = self.range(thread);
        self.at_ns.get(first..end)?.first().copied()
    }

    fn range(&self, thread: u32) -> (usize, usize) {
        let thread = thread as usize;
        match self.firsts.get(thread..thread.saturating_add(2)) {
            Some(&[first, end]) => (first as usize, end as usize),
            _ => (0, 0),
        }
    }

    /// What a thread does from `from` to `to`, ns: stretches that follow each other without gaps.
    pub(crate) fn slices(
        &self,
        thread: u32,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = Slice> + '_ {
        let (first, end) = self.range(thread);
        let at_ns = &self.at_ns[first..end];
        let last_ns = at_ns.last().map_or(self.end_ns, |&at| at.max(self.end_ns));
        // Before its first change and after the end of the trace nothing is known of a thread.
        let stretch = move |i: usize| {
            let begin = match i.checked_sub(1) {
                None => 0,
                Some(before) => at_ns.get(before).copied().unwrap_or(last_ns),
            };
            let end = match at_ns.get(i) {
                Some(&at) => at,
                None if i == at_ns.len() => last_ns,
                None => u64::MAX,
            };
            (begin, end)
        };
        let next = at_ns.partition_point(|&at| at <= from);
        let around = (next..at_ns.len() + 2).map(move |i| (i, stretch(i)));
        let around = around.take_while(move |(_, (begin, _))| *begin < to);
        let slices = around.filter_map(move |(i, (begin, end))| {
            let (from_ns, to_ns) = (begin.max(from), end.min(to));
            let state = match i.checked_sub(1) {
                Some(before) if before < at_ns.len() => self.state[first + before],
                _ => State::Unknown as u8,
            };
            let state = State::of_number(state & !UNCERTAIN);
            let ends = state.is_wait() && i < at_ns.len() && end <= to;
            (from_ns < to_ns).then(|| Slice {
                from_ns,
                to_ns,
                state,
                ended_by: match ends {
                    true => self.waker(first + i),
                    false => Waker::Unknown,
                },
            })
        });
        slices.flat_map(move |slice| self.without_gaps(slice))
    }

    fn waker(&self, place: usize) -> Waker {
        let state = self.state[place];
        if state & !UNCERTAIN != State::Runnable as u8 {
            return Waker::Unknown;
        }
        match self.by[place] {
            BY_INTERRUPT => Waker::Interrupt,
            BY_UNKNOWN => Waker::Unknown,
            thread if state & UNCERTAIN != 0 => Waker::Perhaps(thread),
            thread => Waker::Thread(thread),
        }
    }

    /// A thread that is on a processor stays there until an event of that processor; one that is not may have been on
    /// another one whose events are missing.
    fn without_gaps(&self, slice: Slice) -> impl Iterator<Item = Slice> + '_ {
        let gaps: &[(u64, u64)] = match slice.state {
            State::Running | State::Unknown => &[],
            _ => {
                let first = self.gaps.partition_point(|g| g.1 <= slice.from_ns);
                &self.gaps[first..]
            }
        };
        let mut gaps = gaps
            .iter()
            .take_while(move |g| g.0 < slice.to_ns)
            .peekable();
        let mut now = slice.from_ns;
        std::iter::from_fn(move || {
            if now >= slice.to_ns {
                return None;
            }
            let from_ns = now;
            let (to_ns, is_gap) = match gaps.peek() {
                Some(&&(begin, _)) if begin > now => (begin, false),
                Some(&&(_, end)) => {
                    gaps.next();
                    (end.min(slice.to_ns), true)
                }
                None => (slice.to_ns, false),
            };
            now = to_ns;
            let is_last = to_ns == slice.to_ns && !is_gap;
            Some(Slice {
                from_ns,
                to_ns,
                state: if is_gap { State::Unknown } else { slice.state },
                ended_by: if is_last {
                    slice.ended_by
                } else {
                    Waker::Unknown
                },
            })
        })
    }

    /// How much of a stretch of time has missing events, ns.
    pub(crate) fn missing_ns(&self, from: u64, to: u64) -> u64 {
        let first = self.gaps.partition_point(|g| g.1 <= from);
        let inside = self.gaps[first..].iter().take_while(|g| g.0 < to);
        inside.map(|g| g.1.min(to) - g.0.max(from)).sum()
    }
}

/// Stretches that do not overlap, in order.
fn merged(gaps: &[Gap]) -> Vec<(u64, u64)> {
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for gap in gaps.iter().filter(|g| g.from_ns < g.to_ns) {
        match merged.last_mut() {
            Some(last) if gap.from_ns <= last.1 => last.1 = last.1.max(gap.to_ns),
            _ => merged.push((gap.from_ns, gap.to_ns)),
        }
    }
    merged
}
