// SPDX-License-Identifier: Apache-2.0
//! Events: what belongs together, within a thread and between threads.

mod pairs;
mod spans;

pub use pairs::{pairs, End, Pair, PairKind, Pairs, Side, Unmatched, Why};
pub use spans::{spans, Span, SpanKind, Spans};
