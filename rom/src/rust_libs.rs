// SPDX-License-Identifier: Apache-2.0
//! Compiles the Rust half into static libraries for the device and the host: one that ART links, and one for each
//! program of the system. Generates the C++ half of ART's bridge as sources, which Soong compiles with its own
//! compiler and C++ library.
//!
//! No NDK is needed: a static library is not linked here, no C++ is compiled here, and the C code needs no headers of Android
//! ([`crate::c_compiler`]).

use crate::c_compiler::CCompiler;
use crate::runner::{output, write_atomic, Runner};
use anyhow::{anyhow, bail, Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A static library that Soong links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// The file's name.
    pub file: &'static str,
    /// The folder of the results, below the overlay: beside the Android.bp that names them.
    pub folder: &'static str,
    /// The crate that it is compiled from.
    krate: &'static str,
    /// The crate's name as cargo's messages have it.
    target_name: &'static str,
    /// Whether programs of the build machine contain it, too.
    for_host: bool,
    /// Whether a crate in it has C code.
    has_c: bool,
}

/// In libart, on the device and in the host's dex2oat.
pub const ART_HOOKS: Library = Library {
    file: "libhindsight_art_hooks.a",
    folder: "prebuilt",
    krate: "hindsight-art-hooks",
    target_name: "hindsight_art_hooks",
    for_host: true,
    has_c: false,
};

/// In hindsightd. Compiled for both targets of a product: which one is the product's first depends on its makefiles.
pub const SERVICE: Library = Library {
    file: "libhindsight_service.a",
    folder: "service/prebuilt",
    krate: "hindsight-service",
    target_name: "hindsight_service",
    for_host: false,
    has_c: false,
};

/// In hindsight-perfetto.
pub const PERFETTO: Library = Library {
    file: "libhindsight_perfetto_source.a",
    krate: "hindsight-perfetto-source",
    target_name: "hindsight_perfetto_source",
    ..SERVICE
};

/// In hindsight-upload. Its TLS has C code and assembly (the crate ring).
pub const UPLOADER: Library = Library {
    file: "libhindsight_uploader.a",
    krate: "hindsight-uploader",
    target_name: "hindsight_uploader",
    has_c: true,
    ..SERVICE
};

/// All libraries.
pub const LIBRARIES: [Library; 4] = [ART_HOOKS, SERVICE, PERFETTO, UPLOADER];

impl Library {
    /// Whether anything on this platform links it.
    pub fn is_for(&self, target: Target) -> bool {
        self.for_host || target.is_android()
    }

    /// Where the library for a platform is, below the overlay.
    pub fn path(&self, target: Target) -> PathBuf {
        Path::new(self.folder).join(target.triple).join(self.file)
    }
}

/// A platform that a library is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Rust's name.
    pub triple: &'static str,
    /// Soong's name, as in `target: { android_arm64: … }`.
    pub soong: &'static str,
}

/// All platforms that a tree compiles ART for.
pub const TARGETS: [Target; 6] = [
    Target {
        triple: "aarch64-linux-android",
        soong: "android_arm64",
    },
    Target {
        triple: "armv7-linux-androideabi",
        soong: "android_arm",
    },
    Target {
        triple: "x86_64-linux-android",
        soong: "android_x86_64",
    },
    Target {
        triple: "i686-linux-android",
        soong: "android_x86",
    },
    Target {
        triple: "x86_64-unknown-linux-gnu",
        soong: "linux_glibc_x86_64",
    },
    Target {
        triple: "i686-unknown-linux-gnu",
        soong: "linux_glibc_x86",
    },
];

impl Target {
    /// Whether it is a device's platform, not the build machine's.
    pub fn is_android(self) -> bool {
        self.soong.starts_with("android_")
    }

    /// The targets that a product and the host tools (dex2oat) need.
    pub fn of_product(product: &str) -> Vec<Target> {
        let arm = ["aarch64-linux-android", "armv7-linux-androideabi"];
        let x86 = ["x86_64-linux-android", "i686-linux-android"];
        TARGETS
            .into_iter()
            .filter(|target| {
                target.triple.ends_with("linux-gnu")
                    || (product.contains("x86") && x86.contains(&target.triple))
                    || (!product.contains("x86") && arm.contains(&target.triple))
            })
            .collect()
    }
}

/// Origin of the standard library for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Std {
    /// It is installed (rustup, or a distribution's package).
    Installed,
    /// It is compiled from the compiler's own sources (`-Zbuild-std`).
    FromSource,
}

/// The compiler to use: `$RUSTC`, or the one in PATH.
fn rustc() -> std::ffi::OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// Finds the standard library for a target.
///
/// # Errors
/// If there is none, with the remedy.
pub fn std_for(target: Target) -> Result<Std> {
    let dir = output(Command::new(rustc()).args([
        "--print",
        "target-libdir",
        "--target",
        target.triple,
    ]))?;
    let has_std = |dir: &Path| {
        std::fs::read_dir(dir).is_ok_and(|entries| {
            entries
                .flatten()
                .any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
        })
    };
    if has_std(Path::new(&dir)) {
        return Ok(Std::Installed);
    }
    let sysroot = output(Command::new(rustc()).args(["--print", "sysroot"]))?;
    if Path::new(&sysroot)
        .join("lib/rustlib/src/rust/library/std/Cargo.toml")
        .exists()
    {
        return Ok(Std::FromSource);
    }
    bail!(
        "no standard library of Rust for {0}. Either 'rustup target add {0}', or the sources of the standard \
         library for -Zbuild-std: 'rustup component add rust-src', or Debian's rust-web-src of the same \
         version as rustc-web, with RUSTC naming that compiler",
        target.triple
    )
}

/// Compiles the libraries and copies them, with the sources of the bridge, into the overlay.
///
/// # Errors
/// If a standard library or a C compiler is missing, or compiling fails.
pub fn build(checkout: &Path, overlay: &Path, targets: &[Target], runner: Runner) -> Result<()> {
    let stds = targets
        .iter()
        .map(|target| std_for(*target))
        .collect::<Result<Vec<Std>>>()?;
    let c_compiler = CCompiler::find()?;
    for (target, std) in targets.iter().zip(stds) {
        for library in LIBRARIES.into_iter().filter(|l| l.is_for(*target)) {
            let mut command = cargo(checkout, library, *target, std);
            if library.has_c {
                command.envs(c_compiler.environment(target.triple));
            }
            if runner.dry_run {
                runner.run(&mut command)?;
                continue;
            }
            println!("+ {}", crate::runner::shown(&command));
            let messages = output(command.stderr(std::process::Stdio::inherit()))
                .with_context(|| format!("compiling {} for {}", library.krate, target.triple))?;
            let built = built_library(&messages, library)?;
            let to = overlay.join(library.path(*target));
            if library == ART_HOOKS {
                copy(&without_libm_names(checkout, &built)?, &to)?;
                Bridge::read(&messages)?.copy(&overlay.join(library.folder).join("bridge"))?;
            } else {
                copy(&built, &to)?;
            }
        }
    }
    Ok(())
}

/// Makes Rust's copies of libm's functions local in a copy of the library: see `art-hooks/libm-names.txt`.
fn without_libm_names(checkout: &Path, library: &Path) -> Result<PathBuf> {
    let hidden = library.with_extension("without-libm.a");
    let objcopy = objcopy()?;
    let done = Command::new(&objcopy)
        .arg("--localize-symbols")
        .arg(checkout.join("art-hooks/libm-names.txt"))
        .args([library, &hidden])
        .status()
        .with_context(|| format!("cannot run {}", objcopy.display()))?;
    if !done.success() {
        bail!(
            "{} cannot hide symbols of {}",
            objcopy.display(),
            library.display()
        );
    }
    Ok(hidden)
}

/// LLVM's objcopy, which reads objects of every target: `$OBJCOPY`, rustc's, or Debian's.
fn objcopy() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("OBJCOPY") {
        return Ok(named.into());
    }
    let target_libraries = output(Command::new(rustc()).args(["--print", "target-libdir"]))?;
    let of_rustc = Path::new(&target_libraries).with_file_name("bin/rust-objcopy");
    let debian = Path::new("/usr/bin/llvm-objcopy").to_owned();
    [of_rustc, debian]
        .into_iter()
        .find(|path| path.exists())
        .ok_or_else(|| {
            anyhow!("no llvm-objcopy: install Debian's package llvm, or set OBJCOPY to its path")
        })
}

fn cargo(checkout: &Path, library: Library, target: Target, std: Std) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(checkout);
    command.args(["rustc", "--locked", "--profile", "device"]);
    // The service's crate is an ordinary library otherwise. Only the library: a program would have to be linked.
    command.args(["-p", library.krate, "--lib", "--crate-type", "staticlib"]);
    command.args([
        "--target",
        target.triple,
        "--message-format=json-render-diagnostics",
    ]);
    if std == Std::FromSource {
        // The standard library's sources use unstable features of the compiler of the same version.
        command.env("RUSTC_BOOTSTRAP", "1");
        command.arg("-Zbuild-std=std,panic_unwind");
    }
    // cxx's C++ file, and ours, are compiled by Soong: there is no C++ compiler for the target here.
    for links in ["cxxbridge1", "cplusplus"] {
        let config = format!("target.{}.{links}.rustc-cfg=[]", target.triple);
        command.args(["--config", &config]);
    }
    command.env("HINDSIGHT_BRIDGE_SOURCES_ONLY", "1");
    command
}

/// cargo's messages: one JSON object a line, among other lines.
fn parsed(messages: &str) -> impl Iterator<Item = serde_json::Value> + '_ {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
}

fn not_named(what: &str) -> anyhow::Error {
    anyhow!("cargo's messages don't name the path of {what}")
}

/// The static library that cargo reports as made.
fn built_library(messages: &str, library: Library) -> Result<PathBuf> {
    parsed(messages)
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| message["target"]["name"] == library.target_name)
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|path| path.as_str().map(PathBuf::from))
        .find(|path| path.ends_with(library.file))
        .ok_or_else(|| not_named(library.file))
}

/// The sources of the bridge between Rust and C++ that cargo reports as made.
struct Bridge {
    generated: PathBuf,
    cxx: PathBuf,
}

impl Bridge {
    fn read(messages: &str) -> Result<Bridge> {
        let (mut generated, mut cxx) = (None, None);
        for message in parsed(messages) {
            match message["reason"].as_str() {
                Some("compiler-artifact") if message["target"]["name"] == "cxx" => {
                    cxx = message["manifest_path"]
                        .as_str()
                        .and_then(|path| Some(Path::new(path).parent()?.to_owned()));
                }
                Some("build-script-executed") => {
                    let package = message["package_id"].as_str().unwrap_or("");
                    let out = message["out_dir"].as_str();
                    if package.contains(ART_HOOKS.krate) || package.contains("/art-hooks#") {
                        generated = out.map(|out| Path::new(out).join("cxxbridge"));
                    }
                }
                _ => {}
            }
        }
        Ok(Bridge {
            generated: generated.ok_or_else(|| not_named("the bridge"))?,
            cxx: cxx.ok_or_else(|| not_named("the crate cxx"))?,
        })
    }

    fn copy(&self, to: &Path) -> Result<()> {
        let generated = format!("{}/src/bridge.rs", ART_HOOKS.krate);
        copy(
            &self
                .generated
                .join("include")
                .join(format!("{generated}.h")),
            &to.join("include").join(format!("{generated}.h")),
        )?;
        copy(
            &self
                .generated
                .join("sources")
                .join(format!("{generated}.cc")),
            &to.join("bridge.cc"),
        )?;
        copy(
            &self.cxx.join("include/cxx.h"),
            &to.join("include/rust/cxx.h"),
        )?;
        // cxx.cc includes its header by a relative path.
        let text =
            std::fs::read_to_string(self.cxx.join("src/cxx.cc")).context("cannot read cxx.cc")?;
        write_atomic(
            &to.join("cxx.cc"),
            text.replace("\"../include/cxx.h\"", "\"rust/cxx.h\"")
                .as_bytes(),
        )
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let bytes = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    // A new time stamp would make Soong rebuild.
    if std::fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    write_atomic(to, &bytes)
}

/// The targets of a product for which a library is missing in the overlay.
pub fn missing(overlay: &Path, product: &str) -> Vec<&'static str> {
    Target::of_product(product)
        .into_iter()
        .filter(|target| {
            LIBRARIES
                .iter()
                .filter(|library| library.is_for(*target))
                .any(|library| !overlay.join(library.path(*target)).exists())
        })
        .map(|target| target.triple)
        .collect()
}

/// Removes the results of [`build`].
///
/// # Errors
/// If a folder can't be removed.
pub fn remove(overlay: &Path) -> Result<()> {
    for library in LIBRARIES {
        let dir = overlay.join(library.folder);
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", dir.display()));
            }
            _ => {}
        }
        // Folders that nothing else is in.
        for folder in dir.ancestors().skip(1) {
            if !folder.starts_with(overlay) || std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
    Ok(())
}
