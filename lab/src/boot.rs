// SPDX-License-Identifier: Apache-2.0
//! Boot images: the boot class path compiled ahead of time.

use crate::error::IoContext;
use crate::util::{create_dir, run};
use crate::{Isa, Lab, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A jar of the boot class path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootJar {
    /// Where the jar is.
    pub path: PathBuf,
    /// What the boot image calls it. The runtime compares this with
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

/// What to compile into a boot image.
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

/// What compiled code may use of an instruction set: all that this machine has, or what all have.
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

impl Lab {
    /// Compiles a boot image, for instance of the core jars with a framework jar behind them.
    ///
    /// The image and its companions are written to a temporary folder and moved into place when
    /// dex2oat has succeeded. An old image of the same name is replaced.
    ///
    /// # Errors
    /// If dex2oat fails (its output is in the error) or the files can't be written.
    pub fn build_boot_image(&self, spec: &BootImageSpec) -> Result<BootImage> {
        let parent = spec.image.parent().unwrap_or(Path::new("."));
        create_dir(parent)?;
        let parent = std::fs::canonicalize(parent).context("find", parent)?;
        let file = spec
            .image
            .file_name()
            .map(Path::new)
            .unwrap_or(Path::new("boot.art"));
        let work = tempfile::Builder::new()
            .prefix(".boot-image")
            .tempdir_in(&parent)
            .context("make a folder in", &parent)?;
        let command = self.boot_image_command(
            &BootImageSpec {
                image: work.path().join(file),
                ..spec.clone()
            },
            self.isa,
        );
        run_dex2oat(command, &spec.image)?;

        let target = parent.join(self.isa.name());
        create_dir(&target)?;
        let mut files: Vec<_> = std::fs::read_dir(work.path())
            .and_then(|dir| dir.collect::<std::io::Result<Vec<_>>>())
            .context("list", work.path())?;
        // The image last: it is what the runtime looks for.
        files.sort_by_key(|entry| entry.file_name() == file.as_os_str());
        for entry in files {
            let to = target.join(entry.file_name());
            std::fs::rename(entry.path(), &to).context("write", &to)?;
        }
        Ok(BootImage {
            jars: spec.jars.clone(),
            image: parent.join(file),
        })
    }

    /// `dex2oat` that compiles a boot image for any instruction set, this build's or another, straight into
    /// the folder of [`BootImageSpec::image`]. [`Lab::build_boot_image`] is for images to run with.
    pub fn boot_image_command(&self, spec: &BootImageSpec, isa: Isa) -> Command {
        let mut command = self.command("dex2oat");
        command.env("ANDROID_LOG_TAGS", "*:e");
        for option in class_path_options(&spec.jars) {
            command.arg("--runtime-arg").arg(option);
        }
        for jar in &spec.jars {
            command.arg(option("--dex-file=", &jar.path));
            command.arg(format!("--dex-location={}", jar.location));
        }
        command.arg(option("--image=", &spec.image));
        command.arg(option("--oat-file=", &spec.image.with_extension("oat")));
        let root = self.root().display().to_string();
        command.args(image_options(isa, &root, &spec.filter));
        command.args(&spec.options);
        command
    }
}

fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}

fn run_dex2oat(command: Command, image: &Path) -> Result<()> {
    run(
        command,
        &format!("compiling the boot image {}", image.display()),
    )
    .map(drop)
}
