// SPDX-License-Identifier: Apache-2.0
//! Puts Hindsight into an AOSP tree: what `scripts/rom` runs.
//!
//! - [`manifest`]: the local manifests of `manifests/`: which projects are patched, at which tag.
//! - [`patch`]: git-format patches, read for their hunks and their footprint; [`locate`] finds where
//!   upstream has moved the code that a hunk belongs to.
//! - [`patch_sets`]: all patches together, against pristine sources (`cargo xtask patches`).
//! - [`project`]: one project of the tree: what state it is in, applying and undoing exactly.
//! - [`overlay`]: the files that become `external/hindsight`.
//! - [`rust_libs`]: the Rust half, compiled for the device and the host.
//! - [`checks`]: disk, memory and tools, looked at before anything is touched.
//! - [`runner`]: other programs, shown and not run with `--dry-run`.

pub mod checks;
pub mod links;
pub mod locate;
pub mod manifest;
mod mismatch;
pub mod overlay;
pub mod patch;
pub mod patch_sets;
mod pristine;
pub mod project;
pub mod release;
pub mod runner;
pub mod rust_libs;
