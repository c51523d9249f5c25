// SPDX-License-Identifier: Apache-2.0
//! The boot images that programs run with: the lab's, but compiled without inlining, or with a list of the inlined
//! calls.

use std::ffi::OsString;
use std::fs;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use anyhow::{bail, Context as _, Result};
use hindsight_lab::{BootImage, BootImageSpec, Lab};

use super::inlining::Inlined;
use super::options::TrivialMethods;

/// The option that keeps the compiler from inlining.
pub(super) const NO_INLINING: &str = "--inline-max-code-units=0";
/// The kept part of dex2oat's log.
pub(super) const LOG: &str = "inlining.log";

/// The environment variable that says whether trivial methods have trace points.
pub(super) const TRIVIAL_METHODS: &str = "HINDSIGHT_TRIVIAL_METHODS";

/// How an image is compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// Not at all: for the interpreter.
    Quickened,
    NotInlined,
    Inlined,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            How::Quickened => "interpreter",
            How::NotInlined => "not-inlined",
            How::Inlined => "inlined",
        }
    }
}

/// The boot images of the programs. They are compiled unless they are in a folder of `folder`.
pub(super) struct Images<'a> {
    pub(super) lab: &'a Lab,
    pub(super) folder: &'a Path,
    pub(super) trivial: TrivialMethods,
}

impl Images<'_> {
    /// The boot classes without compiled code.
    pub(super) fn interpreter(&self) -> Result<BootImage> {
        Ok(compile(self, How::Quickened)?.0)
    }

    /// The boot classes, compiled without inlining.
    pub(super) fn without_inlining(&self) -> Result<BootImage> {
        Ok(compile(self, How::NotInlined)?.0)
    }

    /// The same with inlining, and the inlined calls.
    pub(super) fn with_inlining(&self) -> Result<(BootImage, Inlined)> {
        let (image, inlined) = compile(self, How::Inlined)?;
        Ok((image, inlined.context("the log has no inlined calls")?))
    }
}

fn compile(images: &Images, how: How) -> Result<(BootImage, Option<Inlined>)> {
    let (lab, inlining) = (images.lab, how == How::Inlined);
    let folder = &images
        .folder
        .join(format!("{}-{}", how.name(), images.trivial.name()));
    let image = folder.join("core.art");
    let files = folder.join(lab.isa().name());
    let mut spec = BootImageSpec {
        jars: lab.boot_class_path(),
        filter: if how == How::Quickened {
            "quicken"
        } else {
            "speed"
        }
        .to_owned(),
        image: files.join("core.art"),
        options: vec![image_classes(lab)],
    };
    if inlining {
        spec.options.extend(verbose());
    } else {
        spec.options.push(NO_INLINING.into());
    }
    let mut command = lab.boot_image_command(&spec, lab.isa());
    command.env(TRIVIAL_METHODS, images.trivial.name());
    let result = BootImage {
        jars: spec.jars.clone(),
        image,
    };
    let stamp = stamp(lab, &spec, &command)?;
    let (stamp_file, log) = (folder.join("inputs"), folder.join(LOG));
    if fs::read_to_string(&stamp_file).ok().as_ref() == Some(&stamp) {
        let inlined = inlining.then(|| read_kept(&log)).transpose()?;
        return Ok((result, inlined));
    }
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&files).with_context(|| format!("cannot make {}", files.display()))?;
    eprintln!(
        "verify: compiling the boot image {} (trivial methods {})",
        how.name(),
        images.trivial.name()
    );
    let inlined = if inlining {
        Some(run_verbose(&mut command, &log)?)
    } else {
        let output = command
            .output()
            .with_context(|| format!("cannot run {:?}", command.get_program()))?;
        if !output.status.success() {
            bail!(
                "compiling a boot image: {}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        None
    };
    // The stamp comes last: an interrupted compilation leaves none.
    fs::write(&stamp_file, &stamp)
        .with_context(|| format!("cannot write {}", stamp_file.display()))?;
    Ok((result, inlined))
}

/// Options that make dex2oat log its inlining.
pub(super) fn verbose() -> [OsString; 2] {
    ["--runtime-arg".into(), "-verbose:compiler".into()]
}

/// Runs a dex2oat that logs its inlining, and reads the log. The log of a boot image has several hundred MB; its
/// relevant lines are kept in `log`.
pub(super) fn run_verbose(command: &mut Command, log: &Path) -> Result<Inlined> {
    command.env("ANDROID_LOG_TAGS", "*:i");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let said = child.stderr.take().context("dex2oat has no stderr")?;
    let kept = fs::File::create(log).with_context(|| format!("{}", log.display()))?;
    let mut kept = BufWriter::new(kept);
    let said = BufReader::with_capacity(1 << 16, said);
    let inlined = Inlined::read(said, Some(&mut kept));
    let status = child.wait().context("cannot wait for dex2oat")?;
    kept.into_inner().context("cannot keep dex2oat's log")?;
    let inlined = inlined?;
    if !status.success() || inlined.len() == 0 {
        bail!(
            "dex2oat: {status}, {} methods compiled: run {command:?}",
            inlined.len()
        );
    }
    Ok(inlined)
}

/// Reads the kept part of a log.
pub(super) fn read_kept(log: &Path) -> Result<Inlined> {
    let file = fs::File::open(log).with_context(|| format!("{}", log.display()))?;
    Inlined::read(BufReader::with_capacity(1 << 16, file), None)
}

/// The option that names the initialized classes of the image: the same as in the lab's own images.
/// Without it dex2oat only includes the classes that it needs itself, and a program runs initializers that it doesn't
/// run with the lab's image, as the reference does.
fn image_classes(lab: &Lab) -> OsString {
    let list: PathBuf = lab
        .source_dir("frameworks_base")
        .join("config/preloaded-classes");
    let mut option = OsString::from("--image-classes=");
    option.push(list);
    option
}

/// A text that changes with the input of an image: its files and its command.
fn stamp(lab: &Lab, spec: &BootImageSpec, command: &Command) -> Result<String> {
    let mut inputs: Vec<PathBuf> = spec.jars.iter().map(|jar| jar.path.clone()).collect();
    inputs.push(command.get_program().into());
    let libraries = Path::new(command.get_program())
        .parent()
        .and_then(Path::parent)
        .unwrap_or(lab.root())
        .join("lib64");
    inputs.extend(["libart.so", "libart-compiler.so"].map(|name| libraries.join(name)));
    let mut stamp = format!("{command:?}\n");
    for input in inputs {
        let metadata =
            fs::metadata(&input).with_context(|| format!("cannot find {}", input.display()))?;
        let modified = metadata.modified().ok();
        let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        stamp.push_str(&format!(
            "{} {} {}\n",
            input.display(),
            metadata.len(),
            modified.unwrap_or_default().as_nanos()
        ));
    }
    Ok(stamp)
}
