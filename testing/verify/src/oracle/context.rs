// SPDX-License-Identifier: Apache-2.0
//! The common input of all runs of a check.

use std::path::PathBuf;
use std::time::Duration;

use hindsight_lab::{BootImage, Lab};

use super::inlining::Inlined;
use super::options::TrivialMethods;
use super::programs::Exempt;

/// The lab with its boot images, and the options of every run.
pub(super) struct Context {
    pub(super) lab: Lab,
    /// For the interpreter and the JIT.
    pub(super) interpreter: BootImage,
    pub(super) not_inlined: Option<BootImage>,
    pub(super) inlined: Option<(BootImage, Inlined)>,
    pub(super) exempt: Exempt,
    /// A library that is preloaded into the VM.
    pub(super) preload: Option<PathBuf>,
    pub(super) trivial: TrivialMethods,
    /// Record all events, too.
    pub(super) events: bool,
    /// Take back calls that are shorter than this, and note which.
    pub(super) rewind: Option<String>,
    pub(super) timeout: Duration,
    pub(super) keep: Option<PathBuf>,
}
