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
mod tests {
    use super::*;
    use hindsight_testkit::Script;

    struct Found {
        trace: Trace,
        pairs: Pairs,
    }

    impl Found {
        fn of(s: &Script) -> Self {
            let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
            let pairs = pairs(&trace);
            Found { trace, pairs }
        }

        /// Kind, name of the thread and index of the event, of both ends.
        fn pairs(&self) -> Vec<(PairKind, String, String)> {
            let end = |end: End| {
                let thread = self.trace.thread(end.thread).unwrap();
                format!("{}:{}", thread.name, end.event)
            };
            let pairs = self.pairs.pairs.iter();
            pairs.map(|p| (p.kind, end(p.from), end(p.to))).collect()
        }

        fn unmatched(&self) -> Vec<(PairKind, Side, Why, u64)> {
            let all = self.pairs.unmatched.iter();
            all.map(|u| (u.kind, u.side, u.why, u.count)).collect()
        }
    }

    fn pair(kind: PairKind, from: &str, to: &str) -> (PairKind, String, String) {
        (kind, from.into(), to.into())
    }

    #[test]
    fn what_is_handed_over_is_joined_while_it_is_pending() {
        let mut s = Script::new("p");
        let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
        s.at(a, 10)
            .event(Extension::TaskSubmitted, &[("task", 5)])
            .after(1)
            .event(Extension::MessageEnqueued, &[("message", 5)])
            .after(1)
            .event(Extension::UserPost, &[("id", 5)])
            .after(1)
            .event(Extension::BinderSend, &[("transaction", 5)])
            .after(1)
            .event(Extension::TaskSubmitted, &[("task", 6)])
            .after(1)
            .event(Extension::Cancelled, &[("task", 6)])
            .after(1)
            .event(Extension::ItemPut, &[("item", 5)])
            .after(1)
            .event(Extension::ItemPut, &[("item", 8)])
            .after(1)
            .event(Extension::Cancelled, &[("task", 8)]);
        s.at(b, 50)
            .event(Extension::TaskBegin, &[("task", 5)])
            .event(Extension::TaskBegin, &[("task", 5)])
            .event(Extension::MessageDispatched, &[("message", 5)])
            .event(Extension::UserBegin, &[("id", 5)])
            .event(Extension::BinderServe, &[("transaction", 5)])
            .event(Extension::BinderServed, &[("transaction", 5)])
            .event(Extension::ItemTaken, &[("item", 5)]);
        s.at(a, 60)
            .event(Extension::BinderReply, &[("transaction", 5)])
            .event(Extension::TaskSubmitted, &[("task", 7)]);
        let found = Found::of(&s);
        assert_eq!(
            found.pairs(),
            [
                pair(PairKind::Cancelled, "a:4", "a:5"),
                pair(PairKind::Cancelled, "a:7", "a:8"),
                pair(PairKind::Task, "a:0", "b:0"),
                pair(PairKind::Message, "a:1", "b:2"),
                pair(PairKind::Item, "a:6", "b:6"),
                pair(PairKind::Post, "a:2", "b:3"),
                pair(PairKind::Transaction, "a:3", "b:4"),
                pair(PairKind::Reply, "b:5", "a:9"),
            ]
        );
        assert_eq!(
            found.unmatched(),
            [
                (PairKind::Task, Side::From, Why::NotRecorded, 1),
                (PairKind::Task, Side::To, Why::NotRecorded, 1),
            ]
        );
    }

    #[test]
    fn two_of_one_identity_are_no_pair() {
        let mut s = Script::new("p");
        let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
        let submit = [("task", 5)];
        s.at(a, 10)
            .event(Extension::TaskSubmitted, &submit)
            .after(1)
            .event(Extension::TaskSubmitted, &submit);
        s.at(b, 50)
            .event(Extension::TaskBegin, &submit)
            .after(1)
            .event(Extension::TaskBegin, &submit);
        // Both have begun: the identity may be used again.
        s.at(a, 100).event(Extension::TaskSubmitted, &submit);
        s.at(b, 110).event(Extension::TaskBegin, &submit);
        let found = Found::of(&s);
        assert_eq!(found.pairs(), [pair(PairKind::Task, "a:2", "b:2")]);
        assert_eq!(
            found.unmatched(),
            [
                (PairKind::Task, Side::From, Why::Ambiguous, 2),
                (PairKind::Task, Side::To, Why::Ambiguous, 2),
            ]
        );
    }

    #[test]
    fn ends_that_contradict_each_other_are_no_pair() {
        let mut s = Script::new("p");
        let (one, other) = (s.method("a.One.run", "()V"), s.method("a.Other.run", "()V"));
        let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
        s.at(a, 10)
            .event(Extension::TaskSubmitted, &[("task", 5), ("class", one)])
            .event(Extension::TaskSubmitted, &[("task", 6), ("kind", 1)])
            .event(
                Extension::MessageEnqueued,
                &[("message", 7), ("for thread", 9)],
            )
            .event(
                Extension::MessageEnqueued,
                &[("message", 8), ("for thread", 9)],
            );
        s.at(b, 50)
            .event(Extension::TaskBegin, &[("task", 5), ("class", other)])
            .event(Extension::TaskBegin, &[("task", 6), ("kind", 2)])
            .event(Extension::MessageDispatched, &[("message", 7)]);
        let found = Found::of(&s);
        assert_eq!(found.pairs(), []);
        assert_eq!(
            found.unmatched(),
            [
                (PairKind::Task, Side::From, Why::Ambiguous, 2),
                (PairKind::Task, Side::To, Why::Ambiguous, 2),
                (PairKind::Message, Side::From, Why::Ambiguous, 1),
                (PairKind::Message, Side::From, Why::ThreadNotInFile, 1),
                (PairKind::Message, Side::To, Why::Ambiguous, 1),
            ]
        );
    }

    /// A thread waits from 100 to 200 with this result; others claim to have woken it at these times.
    fn woken(result: u64, claims: &[(u64, u64)]) -> Found {
        let mut s = Script::new("p");
        let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
        s.at(a, 100)
            .event(Extension::WaitBegin, &[("number", 4), ("kind", 3)])
            .after(100)
            .event(Extension::WaitEnd, &[("number", 4), ("result", result)]);
        s.at(b, 1).extension(Extension::UserMark, &[0]);
        for &(at, wait) in claims {
            s.at(b, at)
                .event(Extension::Wakes, &[("thread", 1), ("wait", wait)]);
        }
        s.stop_at(1_000);
        Found::of(&s)
    }

    #[test]
    fn a_wake_up_is_the_one_that_ended_the_wait() {
        assert_eq!(
            woken(0, &[(150, 4)]).pairs(),
            [pair(PairKind::Wake, "b:1", "a:1")]
        );
        // Interrupted.
        assert_eq!(woken(2, &[(150, 4)]).pairs().len(), 1);
        let why = |result, claims: &[(u64, u64)]| -> Vec<(Why, u64)> {
            let found = woken(result, claims);
            assert_eq!(found.pairs(), []);
            let unmatched = found.unmatched().into_iter();
            unmatched.map(|(_, _, why, n)| (why, n)).collect()
        };
        // Timed out; too late; which wait is not known; a wait that is not recorded; two at once.
        assert_eq!(why(1, &[(150, 4)]), [(Why::NotTheCause, 1)]);
        assert_eq!(why(0, &[(250, 4)]), [(Why::NotTheCause, 1)]);
        assert_eq!(why(0, &[(150, 0)]), [(Why::WaitNotKnown, 1)]);
        assert_eq!(why(0, &[(150, 5)]), [(Why::NotRecorded, 1)]);
        assert_eq!(why(0, &[(150, 4), (151, 4)]), [(Why::Ambiguous, 2)]);
        // The second one came when the wait was over.
        let found = woken(0, &[(150, 4), (250, 4)]);
        assert_eq!(found.pairs(), [pair(PairKind::Wake, "b:1", "a:1")]);
    }

    #[test]
    fn a_reused_thread_id_means_the_thread_of_that_time() {
        let mut s = Script::new("p");
        let waker = s.events_thread(9, "waker", 9);
        for (i, name) in ["first", "second"].into_iter().enumerate() {
            let start = 1_000 * i as u64;
            let t = s.events_thread(1, name, 1 + i as u64);
            s.header(t).started_counter += start;
            s.at(t, start)
                .event(Extension::WaitBegin, &[("number", 1)])
                .after(100)
                .event(Extension::WaitEnd, &[("number", 1)]);
            s.end_thread(t, start + 500);
            s.at(waker, start + 50)
                .event(Extension::Wakes, &[("thread", 1), ("wait", 1)]);
        }
        let found = Found::of(&s);
        assert_eq!(
            found.pairs(),
            [
                pair(PairKind::Wake, "waker:0", "first:1"),
                pair(PairKind::Wake, "waker:1", "second:1"),
            ]
        );
    }

    /// A thread waits for the lock of thread 2; these threads release it at these times.
    fn released(by: &[(u32, u64)]) -> Found {
        let mut s = Script::new("p");
        let a = s.events_thread(1, "a", 1);
        s.at(a, 100)
            .event(Extension::LockWait, &[("held by", 2), ("lock", 77)])
            .event(Extension::WaitBegin, &[("number", 1), ("object", 77)])
            .after(100)
            .event(Extension::WaitEnd, &[("number", 1)]);
        for &(tid, at) in by {
            let t = s.events_thread(tid, &format!("t{tid}"), u64::from(tid));
            s.at(t, at)
                .event(Extension::Released, &[("lock", 77), ("waiters", 1)]);
        }
        s.stop_at(1_000);
        Found::of(&s)
    }

    #[test]
    fn a_lock_was_released_by_its_recorded_owner() {
        let lock = [pair(PairKind::Lock, "t2:0", "a:2")];
        assert_eq!(released(&[(2, 150)]).pairs(), lock);
        let why = |by: &[(u32, u64)]| {
            let found = released(by);
            assert_eq!(found.pairs(), []);
            found.unmatched()[0].2
        };
        assert_eq!(why(&[]), Why::ThreadNotInFile);
        assert_eq!(why(&[(2, 250)]), Why::NotRecorded);
        // Another thread had the lock in between.
        assert_eq!(why(&[(2, 150), (3, 170)]), Why::Ambiguous);
        assert_eq!(why(&[(3, 170)]), Why::Ambiguous);
    }
}
