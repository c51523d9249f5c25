// SPDX-License-Identifier: Apache-2.0
//! Events: what belongs together, within a thread and between threads.

mod accesses;
mod costs;
mod fields;
mod own;
mod pairs;
mod resources;
mod spans;
mod waiting;

pub use accesses::{accesses, AccessKind, Accesses};
pub use costs::{costs, Cost, Costs, Own as OwnCost, LEAST_CALL_NS};
pub use fields::{FieldValue, Fields};
pub(crate) use own::Own;
pub use pairs::{pairs, End, Link, LinkEnd, Linker, Pair, PairKind, Pairs, Side, Unmatched, Why};
pub use resources::{Resources, Used};
pub use spans::{spans, Span, SpanFinder, SpanKind, Spans};
pub(crate) use waiting::{waiting, Waiting};
