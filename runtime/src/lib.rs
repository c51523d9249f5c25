// SPDX-License-Identifier: Apache-2.0
//! Records method entries and exits into per-thread rings, all the time, and writes the rings to a file (a *snapshot*)
//! on request.
//!
//! This crate does not depend on ART: the [`Host`] trait is all that it needs of a managed runtime. Compiled trace
//! points write to a ring directly, through the thread's *cursor* (see `hindsight_trace_format`); everything else goes
//! through this crate:
//!
//! ```text
//! traced threads ──slots──► Ring ◄──handshake── control thread ──► x.hindsight
//!       ▲ TracedThread::record_…                     ▲ Recorder::snapshot, control socket
//! ```
//!
//! The control thread is the only thread that takes snapshots, asks for method names, and starts or stops other
//! threads. Only a thread itself writes to its ring, until it has agreed to the ring's change by a *handshake*:
//! usually at a safepoint.
//!
//! The layers, from top to bottom; a module only uses modules below it:
//!
//! | module | contents |
//! |---|---|
//! | `recorder` | the interface for the managed runtime |
//! | `control` | the control thread: snapshots, status, retention of rings, and where its commands come from |
//! | `session`, `registry`, `journal`, `names` | the state that all threads share |
//! | `service` | the connection to the system service |
//! | `detectors` | what the process's own events say about stalls |
//! | `handshake` | how a thread agrees to a change of its ring |
//! | `panics`, `unwinding` | messages of panics in the log; no build without unwinding |
//! | `fork` | what a forked child of the process must not do |
//! | `thread` | one thread's ring, cursor and words |
//! | `shared` | the memory that survives the process: rings, stacks, names |
//! | `clock` | the counter that trace points read |
//! | `folder` | the process's files in the folder for snapshots |
//! | `rules` | the rules file |
//! | `host`, `command`, `config`, `limits`, `rewind` | interfaces and plain data |
//!
//! Cargo features add parts that a phone does not need; builds for the lab have all of them:
//!
//! | feature | adds |
//! |---|---|
//! | `lock-free` | `protocol=lock-free`: a handshake without safepoints |
//! | `counter-emulation` | `counter=emulate`: on ARM, traces although the counter cannot be read |
//! | `check-balance` | `check-balance=DIR`: checks at a thread's end that each exit has an entry |
//! | `check-rewind` | `rewind-log=yes`: notes which calls are taken back |
//! | `lab` | all of these |
//! | `loom` | the model checks in `models/` |

#[cfg(feature = "check-balance")]
mod balance;
pub mod clock;
mod command;
pub mod config;
mod control;
#[cfg(not(feature = "loom"))]
mod crash;
mod detectors;
mod folder;
mod fork;
mod handshake;
mod histogram;
mod host;
mod journal;
pub mod limits;
#[cfg(feature = "loom")]
mod models;
mod names;
mod panics;
mod recorder;
mod registry;
pub mod rewind;
pub mod rules;
mod service;
mod session;
#[cfg_attr(
    feature = "loom",
    allow(dead_code, reason = "rings of models are not shared")
)]
mod shared;
pub mod stacks;
mod sync;
mod thread;
mod unwinding;

pub use command::{NanoscopeCommand, SnapshotOutcome};
pub use config::{Config, ConfigError, ThreadSelection};
pub use control::nanoscope::thread_name_command;
pub use handshake::TracedThread;
pub use host::{Host, LinkedClasses, MessageLimits, ProcessIdentity, Severity};
pub use panics::log_panics;
pub use recorder::Recorder;
pub use rewind::Rewind;
pub use thread::ring::{Ring, RingPool};
pub use thread::trace::{has_unmarked_code, StartReason};
pub use thread::words::{set_stubs, StubTable, Stubs, ThreadWords, POLL_SUSPEND, POLL_TRACING};
