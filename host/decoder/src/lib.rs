// SPDX-License-Identifier: Apache-2.0
//! From a `.hindsight` file to the call trees of its threads.
//!
//! ```no_run
//! let trace = hindsight_decoder::Trace::open("demo.hindsight".as_ref())?;
//! for thread in &trace.threads {
//!     for call in thread.slices.iter() {
//!         println!("{:1$}{2}", "", call.depth as usize, trace.methods.name(call.method));
//!     }
//! }
//! # Ok::<(), hindsight_decoder::Error>(())
//! ```
//!
//! Trace points hold 32 bits of a counter, entries name a method and exits name nothing. So a ring is
//! read from its newest slot backwards ([`Thread`]): times are extended to 64 bits between the anchors
//! that bound them, and each exit ends the innermost call that runs. What the ring
//! doesn't say isn't made up: a call whose entry was overwritten, or that was still running, is kept
//! with an open end ([`Flags`]) and counted ([`Stats`]).

pub mod art_trace;
mod build;
mod bytes;
mod clock;
mod error;
mod file;
pub mod hubble;
mod mapping;
mod methods;
pub mod nanoscope;
mod pages;
mod scan;
mod signature;
mod slices;
mod thread;
mod timeline;
mod trace;

pub use clock::Clock;
pub use error::Error;
pub use hindsight_trace_format::container::{ClockSample, Losses, ProcessFacts};
pub use hindsight_trace_format::slot::Extension;
pub use mapping::{Deobfuscated, Mapping};
pub use methods::{Method, MethodId, Methods};
pub use slices::{Flags, Slice, Slices, NO_PARENT};
pub use thread::{Stats, Thread, ThreadEvent};
pub use trace::Trace;
