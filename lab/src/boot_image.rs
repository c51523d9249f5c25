// SPDX-License-Identifier: Apache-2.0
//! Boot images as data, and the options of dex2oat and dalvikvm that name and make them.

use crate::spec::Isa;
use std::ffi::OsString;
use std::path::PathBuf;

/// A jar of the boot class path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootJar {
    /// Where the jar is.
    pub path: PathBuf,
    /// The name of the jar in the boot image. The runtime compares it with
    /// `-Xbootclasspath-locations`, so that the image can be moved with its jars.
    pub location: String,
}

impl BootJar {
    /// A jar whose location is its path.
    pub fn new(path: impl Into<PathBuf>) -> BootJar {
        let path = path.into();
        BootJar {
            location: path.display().to_string(),
            path,
        }
    }
}

/// A boot image and the jars it was made of.
#[derive(Clone, Debug)]
pub struct BootImage {
    /// The jars, in the order of the boot class path.
    pub jars: Vec<BootJar>,
    /// The image as `-Ximage:` wants it: without the instruction set's folder
    /// (`DIR/core.art` for `DIR/x86_64/core.art`).
    pub image: PathBuf,
}

/// A boot image to compile.
#[derive(Clone, Debug)]
pub struct BootImageSpec {
    /// The jars, core jars first (see [`Lab::boot_class_path`]).
    pub jars: Vec<BootJar>,
    /// The compiler filter: `speed`, `quicken`, …
    pub filter: String,
    /// The image to write, without the instruction set's folder (see [`BootImage::image`]).
    pub image: PathBuf,
    /// Further options for dex2oat.
    pub options: Vec<OsString>,
}

/// `-Xbootclasspath` and `-Xbootclasspath-locations` for these jars.
pub(crate) fn class_path_options(jars: &[BootJar]) -> [OsString; 2] {
    let mut paths = OsString::from("-Xbootclasspath:");
    let mut locations = OsString::from("-Xbootclasspath-locations:");
    for (i, jar) in jars.iter().enumerate() {
        if i > 0 {
            paths.push(":");
            locations.push(":");
        }
        paths.push(&jar.path);
        locations.push(&jar.location);
    }
    [paths, locations]
}

/// The CPU features that compiled code may use: all of this machine, or for another instruction set the common
/// ones.
pub(crate) fn instruction_set_features(isa: Isa) -> &'static str {
    if isa.is_native() {
        "runtime"
    } else {
        "default"
    }
}

/// The options of dex2oat that every boot image of the lab is made with, as AOSP's own rules for
/// the host's `core.art` have them.
pub(crate) fn image_options(isa: Isa, root: &str, filter: &str) -> Vec<String> {
    [
        "--runtime-arg",
        "-Xms64m",
        "--runtime-arg",
        "-Xmx512m",
        "--runtime-arg",
        "-Xnorelocate",
        "--base=0x60000000",
        "--host",
        "--image-format=uncompressed",
        "--avoid-storing-invocation",
        "--generate-debug-info",
        "--generate-build-id",
        "--no-generate-mini-debug-info",
        // core-oj is a boot jar that devices may update: AOSP doesn't inline from it either.
        "--no-inline-from=core-oj-hostdex.jar",
        "-j2",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([
        format!("--instruction-set={}", isa.name()),
        format!(
            "--instruction-set-features={}",
            instruction_set_features(isa)
        ),
        format!("--android-root={root}"),
        format!("--compiler-filter={filter}"),
    ])
    .collect()
}
