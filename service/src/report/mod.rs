// SPDX-License-Identifier: Apache-2.0
//! Everything that waits for the disk, on a thread of its own: reports are written here, one after the other.

mod leaving;
mod worker;
mod write;

pub use worker::{Done, Job, Outcome, Worker, LIMITS};
pub use write::WriteJob;
