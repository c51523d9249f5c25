// SPDX-License-Identifier: Apache-2.0
//! Exception paths (P-13; AppInsight, OSDI 2012, § 6.3): from what the user did to the method that threw.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use hindsight_decoder::{Extension, Flags, Thread};

use super::find::Transactions;
use super::model::{TransactionId, Via};
use super::path::{CriticalPath, Paths};
use crate::graph::{Graph, NodeId, Reason};
use crate::session::{EventId, Session};
use crate::strings::StringId;

/// A stack that a thread took longer before an exception than this is not of it, ns.
const NEAR_NS: u64 = 1_000_000_000;

/// An exception ends its thread: more than so many of one thread are not believed, and only the last ones are kept.
const MOST_OF_THREAD: usize = 16;
/// Of the work that led to an exception, so much is kept, the nearest.
const MOST_CAUSES: usize = 1_000;

/// An exception that nothing caught.
#[derive(Clone, Debug)]
pub struct Crash {
    /// The event.
    pub event: EventId,
    /// CLOCK_BOOTTIME, ns.
    pub at_ns: u64,
    /// The exception's class; [`StringId::NONE`] if it is not known.
    pub class: StringId,
    /// The work that it ended.
    pub node: Option<NodeId>,
    /// The transaction of that work, if it is of one.
    pub transaction: Option<TransactionId>,
    /// From the beginning of the transaction to the exception.
    pub path: Option<CriticalPath>,
    /// The work that led to it, the first cause first, and the edges in between.
    pub causes: Vec<(NodeId, Option<Reason>)>,
    /// The methods that the exception left, innermost first.
    pub frames: Vec<StringId>,
    /// How the frames are known.
    pub frames_are: Frames,
    /// Index, in `frames`, of the method that the system called: the outermost one of the program.
    pub upcall: Option<usize>,
}

/// How the methods of an exception are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// The exception left these calls, as recorded.
    Left,
    /// The last stack that the thread took in the same work: the exception may have been thrown elsewhere.
    LastStack,
    /// None are recorded.
    NotRecorded,
}

impl Crash {
    /// Whether work of another thread, or an earlier message or task, led to it: its own stack does not show that.
    pub fn is_asynchronous(&self) -> bool {
        self.causes.len() > 1
    }
}

/// Crashes with the same exception path.
#[derive(Clone, Debug)]
pub struct CrashGroup {
    /// Identifies it: the same in all sessions, for the same program.
    pub key: u64,
    /// Indices of the crashes.
    pub crashes: Vec<usize>,
}

/// All exceptions that nothing caught, in the order of time.
pub fn crashes(
    session: &Session,
    graph: &Graph,
    found: &Transactions,
    paths: &Paths<'_>,
) -> Vec<Crash> {
    let mut crashes: Vec<Crash> = Vec::new();
    for thread in session.thread_ids() {
        let events = session.thread(thread).events.iter().enumerate();
        let uncaught = events.filter(|(_, e)| e.kind == Extension::Uncaught);
        for (index, _) in uncaught.rev().take(MOST_OF_THREAD) {
            let at = EventId {
                thread,
                event: index as u32,
            };
            crashes.push(crash(session, graph, found, paths, at));
        }
    }
    crashes.sort_by_key(|c| (c.at_ns, c.event));
    crashes
}

fn crash(
    session: &Session,
    graph: &Graph,
    found: &Transactions,
    paths: &Paths<'_>,
    at: EventId,
) -> Crash {
    let trace = session.about(at.thread).trace();
    let event = session.event(at);
    let at_ns = event.map_or(0, |e| e.at_ns);
    let node = graph.node_of(at);
    let member = node.and_then(|node| found.at(node, at.event));
    let transaction = member.map(|m| found.member(m).transaction);
    let path = member.zip(transaction);
    let (frames, frames_are) = frames(session, graph, node, at, at_ns);
    let is_own = |name: &StringId| {
        let name = session.string(*name);
        !name.is_empty() && !hindsight_analysis::is_platform_class(name)
    };
    Crash {
        event: at,
        at_ns,
        class: event.map_or(StringId::NONE, |e| session.class(trace, e.method)),
        node,
        transaction,
        path: path.map(|(member, id)| paths.to_event(id, member, at.event + 1, at_ns)),
        causes: causes(graph, found, member, node),
        upcall: frames.iter().rposition(is_own),
        frames,
        frames_are,
    }
}

/// The work that led to a member, the first cause first.
fn causes(
    graph: &Graph,
    found: &Transactions,
    member: Option<u32>,
    node: Option<NodeId>,
) -> Vec<(NodeId, Option<Reason>)> {
    let Some(mut at) = member else {
        return node.map(|n| (n, None)).into_iter().collect();
    };
    let mut causes = Vec::new();
    loop {
        let member = found.member(at);
        match member.via {
            Via::Root(_) => {
                causes.push((member.node, None));
                break;
            }
            // The same code of a thread.
            Via::Next => {}
            Via::Edge(id) => causes.push((member.node, Some(graph.edge(id).reason))),
        }
        if causes.len() >= MOST_CAUSES {
            break;
        }
        at = member.parent;
    }
    causes.reverse();
    causes
}

/// The methods that an exception left, innermost first.
fn frames(
    session: &Session,
    graph: &Graph,
    node: Option<NodeId>,
    at: EventId,
    at_ns: u64,
) -> (Vec<StringId>, Frames) {
    let thread = session.thread(at.thread);
    let trace = session.about(at.thread).trace();
    let of_calls: Vec<StringId> = (left(thread, at_ns).into_iter().rev())
        .map(|method| session.method(trace, method))
        .collect();
    if !of_calls.is_empty() {
        return (of_calls, Frames::Left);
    }
    let first = node.map_or(0, |n| graph.node(n).first_event as usize);
    let before = thread
        .events
        .get(first..at.event as usize)
        .unwrap_or_default();
    let near = before
        .iter()
        .rev()
        .take_while(|e| at_ns - e.at_ns <= NEAR_NS);
    let stack = near.filter_map(|e| e.stack()).next();
    let stacks = &session.trace(trace).stacks;
    let frames: Vec<StringId> = stack
        .map(|stack| {
            stacks
                .frames(stack)
                .map(|f| session.method(trace, f.method))
                .collect()
        })
        .unwrap_or_default();
    match frames.is_empty() {
        true => (frames, Frames::NotRecorded),
        false => (frames, Frames::LastStack),
    }
}

/// The methods of the calls that the last exception before a time left, outermost first.
fn left(thread: &Thread, at_ns: u64) -> Vec<hindsight_decoder::MethodId> {
    let calls = &thread.calls;
    let is_left =
        |&i: &usize| calls.flags[i].contains(Flags::BY_EXCEPTION) && calls.end_ns[i] <= at_ns;
    let last = (0..calls.len())
        .filter(is_left)
        .max_by_key(|&i| (calls.end_ns[i], calls.depth[i]));
    let Some(last) = last else {
        return Vec::new();
    };
    let end_ns = calls.end_ns[last];
    let path = calls.path_to(last).into_iter();
    // Those outside may have caught an earlier exception.
    path.filter(|&i| is_left(&i) && calls.end_ns[i] == end_ns)
        .map(|i| calls.method[i])
        .collect()
}

/// Crashes with the same exception, causes and methods, the most frequent first.
pub fn group_crashes(session: &Session, graph: &Graph, crashes: &[Crash]) -> Vec<CrashGroup> {
    let mut groups: BTreeMap<u64, CrashGroup> = BTreeMap::new();
    for (i, crash) in crashes.iter().enumerate() {
        let mut hasher = DefaultHasher::new();
        session.string(crash.class).hash(&mut hasher);
        for (node, reason) in &crash.causes {
            let about = graph.node(*node);
            about.kind.name().hash(&mut hasher);
            session.string(about.what).hash(&mut hasher);
            reason.map(Reason::name).hash(&mut hasher);
        }
        // What the system did before it called the program does not count.
        let upcall = crash.upcall.map_or(crash.frames.len(), |u| u + 1);
        for frame in &crash.frames[..upcall] {
            session.string(*frame).hash(&mut hasher);
        }
        let key = hasher.finish();
        let group = groups.entry(key).or_insert_with(|| CrashGroup {
            key,
            crashes: Vec::new(),
        });
        group.crashes.push(i);
    }
    let mut groups: Vec<CrashGroup> = groups.into_values().collect();
    groups.sort_by_key(|g| (std::cmp::Reverse(g.crashes.len()), g.crashes[0]));
    groups
}
