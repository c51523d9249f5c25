// SPDX-License-Identifier: Apache-2.0
//! From a `.hindsight` file to the call trees of its threads.
//!
//! ```no_run
//! let trace = hindsight_decoder::Trace::open("demo.hindsight".as_ref())?;
//! for thread in &trace.threads {
//!     for call in thread.calls.iter() {
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

mod build;
mod bytes;
mod calls;
mod clock;
mod damage;
mod detect;
mod error;
mod file;
mod hindsight;
pub mod import;
mod key;
mod mapping;
mod methods;
mod model;
mod open;
mod pages;
mod ring;
mod salvage;
mod scan;
mod signature;
mod timeline;

pub use calls::{Call, Calls, Flags, NO_PARENT};
pub use clock::Clock;
pub use damage::{Damage, DamagedPart};
pub use error::Error;
pub use hindsight_trace_format::container::{ClockSample, Losses, ProcessFacts};
pub use hindsight_trace_format::slot::Extension;
pub use import::{art_trace, hubble, nanoscope};
pub use key::ThreadKey;
pub use mapping::{Deobfuscated, Mapping};
pub use methods::{Method, MethodId, Methods};
pub use model::{Stats, Thread, ThreadEvent, Trace};
pub use open::OpenOptions;
