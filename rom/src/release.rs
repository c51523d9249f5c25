// SPDX-License-Identifier: Apache-2.0
//! The Android releases that there are patches for.

use anyhow::{anyhow, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A release of Android.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// Android 10, android-10.0.0_r36.
    Android10,
    /// Android 11, android-11.0.0_r48.
    Android11,
    /// Android 14, android-14.0.0_r15.
    Android14,
}

impl Release {
    /// All of them, the oldest first.
    pub const ALL: [Release; 3] = [Release::Android10, Release::Android11, Release::Android14];

    /// Its number, as in `--release 10`.
    pub fn number(self) -> u32 {
        match self {
            Release::Android10 => 10,
            Release::Android11 => 11,
            Release::Android14 => 14,
        }
    }

    /// The tag that the patches are made for.
    pub fn tag(self) -> &'static str {
        match self {
            Release::Android10 => "android-10.0.0_r36",
            Release::Android11 => "android-11.0.0_r48",
            Release::Android14 => "android-14.0.0_r15",
        }
    }

    /// `android-10`: the folder in `aosp-patches/`, the file in `manifests/`, the branch in a project.
    pub fn name(self) -> String {
        format!("android-{}", self.number())
    }

    /// Its folder of patches in a checkout of Hindsight.
    pub fn patches(self, checkout: &Path) -> PathBuf {
        checkout.join("aosp-patches").join(self.name())
    }

    /// Its local manifest in a checkout of Hindsight.
    pub fn manifest(self, checkout: &Path) -> PathBuf {
        checkout
            .join("manifests")
            .join(format!("{}.xml", self.name()))
    }

    /// The products, as `lunch` names them; the first is the default.
    pub fn products(self) -> &'static [&'static str] {
        match self {
            // Cuttlefish, and a Pixel that the release supports.
            Release::Android10 => &["aosp_cf_x86_64_phone", "aosp_crosshatch"],
            Release::Android11 => &[
                "aosp_cf_x86_64_phone",
                "aosp_cf_arm64_phone",
                "aosp_crosshatch",
            ],
            Release::Android14 => &["aosp_cf_x86_64_phone", "aosp_cf_arm64_phone", "aosp_oriole"],
        }
    }
}

impl FromStr for Release {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Release> {
        Release::ALL
            .into_iter()
            .find(|release| {
                text.strip_prefix("android-").unwrap_or(text) == release.number().to_string()
            })
            .ok_or_else(|| anyhow!("there are patches for Android 10, 11 and 14, not for '{text}'"))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Android {}", self.number())
    }
}
