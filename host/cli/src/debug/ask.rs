// SPDX-License-Identifier: Apache-2.0
//! The questions of a diagnosis, one by one.

use anyhow::{bail, Result};
use hindsight_causality::diagnosis::{
    self, Activity, BeamQuestion, Chain, End, Found, Reading, SimilarNodes, SimilarQuestion,
    SliceQuestion, Stretch, Way, MOST_LOOKED_AT, WIDTHS,
};
use hindsight_causality::story::{self, report, text, ThreadName};
use hindsight_causality::{EdgeId, NodeId};
use hindsight_decoder::catalogue::CATALOGUE;
use hindsight_decoder::Extension;

use super::commands::Words;
use super::search::list;
use super::show::{edge_line, node_line};
use crate::diagnose::{stall_time, write_blocks};
use crate::page::{Look, Page};
use crate::session::Opened;
use crate::words::{count, counted, duration};

/// The whole diagnosis of a stretch.
pub(super) fn diagnose(opened: &Opened, found: Found, look: &Look) -> Result<()> {
    let (session, graph) = (&opened.session, &opened.graph);
    let diagnosis = diagnosis::diagnose_stretch(session, graph, found);
    let report = report(
        session,
        graph,
        Some(&diagnosis),
        hindsight_analysis::STALL_NS,
    );
    Page::new(look).show(|page| write_blocks(page, &text(&report)))
}

/// What began a node.
pub(super) fn cause(opened: &Opened, node: NodeId) -> Vec<String> {
    let (session, graph) = (&opened.session, &opened.graph);
    let path = diagnosis::cause_path(session, graph, node);
    if path.edges.is_empty() {
        return vec!["No recorded event led to it: the thread decided to do it, or the cause is not recorded.".to_owned()];
    }
    steps(opened, &path.edges)
}

/// The causes of a path, and its last node.
fn steps(opened: &Opened, edges: &[EdgeId]) -> Vec<String> {
    let mut lines: Vec<String> = edges.iter().map(|&e| edge_line(opened, e, true)).collect();
    if let Some(&last) = edges.last() {
        lines.push(format!(
            "→ {}",
            node_line(opened, opened.graph.edge(last).to)
        ));
    }
    lines
}

/// The nodes that led to a stretch.
pub(super) fn slice(opened: &Opened, stretch: &Stretch, strong: bool, limit: usize) -> Vec<String> {
    let question = SliceQuestion {
        weak: !strong,
        ..SliceQuestion::default()
    };
    let found = diagnosis::slice(&opened.graph, stretch.last, stretch.end_ns, &question);
    let mut latest: Vec<NodeId> = found.nodes.iter().rev().copied().collect();
    latest.retain(|&n| n != stretch.last);
    let mut lines = vec![format!(
        "{} led to it{}. The latest first:",
        counted(latest.len() as u64, "node", "nodes"),
        if found.is_cut {
            ", and earlier ones"
        } else {
            ""
        }
    )];
    lines.extend(list(opened, &latest, limit));
    lines
}

/// The most likely paths to a stretch.
pub(super) fn beam(opened: &Opened, stretch: &Stretch, words: &Words) -> Result<Vec<String>> {
    let widths = match words.option("width") {
        Some(_) => vec![words.number("width", 1)?.min(1_000)],
        None => WIDTHS.to_vec(),
    };
    let limit = words.number("limit", 3)?;
    let mut lines = Vec::new();
    for width in widths {
        let question = BeamQuestion {
            lookback: words.number("lookback", BeamQuestion::of_width(width).lookback)?,
            ..BeamQuestion::of_width(width)
        };
        let paths = diagnosis::beam(&opened.graph, stretch.last, stretch.end_ns, question);
        lines.push(format!(
            "Width {width}: {}",
            counted(paths.len() as u64, "path", "paths")
        ));
        for path in paths.iter().take(limit) {
            let origin = path.edges.first().map(|&e| opened.graph.edge(e).from);
            lines.push(format!(
                "  penalty {}, {}{}; it begins at {}",
                path.penalty,
                counted(path.edges.len() as u64, "edge", "edges"),
                if path.from_input {
                    ", from the user's input"
                } else {
                    ""
                },
                origin.map_or_else(String::new, |n| node_line(opened, n))
            ));
        }
        if paths.len() > limit {
            lines.push(format!("  {} more (limit=)", paths.len() - limit));
        }
    }
    Ok(lines)
}

fn reading(opened: &Opened, stretch: &Stretch) -> Reading {
    let (session, graph) = (&opened.session, &opened.graph);
    let window = stretch.window();
    let place = diagnosis::place(session, graph, stretch.thread, &window, Some(stretch.first));
    diagnosis::kind(session, graph, stretch, place.as_ref())
}

/// Of which kind a stretch is.
pub(super) fn kind(opened: &Opened, stretch: &Stretch) -> Vec<String> {
    let reading = reading(opened, stretch);
    let cpu = reading.cpu_ns.map_or("not recorded".to_owned(), duration);
    vec![format!(
        "{}: of {}, CPU time {cpu}, waits for others {}, asleep {}; {} pauses in {}",
        reading.kind.name(),
        duration(reading.span_ns),
        duration(reading.waited_ns),
        duration(reading.slept_ns),
        reading.pauses,
        counted(reading.steps, "step", "steps")
    )]
}

fn question(opened: &Opened, stretch: &Stretch) -> SimilarQuestion {
    let (session, graph) = (&opened.session, &opened.graph);
    let reading = diagnosis::kind(session, graph, stretch, None);
    let node = graph.node(stretch.first);
    let in_node = |w: &hindsight_causality::Wait| node.events().contains(&(w.begin_event as usize));
    let waited = reading.waited_ns > reading.span_ns / 2;
    SimilarQuestion {
        wait: reading.longest.filter(|w| waited && in_node(w)),
        least_ns: stretch.duration_ns() / 2,
        preceding: 0,
        kinds: Vec::new(),
    }
}

/// The nodes that did the same as a stretch.
pub(super) fn similar(opened: &Opened, stretch: &Stretch, words: &Words) -> Result<Vec<String>> {
    let mut question = question(opened, stretch);
    if let Some(least) = words.option("least") {
        question.least_ns = stall_time(least).map_err(anyhow::Error::msg)?;
    }
    if let Some(kinds) = words.option("kinds") {
        question.kinds = kinds.split(',').map(event_kind).collect::<Result<_>>()?;
    }
    if words.option("preceding").is_some() {
        question.preceding = words.number("preceding", 1)?;
    }
    let found = diagnosis::similar(&opened.session, &opened.graph, stretch.first, &question);
    let mut lines = vec![similar_words(&found)];
    for similar in found.nodes.iter().take(words.number("limit", 10)?) {
        let wait = similar.wait.map(|w| {
            format!(
                "; its wait took {}, {}",
                duration(w.duration_ns()),
                w.result.name()
            )
        });
        lines.push(format!(
            "{}{}",
            node_line(opened, similar.node),
            wait.unwrap_or_default()
        ));
    }
    Ok(lines)
}

/// The kind of events with this name.
fn event_kind(name: &str) -> Result<Extension> {
    let mut all = CATALOGUE.iter();
    match all.find(|spec| spec.name == name.trim()) {
        Some(spec) => Ok(spec.extension),
        None => bail!(
            "there is no event {name:?}: events shows the names, and docs/events.md lists them"
        ),
    }
}

fn similar_words(found: &SimilarNodes) -> String {
    match found.count {
        0 => format!(
            "None of {} did the same and went well.",
            counted(found.compared as u64, "node", "nodes of its kind and class")
        ),
        n => format!(
            "{} did the same and went well. The nearest first:",
            counted(n as u64, "node", "nodes")
        ),
    }
}

/// What was different when a similar node went well.
pub(super) fn compare(
    opened: &Opened,
    stretch: &Stretch,
    baseline: Option<NodeId>,
) -> Result<Vec<String>> {
    let (session, graph) = (&opened.session, &opened.graph);
    let found = diagnosis::similar(session, graph, stretch.first, &question(opened, stretch));
    let similar = match baseline {
        Some(node) => found.nodes.iter().find(|s| s.node == node).copied(),
        None => found.nodes.first().copied(),
    };
    let node = baseline.or(similar.map(|s| s.node));
    let Some(node) = node else {
        bail!("no similar node went well: name one by its number");
    };
    let wait = similar.and_then(|s| s.wait);
    let differences = diagnosis::compare(session, graph, stretch.first, node, wait.as_ref());
    let mut lines = vec![format!("Compared with {}", node_line(opened, node))];
    let name = |t| ThreadName::of(session, t).thread;
    let threads: Vec<String> = differences.threads.iter().map(|&t| name(t)).collect();
    lines.push(match threads.is_empty() {
        true => "No other thread led to its end.".to_owned(),
        false => format!("Threads that led to its end: {}", threads.join(" ← ")),
    });
    for difference in &differences.found {
        let did = if difference.wait.is_some() {
            "waited"
        } else {
            "spent"
        };
        lines.push(format!(
            "Since then it {did} {} in {}",
            duration(difference.ns),
            node_line(opened, difference.node)
        ));
    }
    let input = differences
        .input
        .iter()
        .map(|&n| format!("Input since then: {}", node_line(opened, n)));
    lines.extend(input);
    Ok(lines)
}

/// Whom the thread of a stretch waited for.
pub(super) fn chain(opened: &Opened, stretch: &Stretch) -> Vec<String> {
    let (session, graph) = (&opened.session, &opened.graph);
    let kind = reading(opened, stretch).kind;
    let (chain, fields) = diagnosis::waited_for(session, graph, stretch, kind);
    let field = fields.first().map_or("", |f| session.string(f.name));
    let hops = chain.hops.iter();
    let hops = hops.map(|h| story::hop(session, graph, h, field));
    let mut lines: Vec<String> = hops.map(|h| story::hop_text(&h)).collect();
    lines.push(end_words(opened, &chain));
    lines
}

fn end_words(opened: &Opened, chain: &Chain) -> String {
    let name = |t| {
        let name = ThreadName::of(&opened.session, t);
        format!(
            "thread \"{}\" (tid {}) of {}",
            name.thread, name.tid, name.process
        )
    };
    match &chain.end {
        End::Did(did) => {
            let place = did.place.as_ref().map(|p| format!(", in {}", p.method));
            let node = did.node.map(|(n, _)| format!("; {}", node_line(opened, n)));
            let activity = match did.activity {
                Activity::Computed => "computed",
                Activity::Slept => "slept",
                Activity::Ran => "waited for no other thread, and its CPU time is not recorded",
                Activity::Outside => "waited outside the runtime, or was not scheduled",
            };
            format!(
                "The last one is {}: it {activity}{}{}",
                name(did.thread),
                place.unwrap_or_default(),
                node.unwrap_or_default()
            )
        }
        End::Circle { first } => {
            let from = chain.hops.get(*first).map(|h| name(h.from));
            format!(
                "That is a circle: it comes back to {}.",
                from.unwrap_or_default()
            )
        }
        End::Unknown { thread, .. } => format!("Whom {} waited for is not known.", name(*thread)),
        End::Idle(thread) => format!("{} waited for work.", name(*thread)),
        End::Delayed { by, delay_ns, .. } => {
            format!(
                "{} sent the work with a delay of {}.",
                name(*by),
                duration(*delay_ns)
            )
        }
        End::NotRecorded { thread, .. } => {
            format!("What {} did then is not recorded.", name(*thread))
        }
        End::WaitsMissing { thread, .. } => {
            format!("Waits of {} may be missing.", name(*thread))
        }
        End::Several(thread) => {
            format!(
                "{} did several things, none of which took most of the time.",
                name(*thread)
            )
        }
        End::TooLong => "There are more.".to_owned(),
    }
}

/// A shortest path from one node to another.
pub(super) fn path(opened: &Opened, from: NodeId, to: NodeId) -> Vec<String> {
    match diagnosis::way(&opened.graph, from, to) {
        Way::Found(edges) if edges.is_empty() => vec![node_line(opened, to)],
        Way::Found(edges) => steps(opened, &edges),
        Way::None => vec!["No path of edges leads from the one to the other.".to_owned()],
        Way::TooLong => vec![format!(
            "No path was found in {} steps.",
            count(MOST_LOOKED_AT as u64)
        )],
    }
}
