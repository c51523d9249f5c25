// SPDX-License-Identifier: Apache-2.0
//! Stalls of a thread: which chain of calls took the time, and who it waited for.

mod around;
mod culprit;
mod event_stalls;
mod facts;
mod find;
mod model;
mod spent;
mod stacks;
#[cfg(test)]
mod tests;

pub use find::stalls;
pub use model::{
    Activity, Chain, EventStall, EventWait, GcPauses, Holder, LastCall, LongWait, Party, Question,
    Reason, Stalls, WaitTotal, STALL_NS,
};
pub use stacks::Place;
