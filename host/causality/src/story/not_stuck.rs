// SPDX-License-Identifier: Apache-2.0
//! What is said if no thread was stuck.

use hindsight_analysis::duration;

use super::report::{NodeName, Report, ThenReport};
use crate::diagnosis::Chosen;
use crate::graph::Graph;
use crate::session::{Session, ThreadId};

/// That no thread was stuck, and what was looked at; `thread` is the thread of `node`.
pub(super) fn not_stuck(report: &Report, node: &NodeName, thread: &str) -> Vec<String> {
    let held = duration(report.held_ns);
    let because = match report.chosen {
        Some(Chosen::Idle) => format!(
            "The longest was {thread}, which waited for {held} in no message or task, as a server's main thread waits for work."
        ),
        Some(Chosen::Start) => format!(
            "The longest was {thread} in its own code before its first message or task, for {held}: a slow start."
        ),
        _ => format!("The longest was {thread} in {}, for {held}.", node.words()),
    };
    let stall = duration(report.stall_ns);
    let mut said = vec![format!(
        "No thread was stuck for {stall} or more. {because}"
    )];
    if matches!(report.chosen, Some(Chosen::Idle | Chosen::Start)) {
        said.push(
            "The main threads and all waits for locks were looked at. --thread NAME asks about a certain thread, --at TIME about \
             a certain time."
                .to_owned(),
        );
    }
    said
}

/// What a thread did last before a time of which it recorded nothing.
pub(super) fn nothing_then(then: &ThenReport, thread: &str) -> String {
    format!(
        "{thread}: it recorded nothing then. The last before is {}, until {} before that time.",
        then.node.words(),
        duration(then.ended_before_ns)
    )
}

/// What threads did last before a time of which they recorded nothing: the one that is asked for, or the main threads.
pub fn last_before(
    session: &Session,
    graph: &Graph,
    thread: Option<ThreadId>,
    at_ns: u64,
) -> Vec<ThenReport> {
    let main = (0..session.traces().len()).filter_map(|t| session.main_thread(t));
    let asked: Vec<ThreadId> = match thread {
        Some(thread) => vec![thread],
        None => main.collect(),
    };
    let last = |thread: ThreadId| {
        let mut nodes = graph.nodes_of(thread).rev();
        let node = nodes.find(|&n| graph.node(n).begin_ns <= at_ns)?;
        Some(ThenReport {
            node: NodeName::of(session, graph, node),
            ended_before_ns: at_ns.saturating_sub(graph.node(node).end_ns),
        })
    };
    asked.into_iter().filter_map(last).collect()
}
