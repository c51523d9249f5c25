// SPDX-License-Identifier: Apache-2.0
//! Everything that waits for the disk, on a thread of its own: reports are written here, one after the other.

mod boot_names;
mod disk;
mod job;
mod leaving;
mod saving;
mod worker;
mod write;

pub use boot_names::{GivenNames, BOOT_NAMES_BYTES};
pub use disk::LIMITS;
pub use job::{Done, Job, Outcome};
pub use leaving::begin_uploads;
pub use saving::{save, IfNotSaved, Saving};
pub use worker::Worker;
pub use write::WriteJob;
