// SPDX-License-Identifier: Apache-2.0
//! Events: what belongs together, within a thread and between threads.

mod fields;
mod pairs;
mod spans;

pub use fields::{FieldValue, Fields};
pub use pairs::{pairs, End, Pair, PairKind, Pairs, Side, Unmatched, Why};
pub use spans::{spans, Span, SpanKind, Spans};
