// SPDX-License-Identifier: Apache-2.0
//! Compares the pairs of a recording with what really happened.

use std::collections::{BTreeMap, HashMap};

use hindsight_analysis::{Pair, PairKind, Pairs};
use hindsight_decoder::{Extension, ThreadEvent, Trace};

use super::truth::{known_part, FromTo, Handed, Truth, Wait, ITEM};

/// What the comparison of a program has found.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Pairs that are as they were, by kind.
    pub(super) right: BTreeMap<&'static str, u64>,
    /// Pairs and waits that were otherwise.
    pub(super) wrong: Findings,
    /// Pairs that are not in the recording.
    pub(super) missing: Findings,
    /// Wake-ups that may have come while the thread waited: how many are recorded, and all.
    pub(super) perhaps: (u64, u64),
}

/// Findings, by what they are about.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) BTreeMap<&'static str, Vec<String>>);

impl Findings {
    fn push(&mut self, about: &'static str, what: String) {
        self.0.entry(about).or_default().push(what);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

/// The recording, by the threads' names.
struct Judge<'a> {
    trace: &'a Trace,
    truth: &'a Truth,
    /// Pairs by their effect: index of the thread and of the event.
    by_effect: HashMap<(usize, usize), Vec<&'a Pair>>,
    /// Indices of threads.
    names: HashMap<&'a str, usize>,
    verdict: Verdict,
}

/// Compares a recording with the truth.
pub(super) fn judge(trace: &Trace, pairs: &Pairs, truth: &Truth) -> Verdict {
    let mut judge = Judge {
        trace,
        truth,
        by_effect: HashMap::new(),
        names: HashMap::new(),
        verdict: Verdict::default(),
    };
    let keys: HashMap<_, _> = (trace.threads.iter().enumerate())
        .map(|(i, thread)| (thread.key, i))
        .collect();
    for pair in &pairs.pairs {
        let effect = (keys[&pair.to.thread], pair.to.event);
        judge.by_effect.entry(effect).or_default().push(pair);
    }
    for (i, thread) in trace.threads.iter().enumerate() {
        if truth.threads.contains(&thread.name) && judge.names.insert(&thread.name, i).is_some() {
            judge
                .verdict
                .wrong
                .push("thread", format!("two threads {}", thread.name));
        }
    }
    for name in &truth.threads {
        match judge.names.get(name.as_str()).map(|&i| &trace.threads[i]) {
            None => judge
                .verdict
                .missing
                .push("thread", format!("the thread {name}")),
            Some(thread) if thread.stats.overwritten_slots != 0 => {
                let lost = thread.stats.overwritten_slots;
                judge
                    .verdict
                    .missing
                    .push("thread", format!("{lost} slots of the thread {name}"));
            }
            Some(_) => {}
        }
    }
    judge.waits();
    judge.races();
    judge.locks();
    judge.orders();
    judge.handed_over(pairs);
    judge.verdict
}

/// Of the ends of waits for locks those for the program's lock, which is the one that the thread waits for most often. Threads
/// that end at the same time may also wait for each other in `Thread.exit`, for the lock of their group.
fn for_the_programs_lock<'e>(
    events: &[ThreadEvent],
    ends: Vec<(usize, &'e ThreadEvent)>,
) -> Vec<(usize, &'e ThreadEvent)> {
    let lock = |&(at, end): &(usize, &ThreadEvent)| {
        let begins = |e: &&ThreadEvent| {
            e.kind == Extension::WaitBegin && e.get("number") == end.get("number")
        };
        (events[..at].iter().rev().find(begins)).map(|begin| begin.get("object"))
    };
    let locks: Vec<Option<u64>> = ends.iter().map(lock).collect();
    let times = |lock: &Option<u64>| locks.iter().filter(|l| *l == lock).count();
    // Of several equal ones `max_by_key` takes the last: here, the first wait's.
    let Some(most) = locks.iter().rev().max_by_key(|lock| times(lock)) else {
        return ends;
    };
    (ends.into_iter().zip(&locks))
        .filter(|(_, lock)| *lock == most)
        .map(|(end, _)| end)
        .collect()
}

/// A field's number as the word that it stands for.
fn word(event: &ThreadEvent, field: &str) -> &'static str {
    use hindsight_decoder::catalogue::FieldKind;
    let kind = event.spec().field(field).map(|field| field.kind);
    match kind {
        Some(FieldKind::Choice(words)) => {
            let index = usize::try_from(event.get(field)).unwrap_or(usize::MAX);
            words.get(index).copied().unwrap_or("?")
        }
        _ => "?",
    }
}

impl<'a> Judge<'a> {
    fn right(&mut self, kind: PairKind) {
        *self.verdict.right.entry(kind.name()).or_default() += 1;
    }

    /// The thread of the cause, and its name.
    fn cause(&self, pair: &Pair) -> &'a str {
        let thread = self.trace.thread(pair.from.thread);
        thread.map_or("?", |thread| thread.name.as_str())
    }

    /// The threads that ended a wait, by the recording.
    fn wakers(&self, thread: usize, event: usize, kind: PairKind) -> Vec<&'a str> {
        let pairs = self.by_effect.get(&(thread, event));
        let pairs = pairs.into_iter().flatten().filter(|p| p.kind == kind);
        pairs.map(|pair| self.cause(pair)).collect()
    }

    /// The ends of a thread's waits of a kind, in the program's code. After its code has ended, a thread takes its own
    /// lock to notify threads that join it, and may wait for them.
    fn ends(&self, thread: usize, kind: &str) -> Vec<(usize, &'a ThreadEvent)> {
        let events = &self.trace.threads[thread].events;
        let life_ends =
            |e: &ThreadEvent| e.kind == Extension::TaskEnd && word(e, "kind") == "thread";
        let code = events.iter().rposition(life_ends).unwrap_or(events.len());
        let ends = (events[..code].iter().enumerate())
            .filter(|(_, e)| e.kind == Extension::WaitEnd && word(e, "kind") == kind)
            .collect();
        match kind {
            "lock" => for_the_programs_lock(events, ends),
            _ => ends,
        }
    }

    /// Waits that the program knows one by one.
    fn waits(&mut self) {
        let truth = self.truth;
        for ((name, kind), waits) in &truth.waits {
            let Some(&thread) = self.names.get(name.as_str()) else {
                continue;
            };
            let ends = self.ends(thread, kind);
            if ends.len() != waits.len() {
                self.verdict.wrong.push(
                    "wait",
                    format!(
                        "{name}: {} waits of the kind {kind} are recorded, not {}",
                        ends.len(),
                        waits.len()
                    ),
                );
                continue;
            }
            for (i, (wait, (at, end))) in waits.iter().zip(ends).enumerate() {
                let what = format!("{name}: {kind} {i}");
                let result = word(end, "result");
                if wait.result.as_deref().is_some_and(|known| known != result) {
                    self.verdict.wrong.push(
                        "wait",
                        format!("{what}: it was {result}, not as in {wait:?}"),
                    );
                }
                self.wait(&what, wait, (thread, at));
            }
        }
    }

    fn wait(&mut self, what: &str, wait: &Wait, (thread, at): (usize, usize)) {
        let wakers = self.wakers(thread, at, PairKind::Wake);
        self.verdict.perhaps.1 += u64::from(!wait.certain);
        match (&wait.waker, &wakers[..]) {
            (Some(waker), [found]) if waker == found => {
                self.verdict.perhaps.0 += u64::from(!wait.certain);
                self.right(PairKind::Wake);
            }
            (Some(waker), []) if wait.certain => {
                let about = self.about(waker, thread, at);
                self.verdict
                    .missing
                    .push("wait", format!("{what}: {waker} ended it{about}"));
            }
            (_, []) => {}
            (waker, _) => {
                let waker = waker.as_deref().unwrap_or("nobody");
                self.verdict
                    .wrong
                    .push("wait", format!("{what}: {waker} ended it, not {wakers:?}"));
            }
        }
    }

    /// What the waker's own events say about a wait without a pair.
    fn about(&self, waker: &str, thread: usize, at: usize) -> String {
        let thread = &self.trace.threads[thread];
        let end = &thread.events[at];
        let Some(&waker) = self.names.get(waker) else {
            return ", whose events are not recorded".to_owned();
        };
        let claims = self.trace.threads[waker].events.iter().filter(|e| {
            e.kind == Extension::Wakes
                && e.get("thread") == u64::from(thread.tid)
                && e.get("wait") == end.get("number")
        });
        let after: Vec<i128> = claims
            .map(|e| i128::from(e.at_ns) - i128::from(end.at_ns))
            .collect();
        format!(
            " (number {}, {}); its events that name it, ns after the wait's end: {after:?}",
            end.get("number"),
            word(end, "result"),
        )
    }

    /// Threads that are woken at any time, by one other thread only.
    fn races(&mut self) {
        let truth = self.truth;
        for (name, waker) in &truth.races {
            let Some(&thread) = self.names.get(name.as_str()) else {
                continue;
            };
            for (at, _) in self.ends(thread, "park") {
                let wakers = self.wakers(thread, at, PairKind::Wake);
                self.verdict.perhaps.1 += 1;
                match &wakers[..] {
                    [] => {}
                    [one] if one == waker => {
                        self.verdict.perhaps.0 += 1;
                        self.right(PairKind::Wake);
                    }
                    _ => self
                        .verdict
                        .wrong
                        .push("race", format!("{name}: {waker} woke it, not {wakers:?}")),
                }
            }
        }
    }

    /// The owners that let a thread in, in the order of its waits.
    fn owners(&self, thread: usize) -> Vec<&'a str> {
        (self.ends(thread, "lock").into_iter())
            .flat_map(|(at, _)| self.wakers(thread, at, PairKind::Lock))
            .collect()
    }

    /// Locks that one thread releases to another one.
    fn locks(&mut self) {
        let truth = self.truth;
        for ((name, owner), &count) in &truth.locks {
            let Some(&thread) = self.names.get(name.as_str()) else {
                continue;
            };
            let owners = self.owners(thread);
            let right = owners.iter().filter(|o| *o == owner).count() as u64;
            if let Some(other) = owners.iter().find(|o| *o != owner) {
                self.verdict.wrong.push(
                    "lock",
                    format!("{name}: {owner} released the lock, not {other}"),
                );
            }
            for _ in 0..right.min(count) {
                self.right(PairKind::Lock);
            }
            for _ in right..count {
                let ends = self.ends(thread, "lock").len();
                self.verdict.missing.push(
                    "lock",
                    format!(
                    "{name}: {owner} released the lock {count} times; {ends} waits, {right} pairs"
                ),
                );
            }
            for _ in count..right {
                self.verdict.wrong.push(
                    "lock",
                    format!("{name}: {owner} released the lock {count} times, not {right}"),
                );
            }
        }
    }

    /// Locks that many threads want: who let a thread in, had the lock, in this order.
    fn orders(&mut self) {
        let truth = self.truth;
        for order in &truth.orders {
            let names: std::collections::BTreeSet<&String> = order.iter().collect();
            for name in names {
                let Some(&thread) = self.names.get(name.as_str()) else {
                    continue;
                };
                let last = order.iter().rposition(|owner| owner == name).unwrap_or(0);
                let mut rest = order[..last].iter();
                for owner in self.owners(thread) {
                    if rest.any(|o| o == owner) && owner != name {
                        self.right(PairKind::Lock);
                    } else {
                        self.verdict.wrong.push(
                            "order",
                            format!("{name}: {owner} had released the lock before, or not at all"),
                        );
                        break;
                    }
                }
            }
        }
    }

    /// Tasks, and the program's own events.
    fn handed_over(&mut self, pairs: &Pairs) {
        let truth = self.truth;
        let mut found: BTreeMap<PairKind, BTreeMap<Handed, Vec<FromTo>>> = BTreeMap::new();
        for pair in &pairs.pairs {
            let (Some(from), Some(to)) = (
                self.trace.thread(pair.from.thread),
                self.trace.thread(pair.to.thread),
            ) else {
                continue;
            };
            let Some(event) = from.events.get(pair.from.event) else {
                continue;
            };
            let handed = match pair.kind {
                PairKind::Item | PairKind::Cancelled if event.kind == Extension::ItemPut => {
                    (ITEM.to_owned(), known_part(ITEM, event.get("item")))
                }
                PairKind::Task | PairKind::Cancelled => {
                    let kind = word(event, "kind").to_owned();
                    let id = known_part(&kind, event.get("task"));
                    (kind, id)
                }
                PairKind::Post => {
                    let name = self
                        .trace
                        .strings
                        .get(event.get("name"))
                        .unwrap_or_default();
                    (name.to_owned(), event.get("id"))
                }
                _ => continue,
            };
            let list = found.entry(pair.kind).or_default();
            (list.entry(handed).or_default()).push((from.name.clone(), to.name.clone()));
        }
        for (kind, expected) in [
            (PairKind::Task, &truth.tasks),
            (PairKind::Cancelled, &truth.cancelled),
            (PairKind::Item, &truth.items),
            (PairKind::Post, &truth.posts),
        ] {
            let found = found.entry(kind).or_default();
            self.handed(kind, expected, found);
        }
    }

    fn handed(
        &mut self,
        kind: PairKind,
        expected: &BTreeMap<Handed, Vec<FromTo>>,
        found: &BTreeMap<Handed, Vec<FromTo>>,
    ) {
        for (handed, expected) in expected {
            let mut found = found.get(handed).cloned().unwrap_or_default();
            for one in expected {
                match found.iter().position(|f| f == one) {
                    Some(at) => {
                        found.swap_remove(at);
                        self.right(kind);
                    }
                    None => self.verdict.missing.push(
                        kind.name(),
                        format!("{handed:?}: from {} to {}", one.0, one.1),
                    ),
                }
            }
            for other in found {
                self.verdict.wrong.push(
                    kind.name(),
                    format!(
                        "{handed:?}: from {} to {}, not {expected:?}",
                        other.0, other.1
                    ),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_analysis::pairs;
    use hindsight_testkit::Script;

    /// A thread is unparked by `b`, gets a lock from it, and runs its task.
    fn judged(truth: &str) -> Verdict {
        let mut s = Script::new("p");
        let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
        s.at(b, 100)
            .event(Extension::TaskSubmitted, &[("task", 1 << 28 | 7)])
            .event(Extension::ItemPut, &[("item", 4 << 56 | 1 << 28 | 9)])
            .after(100)
            .event(Extension::Wakes, &[("thread", 1), ("wait", 1)])
            .after(100)
            .event(Extension::Released, &[("lock", 77), ("waiters", 1)])
            .after(100)
            .event(Extension::Released, &[("lock", 99), ("waiters", 1)]);
        s.at(a, 150)
            .event(Extension::WaitBegin, &[("kind", 3), ("number", 1)])
            .after(100)
            .event(Extension::WaitEnd, &[("kind", 3), ("number", 1)])
            .after(10)
            .event(Extension::LockWait, &[("held by", 2), ("lock", 77)])
            .event(Extension::WaitBegin, &[("number", 2), ("object", 77)])
            .after(100)
            .event(Extension::WaitEnd, &[("number", 2)])
            .event(Extension::TaskBegin, &[("task", 1 << 28 | 7)])
            .event(Extension::ItemTaken, &[("item", 4 << 56 | 1 << 28 | 9)])
            // In `Thread.exit`.
            .event(Extension::LockWait, &[("held by", 2), ("lock", 99)])
            .event(Extension::WaitBegin, &[("number", 3), ("object", 99)])
            .after(100)
            .event(Extension::WaitEnd, &[("number", 3)]);
        s.stop_at(1_000);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        judge(&trace, &pairs(&trace), &Truth::parse(truth).unwrap())
    }

    /// Right, wrong and missing pairs.
    fn counts(truth: &str) -> (u64, usize, usize) {
        let verdict = judged(truth);
        let right = verdict.right.values().sum();
        (right, verdict.wrong.count(), verdict.missing.count())
    }

    #[test]
    fn what_happened_is_right() {
        assert_eq!(counts("wait a park signalled b always\n"), (1, 0, 0));
        assert_eq!(counts("race a b\n"), (1, 0, 0));
        assert_eq!(counts("lock a b 1\n"), (1, 0, 0));
        assert_eq!(counts("order b a b a\n"), (1, 0, 0));
        assert_eq!(counts("task executor 7 b a\n"), (1, 0, 0));
        assert_eq!(counts("item 268435465 b a\n"), (1, 0, 0));
    }

    #[test]
    fn what_happened_otherwise_is_wrong() {
        assert_eq!(counts("wait a park signalled - always\n"), (0, 1, 0));
        assert_eq!(counts("wait a park any a always\n"), (0, 1, 0));
        assert_eq!(counts("wait a park timed b always\n"), (1, 1, 0));
        assert_eq!(counts("race a a\n"), (0, 1, 0));
        assert_eq!(counts("order a a\n"), (0, 1, 0));
        assert_eq!(counts("unpaired item 268435465\n"), (0, 1, 0));
        // A wait that nobody has made.
        let two = "wait a park signalled b always\n".repeat(2);
        assert_eq!(counts(&two), (0, 1, 0));
    }

    #[test]
    fn what_is_not_recorded_is_missing() {
        assert_eq!(counts("lock a b 2\n"), (1, 0, 1));
        assert_eq!(counts("task executor 8 b a\n"), (0, 0, 1));
        assert_eq!(counts("task executor 7 a b\n"), (0, 1, 1));
        assert_eq!(counts("item 9 b a\n"), (0, 0, 1));
        assert_eq!(counts("wait a lock any a perhaps\n"), (0, 0, 0));
        assert_eq!(counts("wait a lock any a always\n"), (0, 0, 1));
        assert_eq!(counts("post x 7 b a\n"), (0, 0, 1));
        assert_eq!(counts("post x 7 b c\n"), (0, 0, 2));
    }
}
