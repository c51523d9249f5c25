// SPDX-License-Identifier: Apache-2.0
//! Chains of waits over any number of threads and processes, and circles (P-5).

use std::collections::BTreeMap;

use hindsight_analysis::Place;
use hindsight_system_trace::Times;
use serde::Serialize;

use super::certainty::Certainty;
use super::doing::{doing, is_most, Doing, Waited};
use super::expected::expected;
use super::how::How;
use super::kernel;
use super::people::{events_missing, waits_missing, EventsMissing, WaitsMissing};
use super::place::place;
use super::request::awaited;
use super::target::{target, Target, Unknown};
use super::windows::Windows;
use crate::graph::{EdgeClass, Graph, NodeId, Reason, Wait, WaitResult};
use crate::session::{EventId, Session, ThreadId};

/// Most waits that are followed from thread to thread.
pub const MOST_HOPS: usize = 64;

/// A thread waited for another one.
#[derive(Clone, Debug)]
pub struct Hop {
    /// The one that waited.
    pub from: ThreadId,
    /// The longest of its waits for the other one; `None` if it waited for work that was not sent yet.
    pub wait: Option<Wait>,
    /// The number of these waits.
    pub count: usize,
    /// Their time, ns.
    pub ns: u64,
    /// The one that it waited for.
    pub to: ThreadId,
    /// How that one has to do with it.
    pub how: How,
    /// How that is known.
    pub certainty: Certainty,
    /// When it waited for that one.
    pub when: Windows,
    /// The event of the other thread that ended the wait, or served it.
    pub at: Option<EventId>,
}

/// What a thread did at the end of a chain.
#[derive(Clone, Debug)]
pub struct Did {
    /// The thread.
    pub thread: ThreadId,
    /// The time that counts.
    pub when: Windows,
    /// What it did for most of that.
    pub activity: Activity,
    /// The work that took most of that time, and how much, ns.
    pub node: Option<(NodeId, u64)>,
    /// Where it was for most of the time.
    pub place: Option<Place>,
    /// The time asleep, ns.
    pub slept_ns: u64,
    /// CPU time, ns, if readings cover the time.
    pub cpu_ns: Option<u64>,
    /// What it did by a trace of the whole device, if that covers most of the time.
    pub scheduled: Option<Times>,
}

/// What a thread did for most of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// It used the processor, or wanted to: the processor was taken from it, and it did not give it up itself.
    Computed,
    /// It slept for a time that it chose.
    Slept,
    /// It neither waited for another thread nor slept, as far as its events tell; its CPU time is not known, or the processor
    /// was taken from it and no stack tells whether it called `Thread.yield`.
    Ran,
    /// It used little CPU time, and no wait is recorded: it waited outside the managed runtime, as for a file or the network,
    /// or was not scheduled.
    Outside,
}

/// Where a chain ends.
#[derive(Clone, Debug)]
pub enum End {
    /// At a thread that waited for no other one.
    Did(Did),
    /// At one of its own threads: the hops from this one on are a circle.
    Circle {
        /// Index among the hops.
        first: usize,
    },
    /// At a wait of which it is not known whom it was for.
    Unknown {
        /// The thread that waited.
        thread: ThreadId,
        /// The wait.
        wait: Option<Wait>,
        /// Why not.
        why: Unknown,
        /// The thread with this id is named.
        tid: u32,
    },
    /// At a thread that waited for work, and nothing tells who should have sent it.
    Idle(ThreadId),
    /// At a thread whose work was sent with a delay.
    Delayed {
        /// The thread that sent it.
        by: ThreadId,
        /// The event by which it did.
        at: EventId,
        /// The delay, ns.
        delay_ns: u64,
    },
    /// At a thread whose events of that time are missing.
    NotRecorded {
        /// The thread.
        thread: ThreadId,
        /// Why they may be missing, if that is known.
        missing: Option<EventsMissing>,
    },
    /// At a thread that used little CPU time, as far as that is known, and whose waits may be missing.
    WaitsMissing {
        /// The thread.
        thread: ThreadId,
        /// Why.
        why: WaitsMissing,
    },
    /// At a thread that did several things, none of which took most of the time.
    Several(ThreadId),
    /// After [`MOST_HOPS`].
    TooLong,
}

/// Who waited for whom.
#[derive(Clone, Debug)]
pub struct Chain {
    /// From the first thread on.
    pub hops: Vec<Hop>,
    /// What is at the end.
    pub end: End,
}

/// One step.
enum Step {
    Hop(Hop),
    End(End),
}

/// Follows the waits of a thread, from thread to thread: each step took most of the first one's time.
pub fn follow(session: &Session, graph: &Graph, thread: ThreadId, when: &Windows) -> Chain {
    go_on(session, graph, Vec::new(), thread, when)
}

/// As [`follow`], after these hops, the last of which leads to the thread.
pub(crate) fn go_on(
    session: &Session,
    graph: &Graph,
    hops: Vec<Hop>,
    thread: ThreadId,
    when: &Windows,
) -> Chain {
    let follower = Follower {
        session,
        graph,
        whole_ns: when.total_ns(),
    };
    let (mut thread, mut when) = (thread, when.clone());
    let mut at = hops.last().and_then(|h| h.at);
    let mut chain = Chain {
        hops,
        end: End::TooLong,
    };
    while chain.hops.len() < MOST_HOPS {
        match follower.step(thread, &when, at, &chain.hops) {
            Step::End(end) => {
                chain.end = end;
                return chain;
            }
            Step::Hop(hop) => {
                let to = hop.to;
                (thread, when, at) = (hop.to, hop.when.clone(), hop.at);
                chain.hops.push(hop);
                if let Some(first) = chain.hops.iter().position(|h| h.from == to) {
                    chain.end = End::Circle { first };
                    return chain;
                }
            }
        }
    }
    chain
}

struct Follower<'a> {
    session: &'a Session,
    graph: &'a Graph,
    /// The time of which each step must be most, ns.
    whole_ns: u64,
}

/// The waits for one other thread.
struct Group {
    longest: Waited,
    target: Target,
    when: Vec<(u64, u64)>,
    count: usize,
    ns: u64,
}

/// Which waits belong together: those for one thread; or those of which it is not known whom they were for, by their objects.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Thread(ThreadId),
    Tid(u32),
    Object(u8, u64),
}

impl Follower<'_> {
    fn is_most(&self, ns: u64) -> bool {
        is_most(ns, self.whole_ns)
    }

    fn step(&self, thread: ThreadId, when: &Windows, at: Option<EventId>, hops: &[Hop]) -> Step {
        let did = doing(self.session, self.graph, thread, when);
        if let Some(group) = self.longest_group(&did) {
            return self.hop(thread, group);
        }
        if self.is_most(did.idle_ns) {
            return self.sender(thread, when, at, hops);
        }
        if let Some(hop) = self.kernel(thread, when, &did, hops) {
            return Step::Hop(hop);
        }
        if let Some(did) = self.outside(thread, when, &did) {
            return Step::End(End::Did(did));
        }
        if !self.is_most(did.recorded_ns) {
            return Step::End(End::NotRecorded {
                thread,
                missing: events_missing(self.session, thread),
            });
        }
        Step::End(self.end(thread, when, &did))
    }

    /// Whom a thread waited for without an event of its process, as the kernel recorded it.
    fn kernel(&self, thread: ThreadId, when: &Windows, did: &Doing, hops: &[Hop]) -> Option<Hop> {
        // Its events tell more than that it was woken.
        if self.is_most(did.waited_ns + did.slept_ns) {
            return None;
        }
        let found = kernel::awaited(self.session, thread, when, self.whole_ns)?;
        // Threads that wake each other do not hold each other up.
        if hops.iter().any(|h| h.from == found.thread) {
            return None;
        }
        Some(Hop {
            from: thread,
            wait: None,
            count: found.count,
            ns: found.when.total_ns(),
            to: found.thread,
            how: found.how,
            certainty: found.certainty,
            when: found.when,
            at: None,
        })
    }

    /// What a thread did that is in the system trace only.
    fn outside(&self, thread: ThreadId, when: &Windows, did: &Doing) -> Option<Did> {
        let times = did.scheduled.filter(|_| self.session.is_outside(thread))?;
        let ready_ns = times.running_ns + times.runnable_ns;
        let activity = if self.is_most(ready_ns) {
            Activity::Computed
        } else if self.is_most(times.sleeping_ns + times.io_ns + times.blocked_ns) {
            Activity::Outside
        } else {
            return None;
        };
        Some(Did {
            thread,
            when: when.clone(),
            activity,
            node: None,
            place: None,
            slept_ns: 0,
            cpu_ns: did.cpu_ns,
            scheduled: did.scheduled,
        })
    }

    /// The waits for one other thread that took most of the time.
    fn longest_group(&self, did: &Doing) -> Option<Group> {
        if !self.is_most(did.waited_ns) {
            return None;
        }
        let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
        for waited in &did.waits {
            let mut target = target(self.session, self.graph, waited);
            if target.who == Err(Unknown::NobodyEndedIt) {
                target = awaited(self.session, self.graph, waited).unwrap_or(target);
            }
            let ns = waited.when.total_ns();
            let spans = target.when.spans().to_vec();
            let key = match (&target.who, target.tid) {
                (Ok(thread), _) => Key::Thread(*thread),
                (Err(_), 0) => {
                    let begin = EventId {
                        thread: waited.wait.thread,
                        event: waited.wait.begin_event,
                    };
                    let object = self.session.event(begin).map_or(0, |e| e.get("object"));
                    Key::Object(waited.wait.kind as u8, object)
                }
                (Err(_), tid) => Key::Tid(tid),
            };
            match groups.get_mut(&key) {
                Some(group) => {
                    group.count += 1;
                    group.ns += ns;
                    group.when.extend(spans);
                    if ns > group.longest.when.total_ns() {
                        group.longest = waited.clone();
                        group.target = target;
                    }
                }
                None => {
                    groups.insert(
                        key,
                        Group {
                            longest: waited.clone(),
                            target,
                            when: spans,
                            count: 1,
                            ns,
                        },
                    );
                }
            }
        }
        // The keys are in order, so that the first of equal ones is always the same.
        let groups = groups.into_values().rev();
        groups.max_by_key(|g| g.ns).filter(|g| self.is_most(g.ns))
    }

    fn hop(&self, thread: ThreadId, group: Group) -> Step {
        let when = Windows::of(group.when);
        let (wait, target) = (group.longest.wait, group.target);
        let hop = |to, how, certainty, when, at| {
            Step::Hop(Hop {
                from: thread,
                wait: Some(wait),
                count: group.count,
                ns: group.ns,
                to,
                how,
                certainty,
                when,
                at,
            })
        };
        let why = match target.who {
            Ok(to) if self.is_most(when.total_ns()) => {
                return hop(to, target.how, Certainty::Recorded, when, target.at);
            }
            Ok(_) => Unknown::LockChangedHands,
            Err(why) => why,
        };
        let is_open = matches!(why, Unknown::NobodyEndedIt | Unknown::WakerNotRecorded);
        if is_open {
            if let Some(guess) = expected(self.session, self.graph, &wait, &when, self.whole_ns) {
                return hop(guess.thread, guess.how, guess.certainty, when, None);
            }
        }
        Step::End(End::Unknown {
            thread,
            wait: Some(wait),
            why,
            tid: target.tid,
        })
    }

    /// A thread that waited for work: who sent the work in which it ended the wait before, and late?
    fn sender(&self, thread: ThreadId, when: &Windows, at: Option<EventId>, hops: &[Hop]) -> Step {
        let node = at.and_then(|at| Some((at, self.graph.node_of(at)?)));
        let edges = node.map(|(at, node)| {
            let event = self.session.event(at).map_or(0, |e| e.at_ns);
            let edges = self
                .graph
                .incoming(node)
                .iter()
                .map(|&e| self.graph.edge(e));
            edges.filter(move |e| {
                let is_sent = e.class == EdgeClass::Strong && !e.reason.is_of_thread();
                is_sent && !matches!(e.reason, Reason::Wake | Reason::Reply) && e.to_ns <= event
            })
        });
        let sent = edges.and_then(|edges| edges.max_by_key(|e| (e.to_ns, e.from_ns)));
        let Some(edge) = sent else {
            return Step::End(End::Idle(thread));
        };
        let by = self.graph.node(edge.from).thread;
        let from = EventId {
            thread: by,
            event: edge.from_event,
        };
        let delay_ns = self.session.event(from).map_or(0, |e| e.get("delay"));
        let delay_ns = delay_ns.saturating_mul(1_000_000);
        if self.is_most(delay_ns) {
            return Step::End(End::Delayed {
                by,
                at: from,
                delay_ns,
            });
        }
        let (begin, _) = when.bounds();
        let before = when.cut((begin, edge.from_ns));
        let is_new = by != thread && !hops.iter().any(|h| h.from == by && h.wait.is_none());
        if !is_new || !self.is_most(before.total_ns()) {
            return Step::End(End::Idle(thread));
        }
        Step::Hop(Hop {
            from: thread,
            wait: None,
            count: 1,
            ns: before.total_ns(),
            to: by,
            how: How::SentWork,
            certainty: Certainty::Recorded,
            when: before,
            at: Some(from),
        })
    }

    /// Whether waits may be missing of a thread that did not compute: then it may have waited for another thread.
    fn waits_missing(&self, thread: ThreadId, did: &Doing) -> Option<WaitsMissing> {
        let is_known = did.scheduled.is_some() || did.was_kept_waiting();
        (!is_known).then(|| waits_missing(self.session, self.graph, thread))?
    }

    /// What a thread did that did not wait for another one.
    fn end(&self, thread: ThreadId, when: &Windows, did: &Doing) -> End {
        let ran_ns = did.ran_ns();
        let node = did.nodes.first().copied();
        let place = place(self.session, self.graph, thread, when, node.map(|n| n.0));
        let activity = if self.is_most(did.slept_ns) {
            Activity::Slept
        } else if did.computed(place.is_some()) && !self.is_most(did.waited_ns) {
            Activity::Computed
        } else if !self.is_most(ran_ns) {
            return End::Several(thread);
        } else if let Some(why) = self.waits_missing(thread, did) {
            return End::WaitsMissing { thread, why };
        } else if did.cpu_ns.is_some() && !did.was_kept_waiting() {
            Activity::Outside
        } else {
            Activity::Ran
        };
        End::Did(Did {
            thread,
            when: when.clone(),
            activity,
            node: node.filter(|(_, ns)| self.is_most(*ns)),
            place,
            slept_ns: did.slept_ns,
            cpu_ns: did.cpu_ns,
            scheduled: did.scheduled,
        })
    }
}

/// Whether a circle will never end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CircleKind {
    /// All of its waits went on at the end of the recording, and none has a timeout.
    Deadlock,
    /// A timeout ended one of its waits, or will end it.
    Livelock,
    /// One of its waits ended in another way.
    Ended,
}

/// What ends a circle, with the longest of the timeouts, ns.
pub fn circle_kind(session: &Session, hops: &[Hop]) -> (CircleKind, u64) {
    let mut timeout_ns = 0;
    let mut all_go_on = true;
    for hop in hops {
        let Some(wait) = &hop.wait else {
            continue;
        };
        all_go_on &= wait.result == WaitResult::NotRecorded;
        let begin = session.event(EventId {
            thread: wait.thread,
            event: wait.begin_event,
        });
        let own = begin.map_or(0, |e| e.get("timeout"));
        if own != 0 || wait.result == WaitResult::TimedOut {
            timeout_ns = timeout_ns.max(own.max(1));
        }
    }
    match (timeout_ns, all_go_on) {
        (0, true) => (CircleKind::Deadlock, 0),
        (0, false) => (CircleKind::Ended, 0),
        _ => (CircleKind::Livelock, timeout_ns),
    }
}
