// SPDX-License-Identifier: Apache-2.0
//! One suite of boot and trace tests for all targets of Hindsight's ART.
//!
//! - [`target`]: the interface of a device; [`adb`] implements it for AVDs, Cuttlefish and phones, `lab` for
//!   the lab.
//! - [`suite`]: the steps, the same for all.
//! - [`junit`]: the report.

pub mod adb;
pub mod junit;
#[cfg(feature = "lab")]
pub mod lab;
pub mod suite;
pub mod target;
