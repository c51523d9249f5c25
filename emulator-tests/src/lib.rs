// SPDX-License-Identifier: Apache-2.0
//! One suite of boot and trace tests for all targets of Hindsight's ART.
//!
//! - [`target`]: the interface of a device; [`adb`] implements it for AVDs, Cuttlefish and phones, `lab` for
//!   the lab.
//! - [`suite`]: the steps, the same for all. [`apk`] builds the app that some of them run.
//! - [`junit`]: the report.

pub mod adb;
pub mod apk;
mod app_steps;
pub mod junit;
#[cfg(feature = "lab")]
pub mod lab;
#[cfg(feature = "lab")]
mod sandbox;
#[cfg(feature = "lab")]
mod seccomp;
pub mod suite;
pub mod target;
