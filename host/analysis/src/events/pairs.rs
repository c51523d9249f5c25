// SPDX-License-Identifier: Apache-2.0
//! Events of two threads that belong together: a cause and its effect.
//!
//! A wrong pair is worse than a missing one. Where an identity does not name one event, there is no pair, and the event is
//! counted with the reason.

use std::collections::{BTreeMap, HashMap};

use hindsight_decoder::{Extension, MethodId, Thread, ThreadEvent, ThreadKey, Trace};
use serde::Serialize;

/// How the two ends of a pair belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PairKind {
    /// A task was submitted, and run.
    Task,
    /// A message was put into a queue, and dispatched.
    Message,
    /// An element was put into a queue, and taken out of it by another thread.
    Item,
    /// A task, message or element was submitted, and taken out of its queue again.
    Cancelled,
    /// A thread ended the wait of another one.
    Wake,
    /// A thread released a lock, and another one got it.
    Lock,
    /// The program handed work to another thread.
    Post,
    /// A callback was posted, and run in a frame.
    Callback,
    /// A traversal was scheduled, and done.
    Traversal,
    /// A transaction was sent, and served.
    Transaction,
    /// A transaction was served, and returned.
    Reply,
}

impl PairKind {
    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            PairKind::Task => "task",
            PairKind::Message => "message",
            PairKind::Item => "item",
            PairKind::Cancelled => "cancelled",
            PairKind::Wake => "wake-up",
            PairKind::Lock => "lock",
            PairKind::Post => "post",
            PairKind::Callback => "frame callback",
            PairKind::Traversal => "traversal",
            PairKind::Transaction => "transaction",
            PairKind::Reply => "reply",
        }
    }
}

/// One end of a pair: an event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct End {
    /// The thread.
    #[serde(skip)]
    pub thread: ThreadKey,
    /// Index among its events.
    pub event: usize,
}

/// A cause and its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// How they belong together.
    pub kind: PairKind,
    /// The cause.
    pub from: End,
    /// The effect.
    pub to: End,
}

/// The end of a pair that an event without the other end would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The cause.
    From,
    /// The effect.
    To,
}

/// Why an event has no other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The other end is not in the recorded time of any thread: it happened before, or had not happened yet.
    NotRecorded,
    /// Several events could be the other end.
    Ambiguous,
    /// The thread of the other end is not in the file.
    ThreadNotInFile,
    /// The event does not say which wait it ended: for instance a poll, whose number the waker cannot know.
    WaitNotKnown,
    /// The wait that it names ended for another reason: its time was over, or another thread ended it before.
    NotTheCause,
}

impl Why {
    /// The reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Why::NotRecorded => "the other end is not recorded",
            Why::Ambiguous => "several events could be the other end",
            Why::ThreadNotInFile => "the other thread is not in the file",
            Why::WaitNotKnown => "which wait was ended is not known",
            Why::NotTheCause => "the wait ended for another reason",
        }
    }
}

/// Events without the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    /// The kind of pair.
    pub kind: PairKind,
    /// The end that is there.
    pub side: Side,
    /// Why the other one is not.
    pub why: Why,
    /// How many events.
    pub count: u64,
}

/// The pairs of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// In the order of their effects.
    pub pairs: Vec<Pair>,
    /// The number of events without the other end.
    pub unmatched: Vec<Unmatched>,
}

/// The pairs among the events of all threads.
pub fn pairs(trace: &Trace) -> Pairs {
    let mut finder = Finder {
        trace,
        by_tid: HashMap::new(),
        pairs: Vec::new(),
        unmatched: BTreeMap::new(),
    };
    for (i, thread) in trace.threads.iter().enumerate() {
        finder.by_tid.entry(thread.tid).or_default().push(i);
    }
    finder.handed_over();
    finder.wakes();
    finder.locks();
    let mut pairs = finder.pairs;
    pairs.sort_by_key(|(at_ns, pair)| (*at_ns, *pair));
    Pairs {
        pairs: pairs.into_iter().map(|(_, pair)| pair).collect(),
        unmatched: finder
            .unmatched
            .into_iter()
            .map(|((kind, side, why), count)| Unmatched {
                kind,
                side,
                why,
                count,
            })
            .collect(),
    }
}

/// An event: indices of the thread and of the event.
type At = (usize, usize);

/// What an event does with the identity of a task, message or transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Cause,
    Effect,
    /// Nothing will come of it.
    Cancel,
}

/// What is handed over, and which identity it has.
#[derive(Clone, Copy)]
struct Handed {
    kind: PairKind,
    role: Role,
    id: u64,
    /// Kind of the task; both ends have the same.
    sort: u64,
    /// The class, if it is known.
    class: MethodId,
    /// Id of the thread that is to have the effect, if it is known.
    for_tid: u32,
}

/// Causes of one identity without their effects so far.
enum Pending {
    One(At, Handed),
    /// It is not certain which is which: the number of causes less the number of effects.
    Several(u64),
}

struct Finder<'a> {
    trace: &'a Trace,
    by_tid: HashMap<u32, Vec<usize>>,
    /// With the time of the effect.
    pairs: Vec<(u64, Pair)>,
    unmatched: BTreeMap<(PairKind, Side, Why), u64>,
}

impl Finder<'_> {
    fn thread(&self, i: usize) -> &Thread {
        &self.trace.threads[i]
    }

    fn event(&self, at: At) -> &ThreadEvent {
        &self.thread(at.0).events[at.1]
    }

    fn pair(&mut self, kind: PairKind, from: At, to: At) {
        let end = |at: At| End {
            thread: self.thread(at.0).key,
            event: at.1,
        };
        let pair = Pair {
            kind,
            from: end(from),
            to: end(to),
        };
        self.pairs.push((self.event(to).at_ns, pair));
    }

    fn unmatched(&mut self, kind: PairKind, side: Side, why: Why) {
        *self.unmatched.entry((kind, side, why)).or_default() += 1;
    }

    /// Why nothing of a thread with this id is known; 0 is no id.
    fn missing(&self, tid: u32) -> Why {
        match tid == 0 || self.by_tid.contains_key(&tid) {
            true => Why::NotRecorded,
            false => Why::ThreadNotInFile,
        }
    }

    /// Whether two ends may belong together.
    fn fit(&self, cause: &Handed, effect: &Handed, effect_tid: u32) -> bool {
        let class = |id| self.trace.methods.get(id).map(|m| m.class.as_str());
        let same_class = match (class(cause.class), class(effect.class)) {
            (Some(a), Some(b)) => a == b || a.is_empty() || b.is_empty(),
            _ => true,
        };
        let same_thread = cause.for_tid == 0 || cause.for_tid == effect_tid;
        same_class && same_thread && cause.sort == effect.sort
    }

    /// Tasks, messages, posts, traversals and transactions: joined by identities that are unique while they are pending.
    fn handed_over(&mut self) {
        let mut all: Vec<(u64, Role, At, Handed)> = Vec::new();
        for (t, thread) in self.trace.threads.iter().enumerate() {
            for (e, event) in thread.events.iter().enumerate() {
                for handed in handed(event).into_iter().flatten() {
                    all.push((event.at_ns, handed.role, (t, e), handed));
                }
            }
        }
        // At equal times, the cause comes first.
        all.sort_by_key(|&(at_ns, role, at, _)| (at_ns, role, at));
        let mut pending: HashMap<(PairKind, u64), Pending> = HashMap::new();
        for (_, role, at, handed) in all {
            // Without an identity, nothing is known.
            if handed.id == 0 {
                if role != Role::Cancel {
                    let side = match role {
                        Role::Cause => Side::From,
                        _ => Side::To,
                    };
                    self.unmatched(handed.kind, side, Why::Ambiguous);
                }
                continue;
            }
            let key = (handed.kind, handed.id);
            match role {
                Role::Cause => {
                    let now = match pending.remove(&key) {
                        None => Pending::One(at, handed),
                        Some(Pending::One(..)) => {
                            self.unmatched(handed.kind, Side::From, Why::Ambiguous);
                            self.unmatched(handed.kind, Side::From, Why::Ambiguous);
                            Pending::Several(2)
                        }
                        Some(Pending::Several(n)) => {
                            self.unmatched(handed.kind, Side::From, Why::Ambiguous);
                            Pending::Several(n + 1)
                        }
                    };
                    pending.insert(key, now);
                }
                Role::Effect | Role::Cancel => {
                    self.effect(&mut pending, key, at, &handed);
                }
            }
        }
        for ((kind, _), left) in pending {
            if let Pending::One(_, handed) = left {
                let why = self.missing(handed.for_tid);
                self.unmatched(kind, Side::From, why);
            }
        }
    }

    fn effect(
        &mut self,
        pending: &mut HashMap<(PairKind, u64), Pending>,
        key: (PairKind, u64),
        at: At,
        handed: &Handed,
    ) {
        let is_cancel = handed.role == Role::Cancel;
        match pending.remove(&key) {
            None if is_cancel => {}
            None => self.unmatched(handed.kind, Side::To, Why::NotRecorded),
            Some(Pending::One(from, cause)) => {
                if is_cancel {
                    self.pair(PairKind::Cancelled, from, at);
                } else if self.fit(&cause, handed, self.thread(at.0).tid) {
                    self.pair(handed.kind, from, at);
                } else {
                    // The identity was used again: ends between these two are missing.
                    self.unmatched(handed.kind, Side::From, Why::Ambiguous);
                    self.unmatched(handed.kind, Side::To, Why::Ambiguous);
                }
            }
            Some(Pending::Several(n)) => {
                if !is_cancel {
                    self.unmatched(handed.kind, Side::To, Why::Ambiguous);
                }
                if n > 1 {
                    pending.insert(key, Pending::Several(n - 1));
                }
            }
        }
    }

    /// A waker names the wait that it ended by the thread and the wait's number.
    fn wakes(&mut self) {
        // For each named wait, the events that claim to have ended it.
        let mut wakers: BTreeMap<(u32, u64), Vec<At>> = BTreeMap::new();
        for (t, thread) in self.trace.threads.iter().enumerate() {
            for (e, event) in thread.events.iter().enumerate() {
                if event.kind == Extension::Wakes {
                    let wait = (event.get("thread") as u32, event.get("wait"));
                    wakers.entry(wait).or_default().push((t, e));
                }
            }
        }
        let mut ends: HashMap<(u32, u64), Vec<At>> = HashMap::new();
        let mut begins: HashMap<(usize, u64), u64> = HashMap::new();
        for (t, thread) in self.trace.threads.iter().enumerate() {
            for (e, event) in thread.events.iter().enumerate() {
                let number = event.get("number");
                match event.kind {
                    Extension::WaitEnd => {
                        ends.entry((thread.tid, number)).or_default().push((t, e));
                    }
                    Extension::WaitBegin => {
                        begins.insert((t, number), event.at_ns);
                    }
                    _ => {}
                }
            }
        }
        for ((tid, number), claims) in wakers {
            if number == 0 {
                claims
                    .iter()
                    .for_each(|_| self.unmatched(PairKind::Wake, Side::From, Why::WaitNotKnown));
                continue;
            }
            let found = ends.get(&(tid, number)).map_or(&[][..], Vec::as_slice);
            // No thread waits so often with one number: this bounds the time that a hostile file can cost.
            if found.len() > MOST_CLAIMS || claims.len() > MOST_CLAIMS {
                claims
                    .iter()
                    .for_each(|_| self.unmatched(PairKind::Wake, Side::From, Why::Ambiguous));
                continue;
            }
            for &claim in &claims {
                let at_ns = self.event(claim).at_ns;
                // The kernel gives ids of ended threads to new ones: only a wait of that time is meant.
                let alive = |&&(t, _): &&At| {
                    let thread = self.thread(t);
                    thread.start_ns <= at_ns && at_ns <= thread.end_ns
                };
                let ends: Vec<At> = found.iter().filter(alive).copied().collect();
                let outcome = match ends[..] {
                    [] => Err(self.missing(tid)),
                    [end] => self.woken(end, claim, &claims, &begins, number),
                    _ => Err(Why::Ambiguous),
                };
                match outcome {
                    Ok(end) => self.pair(PairKind::Wake, claim, end),
                    Err(why) => self.unmatched(PairKind::Wake, Side::From, why),
                }
            }
        }
    }

    /// Whether this claim, and no other one, ended the wait.
    fn woken(
        &self,
        end: At,
        claim: At,
        claims: &[At],
        begins: &HashMap<(usize, u64), u64>,
        number: u64,
    ) -> Result<At, Why> {
        /// Results of waits that another thread ended: signalled and interrupted.
        const ENDED_BY_OTHERS: [u64; 2] = [0, 2];
        let ended_ns = self.event(end).at_ns;
        let began_ns = begins.get(&(end.0, number)).copied().unwrap_or(0);
        let at_ns = self.event(claim).at_ns;
        let result = self.event(end).get("result");
        if !ENDED_BY_OTHERS.contains(&result) || at_ns > ended_ns || claim.0 == end.0 {
            return Err(Why::NotTheCause);
        }
        if at_ns < began_ns {
            return Err(Why::Ambiguous);
        }
        let rivals = claims.iter().filter(|&&c| {
            let at_ns = self.event(c).at_ns;
            began_ns <= at_ns && at_ns <= ended_ns
        });
        match rivals.count() {
            1 => Ok(end),
            _ => Err(Why::Ambiguous),
        }
    }

    /// A thread that waits for a lock records its owner each time it finds the lock taken. If exactly one thread released
    /// the lock between the last time and the end of the wait, and this is the recorded owner, it let the other one in.
    fn locks(&mut self) {
        let mut releases: HashMap<u64, Vec<(u64, At)>> = HashMap::new();
        for (t, thread) in self.trace.threads.iter().enumerate() {
            for (e, event) in thread.events.iter().enumerate() {
                if event.kind == Extension::Released {
                    let lock = event.get("lock");
                    releases
                        .entry(lock)
                        .or_default()
                        .push((event.at_ns, (t, e)));
                }
            }
        }
        for of_lock in releases.values_mut() {
            of_lock.sort_unstable();
        }
        for t in 0..self.trace.threads.len() {
            let mut last: Option<usize> = None;
            for e in 0..self.thread(t).events.len() {
                match self.event((t, e)).kind {
                    Extension::LockWait => last = Some(e),
                    Extension::WaitEnd if self.event((t, e)).get("kind") == LOCK => {
                        let Some(wait) = last.take() else { continue };
                        match self.let_in((t, wait), (t, e), &releases) {
                            Ok(from) => self.pair(PairKind::Lock, from, (t, e)),
                            Err(why) => self.unmatched(PairKind::Lock, Side::To, why),
                        }
                    }
                    // It comes after the event that names the owner.
                    Extension::WaitBegin if self.event((t, e)).get("kind") == LOCK => {}
                    Extension::WaitBegin | Extension::WaitEnd => last = None,
                    _ => {}
                }
            }
        }
    }

    fn let_in(
        &self,
        wait: At,
        end: At,
        releases: &HashMap<u64, Vec<(u64, At)>>,
    ) -> Result<At, Why> {
        let (since_ns, until_ns) = (self.event(wait).at_ns, self.event(end).at_ns);
        let owner = self.event(wait).get("held by") as u32;
        let lock = self.event(wait).get("lock");
        let all = releases.get(&lock).map_or(&[][..], Vec::as_slice);
        let from = all.partition_point(|&(at_ns, _)| at_ns < since_ns);
        let to = all.partition_point(|&(at_ns, _)| at_ns <= until_ns);
        match all.get(from..to).unwrap_or_default() {
            [(_, at)] if self.thread(at.0).tid == owner && lock != 0 && at.0 != wait.0 => Ok(*at),
            [] => Err(self.missing(owner)),
            _ => Err(Why::Ambiguous),
        }
    }
}

/// Most threads that may claim to have ended one wait, and most waits of one number and thread id.
const MOST_CLAIMS: usize = 64;

/// The kind of a wait for a lock.
const LOCK: u64 = 0;

/// What an event hands over; a cancellation may be of anything that is in a queue.
fn handed(event: &ThreadEvent) -> [Option<Handed>; 4] {
    let of = |kind, role, id: &str| Handed {
        kind,
        role,
        id: event.get(id),
        sort: 0,
        class: event.method,
        for_tid: 0,
    };
    let one = match event.kind {
        Extension::TaskSubmitted => Handed {
            sort: event.get("kind"),
            ..of(PairKind::Task, Role::Cause, "task")
        },
        Extension::TaskBegin => Handed {
            sort: event.get("kind"),
            ..of(PairKind::Task, Role::Effect, "task")
        },
        Extension::MessageEnqueued => Handed {
            for_tid: event.get("for thread") as u32,
            ..of(PairKind::Message, Role::Cause, "message")
        },
        Extension::MessageDispatched => of(PairKind::Message, Role::Effect, "message"),
        Extension::MessageRemoved => of(PairKind::Message, Role::Cancel, "message"),
        Extension::Cancelled => {
            return [
                PairKind::Task,
                PairKind::Message,
                PairKind::Item,
                PairKind::Callback,
            ]
            .map(|kind| Some(of(kind, Role::Cancel, "task")));
        }
        Extension::ItemPut => of(PairKind::Item, Role::Cause, "item"),
        Extension::ItemTaken => of(PairKind::Item, Role::Effect, "item"),
        Extension::UserPost => of(PairKind::Post, Role::Cause, "id"),
        Extension::UserBegin if event.get("id") != 0 => of(PairKind::Post, Role::Effect, "id"),
        Extension::CallbackPosted => of(PairKind::Callback, Role::Cause, "callback"),
        Extension::CallbackRun => of(PairKind::Callback, Role::Effect, "callback"),
        Extension::TraversalScheduled => of(PairKind::Traversal, Role::Cause, "window"),
        Extension::TraversalBegin => of(PairKind::Traversal, Role::Effect, "window"),
        Extension::BinderSend => of(PairKind::Transaction, Role::Cause, "transaction"),
        Extension::BinderServe => of(PairKind::Transaction, Role::Effect, "transaction"),
        Extension::BinderServed => of(PairKind::Reply, Role::Cause, "transaction"),
        Extension::BinderReply => of(PairKind::Reply, Role::Effect, "transaction"),
        _ => return [None; 4],
    };
    [Some(one), None, None, None]
}

#[cfg(test)]
mod tests;
