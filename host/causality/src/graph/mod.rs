// SPDX-License-Identifier: Apache-2.0
//! The graph: columns of nodes, edges and waits, and the edges at each node.

mod adjacency;
mod columns;
mod kinds;

pub(crate) use adjacency::Adjacency;
pub use columns::{Edge, Facts, Graph, Node, Wait};
pub(crate) use columns::{Edges, Nodes, NODE_BEGINS_ANEW, NODE_INSIDE, NODE_OPEN_END};
pub use kinds::{DropReason, EdgeClass, EdgeId, NodeId, NodeKind, Reason, WaitKind, WaitResult};
