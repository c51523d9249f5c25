// SPDX-License-Identifier: Apache-2.0
//! The parts of `cargo xtask verify` that `cargo xtask bench` uses, too.

pub mod boot_images;
pub mod debian;
