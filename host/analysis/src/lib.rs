// SPDX-License-Identifier: Apache-2.0
//! What a decoded trace says: which methods took the time ([`top`]), which chain of calls held a
//! thread up, and what other threads did meanwhile ([`chains`]).
//!
//! Results hold names and numbers; [`explain`] puts a chain into plain words.
//!
//! ```no_run
//! let trace = hindsight_decoder::Trace::open("demo.hindsight".as_ref())?;
//! let main = trace.main_thread().expect("the main thread was traced");
//! for chain in hindsight_analysis::chains(&trace, main, 1) {
//!     println!("{}", hindsight_analysis::explain(&chain, hindsight_analysis::Palette::PLAIN));
//! }
//! # Ok::<(), hindsight_decoder::Error>(())
//! ```

mod chains;
mod diff;
mod explain;
mod known;
mod select;
mod signatures;
mod statistics;
mod summary;
mod top;
mod words;

pub use chains::{
    chains, chains_in, Callee, Chain, ChainCall, Evidence, LastCall, LockOwner, Others,
};
pub use diff::{
    CallChange, Calls, Compare, Comparison, Diff, MethodChange, Side, SideFacts, Unit, Verdict,
    SIGNIFICANT,
};
pub use explain::{explain, explain_with, Layout, Palette};
pub use select::{Selection, Window};
pub use signatures::{
    parse_signatures, Checked, Example, Finding, Measure, Signature, SignatureError,
};
pub use summary::{Histogram, MethodSummary, Part, Stall, Summary, Unlisted, SUMMARY_SCHEMA};
pub use top::{top, By, Totals};
pub use words::{count, duration, parse_duration, shorten, wrap};
