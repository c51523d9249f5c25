// SPDX-License-Identifier: Apache-2.0
//! How many reports and uploads are made in a window of time, also over restarts.
//!
//! The limiter keeps a list of what it admitted. Time is the device's time in operation: boot time within a boot, and the boots
//! that the list has seen are added up. The time of day is not used, so no change of the clock makes room; the time between the
//! last save and the end of a boot, and the time that the device is off, are lost: that admits fewer, never more.
//!
//! It fails closed: a list that cannot be read admits nothing until a whole window has passed.

mod limiter;
mod saved;

pub use limiter::{Admitted, Limiter, Refusal};
pub use saved::{SavedError, MAX_SAVED_BYTES};

#[cfg(test)]
mod tests;
