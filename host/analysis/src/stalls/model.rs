// SPDX-License-Identifier: Apache-2.0
//! What is known of a stall.

use hindsight_decoder::ThreadKey;
use serde::Serialize;

use super::stacks::Place;
use crate::callees::{Callee, Others};
use crate::events::{SpanKind, Used};
use crate::evidence::{Evidence, LockOwner, Missing, Waker};
use crate::path::ChainCall;

/// From this duration on a message is a stall unless asked otherwise, ns.
pub const STALL_NS: u64 = 100_000_000;

/// Most waits that are followed from thread to thread.
pub const MOST_FOLLOWED: usize = 8;

/// Stalls that ended up to this long before the thread's ring was taken, ns, come before older ones: a snapshot is
/// taken right after its anomaly.
pub(super) const RECENT_NS: u64 = 2_000_000_000;

/// A question about stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// How many stalls at most.
    pub limit: usize,
    /// From this duration on a message, or a call, is a stall, ns.
    pub stall_ns: u64,
}

impl Default for Question {
    /// The most telling stall of [`STALL_NS`] or more.
    fn default() -> Self {
        Question {
            limit: 1,
            stall_ns: STALL_NS,
        }
    }
}

/// The stalls of a thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stalls {
    /// Thread id.
    pub tid: u32,
    /// The thread's ring, which identifies it: ids and names may repeat.
    pub ring: u32,
    /// Thread name.
    pub thread: String,
    /// Whether there is a stall. `None` if that cannot be told: none was found, and the thread's ring is damaged, no
    /// method has a name, a thread in mode events recorded nothing, nothing is known of it for as long as a stall, or the longest call may have waited or made short calls
    /// that are not in the trace.
    pub stall: Option<bool>,
    /// Whether any method that the thread called has a name. Without names, neither messages nor waiting for work is
    /// recognized.
    pub named: bool,
    /// Whether the thread's ring is damaged, so that calls of it are missing.
    #[serde(rename = "damaged_ring")]
    pub damaged: bool,
    /// How much time the readable and selected part of the thread's ring covers, ns.
    pub span_ns: u64,
    /// From this duration on a message, or a call, is a stall, ns.
    pub stall_ns: u64,
    /// Whether the thread runs messages; otherwise it is asked about its outermost calls.
    pub messages: bool,
    /// Whether the thread recorded events only: then stalls are [`Stalls::event_stalls`].
    pub events_only: bool,
    /// The longest message, or outermost call, that did not wait for work, ns.
    pub longest_ns: Option<u64>,
    /// Whether that one took longer than [`Stalls::longest_ns`]: it began before the ring's oldest event or ended after
    /// its newest one, or it reaches out of the selected time.
    pub longest_is_cut: bool,
    /// Whether the thread's calls all waited for work most of the time.
    pub waited_for_work: bool,
    /// Whether neither a call nor a message, task or wait of the thread is recorded, other than that it lives.
    pub nothing_recorded: bool,
    /// Of that time, for how long nothing is known of the thread, ns: gaps between its rings, and the time before the
    /// first event of a ring, if what came before the ring is not in the trace.
    #[serde(skip_serializing_if = "is_zero")]
    pub unrecorded_ns: u64,
    /// Whether the thread recorded nothing at all since its ring was exchanged for the one in the trace, as for an earlier
    /// report: it stood still, and in what is not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    /// Of a thread that records events only: its longest wait for a lock outside of its messages or tasks, if it is as long
    /// as a stall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<EventWait>,
    /// The stalls, the most telling one first. Without a stall: the longest call of that length, so that its time can
    /// be explained, if the thread was busy in it, or if there are no names.
    pub chains: Vec<Chain>,
    /// The stalls of a thread that records events only, the most telling one first; then there are no chains.
    #[serde(rename = "told", skip_serializing_if = "Vec::is_empty")]
    pub event_stalls: Vec<EventStall>,
}

/// Whether a number is 0, and so left out.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A stall of a thread that records events only: all of it is recorded, nothing is concluded from times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventStall {
    /// What took the time: a message, a task or other work, or a wait for a lock outside of them.
    pub what: SpanKind,
    /// The class of the message or task, or the name that the program gave it; may be empty.
    pub name: String,
    /// A message's `what`.
    pub code: Option<u64>,
    /// When it began, CLOCK_BOOTTIME, ns.
    pub start_ns: u64,
    /// How long it took, ns.
    pub held_ns: u64,
    /// Whether it begins with the recorded or selected time: it may have begun before.
    pub may_have_begun_before: bool,
    /// Whether it continued when the ring was taken, or after the selected time.
    pub still_running: bool,
    /// How long before the end of the thread's ring, or of the selected time, it ended, ns.
    pub ended_before_ns: u64,
    /// The thread that sent the message or submitted the task.
    pub sender: Option<Party>,
    /// How long before its beginning it was sent, ns.
    pub sent_before_ns: Option<u64>,
    /// The delay that its sender asked for, ns.
    pub delay_ns: u64,
    /// What the thread used in that time; `None` if its counters were not read.
    pub used: Option<Used>,
    /// How much of the time the thread waited, ns.
    pub waited_ns: u64,
    /// Its waits, by kind; the longest time first.
    pub waits: Vec<WaitTotal>,
    /// The longest wait, if it is most of the time.
    pub wait: Option<EventWait>,
    /// Its other waits that took a tenth of the time or more, by kind and by the thread that was waited for, without sleeps and
    /// waits for work. The longest is first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub long_waits: Vec<LongWait>,
    /// The garbage collections that suspended all threads for a tenth of the time or more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gc_pauses: Vec<GcPauses>,
    /// If the thread waits for a lock for ever: the threads that wait for each other's locks, each for the next one's and the
    /// last one for the first one's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub circle: Vec<Holder>,
    /// The waits that this wait lasted for: of its owner, waker or server, then of that one's, and so on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub followed: Vec<EventWait>,
    /// Whether the last of them was for one of the threads before it: these wait for each other.
    #[serde(
        rename = "followed_in_a_circle",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_circle: bool,
    /// Where the thread was in that wait or, without one, for most of the time, as its stacks or calls show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The thread's activity in that time.
    pub activity: Activity,
    /// What held it up, and its thread.
    pub culprit: Option<(String, String)>,
    /// Why that is the culprit, or why none is known.
    pub culprit_reason: Reason,
}

/// The waits of one kind for one other thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LongWait {
    /// How many.
    pub count: u64,
    /// Their time, ns.
    pub ns: u64,
    /// Of waits for locks: the thread that held the locks when the waits began, if it is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HeldBy>,
    /// The longest one.
    pub longest: EventWait,
}

/// A thread that held locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldBy {
    /// Thread id.
    pub tid: u32,
    /// Its name, where the file has it.
    pub thread: Option<String>,
}

/// The pauses of garbage collections on a thread: all threads are suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GcPauses {
    /// Id of the thread that collected.
    pub tid: u32,
    /// Its ring.
    pub ring: u32,
    /// Its name.
    pub thread: String,
    /// How many.
    pub count: u64,
    /// Their time, ns.
    pub ns: u64,
    /// The part of it in which the stalled thread did not wait, ns.
    pub outside_waits_ns: u64,
}

/// A thread that holds a lock, and waits for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Thread id.
    pub tid: u32,
    /// Its ring.
    pub ring: u32,
    /// Its name.
    pub thread: String,
}

/// The waits of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitTotal {
    /// `lock`, `object`, `sleep`, `park`, `gc`, `poll`, or `transaction` for the reply to one.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// Their time, ns.
    pub ns: u64,
}

/// Another thread that an event names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Party {
    /// Thread id.
    pub tid: u32,
    /// Its ring; `None` if it is not in the file, or if several threads of the file had this id.
    pub ring: Option<u32>,
    /// Its identity, as its ring.
    #[serde(skip)]
    pub(crate) key: Option<ThreadKey>,
    /// Its name, where the file has it.
    pub thread: Option<String>,
    /// Whether a thread of this id is in the trace.
    #[serde(skip)]
    pub traced: bool,
    /// Why events of it may be missing, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// Tasks, messages and marked work, outermost first: of a sender, what it was doing then; of an owner, a waker or a
    /// server, what it did for most of the wait.
    pub doing: Vec<String>,
    /// Its own waits meanwhile, by kind.
    pub waits: Vec<WaitTotal>,
    /// How long it waited meanwhile for others or for work, ns; sleeps are none of that.
    #[serde(skip)]
    pub waited_ns: u64,
    /// What it used meanwhile.
    pub used: Option<Used>,
    /// Where it was when it released the lock, ended the wait or sent the work, as its stacks or calls show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Where it was for most of the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place_meanwhile: Option<Place>,
}

/// A wait of the stalled thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventWait {
    /// `lock`, `object`, `sleep`, `park`, `gc`, `poll`, or `transaction` for the reply to one.
    pub kind: String,
    /// How long it took, ns.
    pub ns: u64,
    /// How it ended: `signalled`, `timed out`, `interrupted` or, of a transaction, `returned`; `None` if its end is not
    /// recorded.
    pub result: Option<String>,
    /// Identity of the lock or object; 0 if there is none.
    pub object: u64,
    /// The code of the transaction that was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u64>,
    /// The thread that held the lock when the wait began, or, if it released it early, the one that held it for most of the
    /// wait.
    pub owner: Option<Party>,
    /// How long after the wait's beginning the thread before released the lock, ns, if the owner is a later one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_since_ns: Option<u64>,
    /// Whether the lock was released in the wait, and no thread is known to have held it for most of the wait.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_is_unclear: bool,
    /// How long before the wait's end that thread released it, ns, if that is recorded.
    pub released_before_ns: Option<u64>,
    /// The thread that ended the wait, or that served the transaction.
    pub waker: Option<Party>,
    /// For how much of the wait that thread served the transaction, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_ns: Option<u64>,
}

impl EventWait {
    /// Who the thread waited for: the owner, or else the waker or server.
    pub fn party(&self) -> Option<&Party> {
        self.owner.as_ref().or(self.waker.as_ref())
    }
}

/// A chain of calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chain {
    /// Thread id.
    pub tid: u32,
    /// The thread's ring, which identifies it: ids and names may repeat.
    pub ring: u32,
    /// Thread name.
    pub thread: String,
    /// When the time that the chain explains began, CLOCK_BOOTTIME, ns.
    pub start_ns: u64,
    /// How long it took, ns.
    pub held_ns: u64,
    /// The thread's activity in that time.
    pub activity: Activity,
    /// How much of that time was spent in methods that sleep or wait, ns.
    pub waited_ns: u64,
    /// How much of that was a sleep for a time that the caller chose, ns.
    pub slept_ns: u64,
    /// What the thread used in that time, if its counters were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// Whether the thread recorded waits or readings of its counters at all.
    #[serde(skip)]
    pub cost_recorded: bool,
    /// Whether it had begun before the ring's oldest event, or before the selected time.
    pub began_before: bool,
    /// Whether it continued when the ring was taken, or after the selected time.
    pub still_running: bool,
    /// How long before the end of the thread's ring, or of the selected time, it ended, ns.
    pub ended_before_ns: u64,
    /// The callers of the head, outermost first.
    pub callers: Vec<String>,
    /// The head (the dispatch of a message, or an outermost call), …, the call where the time went.
    #[serde(rename = "links")]
    pub calls: Vec<ChainCall>,
    /// How the last call spent its time.
    #[serde(rename = "rest")]
    pub last: LastCall,
    /// The owner of the lock that the last call waited for, if it is recorded.
    pub lock_owner: Option<LockOwner>,
    /// The thread that ended the wait of the last call, if it is recorded.
    pub waker: Option<Waker>,
    /// Calls of other threads while the last call waited; the most telling thread first.
    pub evidence: Vec<Evidence>,
    /// The method, and its thread, that the chain's thread waited for: only where the trace records that thread as the
    /// lock's owner or as the waker. Never a method of the waiting thread itself.
    pub culprit: Option<(String, String)>,
    /// Why that is the culprit, or why none is known.
    pub culprit_reason: Reason,
    /// Without a culprit: the method, and its thread, that was most likely waited for, concluded from times alone.
    pub suspect: Option<(String, String)>,
}

/// Activity of a thread during a chain of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// It waited for most of the time: for a lock, in a method that sleeps or waits, or until another thread woke it.
    Waited,
    /// It made calls all the time, none of which is known to wait: nothing held it up.
    Busy,
    /// It waited for work, such as the next message, most of the time.
    Idle,
    /// It recorded nothing for most of the time: it waited, or computed without making calls that are in the trace.
    Unknown,
}

/// Why a chain has a culprit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The culprit is the method that the recorded owner of the lock was in.
    LockOwner,
    /// The culprit is the method that the recorded waker was in.
    Waker,
    /// The recorded owner of the lock is not in the trace.
    OwnerNotTraced,
    /// The recorded waker is not in the trace.
    WakerNotTraced,
    /// The recorded owner of the lock was in methods without a name.
    OwnerUnnamed,
    /// The recorded waker was in methods without a name.
    WakerUnnamed,
    /// The recorded owner of the lock waited itself for most of the wait; of calls, for a lock.
    OwnerWaited,
    /// The recorded owner of the lock is in the trace, but made no call that explains the wait.
    OwnerUnclear,
    /// The recorded waker waited itself for most of the wait; of calls, for a lock.
    WakerWaited,
    /// The recorded waker is in the trace, but made no call that explains the wait.
    WakerUnclear,
    /// The thread slept for a time that it chose itself.
    Slept,
    /// The thread was busy itself.
    Busy,
    /// The culprit is the thread that collected garbage: it suspended all threads for most of the time.
    Paused,
    /// The threads that wait for each other are the culprit, as the graph of causes and effects shows.
    Circle,
    /// The culprit follows from the graph of causes and effects, in another way than those above.
    Diagnosed,
    /// The trace does not say what the thread waited for, or whether it waited.
    NotRecorded,
}

/// How the last call of a chain spent its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastCall {
    /// Its longest stretch without a traced call, ns: there it waited, or computed.
    pub longest_gap_ns: u64,
    /// Shorter calls in that stretch are not in the trace, ns; `u64::MAX`: calls of any length; `None`: all are.
    #[serde(skip)]
    pub taken_back_below_ns: Option<u64>,
    /// The recorded part of the wait in that stretch, ns; `None` if no wait is recorded, or none that is most of the
    /// chain's time.
    pub recorded_wait_ns: Option<u64>,
    /// How often a wait for a lock began in the recorded wait.
    pub lock_waits: u64,
    /// What that wait was for, if both of its ends are recorded and it was not for a lock: `object`, `sleep`, `park`, `gc`,
    /// `poll` or `transaction`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_kind: Option<String>,
    /// Whether the method is one that sleeps or waits.
    pub sleeps: bool,
    /// The calls it made, if that is where the time went; longest first.
    pub callees: Vec<Callee>,
    /// Its other calls.
    pub others: Others,
}
