// SPDX-License-Identifier: Apache-2.0
//! A diagnosis with names in place of numbers, for people and programs.

use hindsight_analysis::Place;
use serde::Serialize;

use super::scheduled::ScheduledReport;
use crate::diagnosis::{Certainty, Chosen, Kind, Role, Unknown, WaitsMissing};
use crate::graph::{Graph, NodeId};
use crate::session::{Session, ThreadId};

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadName {
    /// Name of its process; if several processes have it, that of its file.
    pub process: String,
    /// Id of its process.
    pub pid: u32,
    /// The kernel's thread id: it is not unique.
    pub tid: u32,
    /// Its ring, which identifies it in its file.
    pub ring: u32,
    /// Its name: it is not unique.
    pub thread: String,
    /// Index of its file among the opened ones; their number, if it is in the system trace only.
    pub file: usize,
    /// Whether it is in the system trace only: none of its events are recorded.
    #[serde(skip_serializing_if = "is_false")]
    pub system_only: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl ThreadName {
    /// The name of a thread.
    pub fn of(session: &Session, thread: ThreadId) -> Self {
        let about = session.about(thread);
        let process = &session.trace(about.trace()).process;
        ThreadName {
            process: process_name(session, about.trace()),
            pid: process.pid,
            tid: about.tid,
            ring: about.key.ring,
            thread: session.thread_name(thread).to_owned(),
            file: about.trace().min(session.traces().len()),
            system_only: session.is_outside(thread),
        }
    }
}

/// The name of a trace's process; if processes with other ids have it, too, the name of the file without its ending.
pub fn process_name(session: &Session, trace: usize) -> String {
    let own = &session.trace(trace).process;
    if session.is_outside_process(trace) {
        return own.name.clone();
    }
    let is_other =
        |p: &hindsight_decoder::Trace| p.process.name == own.name && p.process.pid != own.pid;
    let file = session.file(trace).file_stem();
    match file.filter(|_| session.traces().any(is_other)) {
        Some(stem) => stem.to_string_lossy().into_owned(),
        None => own.name.clone(),
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeName {
    /// Number in the graph, as `hindsight debug` takes it.
    pub node: u32,
    /// Its thread.
    #[serde(flatten)]
    pub thread: ThreadName,
    /// What the thread does in it, such as `message` or `wait`.
    pub kind: &'static str,
    /// The class of the task or message, or the name of the work; may be empty.
    pub what: String,
    /// CLOCK_BOOTTIME, ns.
    pub start_ns: u64,
    /// Its length, ns.
    pub held_ns: u64,
}

impl NodeName {
    /// The name of a node.
    pub fn of(session: &Session, graph: &Graph, id: NodeId) -> Self {
        let node = graph.node(id);
        NodeName {
            node: id.0,
            thread: ThreadName::of(session, node.thread),
            kind: node.kind.name(),
            what: session.string(node.what).to_owned(),
            start_ns: node.begin_ns,
            held_ns: node.duration_ns(),
        }
    }

    /// As in `message com.example.Screen`.
    pub fn words(&self) -> String {
        match (self.kind, self.what.is_empty()) {
            ("message" | "task", true) => format!("a {} of unknown class", self.kind),
            ("run", true) => "its own code".to_owned(),
            ("run", false) => format!("the code of {}", self.what),
            ("wait", true) => "a wait".to_owned(),
            ("wait", false) => format!("a wait of {}", self.what),
            (kind, true) => kind.to_owned(),
            (kind, false) => format!("{kind} {}", self.what),
        }
    }
}

/// A trace that was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceName {
    /// Its file.
    pub file: String,
    /// Its process.
    pub process: String,
    /// Id of its process.
    pub pid: u32,
    /// Why it was saved; may be empty.
    pub reason: String,
    /// Why it is not joined with the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<String>,
}

/// What began the stuck node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TriggerReport {
    /// What it was.
    pub kind: crate::diagnosis::TriggerKind,
    /// The thread that sent the work.
    pub from: ThreadName,
    /// What that thread did then.
    pub work: Option<NodeName>,
    /// The activity that had sent it, and that was over when it was done.
    pub screen: Option<String>,
    /// The thread with which it all began.
    pub origin: ThreadName,
}

/// One step of what led to the stuck node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CauseStep {
    /// The cause.
    #[serde(flatten)]
    pub node: NodeName,
    /// How it led to the next step, such as `message` or `task`.
    pub edge: &'static str,
    /// `strong`, `weak` or `boosted`.
    pub class: &'static str,
    /// CLOCK_BOOTTIME of the cause in that node, ns.
    pub at_ns: u64,
    /// How long after that the next step began, ns.
    pub after_ns: u64,
    /// Whether that is recorded.
    #[serde(flatten)]
    pub certainty: Certainty,
    /// Where the thread was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// A thread waited for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HopReport {
    /// The one that waited.
    #[serde(flatten)]
    pub thread: ThreadName,
    /// `lock`, `object`, `park`, `transaction` …; `work` if it waited for work that had not been sent yet; `field` in a yield
    /// loop.
    pub waited_for: &'static str,
    /// The number of its waits for that thread.
    pub waits: usize,
    /// Their time, ns.
    pub waited_ns: u64,
    /// How the longest one ended: `signalled`, `timed out`, `interrupted`, `not recorded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<&'static str>,
    /// Its timeout, ns; 0 if it has none.
    pub timeout_ns: u64,
    /// Identity of its lock or object; 0 if there is none.
    pub object: u64,
    /// The field of a yield loop; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// Where it waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The thread that it waited for.
    #[serde(rename = "for")]
    pub to: ThreadName,
    /// How that one has to do with it.
    pub how: crate::diagnosis::How,
    /// Whether that is recorded.
    #[serde(flatten)]
    pub certainty: Certainty,
}

/// Where the chain of waits ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndReport {
    /// `did`, `circle`, `unknown`, `idle`, `delayed`, `not_recorded`, `several`, `too_long`.
    pub end: &'static str,
    /// The last thread.
    #[serde(flatten)]
    pub thread: Option<ThreadName>,
    /// What it did for most of the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<crate::diagnosis::Activity>,
    /// The work that took most of the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<NodeName>,
    /// Where it was for most of the time, or in the wait of which it is not known whom it was for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The time that counts, ns.
    pub of_ns: u64,
    /// The timeout of that wait, ns; 0 if it has none, or the thread did something.
    pub timeout_ns: u64,
    /// Its time asleep, ns.
    pub slept_ns: u64,
    /// Its CPU time, ns.
    pub cpu_ns: Option<u64>,
    /// What it did by the system trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<ScheduledReport>,
}

/// A culprit, or a suspect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CulpritReport {
    /// The thread, or all threads of a circle.
    pub threads: Vec<CulpritThreadReport>,
    /// What they did.
    #[serde(flatten)]
    pub role: Role,
    /// Whether all steps to it are recorded.
    #[serde(flatten)]
    pub certainty: Certainty,
}

/// One of the threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CulpritThreadReport {
    /// The thread.
    #[serde(flatten)]
    pub thread: ThreadName,
    /// The method that it was in.
    pub method: Option<String>,
    /// The work that it did.
    pub work: Option<NodeName>,
}

impl CulpritThreadReport {
    /// The method that it was in, or else the work that it did.
    pub fn what(&self) -> Option<String> {
        let work = || self.work.as_ref().map(NodeName::words);
        self.method.clone().or_else(work)
    }
}

/// Why there is no culprit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnknownReport {
    /// Why, for programs.
    #[serde(flatten)]
    pub unknown: Option<Unknown>,
    /// Why, in words.
    pub why: String,
    /// What would have to be recorded to know; may be empty.
    pub remedy: Vec<String>,
}

/// A node that did the same and went well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SimilarReport {
    /// The node.
    #[serde(flatten)]
    pub node: NodeName,
    /// How its wait ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<&'static str>,
    /// How long it waited there, ns.
    pub waited_ns: u64,
}

/// What another thread did otherwise when it went well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DifferenceReport {
    /// The node.
    #[serde(flatten)]
    pub node: NodeName,
    /// `wait` or `run`.
    pub what_long: &'static str,
    /// How long, ns.
    pub ns: u64,
    /// Of a wait of a thread that is not in the report's own chain: whom it was for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<HopReport>,
    /// Where that ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<EndReport>,
}

/// What a thread did when it went well, and did not do this time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingReport {
    /// The thread.
    pub from: ThreadName,
    /// How it led to the next step then, such as `message`.
    pub edge: &'static str,
    /// What it led to then.
    pub to: NodeName,
    /// Why it should have done it this time.
    #[serde(flatten)]
    pub certainty: Certainty,
}

/// What a thread did last before a time of which it recorded nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThenReport {
    /// Its last node that began by then.
    #[serde(flatten)]
    pub node: NodeName,
    /// How long before that time the node ended, ns.
    pub ended_before_ns: u64,
}

/// A field that a yield loop reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldReport {
    /// Its name.
    pub field: String,
    /// How often it was read in the loop.
    pub reads: u64,
    /// Who writes it.
    pub writers: Vec<ThreadName>,
}

/// All that is known of a stuck thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The files.
    pub files: Vec<TraceName>,
    /// Number of nodes of the graph.
    pub nodes: usize,
    /// Number of its edges.
    pub edges: usize,
    /// Whether a thread is stuck for as long as was asked for; `null` if no thread recorded anything in which it may be stuck.
    pub stuck: Option<bool>,
    /// From this length on, ns.
    pub stall_ns: u64,
    /// Without a node, of a time that was asked for: what the threads did last before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<ThenReport>,
    /// The stuck node; the longest one if none is long enough.
    pub node: Option<NodeName>,
    /// How long the thread did not go on, ns.
    pub held_ns: u64,
    /// How long before the end of its recording that ended, ns.
    pub ended_before_ns: u64,
    /// Whether it went on at the end of the recording.
    pub still_running: bool,
    /// Why this node.
    pub chosen: Option<Chosen>,
    /// Of which kind it is.
    pub kind: Option<Kind>,
    /// Its CPU time, ns.
    pub cpu_ns: Option<u64>,
    /// Its waits for others, ns.
    pub waited_ns: u64,
    /// Whether more waits may be missing from its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_missing: Option<WaitsMissing>,
    /// Its time asleep, ns.
    pub slept_ns: u64,
    /// How often it gave up the processor; `null` if that is not recorded.
    pub voluntary_switches: Option<u64>,
    /// How often the processor was taken from it.
    pub involuntary_switches: Option<u64>,
    /// What it did by the system trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<ScheduledReport>,
    /// The class whose first use it is: it was being initialized for most of the time.
    pub first_use_of: Option<String>,
    /// Its pauses.
    pub pauses: u64,
    /// Its steps, of which the pauses are a part.
    pub steps: u64,
    /// Where it was.
    pub place: Option<Place>,
    /// What began it; `null` if the thread decided to do it, or its cause is not recorded.
    pub trigger: Option<TriggerReport>,
    /// What led to it, the earliest cause first.
    pub cause: Vec<CauseStep>,
    /// Whom it waited for.
    pub chain: Vec<HopReport>,
    /// Where that ends.
    pub end: Option<EndReport>,
    /// Who held it up: a recorded fact.
    pub culprit: Option<CulpritReport>,
    /// Who most likely held it up.
    pub suspect: Option<CulpritReport>,
    /// Without a culprit: why not, and what would have to be recorded.
    pub unknown: Option<UnknownReport>,
    /// The number of similar nodes that went well.
    pub similar_count: usize,
    /// The nearest of them.
    pub similar: Vec<SimilarReport>,
    /// What was different then.
    pub differences: Vec<DifferenceReport>,
    /// Without a culprit: the first step that led to the end of the wait when it went well, and is missing this time.
    pub missing: Option<MissingReport>,
    /// Of a yield loop: the fields that it reads.
    pub fields: Vec<FieldReport>,
    /// With a culprit: what to record to know more, with the commands; may be empty.
    pub next: Vec<String>,
}
