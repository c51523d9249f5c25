// SPDX-License-Identifier: Apache-2.0
//! One graph of causes and effects from the events of many processes.
//!
//! A [`Session`] is traces of several processes, opened together on one clock. Its [`Graph`] has
//!
//! - **nodes**: what a thread does for one task (P-1 of the requirements; Argus, USENIX ATC 2021): a message, a task, a frame,
//!   a transaction that it serves, a wait, or a stretch of its own code between those. Waits outside any work are nodes;
//!   waits inside are in [`Graph::waits_in`]. Work inside other work makes no node of its own: its events are in the
//!   outermost one;
//! - **edges**: from a cause to its effect, with the events and times of both ends. An edge is *strong* if the one caused the
//!   other, *weak* if it only came after it, *boosted* if both also have uncommon methods in common ([`EdgeClass`]);
//!   [`Reason`] says how they belong together.
//!
//! ```no_run
//! use hindsight_causality::{Graph, Session};
//!
//! let session = Session::open(&["app.hindsight", "server.hindsight"])?;
//! let graph = Graph::build(&session)?;
//! let main = session.main_thread(0).expect("the main thread is traced");
//! for node in graph.nodes_of(main) {
//!     let about = graph.node(node);
//!     println!("{} {} ns", session.string(about.what), about.duration_ns());
//!     for &edge in graph.incoming(node) {
//!         let edge = graph.edge(edge);
//!         println!("  {} of {}", edge.reason.name(), session.thread_name(graph.node(edge.from).thread));
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Time
//!
//! The nodes of a thread do not overlap, except that [`NodeKind::Maintenance`] interrupts the node before it
//! ([`Graph::is_inside`]). They follow each other without gaps of a millisecond or more, as far as the thread recorded: a
//! stretch of its own code without any event is a [`NodeKind::Run`] without events. Edges do not lead back in time, and
//! make no circles: of events at one time, too ([`Graph::check`]). Two nodes may well have edges in both directions, at
//! different times: a message submits a task, waits for its result, and goes on. So a walk along edges carries the time
//! with it: it goes on from an edge's source over the edges into that node up to [`Edge::from_ns`], and not over later ones.
//!
//! # System trace
//!
//! A Perfetto trace with events of the scheduler ([`Session::with_system`]) adds to that what each thread did between its events:
//! it ran, waited for a processor, or slept, and who woke it. Threads that only this trace has make no nodes.
//!
//! # Rules
//!
//! What the user knows about the programs is in a rules file ([`Rules`]), and [`Graph::build_with`] applies it.
//! [`Graph::suggestions`] proposes rules.
//!
//! # Scale
//!
//! Nodes and edges are columns with numbers of 32 bits; the events stay in the traces, and nodes have ranges of them. Nothing
//! here is recursive.

mod build;
mod check;
mod clocks;
pub mod diagnosis;
mod graph;
mod rules;
mod scheduled;
mod session;
pub mod story;
mod strings;
mod suggestions;
mod system;
pub mod transactions;

pub use build::BuildError;
pub use clocks::Disagreement;
pub use graph::{
    DropReason, Edge, EdgeClass, EdgeId, Facts, Graph, Node, NodeId, NodeKind, Reason, Wait,
    WaitKind, WaitResult,
};
pub use hindsight_system_trace::SystemTrace;
pub use rules::{RuleList, Rules, RulesError};
pub use scheduled::{by_waker, known, servers_of, slices, times, times_in, Asleep, Server};
pub use session::{EventId, Session, SessionThread, ThreadId};
pub use strings::StringId;
pub use suggestions::Suggestion;
pub use system::{System, SystemError};
