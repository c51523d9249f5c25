// SPDX-License-Identifier: Apache-2.0
//! The events that make pairs.

use hindsight_decoder::catalogue::Field;
use hindsight_decoder::{field, Extension, MethodId, Thread, ThreadEvent};

use super::model::PairKind;
use super::recorded::{At, Recorded};

/// What an event does with the identity of a task, message or transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Cause,
    Effect,
    /// Nothing will come of it.
    Cancel,
}

/// An event that hands something over, and which identity that has.
#[derive(Clone, Copy)]
pub(super) struct Handed {
    pub(super) at_ns: u64,
    pub(super) at: At,
    pub(super) id: u64,
    /// The class, if it is known.
    pub(super) class: MethodId,
    /// Id of the thread that is to have the effect, if it is known.
    pub(super) for_tid: u32,
    pub(super) kind: PairKind,
    pub(super) role: Role,
    /// Kind of the task; both ends have the same.
    pub(super) sort: u8,
    /// The caller's number for the event.
    pub(super) note: u32,
}

/// A wait, by the id of its thread and its number.
pub(super) type WaitName = (u32, u64);

/// The events that make pairs, found in one pass over all events.
#[derive(Default)]
pub(super) struct Found {
    /// Events that hand something over to a thread of the same process.
    pub(super) handed: Vec<Handed>,
    /// Those that may hand something over to another process.
    pub(super) sent: Vec<Handed>,
    /// Events that name the wait that they end.
    pub(super) wakers: Vec<(WaitName, At)>,
    /// Beginnings and ends of waits.
    pub(super) begins: Vec<(WaitName, At)>,
    pub(super) ends: Vec<(WaitName, At)>,
    /// Releases of locks, with the times.
    pub(super) releases: Vec<(u64, u64, At)>,
    /// For the waits for a lock that have an end: the last event that names the lock's owner, and the end.
    pub(super) lock_waits: Vec<(At, At)>,
}

/// The kind of a wait for a lock.
const LOCK: u64 = 0;

/// The number in a field of an event of this kind.
macro_rules! number {
    ($event:expr, $kind:ident, $name:literal) => {{
        const FIELD: Field = field(Extension::$kind, $name);
        FIELD.get(&$event.payload)
    }};
}

impl Found {
    /// Finds the events of some threads; `note` has the caller's numbers of events.
    pub(super) fn fill(&mut self, threads: &[Recorded<'_>], note: impl Fn(At) -> u32) {
        self.handed.clear();
        self.sent.clear();
        self.wakers.clear();
        self.begins.clear();
        self.ends.clear();
        self.releases.clear();
        self.lock_waits.clear();
        for (recorded, t) in threads.iter().zip(0..) {
            self.add(t, recorded.thread, &note);
        }
    }

    /// Adds the events of a thread that make pairs. `t` is its index; `note` has the caller's numbers of its events.
    fn add(&mut self, t: u32, thread: &Thread, note: &impl Fn(At) -> u32) {
        let mut owner: Option<At> = None;
        for (event, e) in thread.events.iter().zip(0..) {
            let at = (t, e);
            if self.add_wait(at, thread.tid, event, &mut owner) {
                continue;
            }
            if let Some(handed) = handed(event, at) {
                if handed.kind.is_between_processes() {
                    let note = note(at);
                    self.sent.push(Handed { note, ..handed });
                } else {
                    self.handed.push(handed);
                }
            } else if event.kind == Extension::Cancelled {
                // It may be of anything that is in a queue.
                let id = number!(event, Cancelled, "task");
                let of = QUEUED.map(|kind| Handed::new((event, at), kind, Role::Cancel, id));
                self.handed.extend(of);
            }
        }
    }

    /// Adds an event of a wait; `false` if it is another one. `owner` is the last event that named the owner of a lock for
    /// which the thread waits.
    fn add_wait(&mut self, at: At, tid: u32, event: &ThreadEvent, owner: &mut Option<At>) -> bool {
        match event.kind {
            Extension::Wakes => {
                let woken = number!(event, Wakes, "thread") as u32;
                let wait = (woken, number!(event, Wakes, "wait"));
                self.wakers.push((wait, at));
            }
            Extension::WaitBegin => {
                let number = number!(event, WaitBegin, "number");
                // Nobody can name a wait without a number.
                if number != 0 {
                    self.begins.push(((tid, number), at));
                }
                // The event that names the owner comes before it.
                if number!(event, WaitBegin, "kind") != LOCK {
                    *owner = None;
                }
            }
            Extension::WaitEnd => {
                let number = number!(event, WaitEnd, "number");
                if number != 0 {
                    self.ends.push(((tid, number), at));
                }
                let is_lock = number!(event, WaitEnd, "kind") == LOCK;
                if let Some(wait) = owner.take().filter(|_| is_lock) {
                    self.lock_waits.push((wait, at));
                }
            }
            Extension::LockWait => *owner = Some(at),
            Extension::Released => {
                let lock = number!(event, Released, "lock");
                self.releases.push((lock, event.at_ns, at));
            }
            _ => return false,
        }
        true
    }
}

impl Handed {
    fn new((event, at): (&ThreadEvent, At), kind: PairKind, role: Role, id: u64) -> Self {
        Handed {
            at_ns: event.at_ns,
            at,
            id,
            class: event.method,
            for_tid: 0,
            kind,
            role,
            sort: 0,
            note: 0,
        }
    }
}

/// What may be taken out of a queue again.
const QUEUED: [PairKind; 4] = [
    PairKind::Task,
    PairKind::Message,
    PairKind::Item,
    PairKind::Callback,
];

/// What an event hands over.
fn handed(event: &ThreadEvent, at: At) -> Option<Handed> {
    use PairKind as P;
    use Role::{Cancel, Cause, Effect};
    let of = |kind, role, id| Handed::new((event, at), kind, role, id);
    Some(match event.kind {
        Extension::TaskSubmitted => Handed {
            sort: number!(event, TaskSubmitted, "kind") as u8,
            ..of(P::Task, Cause, number!(event, TaskSubmitted, "task"))
        },
        Extension::TaskBegin => Handed {
            sort: number!(event, TaskBegin, "kind") as u8,
            ..of(P::Task, Effect, number!(event, TaskBegin, "task"))
        },
        Extension::MessageEnqueued => Handed {
            for_tid: number!(event, MessageEnqueued, "for thread") as u32,
            ..of(
                P::Message,
                Cause,
                number!(event, MessageEnqueued, "message"),
            )
        },
        Extension::MessageDispatched => of(
            P::Message,
            Effect,
            number!(event, MessageDispatched, "message"),
        ),
        Extension::MessageRemoved => of(
            P::Message,
            Cancel,
            number!(event, MessageRemoved, "message"),
        ),
        Extension::ItemPut => of(P::Item, Cause, number!(event, ItemPut, "item")),
        Extension::ItemTaken => of(P::Item, Effect, number!(event, ItemTaken, "item")),
        Extension::UserPost => of(P::Post, Cause, number!(event, UserPost, "id")),
        Extension::UserBegin => match number!(event, UserBegin, "id") {
            0 => return None,
            id => of(P::Post, Effect, id),
        },
        Extension::CallbackPosted => of(
            P::Callback,
            Cause,
            number!(event, CallbackPosted, "callback"),
        ),
        Extension::CallbackRun => of(P::Callback, Effect, number!(event, CallbackRun, "callback")),
        Extension::TraversalScheduled => of(
            P::Traversal,
            Cause,
            number!(event, TraversalScheduled, "window"),
        ),
        Extension::TraversalBegin => of(
            P::Traversal,
            Effect,
            number!(event, TraversalBegin, "window"),
        ),
        Extension::BinderSend => of(
            P::Transaction,
            Cause,
            number!(event, BinderSend, "transaction"),
        ),
        Extension::BinderServe => of(
            P::Transaction,
            Effect,
            number!(event, BinderServe, "transaction"),
        ),
        Extension::BinderServed => of(P::Reply, Cause, number!(event, BinderServed, "transaction")),
        Extension::BinderReply => of(P::Reply, Effect, number!(event, BinderReply, "transaction")),
        _ => return None,
    })
}
