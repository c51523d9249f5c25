// SPDX-License-Identifier: Apache-2.0
//! Scheduling and binder of a whole device, from a Perfetto trace with the kernel's events (the data source `linux.ftrace`).
//!
//! ```no_run
//! use hindsight_system_trace::SystemTrace;
//!
//! let trace = SystemTrace::open("device.perfetto-trace".as_ref())?;
//! for (number, thread) in trace.threads() {
//!     let times = trace.times(number, trace.start_ns(), trace.end_ns());
//!     println!("{}: {} ns on a processor, {} ns without one", thread.name, times.running_ns, times.runnable_ns);
//! }
//! # Ok::<(), hindsight_system_trace::Error>(())
//! ```
//!
//! All times are CLOCK_BOOTTIME, ns. Events are kept in rows of 24 bytes while the file is read, then in columns of 13 bytes for
//! each change of what a thread does.

mod binder;
mod clocks;
mod error;
mod ftrace;
mod names;
mod packets;
mod records;
mod schedule;
mod schema;
mod state;
mod sweep;
mod trace;

pub use binder::Transaction;
pub use error::Error;
pub use records::Gap;
pub use schedule::{Slice, Waker};
pub use state::State;
pub use trace::{Missing, SystemThread, SystemTrace, Times};
