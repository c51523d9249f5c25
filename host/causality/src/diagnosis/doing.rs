// SPDX-License-Identifier: Apache-2.0
//! What a thread did in stretches of time: it waited, slept, waited for work, or ran.

use hindsight_analysis::Used;
use hindsight_decoder::Extension;
use hindsight_system_trace::Times;

use super::stretch::is_step;
use super::windows::Windows;
use crate::graph::{Graph, Node, NodeId, NodeKind, Wait, WaitKind};
use crate::scheduled::times_in;
use crate::session::{Session, ThreadId};

/// Most waits that are looked at one by one; of more, the longest.
const MOST_WAITS: usize = 256;
/// Most pieces of work that are kept.
const MOST_NODES: usize = 8;

/// Whether a part is more than half of a whole.
pub(crate) const fn is_most(part: u64, whole: u64) -> bool {
    part > whole / 2
}

/// Whether a node is work that a thread was given.
pub(crate) const fn is_work(kind: NodeKind) -> bool {
    !matches!(
        kind,
        NodeKind::Run | NodeKind::Wait | NodeKind::Idle | NodeKind::Maintenance
    )
}

/// A wait, and when the thread waited in it.
#[derive(Clone, Debug)]
pub(crate) struct Waited {
    pub(crate) wait: Wait,
    pub(crate) when: Windows,
}

/// What a thread did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doing {
    /// The stretches, ns.
    pub(crate) total_ns: u64,
    /// Its waits for others, in the order of time, without sleeps.
    pub(crate) waits: Vec<Waited>,
    /// The time of all of these, ns.
    pub(crate) waited_ns: u64,
    /// The time asleep, ns.
    pub(crate) slept_ns: u64,
    /// The time in which it waited for work, ns.
    pub(crate) idle_ns: u64,
    /// The time that its nodes cover, ns.
    pub(crate) recorded_ns: u64,
    /// The nodes that took most of the time, other than waits for work: the longest time first.
    pub(crate) nodes: Vec<(NodeId, u64)>,
    /// CPU time, ns, if readings cover the stretches.
    pub(crate) cpu_ns: Option<u64>,
    /// How often it gave up the processor, and how often the processor was taken from it, if readings cover the stretches.
    pub(crate) switches: Option<(u64, u64)>,
    /// What it did by a trace of the whole device, if that covers most of the stretches.
    pub(crate) scheduled: Option<Times>,
}

impl Doing {
    /// Whether it computed for most of the time, or wanted to: the processor was taken from it, and it did not give it up
    /// itself, as a thread does that waits. The kernel counts `sched_yield` as if the processor had been taken; so that only
    /// tells something if it is seen where the thread was.
    pub(crate) fn computed(&self, is_seen: bool) -> bool {
        if let Some(times) = &self.scheduled {
            return is_most(times.running_ns + times.runnable_ns, self.total_ns);
        }
        let on_cpu = self.cpu_ns.is_some_and(|cpu| is_most(cpu, self.total_ns));
        on_cpu || is_seen && self.was_kept_waiting()
    }

    /// Whether it was ready to run, but not on a processor.
    pub(crate) fn was_kept_waiting(&self) -> bool {
        const MANY: u64 = 64;
        // Of the scheduler it is known whether it was.
        let switches = self.switches.filter(|_| self.scheduled.is_none());
        switches.is_some_and(|(voluntary, involuntary)| {
            involuntary > 0 && (voluntary == 0 || involuntary > MANY * voluntary)
        })
    }

    /// The time in which it neither waited nor slept, as far as that is recorded, ns.
    pub(crate) fn ran_ns(&self) -> u64 {
        let rested = self.waited_ns + self.slept_ns + self.idle_ns;
        self.recorded_ns.saturating_sub(rested)
    }
}

/// Index of a thread's first node that may reach into the time after `at_ns`.
fn first_at(graph: &Graph, thread: ThreadId, at_ns: u64) -> Option<u32> {
    let mut nodes = graph.nodes_of(thread);
    let (first, count) = (nodes.next()?.0, nodes.len() as u32 + 1);
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        match graph.node(NodeId(first + middle)).begin_ns <= at_ns {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    // Maintenance is inside other nodes.
    let mut at = low.saturating_sub(1);
    while at > 0 && graph.node(NodeId(first + at)).kind == NodeKind::Maintenance {
        at -= 1;
    }
    Some(first + at)
}

/// The nodes of a thread, without maintenance inside others, that overlap with `span`.
pub(crate) fn nodes_in<'g>(
    graph: &'g Graph,
    thread: ThreadId,
    span: (u64, u64),
) -> impl Iterator<Item = NodeId> + 'g {
    let first = first_at(graph, thread, span.0);
    let end = graph.nodes_of(thread).next_back().map_or(0, |n| n.0 + 1);
    let nodes = first.map_or(0..0, |first| first..end).map(NodeId);
    nodes
        .take_while(move |&n| graph.node(n).begin_ns < span.1)
        .filter(move |&n| graph.node(n).end_ns > span.0 && !graph.is_inside(n))
}

/// The stretches in which a thread serves another transaction while it waits for the reply to its own.
fn services(session: &Session, wait: &Wait) -> Vec<(u64, u64)> {
    if wait.kind != WaitKind::Transaction {
        return Vec::new();
    }
    let events = &session.thread(wait.thread).events;
    let end = (wait.end_event as usize).min(events.len());
    let mut found = Vec::new();
    let mut serves: Option<(u64, u32)> = None;
    let inside = events.get(wait.begin_event as usize + 1..end);
    for event in inside.unwrap_or_default() {
        serves = match (event.kind, serves) {
            (Extension::BinderServe, Some((since_ns, depth))) => Some((since_ns, depth + 1)),
            (Extension::BinderServe, None) => Some((event.at_ns, 1)),
            (Extension::BinderServed, Some((since_ns, 1))) => {
                found.push((since_ns, event.at_ns));
                None
            }
            (Extension::BinderServed, Some((since_ns, depth))) => Some((since_ns, depth - 1)),
            (_, serves) => serves,
        };
    }
    found
}

/// The waits of a node with the times in which the thread really waited: a wait in a wait is a part of it.
fn flat(session: &Session, waits: &[Wait], within: &Windows) -> Vec<Waited> {
    let mut found = Vec::new();
    let mut until_ns = 0;
    let mut inside: Vec<(u64, u64)> = Vec::new();
    for wait in waits {
        let serves = |s: &(u64, u64)| s.0 <= wait.begin_ns && wait.end_ns <= s.1;
        if wait.begin_ns < until_ns && !inside.iter().any(serves) {
            continue;
        }
        if wait.begin_ns >= until_ns {
            inside = services(session, wait);
            until_ns = wait.end_ns;
        }
        let mut parts = Vec::new();
        let mut from_ns = wait.begin_ns;
        let served = match wait.kind {
            WaitKind::Transaction => &inside[..],
            _ => &[],
        };
        for service in served {
            parts.push((from_ns, service.0));
            from_ns = service.1;
        }
        parts.push((from_ns, wait.end_ns));
        let parts = parts.iter().flat_map(|&p| within.cut(p).spans().to_vec());
        let when = Windows::of(parts.collect());
        if when.total_ns() > 0 {
            found.push(Waited { wait: *wait, when });
        }
    }
    found
}

/// What a thread did in these stretches of time.
pub(crate) fn doing(
    session: &Session,
    graph: &Graph,
    thread: ThreadId,
    windows: &Windows,
) -> Doing {
    let mut found = Doing {
        total_ns: windows.total_ns(),
        ..Doing::default()
    };
    let mut last = None;
    for &span in windows.spans() {
        for id in nodes_in(graph, thread, span) {
            let node = graph.node(id);
            let within = windows.cut(span).cut((node.begin_ns, node.end_ns));
            let ns = within.total_ns();
            found.recorded_ns += ns;
            if node.kind == NodeKind::Idle || waits_for_service(session, graph, id, &node) {
                found.idle_ns += ns;
                continue;
            }
            match found
                .nodes
                .iter_mut()
                .rfind(|(n, _)| last == Some(*n) && *n == id)
            {
                Some((_, sum)) => *sum += ns,
                None => found.nodes.push((id, ns)),
            }
            last = Some(id);
            if found.nodes.len() > 64 * MOST_NODES {
                keep_longest(&mut found.nodes);
            }
            for waited in flat(session, graph.waits_in(id), &within) {
                let ns = waited.when.total_ns();
                match waited.wait.kind {
                    WaitKind::Sleep => found.slept_ns += ns,
                    _ => {
                        found.waited_ns += ns;
                        found.waits.push(waited);
                    }
                }
            }
            if found.waits.len() > 16 * MOST_WAITS {
                keep_longest_waits(&mut found.waits);
            }
        }
    }
    keep_longest(&mut found.nodes);
    keep_longest_waits(&mut found.waits);
    if let Some(used) = used(session, thread, windows) {
        found.cpu_ns = Some(used.cpu_ns);
        found.switches = Some((used.voluntary_switches, used.involuntary_switches));
    }
    let times = times_in(session, thread, windows.spans());
    let is_known = is_most(times.total_ns() - times.unknown_ns, windows.total_ns());
    found.scheduled = is_known.then_some(times);
    if let Some(times) = &found.scheduled {
        let read_ns = found.cpu_ns.filter(|_| times.unknown_ns > 0);
        found.cpu_ns = Some(times.running_ns.max(read_ns.unwrap_or(0)));
    }
    found
}

fn keep_longest(nodes: &mut Vec<(NodeId, u64)>) {
    nodes.sort_by_key(|(n, ns)| (std::cmp::Reverse(*ns), *n));
    nodes.truncate(MOST_NODES);
}

fn keep_longest_waits(waits: &mut Vec<Waited>) {
    if waits.len() > MOST_WAITS {
        waits.sort_by_key(|w| (std::cmp::Reverse(w.when.total_ns()), w.wait.begin_event));
        waits.truncate(MOST_WAITS);
    }
    waits.sort_by_key(|w| w.wait.begin_event);
}

/// Whether a thread waits for the next transaction: it serves them, and did nothing since the last one.
fn waits_for_service(session: &Session, graph: &Graph, id: NodeId, node: &Node) -> bool {
    let events = session.thread(node.thread).events.get(node.events());
    let did_nothing = || !events.unwrap_or_default().iter().any(|e| is_step(e.kind));
    let serves = |n: Option<NodeId>| n.is_some_and(|n| graph.node(n).kind == NodeKind::Service);
    node.kind == NodeKind::Run
        && (serves(graph.previous(id)) || serves(graph.next(id)))
        && did_nothing()
}

/// What it used in the stretches, if the readings cover most of them.
fn used(session: &Session, thread: ThreadId, windows: &Windows) -> Option<Used> {
    let resources = session.resources(thread);
    let (mut sum, mut covered) = (Used::default(), 0_u64);
    for &(from, to) in windows.spans() {
        if let Some(used) = resources.used(from, to) {
            sum = sum.plus(used);
            covered += to - from;
        }
    }
    is_most(covered, windows.total_ns()).then_some(sum)
}
