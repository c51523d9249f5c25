// SPDX-License-Identifier: Apache-2.0
//! From a diagnosis to its report.

use super::remedy::{next, unknown};
use super::report::{
    CauseStep, CulpritReport, CulpritThreadReport, DifferenceReport, EndReport, FieldReport,
    HopReport, MissingReport, NodeName, Report, SimilarReport, ThreadName, TraceName,
    TriggerReport,
};
use super::scheduled::ScheduledReport;
use crate::diagnosis::{place, Certainty, Chain, Culprit, Diagnosis, End, Hop, How, Windows};
use crate::graph::{Edge, EdgeClass, EdgeId, Graph, Reason, Wait};
use crate::session::{EventId, Session};

/// Most similar nodes and steps that are shown.
const MOST_SHOWN: usize = 3;
const MOST_STEPS: usize = 12;

/// The report of a diagnosis; without one, of no stuck thread.
pub fn report(
    session: &Session,
    graph: &Graph,
    diagnosis: Option<&Diagnosis>,
    stall_ns: u64,
) -> Report {
    let mut report = Report {
        files: files(session),
        nodes: graph.node_count(),
        edges: graph.edge_count(),
        stuck: None,
        stall_ns,
        then: Vec::new(),
        node: None,
        held_ns: 0,
        ended_before_ns: 0,
        still_running: false,
        chosen: None,
        kind: None,
        cpu_ns: None,
        waited_ns: 0,
        waits_missing: None,
        slept_ns: 0,
        voluntary_switches: None,
        involuntary_switches: None,
        scheduled: None,
        first_use_of: None,
        pauses: 0,
        steps: 0,
        place: None,
        trigger: None,
        cause: Vec::new(),
        chain: Vec::new(),
        end: None,
        culprit: None,
        suspect: None,
        unknown: None,
        similar_count: 0,
        similar: Vec::new(),
        differences: Vec::new(),
        missing: None,
        fields: Vec::new(),
        next: Vec::new(),
    };
    if let Some(diagnosis) = diagnosis {
        fill(session, graph, diagnosis, &mut report);
    }
    report
}

fn files(session: &Session) -> Vec<TraceName> {
    let traces = session.traces().enumerate();
    let file = |(i, trace): (usize, &hindsight_decoder::Trace)| TraceName {
        file: session.file(i).display().to_string(),
        process: super::report::process_name(session, i),
        pid: trace.process.pid,
        reason: trace.process.reason.clone(),
        apart: session.apart(i).map(crate::Disagreement::words),
    };
    traces.map(file).collect()
}

fn fill(session: &Session, graph: &Graph, diagnosis: &Diagnosis, report: &mut Report) {
    let (stretch, reading) = (diagnosis.found.stretch, &diagnosis.reading);
    let end_ns = session.thread(stretch.thread).end_ns;
    report.stuck = Some(diagnosis.found.is_long);
    report.node = Some(NodeName::of(session, graph, stretch.first));
    report.held_ns = stretch.duration_ns();
    report.ended_before_ns = end_ns.saturating_sub(stretch.end_ns);
    report.still_running = stretch.is_open && stretch.end_ns >= end_ns;
    report.chosen = Some(diagnosis.found.chosen);
    report.kind = Some(reading.kind);
    report.cpu_ns = reading.cpu_ns;
    report.waited_ns = reading.waited_ns;
    report.waits_missing = reading.waits_missing;
    report.slept_ns = reading.slept_ns;
    report.voluntary_switches = reading.switches.map(|s| s.0);
    report.involuntary_switches = reading.switches.map(|s| s.1);
    report.scheduled = reading.scheduled.as_ref().map(ScheduledReport::of);
    report.first_use_of = diagnosis.first_use_of.clone();
    report.pauses = reading.pauses;
    report.steps = reading.steps;
    report.place = diagnosis.place.clone();
    report.trigger = diagnosis.trigger.map(|t| TriggerReport {
        kind: t.kind,
        from: ThreadName::of(session, t.sender),
        work: graph.node_of(t.at).map(|n| NodeName::of(session, graph, n)),
        screen: t.screen.map(|s| session.string(s).to_owned()),
        origin: ThreadName::of(session, t.origin),
    });
    report.cause = cause(session, graph, &diagnosis.cause.edges);
    let field = diagnosis
        .fields
        .first()
        .map_or("", |f| session.string(f.name));
    let hops = diagnosis.chain.hops.iter();
    report.chain = hops.map(|h| hop(session, graph, h, field)).collect();
    report.end = Some(end(session, graph, &diagnosis.chain));
    let of = |c: &Option<Culprit>| c.as_ref().map(|c| culprit(session, graph, c));
    report.culprit = of(&diagnosis.verdict.culprit);
    report.suspect = of(&diagnosis.verdict.suspect);
    if report.culprit.is_none() {
        report.unknown = Some(unknown(session, graph, diagnosis));
    }
    report.similar_count = diagnosis.similar.count;
    let nearest = diagnosis.similar.nodes.iter().take(MOST_SHOWN);
    report.similar = nearest
        .map(|s| SimilarReport {
            node: NodeName::of(session, graph, s.node),
            result: s.wait.map(|w| w.result.name()),
            waited_ns: s.wait.map_or(0, |w| w.duration_ns()),
        })
        .collect();
    let differences = diagnosis.differences.found.iter();
    report.differences = differences
        .map(|d| DifferenceReport {
            node: NodeName::of(session, graph, d.node),
            what_long: if d.wait.is_some() { "wait" } else { "run" },
            ns: d.ns,
            chain: Vec::new(),
            end: None,
        })
        .collect();
    for (node, chain) in &diagnosis.followed {
        let mut all = report.differences.iter_mut();
        if let Some(difference) = all.find(|d| d.node.node == node.0) {
            let hops = chain.hops.iter();
            difference.chain = hops.map(|h| hop(session, graph, h, "")).collect();
            difference.end = Some(end(session, graph, chain));
        }
    }
    let missing = diagnosis.differences.missing;
    report.missing = missing.filter(|_| report.culprit.is_none()).map(|id| {
        let edge = graph.edge(id);
        MissingReport {
            from: ThreadName::of(session, graph.node(edge.from).thread),
            edge: edge.reason.name(),
            to: NodeName::of(session, graph, edge.to),
            certainty: Certainty::Inferred {
                because: "it did so when the same went well".to_owned(),
            },
        }
    });
    report.next = next(session, diagnosis);
    let fields = diagnosis.fields.iter();
    report.fields = fields
        .map(|f| FieldReport {
            field: session.string(f.name).to_owned(),
            reads: f.reads,
            writers: f
                .writers
                .iter()
                .map(|(t, _)| ThreadName::of(session, *t))
                .collect(),
        })
        .collect();
}

/// Why an edge is held to be true.
pub(super) fn certainty(edge: &Edge) -> Certainty {
    let because = match (edge.class, edge.reason) {
        (EdgeClass::Strong, Reason::Resume) => "the thread went on after that wait",
        (EdgeClass::Strong, Reason::Field) => "it is the last write before the read",
        (EdgeClass::Strong, _) if !edge.is_inferred => return Certainty::Recorded,
        (EdgeClass::Strong, _) => "it follows from other events",
        (_, Reason::Lock) => "a lock that is released and taken may be mutual exclusion only",
        (EdgeClass::Boosted, _) => "it is what the thread did before, with methods in common",
        _ => "it is what the thread did before",
    };
    Certainty::Inferred {
        because: because.to_owned(),
    }
}

/// The steps of a path; of a long one, the last ones.
pub fn cause(session: &Session, graph: &Graph, edges: &[EdgeId]) -> Vec<CauseStep> {
    let shown = &edges[edges.len().saturating_sub(MOST_STEPS)..];
    let step = |&id: &EdgeId| {
        let edge = graph.edge(id);
        let node = graph.node(edge.from);
        let own = Windows::one(node.begin_ns, node.end_ns);
        CauseStep {
            node: NodeName::of(session, graph, edge.from),
            edge: edge.reason.name(),
            class: edge.class.name(),
            at_ns: edge.from_ns,
            after_ns: edge.to_ns - edge.from_ns,
            certainty: certainty(&edge),
            place: place(session, graph, node.thread, &own, Some(edge.from)),
        }
    };
    shown.iter().map(step).collect()
}

/// The number in a field of the event that begins a wait.
fn begin(session: &Session, wait: &Wait, field: &str) -> u64 {
    let event = session.event(EventId {
        thread: wait.thread,
        event: wait.begin_event,
    });
    event.map_or(0, |e| e.get(field))
}

/// A hop with its names.
pub fn hop(session: &Session, graph: &Graph, hop: &Hop, field: &str) -> HopReport {
    let of_wait = |f: &str| hop.wait.map_or(0, |w| begin(session, &w, f));
    let without_event = match hop.how {
        How::SentWork => "work",
        How::EndedWait => "kernel",
        How::Served => "transaction",
        _ => "field",
    };
    let is_loop = hop.wait.is_none() && without_event == "field";
    HopReport {
        thread: ThreadName::of(session, hop.from),
        waited_for: hop.wait.map_or(without_event, |w| w.kind.name()),
        waits: hop.count,
        waited_ns: hop.ns,
        result: hop.wait.map(|w| w.result.name()),
        timeout_ns: of_wait("timeout"),
        object: of_wait("object"),
        field: if is_loop {
            field.to_owned()
        } else {
            String::new()
        },
        place: hop
            .wait
            .and_then(|w| crate::diagnosis::place_of_wait(session, graph, &w)),
        to: ThreadName::of(session, hop.to),
        how: hop.how,
        certainty: hop.certainty.clone(),
    }
}

fn end(session: &Session, graph: &Graph, chain: &Chain) -> EndReport {
    let (name, thread) = match &chain.end {
        End::Did(did) => ("did", Some(did.thread)),
        End::Circle { first } => ("circle", chain.hops.get(*first).map(|h| h.from)),
        End::Unknown { thread, .. } => ("unknown", Some(*thread)),
        End::Idle(thread) => ("idle", Some(*thread)),
        End::Delayed { by, .. } => ("delayed", Some(*by)),
        End::NotRecorded { thread, .. } => ("not_recorded", Some(*thread)),
        End::WaitsMissing { thread, .. } => ("waits_missing", Some(*thread)),
        End::Several(thread) => ("several", Some(*thread)),
        End::TooLong => ("too_long", chain.hops.last().map(|h| h.to)),
    };
    let (did, wait) = match &chain.end {
        End::Did(did) => (Some(did), None),
        End::Unknown { wait, .. } => (None, wait.as_ref()),
        _ => (None, None),
    };
    let place = match wait {
        Some(wait) => crate::diagnosis::place_of_wait(session, graph, wait),
        None => did.and_then(|d| d.place.clone()),
    };
    EndReport {
        end: name,
        thread: thread.map(|t| ThreadName::of(session, t)),
        activity: did.map(|d| d.activity),
        work: did
            .and_then(|d| d.node)
            .map(|(n, _)| NodeName::of(session, graph, n)),
        place,
        of_ns: did.map_or(0, |d| d.when.total_ns()),
        timeout_ns: wait.map_or(0, |w| begin(session, w, "timeout")),
        slept_ns: did.map_or(0, |d| d.slept_ns),
        cpu_ns: did.and_then(|d| d.cpu_ns),
        scheduled: did
            .and_then(|d| d.scheduled.as_ref())
            .map(ScheduledReport::of),
    }
}

fn culprit(session: &Session, graph: &Graph, culprit: &Culprit) -> CulpritReport {
    let threads = culprit.threads.iter().map(|t| CulpritThreadReport {
        thread: ThreadName::of(session, t.thread),
        method: t.method.clone(),
        work: t.work.map(|n| NodeName::of(session, graph, n)),
    });
    CulpritReport {
        threads: threads.collect(),
        role: culprit.role,
        certainty: culprit.certainty.clone(),
    }
}
