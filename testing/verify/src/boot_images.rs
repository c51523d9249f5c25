// SPDX-License-Identifier: Apache-2.0
//! The lab's whole boot image, compiled for any instruction set with any form of trace points: by this
//! machine's dex2oat, so that only the x86-64 lab needs to be built.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{bail, Context as _, Result};
use hindsight_lab::{BootImageSpec, Framework, Isa, Lab};

/// The form of trace points that dex2oat makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Entries share the suspend check, exits jump to a stub: the default.
    Shared,
    /// The same, but trivial methods have no trace points.
    SharedWithoutTrivial,
    /// All instructions in the method.
    Inline,
    /// No trace points.
    None,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 4] = [
        Form::Shared,
        Form::SharedWithoutTrivial,
        Form::Inline,
        Form::None,
    ];

    /// The environment variables of dex2oat that ask for it.
    pub fn environment(self) -> [(&'static str, &'static str); 2] {
        let (form, trivial) = match self {
            Form::SharedWithoutTrivial => (Form::Shared, "left-out"),
            _ => (self, "traced"),
        };
        [
            ("HINDSIGHT_TRACE_POINTS", form.name()),
            ("HINDSIGHT_TRIVIAL_METHODS", trivial),
        ]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Form::Shared => "shared",
            Form::SharedWithoutTrivial => "shared-without-trivial",
            Form::Inline => "inline",
            Form::None => "none",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A compiled boot image.
pub struct Image {
    /// Its oat files; the first has the header's keys.
    pub oat_files: Vec<PathBuf>,
}

/// Compiles the boot image of the lab with `compiler`'s dex2oat, unless `folder` has one that the same programs have
/// made of the same jars. Takes about ten seconds.
///
/// The jars are always `framework`'s, so that two compilers have the same input.
///
/// # Errors
/// If dex2oat fails, or a file cannot be read or written.
pub fn compile(
    compiler: &Lab,
    framework: &Framework,
    isa: Isa,
    form: Form,
    folder: &Path,
) -> Result<Image> {
    let jars = framework.boot_image().jars.clone();
    let libraries = compiler.root().join("lib64");
    let mut inputs = vec![
        compiler.root().join("bin/dex2oat"),
        libraries.join("libart.so"),
        libraries.join("libart-compiler.so"),
    ];
    inputs.extend(jars.iter().map(|jar| jar.path.clone()));
    let wanted = inputs
        .iter()
        .map(|path| stamp(path))
        .collect::<Result<Vec<_>>>()?
        .concat();

    let image = folder.join("core.art");
    let stamp_file = folder.join("inputs");
    if fs::read_to_string(&stamp_file).ok().as_deref() != Some(&wanted) {
        if folder.exists() {
            fs::remove_dir_all(folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let spec = BootImageSpec {
            jars,
            filter: "speed".to_owned(),
            image: image.clone(),
            // As on a device. The last one of two counts.
            options: vec!["--no-generate-debug-info".into()],
        };
        let mut command = compiler.boot_image_command(&spec, isa);
        command.envs(form.environment());
        let what = format!("compiling the boot image for {} ({form})", isa.name());
        let output = command
            .output()
            .with_context(|| format!("{what}: cannot run {:?}", command.get_program()))?;
        if !output.status.success() {
            bail!(
                "{what}: {}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        // The stamp comes last: an interrupted compilation leaves none.
        fs::write(&stamp_file, &wanted)
            .with_context(|| format!("cannot write {}", stamp_file.display()))?;
    }
    Ok(Image {
        oat_files: oat_files(&image)?,
    })
}

/// A line that changes with the file.
fn stamp(path: &Path) -> Result<String> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot find {}", path.display()))?;
    let modified = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .unwrap_or_default();
    Ok(format!(
        "{} {} {}\n",
        path.display(),
        metadata.len(),
        modified.as_nanos()
    ))
}

/// The oat files beside an image, beginning with the image's own.
fn oat_files(image: &Path) -> Result<Vec<PathBuf>> {
    let folder = image.parent().unwrap_or(Path::new("."));
    let first = image.with_extension("oat");
    let mut others = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "oat") && path != first {
            others.push(path);
        }
    }
    others.sort();
    others.insert(0, first);
    Ok(others)
}
