// SPDX-License-Identifier: Apache-2.0
//! Files, threads and nodes.

use anyhow::{bail, Result};
use hindsight_analysis::Unmatched;
use hindsight_causality::story::process_name;
use hindsight_causality::{DropReason, NodeId, NodeKind};
use wildmatch::WildMatch;

use super::commands::Words;
use super::show::node_line;
use crate::diagnose::stall_time;
use crate::places::parse_time;
use crate::session::Opened;
use crate::words::{count, counted, unmatched_ends};

/// The files, and what was left out of the graph.
pub(super) fn info(opened: &Opened) -> Vec<String> {
    let (session, graph) = (&opened.session, &opened.graph);
    let mut lines = Vec::new();
    for (i, trace) in session.traces().enumerate() {
        let process = process_name(session, i);
        let threads = counted(trace.threads.len() as u64, "thread", "threads");
        let mut line = format!(
            "{}: {process} (pid {}), {threads}",
            session.file(i).display(),
            trace.process.pid
        );
        if let Some(apart) = session.apart(i) {
            line += &format!("; it stands for itself: {}", apart.words());
        }
        lines.push(line);
    }
    lines.push(format!(
        "The graph has {} and {}.",
        counted(graph.node_count() as u64, "node", "nodes"),
        counted(graph.edge_count() as u64, "edge", "edges")
    ));
    for reason in DropReason::ALL {
        let dropped = graph.dropped(reason);
        if dropped > 0 {
            lines.push(format!(
                "Left out: {}, as {}.",
                counted(dropped, "edge", "edges"),
                reason.words()
            ));
        }
    }
    lines.extend(graph.facts().unmatched.iter().map(unmatched_line));
    for suggestion in graph.suggestions(session) {
        lines.push(format!(
            "{} as node {} joined {}, which may have nothing to do with each other. A rule for --rules that splits them:",
            counted(suggestion.nodes as u64, "node", "nodes"),
            suggestion.node.0,
            suggestion.processes.join(", ")
        ));
        lines.extend(suggestion.rule.lines().map(str::to_owned));
    }
    lines
}

/// Causes without an effect, or effects without a cause.
fn unmatched_line(unmatched: &Unmatched) -> String {
    let (kind, ends) = (unmatched.kind.name(), unmatched_ends(unmatched));
    let why = unmatched.why.words();
    format!("Without the other end: {kind}, {ends} ({why}).")
}

/// The threads whose names fit.
pub(super) fn threads(opened: &Opened, pattern: Option<&str>) -> Vec<String> {
    let (session, graph) = (&opened.session, &opened.graph);
    let pattern = pattern.map(WildMatch::new);
    let fits = |name: &str| pattern.as_ref().is_none_or(|p| p.matches(name));
    let mut lines = Vec::new();
    for thread in session
        .thread_ids()
        .filter(|&t| fits(session.thread_name(t)))
    {
        let about = session.about(thread);
        lines.push(format!(
            "{}/{} (tid {}, ring:{}): {}, {}",
            process_name(session, about.trace()),
            session.thread_name(thread),
            about.tid,
            about.key.ring,
            counted(graph.nodes_of(thread).len() as u64, "node", "nodes"),
            counted(
                session.thread(thread).events.len() as u64,
                "event",
                "events"
            ),
        ));
    }
    if lines.is_empty() {
        lines.push("No thread has such a name.".to_owned());
    }
    lines
}

/// What nodes are asked for.
struct Wanted {
    thread: Option<WildMatch>,
    process: Option<WildMatch>,
    kind: Option<NodeKind>,
    text: Option<String>,
    from_ns: u64,
    to_ns: u64,
    longer_ns: u64,
}

impl Wanted {
    fn of(opened: &Opened, words: &Words) -> Result<Self> {
        let kind = |name: &str| match NodeKind::ALL.iter().find(|k| k.name() == name) {
            Some(kind) => Ok(*kind),
            None => {
                let names: Vec<&str> = NodeKind::ALL.iter().map(|k| k.name()).collect();
                bail!("there is no kind {name:?}; there are {}", names.join(", "))
            }
        };
        let time = |name: &str| {
            let text = words.option(name);
            text.map(|t| parse_time(&opened.session, t)).transpose()
        };
        let longer = words.option("longer").map(stall_time).transpose();
        Ok(Wanted {
            thread: words.option("thread").map(WildMatch::new),
            process: words.option("process").map(WildMatch::new),
            kind: words.option("kind").map(kind).transpose()?,
            text: words.option("text").map(str::to_owned),
            from_ns: time("from")?.unwrap_or(0),
            to_ns: time("to")?.unwrap_or(u64::MAX),
            longer_ns: longer.map_err(anyhow::Error::msg)?.unwrap_or(0),
        })
    }

    fn fits(&self, opened: &Opened, id: NodeId) -> bool {
        let (session, node) = (&opened.session, opened.graph.node(id));
        let about = session.about(node.thread);
        let has_name = |wanted: &Option<WildMatch>, name: &str, id: u32| {
            wanted
                .as_ref()
                .is_none_or(|w| w.matches(name) || w.matches(&id.to_string()))
        };
        let pid = session.trace(about.trace()).process.pid;
        self.kind.is_none_or(|k| k == node.kind)
            && node.end_ns >= self.from_ns
            && node.begin_ns <= self.to_ns
            && node.duration_ns() >= self.longer_ns
            && has_name(&self.thread, session.thread_name(node.thread), about.tid)
            && has_name(&self.process, &process_name(session, about.trace()), pid)
            && (self.text.as_ref()).is_none_or(|t| session.string(node.what).contains(t.as_str()))
    }
}

/// The nodes that are asked for, in the order of time.
pub(super) fn nodes(opened: &Opened, words: &Words) -> Result<Vec<String>> {
    words.at_most(0)?;
    let wanted = Wanted::of(opened, words)?;
    let limit = words.number("limit", 20)?;
    let graph = &opened.graph;
    let mut found: Vec<NodeId> = graph
        .node_ids()
        .filter(|&n| wanted.fits(opened, n))
        .collect();
    found.sort_by_key(|&n| (graph.node(n).begin_ns, n));
    Ok(list(opened, &found, limit))
}

/// The first of these nodes, and the number of the others.
pub(super) fn list(opened: &Opened, nodes: &[NodeId], limit: usize) -> Vec<String> {
    let mut lines: Vec<String> = nodes
        .iter()
        .take(limit)
        .map(|&n| node_line(opened, n))
        .collect();
    match nodes.len() {
        0 => lines.push("No node.".to_owned()),
        all if all > limit => lines.push(format!("{} more (limit=)", count((all - limit) as u64))),
        _ => {}
    }
    lines
}

#[cfg(test)]
mod tests {
    use hindsight_analysis::{PairKind, PairSide, Why};

    use super::*;

    #[test]
    fn causes_without_effects_are_told_from_effects_without_causes() {
        let line = |side| {
            unmatched_line(&Unmatched {
                kind: PairKind::Reply,
                side,
                why: Why::NotRecorded,
                count: 12,
            })
        };
        assert_eq!(
            [line(PairSide::From), line(PairSide::To)],
            [
                "Without the other end: reply, 12 causes (the other end is not recorded).",
                "Without the other end: reply, 12 effects (the other end is not recorded).",
            ]
        );
    }
}
