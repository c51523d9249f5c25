// SPDX-License-Identifier: Apache-2.0
//! Puts Hindsight into an AOSP tree: the library of `scripts/rom`.
//!
//! - [`manifest`]: the local manifests of `manifests/`: which projects are patched, at which tag.
//! - [`patch`]: git-format patches, read for their hunks and their footprint; [`locate`] finds where
//!   upstream has moved the lines of a hunk, `mismatch` explains why a patch does not apply.
//! - [`patch_sets`]: all patches together, against `pristine` sources (`cargo xtask patches`).
//! - [`links`]: which programs of a patched `art` need the Rust library, and whether they link it.
//! - [`project`]: one project of the tree: its state, and applying and undoing patches exactly.
//! - [`overlay`]: the files that become `external/hindsight`.
//! - [`rust_libs`]: the Rust half, compiled for the device and the host.
//! - [`checks`]: disk, memory and tools, checked before a step changes anything.
//! - [`runner`]: starts other programs; with `--dry-run`, only prints them.

mod c_compiler;
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
