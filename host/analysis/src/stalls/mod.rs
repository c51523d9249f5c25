// SPDX-License-Identifier: Apache-2.0
//! Stalls of a thread: which chain of calls took the time, and who it waited for.

mod around;
mod blame;
mod culprit;
mod event_stalls;
mod facts;
mod find;
mod model;
mod parties;
mod releases;
mod spent;
mod stacks;
#[cfg(test)]
mod tests;
mod timeline;
mod unrecorded;

pub use find::stalls;
pub use model::{
    Activity, Chain, EventStall, EventWait, GcPauses, HeldBy, Holder, LastCall, LongWait, Party,
    Question, Reason, Stalls, WaitTotal, MOST_FOLLOWED, STALL_NS,
};
pub use stacks::{place_at_event, place_in_wait, place_longest, Place};
pub use unrecorded::is_silent;
