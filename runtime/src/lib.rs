// SPDX-License-Identifier: Apache-2.0
//! Records trace points into per-thread rings, all the time, and keeps the rings when something goes
//! wrong.
//!
//! This crate knows nothing of ART: what it needs of a managed runtime is the [`Host`] trait. Compiled
//! trace points write to a ring directly, through the thread's *cursor* (see `hindsight_trace_format`);
//! everything else goes through here:
//!
//! ```text
//! traced threads ──slots──► Ring ◄──swap at a safepoint── control thread ──► x.hindsight
//!       ▲ ThreadTrace::append                                   ▲ Recorder::raise_anomaly, socket
//! ```
//!
//! The control thread is the only one that persists, symbolizes, and starts or stops other threads.
//! Memory of a ring is touched by its thread alone, until that thread has passed the safepoint at which
//! the ring was taken from it.

pub mod anchors;
pub mod balance;
pub mod clock;
pub mod config;
mod control_socket;
mod control_thread;
#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
mod counter_emulation;
#[cfg(any(target_arch = "arm", target_arch = "aarch64", test))]
mod counter_trap;
mod histogram;
mod journal;
pub mod lock_free;
#[cfg(all(test, feature = "loom"))]
mod model;
#[cfg(feature = "loom")]
mod model_clock;
pub mod nanoscope;
mod persist;
mod property_watch;
pub mod quota;
mod recorder;
#[cfg(feature = "loom")]
#[path = "ring_model.rs"]
mod ring;
#[cfg(not(feature = "loom"))]
mod ring;
mod sampler;
mod sync;
mod thread_trace;
mod thread_words;

pub use config::{Config, ConfigError, ThreadSelection};
pub use recorder::{AnomalyOutcome, Host, ProcessIdentity, Recorder, Severity};
pub use ring::{Ring, RingPool};
pub use thread_trace::{StartReason, ThreadTrace};
pub use thread_words::{set_stubs, StubTable, Stubs, ThreadWords, POLL_SUSPEND, POLL_TRACING};
