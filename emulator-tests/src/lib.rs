// SPDX-License-Identifier: Apache-2.0
//! One suite of boot and trace tests for everything that Hindsight's ART runs on.
//!
//! - [`target`]: what a device has to offer; [`adb`] serves AVDs, Cuttlefish and phones, `lab` the lab.
//! - [`suite`]: the steps, the same for all.
//! - [`junit`]: the report.

pub mod adb;
pub mod junit;
#[cfg(feature = "lab")]
pub mod lab;
pub mod suite;
pub mod target;
