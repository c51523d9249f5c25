// SPDX-License-Identifier: Apache-2.0
//! Beam search for the paths that led to a node (P-7; Argus's implementation).

use std::cmp::Reverse;
use std::rc::Rc;

use hashbrown::HashMap;

use crate::graph::{EdgeId, Graph, NodeId};

use super::slice::{is_origin, leads};

/// Most edges of a path.
const MOST_EDGES: usize = 512;
/// Most paths under way between two selections.
const MOST_PATHS: usize = 1_024;
/// Most edges into one node that are taken.
const MOST_INCOMING: usize = 64;
/// Most edges into one node that are tried: some are from nodes that a path has already.
const MOST_TRIED: usize = 4_096;

/// How wide and how far the search looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeamQuestion {
    /// The number of paths that are kept.
    pub width: usize,
    /// The number of steps after which the best are kept.
    pub lookback: usize,
    /// What each edge adds to a path's penalty besides that of its class.
    pub step: i32,
    /// What the penalty of an edge's class is multiplied with.
    pub factor: i32,
}

/// The widths that are tried by default.
pub const WIDTHS: [usize; 3] = [1, 3, 10];

impl BeamQuestion {
    /// With Argus's look-back of five steps.
    pub fn of_width(width: usize) -> Self {
        BeamQuestion {
            width,
            lookback: 5,
            step: 0,
            factor: 1,
        }
    }
}

/// A path that led to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeamPath {
    /// The edges, the earliest first.
    pub edges: Vec<EdgeId>,
    /// The sum over its edges: strong −1, boosted 0, weak +1.
    pub penalty: i32,
    /// Whether it begins with the user's input.
    pub from_input: bool,
}

/// A step of a path: its edge, and the step after it.
#[derive(Clone, Copy)]
struct Step {
    edge: EdgeId,
    later: u32,
}

const NONE: u32 = u32::MAX;

/// A path under way: its oldest step, which is in `Search::steps`.
#[derive(Clone, Copy)]
struct Path {
    last: u32,
    node: NodeId,
    until_ns: u64,
    penalty: i32,
    length: u32,
}

/// An edge into a node that may have led to it.
#[derive(Clone, Copy)]
struct Cause {
    penalty: i32,
    to_ns: u64,
    id: EdgeId,
    from: NodeId,
}

struct Search<'a> {
    graph: &'a Graph,
    question: BeamQuestion,
    steps: Vec<Step>,
    done: Vec<Path>,
    /// By node, the edges into it, the best first. Many paths go through one node, which may have very many.
    causes: HashMap<NodeId, Rc<[Cause]>>,
}

/// The paths of least penalty to `node`, over edges that arrive there until `until_ns`, CLOCK_BOOTTIME; at most as many as
/// the beam is wide. Equal ones are in the order of time, the latest first, and of their edges' numbers.
pub fn beam(graph: &Graph, node: NodeId, until_ns: u64, question: BeamQuestion) -> Vec<BeamPath> {
    let mut search = Search {
        graph,
        question,
        steps: Vec::new(),
        done: Vec::new(),
        causes: HashMap::new(),
    };
    let start = Path {
        last: NONE,
        node,
        until_ns,
        penalty: 0,
        length: 0,
    };
    let mut open = search.extend(&start);
    let mut steps = 1;
    while !open.is_empty() {
        if steps % question.lookback.max(1) == 0 || open.len() > MOST_PATHS {
            search.select(&mut open);
        }
        let mut next = Vec::new();
        for path in &open {
            let longer = match path.length as usize >= MOST_EDGES {
                true => Vec::new(),
                false => search.extend(path),
            };
            match longer.is_empty() {
                true => search.done.push(*path),
                false => next.extend(longer),
            }
        }
        open = next;
        steps += 1;
    }
    let mut done = std::mem::take(&mut search.done);
    search.sort(&mut done);
    done.truncate(question.width);
    done.iter().map(|path| search.finish(path)).collect()
}

impl Search<'_> {
    /// The path with each edge into its oldest node, one for each predecessor.
    fn extend(&mut self, path: &Path) -> Vec<Path> {
        if is_origin(self.graph.node(path.node).kind) {
            return Vec::new();
        }
        let possible = self.possible(path);
        let mut longer = Vec::with_capacity(possible.len());
        for id in possible {
            let edge = self.graph.edge(id);
            let last = self.steps.len() as u32;
            self.steps.push(Step {
                edge: id,
                later: path.last,
            });
            let cost = edge.class.penalty().saturating_mul(self.question.factor);
            longer.push(Path {
                last,
                node: edge.from,
                until_ns: edge.from_ns,
                penalty: path
                    .penalty
                    .saturating_add(cost)
                    .saturating_add(self.question.step),
                length: path.length + 1,
            });
        }
        longer
    }

    /// The best edges that make a path longer: of several edges from one node, the cheapest, then the latest.
    fn possible(&mut self, path: &Path) -> Vec<EdgeId> {
        let causes = self.causes_of(path.node);
        let mut possible: Vec<(NodeId, EdgeId)> = Vec::new();
        let mut tried = 0;
        let mut rest = &causes[..];
        while let Some(first) = rest.first() {
            let same;
            (same, rest) = rest.split_at(rest.partition_point(|c| c.penalty == first.penalty));
            // The latest ones come first.
            let too_late = same.partition_point(|cause| cause.to_ns > path.until_ns);
            for cause in &same[too_late..] {
                if possible.len() == MOST_INCOMING || tried == MOST_TRIED {
                    break;
                }
                tried += 1;
                let is_new = possible.iter().all(|&(from, _)| from != cause.from);
                if is_new && !self.has(path, cause.from) {
                    possible.push((cause.from, cause.id));
                }
            }
        }
        possible.into_iter().map(|(_, id)| id).collect()
    }

    /// The edges that may have led to a node, the best first.
    fn causes_of(&mut self, node: NodeId) -> Rc<[Cause]> {
        let graph = self.graph;
        let found = self.causes.entry(node).or_insert_with(|| {
            let edges = graph.incoming(node).iter().map(|&id| (id, graph.edge(id)));
            let causes = edges
                .filter(|(_, edge)| leads(edge))
                .map(|(id, edge)| Cause {
                    penalty: edge.class.penalty(),
                    to_ns: edge.to_ns,
                    id,
                    from: edge.from,
                });
            let mut causes: Vec<Cause> = causes.collect();
            causes.sort_unstable_by_key(|c| (c.penalty, Reverse(c.to_ns), c.id));
            causes.into()
        });
        Rc::clone(found)
    }

    /// Whether a path has a node already.
    fn has(&self, path: &Path, node: NodeId) -> bool {
        let mut at = path.last;
        while at != NONE {
            let step = self.steps[at as usize];
            if self.graph.edge(step.edge).to == node {
                return true;
            }
            at = step.later;
        }
        path.node == node
    }

    /// Keeps the best of the paths under way, and of those that are done.
    fn select(&mut self, open: &mut Vec<Path>) {
        self.sort(open);
        open.truncate(self.question.width);
        let mut done = std::mem::take(&mut self.done);
        self.sort(&mut done);
        done.truncate(self.question.width);
        self.done = done;
    }

    fn sort(&self, paths: &mut [Path]) {
        paths.sort_by_key(|p| {
            let edge = self
                .steps
                .get(p.last as usize)
                .map_or(u32::MAX, |s| s.edge.0);
            (p.penalty, Reverse(p.until_ns), edge, p.last)
        });
    }

    fn finish(&self, path: &Path) -> BeamPath {
        let mut edges = Vec::with_capacity(path.length as usize);
        let mut at = path.last;
        while at != NONE {
            let step = self.steps[at as usize];
            edges.push(step.edge);
            at = step.later;
        }
        BeamPath {
            edges,
            penalty: path.penalty,
            from_input: is_origin(self.graph.node(path.node).kind),
        }
    }
}
