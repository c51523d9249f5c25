// SPDX-License-Identifier: Apache-2.0
//! The releases of Android: a [`Spec`] of tables for each.
//!
//! To add a release: a module here with its `Spec`, a line in [`Release::spec`], and the folder
//! `lab/android-NN/` with `sources.toml`, `packages.txt` and `port/`.

mod android_10;
mod android_11;
mod android_14;

use crate::spec::{Release, Spec};

impl Release {
    pub(crate) fn spec(self) -> &'static Spec {
        match self {
            Release::Android10 => &android_10::SPEC,
            Release::Android11 => &android_11::SPEC,
            Release::Android14 => &android_14::SPEC,
        }
    }
}
