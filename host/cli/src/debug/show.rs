// SPDX-License-Identifier: Apache-2.0
//! Nodes, events and edges.

use hindsight_analysis::{FieldValue, Fields};
use hindsight_causality::diagnosis::{place, Stretch};
use hindsight_causality::story::NodeName;
use hindsight_causality::{EdgeClass, EdgeId, NodeId};

use crate::places::bounds;
use crate::session::Opened;
use crate::words::{count, counted, duration};

/// A time after the beginning of the traces: `1.234567 s`.
pub(super) fn time(opened: &Opened, at_ns: u64) -> String {
    let (start, _) = bounds(&opened.session);
    let ns = at_ns as i128 - start as i128;
    format!("{:.6} s", ns as f64 / 1e9)
}

/// A node on one line.
pub(super) fn node_line(opened: &Opened, id: NodeId) -> String {
    let node = opened.graph.node(id);
    let name = NodeName::of(&opened.session, &opened.graph, id);
    let open = if node.is_open {
        ", its end is not recorded"
    } else {
        ""
    };
    format!(
        "node {}  {}  {} ({}) of {}: {}, {}{open}",
        id.0,
        time(opened, node.begin_ns),
        name.thread.thread,
        name.thread.tid,
        name.thread.process,
        name.words(),
        duration(node.duration_ns()),
    )
}

/// A node with its numbers.
pub(super) fn node(opened: &Opened, id: NodeId) -> Vec<String> {
    let (session, graph) = (&opened.session, &opened.graph);
    let node = graph.node(id);
    let mut lines = vec![node_line(opened, id)];
    let edges = |ids: &[EdgeId]| {
        let strong = ids
            .iter()
            .filter(|&&e| graph.edge(e).class == EdgeClass::Strong);
        format!("{} ({} strong)", count(ids.len() as u64), strong.count())
    };
    lines.push(format!(
        "  {}; edges to it: {}, from it: {}",
        counted(node.events().len() as u64, "event", "events"),
        edges(graph.incoming(id)),
        edges(graph.outgoing(id))
    ));
    if let Some(used) = session
        .resources(node.thread)
        .used(node.begin_ns, node.end_ns)
    {
        lines.push(format!(
            "  {} of CPU time; the processor was given up {} times, and taken from it {} times",
            duration(used.cpu_ns),
            used.voluntary_switches,
            used.involuntary_switches
        ));
    }
    for wait in graph.waits_in(id).iter().take(10) {
        lines.push(format!(
            "  wait for {} of {}, {}",
            wait.kind.name(),
            duration(wait.duration_ns()),
            wait.result.name()
        ));
    }
    lines
}

/// The events of a node.
pub(super) fn events(opened: &Opened, id: NodeId, limit: usize) -> Vec<String> {
    let session = &opened.session;
    let node = opened.graph.node(id);
    let trace = session.trace_of(node.thread);
    let fields = Fields::new(trace);
    let all = session.thread(node.thread).events.get(node.events());
    let all = all.unwrap_or_default();
    let value = |value: FieldValue| match value {
        FieldValue::Text(text) => text,
        FieldValue::Number(n) | FieldValue::Bytes(n) => n.to_string(),
        FieldValue::Identity(n) => format!("{n:#x}"),
        FieldValue::Duration(ns) => duration(ns),
        FieldValue::Time(ns) => time(opened, ns),
        FieldValue::Thread { tid, .. } => tid.to_string(),
        FieldValue::Flag(flag) => flag.to_string(),
    };
    let line = |event: &hindsight_decoder::ThreadEvent| {
        let of = fields
            .of(event)
            .map(|(f, v)| format!("{} {}", f.name, value(v)));
        let of: Vec<String> = of.collect();
        format!(
            "  {}  {}  {}",
            time(opened, event.at_ns),
            event.spec().name,
            of.join(", ")
        )
    };
    let mut lines: Vec<String> = all.iter().take(limit).map(line).collect();
    if all.len() > limit {
        lines.push(format!(
            "{} more (limit=)",
            count((all.len() - limit) as u64)
        ));
    }
    if lines.is_empty() {
        lines.push("It has no events: the thread's own code between others.".to_owned());
    }
    lines
}

/// Where the thread was for most of a stretch.
pub(super) fn stack(opened: &Opened, stretch: &Stretch) -> Vec<String> {
    let found = place(
        &opened.session,
        &opened.graph,
        stretch.thread,
        &stretch.window(),
        Some(stretch.first),
    );
    match found {
        Some(place) => {
            let indent = |(i, call): (usize, &String)| format!("{:indent$}{call}", "", indent = 2 + 2 * i);
            place.calls.iter().enumerate().map(indent).collect()
        }
        None => vec![
            "Neither calls nor stacks show where it was for most of the time: record stacks, too (events=all).".to_owned(),
        ],
    }
}

/// An edge on one line, with the node at its other end.
pub(super) fn edge_line(opened: &Opened, id: EdgeId, shows_cause: bool) -> String {
    let edge = opened.graph.edge(id);
    let other = if shows_cause { edge.from } else { edge.to };
    let mut remarks = Vec::new();
    remarks.push(if edge.is_inferred {
        "inferred"
    } else {
        "recorded"
    });
    remarks.extend(edge.is_ambiguous.then_some("may be mutual exclusion"));
    remarks.extend(edge.is_herd.then_some("of many threads at once"));
    format!(
        "{} {} ({}), {} later: {}",
        edge.class.name(),
        edge.reason.name(),
        remarks.join(", "),
        duration(edge.to_ns - edge.from_ns),
        node_line(opened, other)
    )
}

/// The edges to or from a node.
pub(super) fn edges(opened: &Opened, id: NodeId, incoming: bool, limit: usize) -> Vec<String> {
    let all = match incoming {
        true => opened.graph.incoming(id),
        false => opened.graph.outgoing(id),
    };
    let shown = all.iter().take(limit);
    let mut lines: Vec<String> = shown.map(|&e| edge_line(opened, e, incoming)).collect();
    if all.len() > limit {
        lines.push(format!(
            "{} more (limit=)",
            count((all.len() - limit) as u64)
        ));
    }
    if all.is_empty() {
        lines.push("No edge.".to_owned());
    }
    lines
}
