// SPDX-License-Identifier: Apache-2.0
//! The steps of a build, in order.

mod apt;
mod check;
mod cross;
mod fdlibm;
mod fetch;
mod graph;
mod java;
mod manifest;
mod ninja;
mod sanitize;
mod source;
mod tzdata;

pub(crate) use apt::Apt;
pub(crate) use check::packages as check_packages;
pub use source::checkout;

use crate::error::{Error, IoContext, Result};
use crate::layout::Folders;
use crate::lock::Lock;
use crate::progress::Progress;
use crate::run::Lab;
use crate::spec::{Isa, Parts, Release, Variant};
use crate::toolchain::target_flags_at;
use crate::util::{create_dir, read, remove, run, symlink, write_atomic, write_if_changed};
use fetch::{fetch_all, Fetched};
use manifest::Manifest;
use source::{hindsight_patches, port_patches, Tree};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A build to make.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The release of Android.
    pub release: Release,
    /// The instruction set.
    pub isa: Isa,
    /// Stock ART or Hindsight's.
    pub variant: Variant,
    /// The least that is built. A build that has all parts is always brought up to date with all of them.
    pub parts: Parts,
    /// A work tree of ART (see [`checkout`](crate::checkout)) to build in the place of the pinned
    /// sources and patches.
    pub art_source: Option<PathBuf>,
}

impl BuildOptions {
    /// All parts of Android 10 from the pinned sources, or from the work tree of ART that `HINDSIGHT_ART_SRC` names.
    pub fn from_environment(isa: Isa, variant: Variant) -> Self {
        Self {
            release: Release::Android10,
            isa,
            variant,
            parts: Parts::All,
            art_source: std::env::var_os("HINDSIGHT_ART_SRC").map(PathBuf::from),
        }
    }
}

/// Downloads and verifies the packages of a release.
///
/// # Errors
/// If Debian's archive can't be reached, or a checksum is wrong.
pub fn fetch(release: Release) -> Result<()> {
    let folders = Folders::new(release)?;
    let _lock = Lock::take(&folders.release)?;
    let progress = Progress::new();
    let manifest = Manifest::load(&folders.data)?;
    fetch_all(&folders, &manifest, &progress)?;
    progress.finish();
    Ok(())
}

/// Removes the builds and sources of a release; keeps downloads and the compiler cache.
///
/// # Errors
/// If something can't be removed.
pub fn clean(release: Release) -> Result<()> {
    let folders = Folders::new(release)?;
    let _variants = Variant::ALL
        .iter()
        .map(|&variant| Lock::take(&folders.variant(variant)))
        .collect::<Result<Vec<_>>>()?;
    let _shared = Lock::take(&folders.release)?;
    for variant in Variant::ALL {
        remove(&folders.variant(variant))?;
    }
    for dir in [folders.java(), folders.shared_sources()] {
        remove(&dir)?;
    }
    Ok(())
}

/// Builds a variant: fetches, unpacks, patches, compiles. Skips the steps that are up to date, so that an interrupted
/// build continues.
///
/// # Errors
/// See [`Error`]: among others missing packages, no space, no network, a wrong checksum, a patch
/// that doesn't apply, a source that doesn't compile.
pub fn build(options: &BuildOptions) -> Result<Lab> {
    let lab = Lab::locate(options.release, options.isa, options.variant)?;
    if options.variant.is_sanitized() && !options.isa.is_native() {
        return Err(Error::Other(format!(
            "the lab has AddressSanitizer only for {}: leave out --isa or --sanitize",
            Isa::X86_64.name()
        )));
    }
    let folders = lab.folders.clone();
    if !options.isa.is_native() {
        // This machine's dex2oat compiles its boot images.
        build(&BuildOptions {
            isa: Isa::X86_64,
            ..options.clone()
        })?;
    }
    check::packages(&folders.data)?;
    let _variant_lock = Lock::take(&folders.variant(options.variant))?;
    let shared_lock = Lock::take(&folders.release)?;
    check::disk_space(&folders.release, !lab.has(Parts::Programs))?;
    let progress = Progress::new();

    let manifest = Manifest::load(&folders.data)?;
    let fetched = fetch_all(&folders, &manifest, &progress)?;
    sources(&folders, &manifest, &fetched, options, &progress)?;
    if folders.spec.java.is_some() {
        java_part(&folders, &progress)?;
    }
    let with_rust = options.variant.is_patched();
    cross::prepare(&folders, options.isa, with_rust, &progress)?;
    // The next steps change only the variant: builds of others need not wait.
    drop(shared_lock);

    native_part(&lab, options, &progress)?;
    progress.finish();
    eprintln!(
        "{} is up to date ({})",
        lab.dir().display(),
        progress.elapsed()
    );
    Ok(lab)
}

fn find<'a>(fetched: &'a [(String, Fetched)], folder: &str) -> Result<&'a Fetched> {
    fetched
        .iter()
        .find(|(name, _)| name == folder)
        .map(|(_, fetched)| fetched)
        .ok_or_else(|| Error::Other(format!("sources.toml has no package for `{folder}`")))
}

/// Brings all source trees up to date.
fn sources(
    folders: &Folders,
    manifest: &Manifest,
    fetched: &[(String, Fetched)],
    options: &BuildOptions,
    progress: &Progress,
) -> Result<()> {
    let shared = folders.shared_sources();
    for &folder in folders.spec.shared_sources {
        // Java's sources are shared by stock ART, where the hooks are never switched on.
        let mut patches = port_patches(folders, folder)?;
        patches.extend(hindsight_patches(folders, options.release, folder)?);
        Tree {
            package: manifest.package(folder)?,
            fetched: find(fetched, folder)?,
            patches,
            target: shared.join(folder),
        }
        .update(progress)?;
    }
    let variant = folders.variant(options.variant);
    for dir in [folders.java(), variant.clone()] {
        for &folder in folders.spec.shared_sources {
            symlink(
                &Path::new("../../src").join(folder),
                &dir.join("src").join(folder),
            )?;
        }
        symlink(&folders.checkout, &dir.join("hindsight"))?;
    }
    symlink(Path::new("../sysroots"), &variant.join("sysroots"))?;
    // AOSP's scripts look for ART there, below ANDROID_BUILD_TOP.
    symlink(Path::new("src/art"), &variant.join("art"))?;
    let art = variant.join("src/art");
    match &options.art_source {
        Some(dir) => {
            let dir = std::fs::canonicalize(dir).context("find", dir)?;
            if !dir.join("runtime/Android.bp").exists() {
                return Err(Error::Other(format!(
                    "{} is no source tree of ART",
                    dir.display()
                )));
            }
            symlink(&dir, &art)?;
        }
        None => {
            let mut patches = port_patches(folders, "art")?;
            if options.variant.is_patched() {
                patches.extend(hindsight_patches(folders, options.release, "art")?);
            }
            Tree {
                package: manifest.package("art")?,
                fetched: find(fetched, "art")?,
                patches,
                target: art.clone(),
            }
            .update(progress)?;
        }
    }
    // Ninja compares times, not contents: after a switch to another tree, everything is compiled again (mostly from
    // the compiler cache).
    let origin = std::fs::canonicalize(&art)
        .context("find", &art)?
        .display()
        .to_string();
    let note = variant.join("out/art-source");
    if std::fs::read_to_string(&note).unwrap_or_default() != origin {
        for isa in Isa::ALL {
            remove(&variant.join("out").join(isa.name()))?;
        }
        write_atomic(&note, origin.as_bytes())?;
    }
    Ok(())
}

fn java_part(folders: &Folders, progress: &Progress) -> Result<()> {
    let dir = folders.java();
    let text = java::write(folders)?;
    write_if_changed(&dir.join("build.ninja"), text.as_bytes())?;
    // Temporary files of an interrupted run of the dex tool.
    let out = dir.join("out");
    for entry in std::fs::read_dir(&out).context("list", &out)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(".dex") {
            remove(&entry.path())?;
        }
    }
    let stamp = out.join("finished");
    let job = ninja::Job {
        dir: &dir,
        file: "build.ninja",
        title: "core libraries",
        targets: &[],
        log: &out.join("build.log"),
        stamps: std::slice::from_ref(&stamp),
    };
    ninja::run(&job, folders, progress)?;
    write_if_changed(&stamp, b"").map(drop)
}

fn native_part(lab: &Lab, options: &BuildOptions, progress: &Progress) -> Result<()> {
    let folders = &lab.folders;
    let dir = lab.dir();
    let out = dir.join("out").join(options.isa.name());
    if folders.spec.shared_sources.contains(&"fdlibm") {
        let java = dir.join("src/fdlibm/src/java.base/share/classes/java/lang/FdLibm.java");
        let cpp = fdlibm::translate(&read(&java)?)?;
        write_if_changed(&out.join("gen/fdlibm_java.cc"), cpp.as_bytes())?;
    }
    root_files(lab)?;
    let hooks = art_hooks(lab, options, progress)?;
    let text = graph::write(folders, options.isa, options.variant, hooks.as_deref())?;
    let file = graph::file_name(options.isa);
    write_if_changed(&dir.join(&file), text.as_bytes())?;
    let parts = match lab.has(Parts::All) {
        true => Parts::All,
        false => options.parts,
    };
    let mut title = format!("ART ({})", options.variant.name());
    if !options.isa.is_native() {
        title = format!("ART ({}, {})", options.variant.name(), options.isa.name());
    }
    let job = ninja::Job {
        dir,
        file: &file,
        title: &title,
        targets: match parts {
            Parts::Programs => &[graph::PROGRAMS],
            Parts::All => &[],
        },
        log: &out.join("build.log"),
        stamps: &[Parts::All, Parts::Programs].map(|parts| lab.finished_stamp(parts)),
    };
    ninja::run(&job, folders, progress)?;
    write_if_changed(&lab.finished_stamp(parts), b"").map(drop)
}

/// Creates the parts of `ANDROID_ROOT` that are not compiled.
fn root_files(lab: &Lab) -> Result<()> {
    let root = lab.root();
    for dir in [
        "bin",
        lab.isa.library_dir(),
        lab.isa.native_test_dir(),
        "framework",
    ] {
        create_dir(&root.join(dir))?;
    }
    create_dir(&lab.data_dir().join("dalvik-cache"))?;
    for jar in lab.folders.spec.core_jars() {
        let up = Path::new("../../../../../java/out").join(jar);
        debug_assert_eq!(
            lab.folders.java().join("out").join(jar),
            lab.folders.core_jar(jar)
        );
        symlink(&up, &root.join("framework").join(jar))?;
    }
    symlink(
        Path::new("dalvikvm"),
        &root.join("bin").join(lab.isa.dalvikvm()),
    )?;
    if lab.isa.is_native() {
        // The name in the scripts of the run-tests since Android 11.
        symlink(Path::new("dex2oat"), &root.join("bin/dex2oat64"))?;
    }
    let zones = tzdata::bundle(Path::new("/usr/share/zoneinfo"))?;
    for (_, module) in lab.folders.spec.modules {
        create_dir(&root.join(module).join("etc/icu"))?;
        write_if_changed(&root.join(module).join("etc/tz/tzdata"), &zones)?;
    }
    Ok(())
}

/// Builds the Rust part of Hindsight's ART. Returns its static library, relative to the variant's folder.
///
/// Cargo runs before Ninja, not under it, since Ninja needs the final times of the generated headers to decide which
/// files to compile.
fn art_hooks(lab: &Lab, options: &BuildOptions, progress: &Progress) -> Result<Option<String>> {
    if !options.variant.is_patched() {
        return Ok(None);
    }
    let patched = options.art_source.is_some()
        || !hindsight_patches(&lab.folders, options.release, "art")?.is_empty();
    if !patched {
        return Ok(None);
    }
    progress.message("compiling art-hooks");
    let target = format!("out/{}/cargo", options.isa.name());
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args([
        "build",
        "--quiet",
        "--profile",
        "device",
        "-p",
        "hindsight-art-hooks",
        "--features",
        "lab",
    ]);
    command.arg("--target-dir").arg(lab.dir().join(&target));
    // The C++ half of the bridge must have the ABI of ART's own objects.
    let spec = lab.folders.spec;
    command.env("CXX", spec.cxx()).env("CC", spec.cc());
    let mut output = format!("{target}/device");
    let sanitized = options.variant.is_sanitized();
    let triple = match options.isa.rust_target() {
        None if sanitized => Some(sanitize::RUST_TARGET),
        triple => triple,
    };
    if let Some(triple) = triple {
        command.args(["--target", triple]);
        let flags = if sanitized {
            sanitize::FLAG.to_owned()
        } else {
            command.env("RUSTC", cross::rustc(&lab.folders));
            // A wrapper (clippy's, sccache's) is made for another compiler.
            command
                .env_remove("RUSTC_WRAPPER")
                .env_remove("RUSTC_WORKSPACE_WRAPPER");
            target_flags_at(spec, options.isa, lab.dir())
        };
        command
            .env(format!("CXXFLAGS_{triple}"), &flags)
            .env("AR", format!("llvm-ar-{}", spec.clang));
        output = format!("{target}/{triple}/device");
    }
    // The settings of the cargo that runs xtask are not for this build.
    for name in [
        "CARGO_TARGET_DIR",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
    ] {
        command.env_remove(name);
    }
    if sanitized {
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", sanitize::RUSTFLAGS);
    }
    command.current_dir(&lab.folders.checkout);
    run(command, "compiling art-hooks")?;
    if let Some(triple) = triple {
        // The graph expects the bridge's headers in this folder.
        let bridge = lab.dir().join(&target).join("cxxbridge");
        symlink(&Path::new(triple).join("cxxbridge"), &bridge)?;
    }
    let library = format!("{target}/libhindsight_art_hooks.a");
    without_libm_names(
        lab,
        &lab.dir().join(output).join("libhindsight_art_hooks.a"),
        &lab.dir().join(&library),
    )?;
    Ok(Some(library))
}

/// Copies the static library with libm's functions made local, so that ART links to libm's own; see
/// `art-hooks/libm-names.txt`.
fn without_libm_names(lab: &Lab, from: &Path, to: &Path) -> Result<()> {
    let names = lab.folders.checkout.join("art-hooks/libm-names.txt");
    let changed = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    if changed(to).is_some_and(|to| Some(to) > changed(from) && Some(to) > changed(&names)) {
        return Ok(());
    }
    let unfinished = to.with_extension("partial");
    let mut command = Command::new(format!("llvm-objcopy-{}", lab.folders.spec.clang));
    command.arg("--localize-symbols").arg(&names);
    command.arg(from).arg(&unfinished);
    run(command, "making libm's functions local in the Rust library")?;
    std::fs::rename(&unfinished, to).context("write", to)
}
