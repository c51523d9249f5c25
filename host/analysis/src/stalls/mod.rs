// SPDX-License-Identifier: Apache-2.0
//! Stalls of a thread: which chain of calls took the time, and who it waited for.

mod culprit;
mod find;
mod model;
mod spent;
#[cfg(test)]
mod tests;
mod told;

pub use find::stalls;
pub use model::{
    Activity, Chain, LastCall, Party, Question, Reason, Stalls, Told, ToldWait, WaitTotal, STALL_NS,
};
