// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask patches`: the work is in `hindsight_rom`, as scripts/rom applies the same patches.

pub(crate) use hindsight_rom::patch_sets::{run, Patches};
