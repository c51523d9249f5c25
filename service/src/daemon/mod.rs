// SPDX-License-Identifier: Apache-2.0
//! The loop around the engine: one thread waits for processes, clients, the disk's thread, time and signals. It never waits for
//! anything else, and does only so much for one process before it looks at the others.

mod begin;
mod changes;
mod consent;
mod decide;
mod dispatch;
mod limits;
mod links;
mod log;
mod looking;
mod outlet;
mod parts;
mod requests;
mod saved;
mod serve;
mod state_log;
#[cfg(test)]
mod tests;
mod tokens;

pub use decide::{Decide, Decider};
pub use dispatch::{Dispatcher, Memory, Verdict};
pub use limits::Limits;
pub use log::Log;
pub use outlet::Outlet;
pub use parts::{Parts, StartError};
pub use saved::read_accepted;
pub use serve::Daemon;
