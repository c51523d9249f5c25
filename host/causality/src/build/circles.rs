// SPDX-License-Identifier: Apache-2.0
//! Events at one time that would be causes of each other.
//!
//! An edge does not lead back in time. So a circle of edges, and of the order of events within threads, has all its events
//! at one time. Such edges are left out.

use hashbrown::HashMap;

use crate::graph::{DropReason, EdgeId, Edges, Facts, Nodes};
use crate::session::EventId;

/// Leaves out the edges of circles, and those that only lead from circle to circle.
pub(super) fn without(mut edges: Edges, nodes: &Nodes, facts: &mut Facts) -> Edges {
    let left_out = of_circles(&edges, nodes);
    if !left_out.is_empty() {
        facts.dropped[DropReason::Circular as usize] += left_out.len() as u64;
        let mut keep = vec![true; edges.len()];
        for edge in left_out {
            keep[edge.index()] = false;
        }
        edges.retain(&keep);
    }
    edges
}

/// The edges that circles are made of, and those that only lead from circle to circle.
pub(crate) fn of_circles(edges: &Edges, nodes: &Nodes) -> Vec<EdgeId> {
    let thread = |node: usize| nodes.thread[node];
    let mut at_once: Vec<(u64, EdgeId)> = Vec::new();
    for i in 0..edges.len() {
        if edges.from_ns[i] != edges.to_ns[i] {
            continue;
        }
        let is_between = thread(edges.from[i].index()) != thread(edges.to[i].index());
        let is_back = !is_between && edges.from_event[i] > edges.to_event[i];
        if is_between || is_back {
            at_once.push((edges.from_ns[i], EdgeId(i as u32)));
        }
    }
    at_once.sort_unstable();
    let mut left_out: Vec<EdgeId> = Vec::new();
    for group in at_once.chunk_by(|a, b| a.0 == b.0) {
        let ends = |edge: EdgeId| {
            let i = edge.index();
            let event = |node: usize, event| EventId {
                thread: thread(node),
                event,
            };
            (
                event(edges.from[i].index(), edges.from_event[i]),
                event(edges.to[i].index(), edges.to_event[i]),
            )
        };
        let group: Vec<_> = group.iter().map(|&(_, e)| (e, ends(e))).collect();
        left_out.extend(at_one_time(&group));
    }
    left_out
}

/// The edges that remain when all events are taken away, again and again, that nothing leads to.
fn at_one_time(group: &[(EdgeId, (EventId, EventId))]) -> Vec<EdgeId> {
    let mut points: Vec<EventId> = group.iter().flat_map(|(_, (a, b))| [*a, *b]).collect();
    points.sort_unstable();
    points.dedup();
    let place: HashMap<EventId, usize> = points.iter().copied().zip(0..).collect();
    // Edges of the group, and from each event to the next one of its thread.
    let mut leads: Vec<(usize, usize)> = group
        .iter()
        .map(|(_, (a, b))| (place[a], place[b]))
        .collect();
    let follows = |w: &[EventId]| w[0].thread == w[1].thread;
    let own = points.windows(2).enumerate().filter(|(_, w)| follows(w));
    leads.extend(own.map(|(i, _)| (i, i + 1)));
    leads.sort_unstable();
    let mut into = vec![0_u32; points.len()];
    for &(_, to) in &leads {
        into[to] += 1;
    }
    let mut free: Vec<usize> = (0..points.len()).filter(|&p| into[p] == 0).collect();
    while let Some(point) = free.pop() {
        let first = leads.partition_point(|&(from, _)| from < point);
        for &(_, to) in leads[first..]
            .iter()
            .take_while(|&&(from, _)| from == point)
        {
            into[to] -= 1;
            if into[to] == 0 {
                free.push(to);
            }
        }
    }
    let remains = |(_, (from, to)): &&(EdgeId, (EventId, EventId))| {
        into[place[from]] > 0 && into[place[to]] > 0
    };
    group.iter().filter(remains).map(|(e, _)| *e).collect()
}
