// SPDX-License-Identifier: Apache-2.0
//! The steps of `scripts/rom`.

pub(crate) mod build;
pub(crate) mod device;
pub(crate) mod sync;
pub(crate) mod tree;
