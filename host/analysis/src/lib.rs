// SPDX-License-Identifier: Apache-2.0
//! Answers from a decoded trace: which methods took the time ([`top`]), which chain of calls stalled a thread and who
//! it waited for ([`stalls`]), whether known bad behaviour is in it ([`Signature`]), what is slower than before
//! ([`Comparison`]), and statistics that may leave the device ([`Summary`]).
//!
//! Results hold names and numbers. The program `hindsight` puts them into words.
//!
//! ```no_run
//! use hindsight_analysis::{stalls, Question};
//!
//! let trace = hindsight_decoder::Trace::open("demo.hindsight".as_ref())?;
//! let main = trace.main_thread().expect("the main thread was traced");
//! for chain in stalls(&trace, main, &Question::default()).chains {
//!     println!("{} ns, culprit: {:?}", chain.held_ns, chain.culprit);
//! }
//! # Ok::<(), hindsight_decoder::Error>(())
//! ```

mod callees;
mod diff;
mod events;
mod evidence;
mod known;
mod path;
mod select;
mod signatures;
mod stalls;
mod statistics;
mod summary;
mod time;
mod top;

pub use callees::{Callee, Others};
pub use diff::{
    CallChange, CallTimes, Compare, Comparison, Diff, MethodChange, Side, SideFacts, Unit, Verdict,
    SIGNIFICANT,
};
pub use events::{
    accesses, costs, pairs, spans, AccessKind, Accesses, Cost, Costs, End, FieldValue, Fields,
    Link, LinkEnd, Linker, OwnCost, Pair, PairKind, Pairs, Resources, Side as PairSide, Span,
    SpanFinder, SpanKind, Spans, Unmatched, Used, Why, LEAST_CALL_NS,
};
pub use evidence::{
    is_converted, is_cut, is_whole, may_have_begun, may_have_lost_rings, ring_is_damaged, Evidence,
    LockOwner, Missing, Waker,
};
pub use known::is_platform_class;
pub use path::ChainCall;
pub use select::{Selection, Window};
pub use signatures::{
    parse_signatures, Checked, Example, Finding, Measure, Signature, SignatureError, Unknown,
};
pub use stalls::{
    is_silent, place_at_event, place_in_wait, place_longest, stalls, Activity, Chain, EventStall,
    EventWait, GcPauses, HeldBy, Holder, LastCall, LongWait, Party, Place, Question, Reason,
    Stalls, WaitTotal, MOST_FOLLOWED, STALL_NS,
};
pub use statistics::{corrected, f_test};
pub use summary::{Histogram, MethodSummary, Part, Stall, Summary, Unlisted, SUMMARY_SCHEMA};
pub use time::{duration, parse_duration};
pub use top::{top, By, Totals};
