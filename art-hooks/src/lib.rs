// SPDX-License-Identifier: Apache-2.0
//! What ART links: Hindsight's runtime and emitters behind a C++ interface.
//!
//! - `bridge`: the typed calls in both directions (cxx), used by `cc/`.
//! - `recorder`: the plain C functions that are called at every interpreted event and in signal
//!   handlers.
//! - `control`: the process's one [`hindsight_runtime`] instance, with ART as its host.
//! - `emitter`: machine code for the compiler.
//!
//! No panic leaves this crate: whatever goes wrong switches tracing off and is logged.

#[allow(unreachable_pub, reason = "cxx generates public items")]
mod bridge;
mod control;
mod emitter;
mod recorder;
