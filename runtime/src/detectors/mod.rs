// SPDX-License-Identifier: Apache-2.0
//! Detectors: what the process's own events say about stalls, and the rules of the system service that they follow.
//!
//! A detector is a pure function of its state, an event and the time ([`state`]). The thread that records an event calls it
//! ([`watch`]); it takes no lock that another thread holds for long, and allocates nothing until it has found something. What is found goes
//! to the control thread, which tells the service.
//!
//! Without rules of a service no detector looks at anything, except the Java watchdog of the main looper, which has limits of its own.

mod method;
mod rules;
mod run_delay;
mod serving;
mod state;
mod watch;

pub(crate) use rules::{watched_methods, AppRules, Found};
pub(crate) use watch::{Detectors, ThreadWatch};

#[cfg(test)]
mod tests;
