// SPDX-License-Identifier: Apache-2.0
//! The parts of `cargo xtask verify` that `cargo xtask bench` and tests use, too.

pub mod answers;
pub mod boot_images;
pub mod callbacks;
pub mod debian;
pub mod expected;
pub mod hops;
