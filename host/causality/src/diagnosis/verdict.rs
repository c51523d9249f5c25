// SPDX-License-Identifier: Apache-2.0
//! The culprit: a recorded fact, or unknown.

use serde::Serialize;

use super::certainty::Certainty;
use super::chain::{circle_kind, Activity, Chain, CircleKind, Did, End, Hop};
use super::how::How;
use super::place::place_of_wait;
use crate::graph::{Graph, NodeId};
use crate::session::{EventId, Session, ThreadId};

/// What a culprit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "role")]
pub enum Role {
    /// The stuck thread itself computed: nobody else held it up.
    ItselfComputed,
    /// The stuck thread itself slept for a time that it chose.
    ItselfSlept,
    /// The stuck thread itself waited outside the runtime, as for a file or the network.
    ItselfOutside,
    /// It had to do with the wait in this way.
    Waited {
        /// How.
        how: How,
        /// What it did meanwhile.
        activity: Activity,
    },
    /// The threads wait for each other.
    Circle {
        /// Whether that ends by itself.
        circle: CircleKind,
        /// The longest timeout in it, ns; 0 if there is none.
        timeout_ns: u64,
    },
    /// It sent the work with a delay.
    Delayed {
        /// The delay, ns.
        delay_ns: u64,
    },
}

/// A thread that takes part, and what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CulpritThread {
    /// The thread.
    pub thread: ThreadId,
    /// The method that it was in.
    pub method: Option<String>,
    /// The work that it did.
    pub work: Option<NodeId>,
}

/// What held the stuck thread up.
#[derive(Clone, Debug)]
pub struct Culprit {
    /// The thread, or all threads of a circle.
    pub threads: Vec<CulpritThread>,
    /// What they did.
    pub role: Role,
    /// Whether all steps to it are recorded.
    pub certainty: Certainty,
}

/// The culprit, if it follows from what is recorded, or the one that it most likely is. Neither if it is not known.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// A recorded fact.
    pub culprit: Option<Culprit>,
    /// The one that follows from inferred steps.
    pub suspect: Option<Culprit>,
}

/// Concludes from a chain who held the first thread up. The thread that waited is never its own culprit; a thread that
/// computed or slept itself is.
pub fn verdict(session: &Session, graph: &Graph, chain: &Chain) -> Verdict {
    let found = match &chain.end {
        End::Did(did) => of_did(session, graph, chain, did),
        End::Circle { first } => Some(of_circle(session, graph, chain, &chain.hops[*first..])),
        End::Delayed { by, at, delay_ns } => Some(delayed(graph, chain, *by, *at, *delay_ns)),
        _ => None,
    };
    let is_recorded = found.as_ref().is_some_and(|c| c.certainty.is_recorded());
    let (culprit, suspect) = match is_recorded {
        true => (found, None),
        false => (None, found),
    };
    Verdict { culprit, suspect }
}

/// Recorded if all hops are; else why the first of the others is held to be true.
fn certainty(hops: &[Hop]) -> Certainty {
    let inferred = hops.iter().find(|h| !h.certainty.is_recorded());
    inferred.map_or(Certainty::Recorded, |h| h.certainty.clone())
}

fn of_did(session: &Session, graph: &Graph, chain: &Chain, did: &Did) -> Option<Culprit> {
    let role = match (chain.hops.last(), did.activity) {
        (Some(hop), activity) => Role::Waited {
            how: hop.how,
            activity,
        },
        (None, Activity::Computed) => Role::ItselfComputed,
        (None, Activity::Slept) => Role::ItselfSlept,
        (None, Activity::Outside) => Role::ItselfOutside,
        // Without its CPU time it is not known whether it computed.
        (None, Activity::Ran) => return None,
    };
    let method = did.place.as_ref().map(|p| p.method.clone());
    let work = did.node.map(|(n, _)| n).filter(|&n| is_named(graph, n));
    // Of a thread that is in the system trace only, its code is not recorded.
    if method.is_none() && work.is_none() && !session.is_outside(did.thread) {
        return None;
    }
    Some(Culprit {
        threads: vec![CulpritThread {
            thread: did.thread,
            method,
            work,
        }],
        role,
        certainty: certainty(&chain.hops),
    })
}

/// Whether a node says what its thread did.
fn is_named(graph: &Graph, node: NodeId) -> bool {
    let node = graph.node(node);
    super::doing::is_work(node.kind) || node.what != crate::strings::StringId::NONE
}

fn of_circle(session: &Session, graph: &Graph, chain: &Chain, circle: &[Hop]) -> Culprit {
    let (kind, timeout_ns) = circle_kind(session, circle);
    let party = |hop: &Hop| {
        let wait = hop.wait.as_ref();
        let work = wait.and_then(|w| {
            graph.node_of(EventId {
                thread: w.thread,
                event: w.begin_event,
            })
        });
        CulpritThread {
            thread: hop.from,
            method: wait
                .and_then(|w| place_of_wait(session, graph, w))
                .map(|p| p.method),
            work: work.filter(|&n| is_named(graph, n)),
        }
    };
    Culprit {
        threads: circle.iter().map(party).collect(),
        role: Role::Circle {
            circle: kind,
            timeout_ns,
        },
        certainty: certainty(&chain.hops),
    }
}

fn delayed(graph: &Graph, chain: &Chain, by: ThreadId, at: EventId, delay_ns: u64) -> Culprit {
    let work = graph.node_of(at).filter(|&n| is_named(graph, n));
    Culprit {
        threads: vec![CulpritThread {
            thread: by,
            method: None,
            work,
        }],
        role: Role::Delayed { delay_ns },
        certainty: certainty(&chain.hops),
    }
}
