// SPDX-License-Identifier: Apache-2.0
//! Everything that waits for the disk, on a thread of its own: reports are written here, one after the other.

mod boot_names;
mod leaving;
mod worker;
mod write;

pub use boot_names::{GivenNames, BOOT_NAMES_BYTES};
pub use worker::{Done, Job, Outcome, Worker, LIMITS};
pub use write::WriteJob;
