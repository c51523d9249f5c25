// SPDX-License-Identifier: Apache-2.0
//! Reads traces: from a `.hindsight` file, or a file of another format, to the call trees of its threads.
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
//! read from its newest slot backwards: times are extended to 64 bits between the anchors that bound them, and each exit
//! ends the innermost running call. Nothing is invented: a call whose entry was overwritten, or that was still running,
//! has an open start or end ([`Flags`]) and is counted ([`Stats`]). Damaged parts of a file are left out and listed
//! ([`Trace::damaged`]).
//!
//! [`Calls`] holds the calls of a thread as columns, in the order of their starts, callers before callees:
//!
//! ```text
//! time  ──────────────────────►     index  method  depth  parent
//! main [──────────────────────]         0  main        0  NO_PARENT
//!   f   [─────────]                     1  f           1  0
//!     g   [──] [─]                      2  g           2  1
//!                                       3  g           2  1
//!   h                [────]             4  h           1  0
//! ```
//!
//! So the subtree of `f` is the range `1..4`, and the longest call of a thread is
//!
//! ```
//! # let trace = hindsight_decoder::Trace::decode("t".as_ref(), &hindsight_testkit::stall().encode())?;
//! let thread = trace.main_thread().expect("the main thread is traced");
//! let longest = thread.calls.iter().max_by_key(|call| call.duration_ns()).expect("there are calls");
//! println!("{} took {} ns", trace.methods.name(longest.method), longest.duration_ns());
//! # Ok::<(), hindsight_decoder::Error>(())
//! ```

mod build;
mod bytes;
mod calls;
mod clock;
mod consent;
mod damage;
mod detect;
mod error;
mod fields;
mod file;
mod full_time;
mod hindsight;
pub mod import;
mod inherited;
mod key;
#[cfg(feature = "host")]
mod mapping;
mod marks;
mod methods;
mod model;
mod open;
mod open_calls;
mod pages;
mod parts;
mod ring;
mod salvage;
mod samples;
mod scan;
mod signature;
mod stacks;
mod timeline;

pub use calls::{Call, Calls, Flags, NO_PARENT};
pub use clock::Clock;
pub use damage::{Damage, DamagedPart};
pub use detect::is_perfetto_file;
pub use error::Error;
pub use fields::field;
pub use hindsight_trace_format::catalogue;
pub use hindsight_trace_format::container::{
    ClockSample, Consent, Losses, ProcessFacts, RingMode, StringKind, Strings,
};
pub use hindsight_trace_format::library_rules;
pub use hindsight_trace_format::slot::Extension;
pub use import::{art_trace, hubble, nanoscope};
pub use inherited::losses_of;
pub use key::ThreadKey;
#[cfg(feature = "host")]
pub use mapping::{Deobfuscated, Mapping};
pub use methods::{Method, MethodId, Methods};
pub use model::{Gap, Mode, Stats, Thread, ThreadEvent, ThreadPart, Trace, DEPTH_FACT};
pub use open::OpenOptions;
pub use samples::{SampleTimes, Sampled, Sampler, LEAST_DURATION_NS};
pub use stacks::{Frame, StackId, Stacks, MAX_STACK_FRAMES, NO_DEX_PC};
