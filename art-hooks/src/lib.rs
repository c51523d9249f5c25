// SPDX-License-Identifier: Apache-2.0
//! The library that ART links: Hindsight's runtime and encoders behind a C++ interface.
//!
//! - `bridge`: the typed calls in both directions (cxx), used by `cc/`.
//! - `recorder`: the C functions that are called at every interpreted event and in signal handlers.
//! - `control`: the process's one [`hindsight_runtime`] instance, with ART as its host.
//! - `emitter`: machine code for the compiler.
//! - `modified_utf8`: decodes ART's strings.
//! - `lab`, with the feature of that name: calls that only the lab's build needs.
//!
//! No panic leaves this crate: calls through `bridge` catch and log it, and `recorder` does not panic.

#[allow(unreachable_pub, reason = "cxx generates public items")]
mod bridge;
mod control;
mod emitter;
#[cfg(feature = "lab")]
#[allow(unreachable_pub, reason = "cxx generates public items")]
mod lab;
mod modified_utf8;
mod recorder;
mod stacks;
