// SPDX-License-Identifier: Apache-2.0
//! From events of processors to what each thread does: one pass over all events in the order of time.

use hashbrown::HashMap;

use crate::records::{Context, Kind, Record, NOBODY};
use crate::state::State;

/// Who woke a thread, in a number: that of a thread, or one of the last two.
pub(crate) const BY_INTERRUPT: u32 = u32::MAX - 1;
/// It is not known who woke it, or nobody did.
pub(crate) const BY_UNKNOWN: u32 = u32::MAX;
/// The greatest number of a thread.
const MOST_THREADS: u32 = u32::MAX - 2;

/// A thread does something else from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) thread: u32,
    pub(crate) at_ns: u64,
    pub(crate) state: State,
    /// Of [`State::Runnable`]: who woke it.
    pub(crate) by: u32,
    /// Whether it is not recorded that the waker was not interrupted then.
    pub(crate) is_uncertain: bool,
}

/// What the pass finds.
pub(crate) trait Sink {
    /// A thread does something else.
    fn change(&mut self, change: Change);
    /// The last wait of a thread of which no signal ends it was for a disk, or was not.
    fn blocked(&mut self, thread: u32, is_io: bool);
}

/// A thread that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) tid: u32,
    /// CLOCK_BOOTTIME, ns.
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    state: State,
}

/// The pass.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// In the order in which they were first seen. The kernel gives the ids of ended threads to new ones.
    pub(crate) threads: Vec<Seen>,
    /// By thread id, the latest thread that has it.
    current: HashMap<u32, u32>,
    /// By processor, the thread that is on it.
    cpus: Vec<Option<u32>>,
}

impl Sweep {
    pub(crate) fn run(&mut self, records: &[Record], sink: &mut impl Sink) {
        for record in records {
            self.record(record, sink);
        }
    }

    fn record(&mut self, record: &Record, sink: &mut impl Sink) {
        let cpu = usize::from(record.cpu);
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, None);
        }
        match record.kind {
            Kind::Switch => self.switch(record, sink),
            Kind::Waking => self.waking(record, sink),
            Kind::Wakeup => {
                let uncertain = (BY_UNKNOWN, false);
                self.ready(record.a, record.at_ns, uncertain, sink);
            }
            Kind::New => {
                if self.current.contains_key(&record.a) {
                    self.begin(record.a, record.at_ns);
                }
            }
            Kind::Blocked => {
                if let Some(&thread) = self.current.get(&record.a) {
                    sink.blocked(thread, record.detail != 0);
                }
            }
            Kind::Lost => {
                if let Some(tid) = self.cpus[cpu].take() {
                    self.unknown(tid, record.at_ns, sink);
                }
            }
        }
    }

    /// Begins another thread with this id.
    fn begin(&mut self, tid: u32, at_ns: u64) -> u32 {
        let thread = (self.threads.len() as u32).min(MOST_THREADS);
        self.threads.push(Seen {
            tid,
            first_ns: at_ns,
            last_ns: at_ns,
            state: State::Unknown,
        });
        self.current.insert(tid, thread);
        thread
    }

    fn thread(&mut self, tid: u32, at_ns: u64) -> u32 {
        match self.current.get(&tid) {
            Some(&thread) => thread,
            None => self.begin(tid, at_ns),
        }
    }

    fn set(
        &mut self,
        thread: u32,
        at_ns: u64,
        state: State,
        (by, is_uncertain): (u32, bool),
        sink: &mut impl Sink,
    ) {
        let seen = &mut self.threads[thread as usize];
        seen.state = state;
        seen.last_ns = at_ns;
        sink.change(Change {
            thread,
            at_ns,
            state,
            by,
            is_uncertain,
        });
    }

    fn unknown(&mut self, tid: u32, at_ns: u64, sink: &mut impl Sink) {
        if tid == 0 {
            return;
        }
        let thread = self.thread(tid, at_ns);
        self.set(thread, at_ns, State::Unknown, (BY_UNKNOWN, false), sink);
    }

    fn switch(&mut self, record: &Record, sink: &mut impl Sink) {
        let (cpu, at_ns, next) = (usize::from(record.cpu), record.at_ns, record.b);
        let was = self.cpus[cpu];
        // Compact events do not say which thread leaves the processor: it is the one that came last.
        let prev = match record.a {
            NOBODY => was,
            prev => Some(prev),
        };
        if let Some(other) = was.filter(|&t| prev != Some(t)) {
            self.unknown(other, at_ns, sink);
        }
        if let Some(prev) = prev.filter(|&t| t != 0 && t != next) {
            let thread = self.thread(prev, at_ns);
            let state = State::of_number(record.detail);
            self.set(thread, at_ns, state, (BY_UNKNOWN, false), sink);
        }
        self.cpus[cpu] = Some(next);
        if next == 0 {
            return;
        }
        let mut thread = self.thread(next, at_ns);
        match self.threads[thread as usize].state {
            State::Ended => thread = self.begin(next, at_ns),
            State::Running => {
                // It left the other processor unseen.
                let other = self.cpus.iter().zip(0..);
                let other = other
                    .filter(|&(&t, c)| t == Some(next) && c != cpu)
                    .map(|(_, c)| c);
                if let Some(other) = other.last() {
                    self.cpus[other] = None;
                }
            }
            _ => {}
        }
        self.set(thread, at_ns, State::Running, (BY_UNKNOWN, false), sink);
    }

    fn waking(&mut self, record: &Record, sink: &mut impl Sink) {
        let by = match record.b {
            NOBODY => self.cpus[usize::from(record.cpu)],
            tid => Some(tid),
        };
        let is_uncertain = record.detail == Context::Unknown as u8;
        let by = match by {
            _ if record.detail == Context::Interrupt as u8 => BY_INTERRUPT,
            // The idle task wakes nobody.
            Some(0) => BY_INTERRUPT,
            Some(tid) => self.thread(tid, record.at_ns),
            None => BY_UNKNOWN,
        };
        self.ready(record.a, record.at_ns, (by, is_uncertain), sink);
    }

    fn ready(&mut self, tid: u32, at_ns: u64, by: (u32, bool), sink: &mut impl Sink) {
        if tid == 0 {
            return;
        }
        let mut thread = self.thread(tid, at_ns);
        match self.threads[thread as usize].state {
            // It had not left the processor yet, or was woken already.
            State::Running | State::Runnable => return,
            State::Ended => thread = self.begin(tid, at_ns),
            _ => {}
        }
        self.set(thread, at_ns, State::Runnable, by, sink);
    }
}
