// SPDX-License-Identifier: Apache-2.0
//! Why does this thread not go on? (Argus, algorithm 1.)
//!
//! [`diagnose`] finds the stuck node ([`stuck`]), says of which kind it is ([`kind`]), follows whom it waited for over any number
//! of threads and processes ([`follow`]), compares it with nodes that did the same and went well ([`similar`], [`compare`]), and
//! names the culprit ([`verdict`]): a recorded fact, or nobody. What led to the node is [`cause_path`], [`slice`] or [`beam`].
//! The parts can be asked one by one, too; that is what `hindsight debug` does.

mod beam;
mod cause;
mod certainty;
mod chain;
mod compare;
mod doing;
mod expected;
mod how;
mod kernel;
mod kinds;
mod locks;
mod people;
mod place;
mod request;
mod similar;
mod slice;
mod stretch;
mod stuck;
mod target;
mod trigger;
mod verdict;
mod way;
mod windows;
mod yields;

pub use beam::{beam, BeamPath, BeamQuestion, WIDTHS};
pub use cause::cause_path;
pub use certainty::Certainty;
pub use chain::{circle_kind, follow, Activity, Chain, CircleKind, Did, End, Hop, MOST_HOPS};
pub use compare::{compare, Difference, Differences, LONG_RUN_NS, LONG_WAIT_NS};
pub use how::How;
pub use kinds::{kind, Kind, Reading, LEAST_PAUSES, PAUSES_PART};
pub use people::{Absent, EventsMissing, WaitsMissing};
pub use similar::{
    is_telling, similar, Similar, SimilarNodes, SimilarQuestion, MOST_COMPARED, MOST_SIMILAR,
};
pub use slice::{slice, CausePath, Slice, SliceQuestion, MOST_IN_SLICE, MOST_STEPS};
pub use stretch::{Stretch, PAUSE_NS};
pub use stuck::{stretch_at, stretches, stuck, Chosen, Found, StuckQuestion};
pub use target::Unknown;
pub use trigger::{trigger, Trigger, TriggerKind};
pub use verdict::{verdict, Culprit, CulpritThread, Role, Verdict};
pub use way::{way, Way, MOST_LOOKED_AT};
pub use windows::Windows;
pub use yields::{fields, follow_loop, FieldUse};

pub use place::{place, place_of_wait};

use hindsight_analysis::Place;

use crate::graph::{Graph, NodeId, Wait};
use crate::session::Session;

/// The answer to why a thread does not go on.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The stuck stretch.
    pub found: Found,
    /// Its kind, and what that is concluded from.
    pub reading: Reading,
    /// Where the thread was: in its longest wait, or for most of the time.
    pub place: Option<Place>,
    /// The class whose first use it is: it was being initialized.
    pub first_use_of: Option<String>,
    /// Whom it waited for.
    pub chain: Chain,
    /// Who held it up.
    pub verdict: Verdict,
    /// What led to it.
    pub cause: CausePath,
    /// What began it; `None` if the thread decided to do it.
    pub trigger: Option<Trigger>,
    /// Nodes that did the same and went well.
    pub similar: SimilarNodes,
    /// What was different when the nearest of these went well.
    pub differences: Differences,
    /// Of the first of the differences that are long waits, in their order: whom these were for (P-5). Threads of `chain` are left
    /// out.
    pub followed: Vec<(NodeId, Chain)>,
    /// Of a yield loop: the fields that it reads.
    pub fields: Vec<FieldUse>,
}

/// Answers why a thread does not go on. `None` if no thread has anything in which it may be stuck; a stretch that is too short
/// is described all the same.
pub fn diagnose(session: &Session, graph: &Graph, question: &StuckQuestion) -> Option<Diagnosis> {
    let found = stuck(session, graph, question)?;
    Some(diagnose_stretch(session, graph, found))
}

/// Answers why a thread does not go on in this stretch.
pub fn diagnose_stretch(session: &Session, graph: &Graph, found: Found) -> Diagnosis {
    let stretch = found.stretch;
    let window = stretch.window();
    let longest = place(session, graph, stretch.thread, &window, Some(stretch.first));
    let reading = kind(session, graph, &stretch, longest.as_ref());
    let (chain, fields) = waited_for(session, graph, &stretch, reading.kind);
    let waited = doing::is_most(reading.waited_ns, reading.span_ns);
    let wait = reading
        .longest
        .filter(|_| reading.kind == Kind::Blocked && waited);
    let similar = similar(
        session,
        graph,
        stretch.first,
        &SimilarQuestion {
            wait: wait.filter(|w| is_in(graph, &stretch, w)),
            least_ns: stretch.duration_ns() / 2,
            preceding: 0,
            kinds: Vec::new(),
        },
    );
    let nearest = similar.nodes.first();
    let differences =
        nearest.map(|s| compare(session, graph, stretch.first, s.node, s.wait.as_ref()));
    let differences = differences.unwrap_or_default();
    let followed = followed(session, graph, &chain, &differences);
    let in_wait = wait.and_then(|w| place_of_wait(session, graph, &w));
    let place = in_wait.or(longest);
    let first_use_of = place.as_ref().and_then(first_use);
    let cause = cause_path(session, graph, stretch.first);
    Diagnosis {
        verdict: verdict(session, graph, &chain),
        trigger: trigger(session, graph, &stretch, &cause, first_use_of.is_some()),
        cause,
        first_use_of,
        place,
        chain,
        similar,
        differences,
        followed,
        fields,
        reading,
        found,
    }
}

/// Follows the long waits among the differences.
fn followed(
    session: &Session,
    graph: &Graph,
    chain: &Chain,
    differences: &Differences,
) -> Vec<(NodeId, Chain)> {
    /// Most that are followed.
    const MOST: usize = 3;
    let is_known = |thread| {
        chain
            .hops
            .iter()
            .any(|h| h.from == thread || h.to == thread)
    };
    let waits = differences
        .found
        .iter()
        .filter_map(|d| Some((d.node, d.wait?)));
    let others = waits.filter(|(_, wait)| !is_known(wait.thread)).take(MOST);
    let follow = |(node, wait): (NodeId, Wait)| {
        let when = Windows::one(wait.begin_ns, wait.end_ns);
        (node, follow(session, graph, wait.thread, &when))
    };
    others
        .map(follow)
        .filter(|(_, c)| !c.hops.is_empty())
        .collect()
}

/// Whom the thread of a stretch waited for, in its waits or, in a yield loop, for a field; and the fields that such a loop reads.
pub fn waited_for(
    session: &Session,
    graph: &Graph,
    stretch: &Stretch,
    kind: Kind,
) -> (Chain, Vec<FieldUse>) {
    match kind {
        Kind::Yield => {
            let fields = fields(session, graph, stretch);
            let chain = follow_loop(session, graph, stretch, &fields);
            (chain, fields)
        }
        _ => {
            let chain = follow(session, graph, stretch.thread, &stretch.window());
            (chain, Vec::new())
        }
    }
}

/// The class that is being initialized at a place.
fn first_use(place: &Place) -> Option<String> {
    let mut classes = place.calls.iter().rev();
    let class = classes.find_map(|call| call.strip_suffix(".<clinit>"));
    class.map(str::to_owned)
}

/// Whether a wait is in the first node of a stretch, which is the one that is compared.
fn is_in(graph: &Graph, stretch: &Stretch, wait: &Wait) -> bool {
    let node = graph.node(stretch.first);
    node.events().contains(&(wait.begin_event as usize))
}
