// SPDX-License-Identifier: Apache-2.0
//! Compiles boot images of a finished build: the boot class path, ahead of time.

use super::lab::Lab;
use crate::boot_image::{class_path_options, image_options, BootImage, BootImageSpec};
use crate::error::{IoContext, Result};
use crate::spec::Isa;
use crate::util::{create_dir, run};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

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
        // The image last: the runtime looks for it, and then needs the others.
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

    /// `dex2oat` that compiles a boot image for any instruction set directly into the folder of
    /// [`BootImageSpec::image`]. To make an image to run with, use [`Lab::build_boot_image`].
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
