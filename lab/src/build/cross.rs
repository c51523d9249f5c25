// SPDX-License-Identifier: Apache-2.0
//! The sysroots and the Rust compiler for other instruction sets: Debian's libraries and headers of their
//! architectures, and their standard libraries. Packages are unpacked below the cache folder; nothing is installed, and
//! dpkg's database does not change.

use super::apt::{is_gone, Apt};
use super::fetch::verify;
use super::manifest::PinnedFile;
use crate::error::{Error, IoContext, Result};
use crate::layout::Folders;
use crate::progress::Progress;
use crate::spec::Isa;
use crate::util::{create_dir, hex, read, remove, sha256_file, symlink, unpack_deb, write_atomic};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// tar's options. `-m` sets the present time: dependents of an older file of the same name are recompiled.
const UNPACKED: [&str; 5] = [
    "--keep-directory-symlink",
    "-m",
    "--exclude=./usr/share/doc",
    "--exclude=./usr/share/man",
    "--exclude=*/libicu*.a",
];

/// Version of the unpacked folders' layout: folders of another version are replaced.
const FORMAT: &str = "1";

/// The contents of `cross.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    suites: Vec<String>,
    /// The compiler for this machine.
    #[serde(default)]
    rust: Vec<Package>,
    arm64: Option<Architecture>,
    arm: Option<Architecture>,
    /// This machine's architecture, for a release that needs newer libraries than this machine's suite has.
    x86_64: Option<Architecture>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Architecture {
    /// Rust's standard library.
    #[serde(default)]
    rust: Vec<Package>,
    /// C and C++ libraries and headers.
    sysroot: Vec<Package>,
}

/// A binary package.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Package {
    /// `name`, or `name:architecture`.
    name: String,
    version: String,
    file: String,
    sha256: String,
}

impl Package {
    fn pinned(&self) -> PinnedFile {
        PinnedFile {
            name: self.file.clone(),
            sha256: self.sha256.clone(),
        }
    }

    /// The note that names the replacement of a file that the archive no longer has.
    fn note(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{}.replacement", self.file))
    }
}

/// A package file and its checksum.
struct Deb {
    path: PathBuf,
    sha256: String,
}

impl Manifest {
    fn load(data: &Path) -> Result<Manifest> {
        let path = data.join("cross.toml");
        toml::from_str(&read(&path)?)
            .map_err(|error| Error::Other(format!("{}: {error}", path.display())))
    }

    fn architecture(&self, isa: Isa) -> Option<&Architecture> {
        match isa {
            Isa::X86_64 => self.x86_64.as_ref(),
            Isa::Arm64 => self.arm64.as_ref(),
            Isa::Arm => self.arm.as_ref(),
        }
    }
}

/// Creates the sysroot of an instruction set and, if `with_rust`, the Rust compiler, unless they exist. Does nothing
/// for this machine's own instruction set.
pub(crate) fn prepare(
    folders: &Folders,
    isa: Isa,
    with_rust: bool,
    progress: &Progress,
) -> Result<()> {
    if isa.is_native() && !folders.spec.native_sysroot {
        return Ok(());
    }
    let manifest = Manifest::load(&folders.data)?;
    let Some(architecture) = manifest.architecture(isa) else {
        return Ok(());
    };
    // This machine's own Rust compiles for it.
    let with_rust = with_rust && !isa.is_native();
    let (rust, std): (&[Package], &[Package]) = if with_rust {
        (&manifest.rust, &architecture.rust)
    } else {
        (&[], &[])
    };
    let all: Vec<&Package> = architecture.sysroot.iter().chain(rust).chain(std).collect();
    let dir = folders.downloads();
    create_dir(&dir)?;
    let debs = fetch(&all, &dir, progress, || {
        let apt = folders.release.join("apt-cross");
        let architectures = [Isa::X86_64.debian(), isa.debian()];
        let apt = Apt::for_architectures(&apt, &manifest.suites, &architectures)?;
        apt.update()?;
        Ok(apt)
    })?;
    let (sysroot, compiler) = debs.split_at(architecture.sysroot.len());
    let (rust_debs, std_debs) = compiler.split_at(rust.len());
    unpack(&folders.sysroot(isa), sysroot, progress)?;
    if with_rust {
        let base = folders.rust().join("base");
        unpack(&base, rust_debs, progress)?;
        unpack(&folders.rust().join(isa.name()), std_debs, progress)?;
        link_standard_library(folders, isa)?;
        write_wrapper(&base)?;
    }
    Ok(())
}

/// The compiler that [`prepare`] has unpacked: a script that tells the loader where its libraries are.
pub(crate) fn rustc(folders: &Folders) -> PathBuf {
    folders.rust().join("base/rustc")
}

fn write_wrapper(base: &Path) -> Result<()> {
    let text = "#!/bin/sh\nhere=$(dirname \"$(readlink -f \"$0\")\")\n\
        export LD_LIBRARY_PATH=\"$here/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"\n\
        exec \"$here/usr/bin/rustc\" \"$@\"\n";
    let path = base.join("rustc");
    if std::fs::read(&path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    write_atomic(&path, text.as_bytes())?;
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(&path, mode).context("make executable", &path)
}

/// Links the target's standard library beside the compiler's own, where the compiler looks for it.
fn link_standard_library(folders: &Folders, isa: Isa) -> Result<()> {
    let Some(target) = isa.rust_target() else {
        return Ok(());
    };
    let below = Path::new("usr/lib/rustlib").join(target);
    let from = folders.rust().join(isa.name()).join(&below);
    if !from.is_dir() {
        return Err(Error::Other(format!(
            "{} is not there: the packages in cross.toml don't have Rust's standard library for {target}",
            from.display()
        )));
    }
    symlink(&from, &folders.rust().join("base").join(&below))
}

/// Downloads the missing packages, and verifies all.
fn fetch(
    packages: &[&Package],
    dir: &Path,
    progress: &Progress,
    apt: impl FnOnce() -> Result<Apt>,
) -> Result<Vec<Deb>> {
    let missing: Vec<&Package> = packages
        .iter()
        .filter(|package| !dir.join(&package.file).exists() && replacement(package, dir).is_none())
        .copied()
        .collect();
    if !missing.is_empty() {
        progress.message("package lists of other architectures");
        let apt = apt()?;
        progress.message(&format!("{} packages", missing.len()));
        let wanted: Vec<String> = missing
            .iter()
            .map(|package| format!("{}={}", package.name, package.version))
            .collect();
        match apt.binaries(&wanted, dir) {
            Ok(()) => {}
            // At least one package is gone: find out which.
            Err(error) if is_gone(&error) => {
                for package in missing {
                    download(package, &apt, dir, progress)?;
                }
            }
            Err(error) => return Err(error),
        }
    }
    packages.iter().map(|package| find(package, dir)).collect()
}

/// The file that replaces the pinned one.
fn replacement(package: &Package, dir: &Path) -> Option<PathBuf> {
    let name = std::fs::read_to_string(package.note(dir)).ok()?;
    Some(dir.join(name.trim())).filter(|path| path.exists())
}

fn find(package: &Package, dir: &Path) -> Result<Deb> {
    let path = dir.join(&package.file);
    if path.exists() {
        verify(dir, &package.pinned())?;
        return Ok(Deb {
            path,
            sha256: package.sha256.clone(),
        });
    }
    match replacement(package, dir) {
        Some(path) => Ok(Deb {
            sha256: sha256_file(&path)?,
            path,
        }),
        None => Err(Error::Other(format!(
            "apt has not downloaded {}, which cross.toml lists",
            package.file
        ))),
    }
}

fn download(package: &Package, apt: &Apt, dir: &Path, progress: &Progress) -> Result<()> {
    let Package { name, version, .. } = package;
    match apt.binaries(&[format!("{name}={version}")], dir) {
        Err(error) if is_gone(&error) => {}
        other => return other,
    }
    let versions = apt.binary_versions(name)?;
    let Some(other) = versions.iter().find(|v| upstream(v) == upstream(version)) else {
        return Err(Error::Other(format!(
            "Debian's archive has {name} neither in version {version}, which cross.toml lists, nor in \
             another revision of {} (it has: {})",
            upstream(version),
            versions.join(", "),
        )));
    };
    progress.message(&format!("{name} {version} is gone, taking {other}"));
    let work = tempfile::tempdir_in(dir).context("make a folder in", dir)?;
    apt.binaries(&[format!("{name}={other}")], work.path())?;
    let file = std::fs::read_dir(work.path())
        .context("list", work.path())?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .find(|file| file.ends_with(".deb"))
        .ok_or_else(|| Error::Other(format!("apt has not downloaded {name} {other}")))?;
    let to = dir.join(&file);
    std::fs::rename(work.path().join(&file), &to).context("write", &to)?;
    write_atomic(&package.note(dir), file.as_bytes())
}

/// A version without its epoch and Debian's revision.
fn upstream(version: &str) -> &str {
    let version = version
        .split_once(':')
        .map_or(version, |(_, version)| version);
    version
        .rsplit_once('-')
        .map_or(version, |(upstream, _)| upstream)
}

/// Unpacks these packages into the folder `target`, unless it has exactly them.
fn unpack(target: &Path, debs: &[Deb], progress: &Progress) -> Result<()> {
    let mut hash = Sha256::new();
    hash.update(FORMAT);
    for deb in debs {
        hash.update(&deb.sha256);
    }
    let key = hex(&hash.finalize());
    let key_file = target.with_extension("key");
    if target.is_dir() && std::fs::read_to_string(&key_file).is_ok_and(|old| old == key) {
        return Ok(());
    }
    progress.message(&format!("unpacking {} packages", debs.len()));
    let parent = target.parent().unwrap_or(Path::new("."));
    create_dir(parent)?;
    let work = tempfile::Builder::new()
        .prefix(".unpack-")
        .tempdir_in(parent)
        .context("make a folder in", parent)?;
    // `include` is for Ninja, which simplifies the compiler's `lib/gcc/…/../../../../include` to `include` although
    // `lib` is a link.
    for dir in ["lib", "lib64", "bin", "sbin", "include"] {
        create_dir(&work.path().join("usr").join(dir))?;
        symlink(&Path::new("usr").join(dir), &work.path().join(dir))?;
    }
    for deb in debs {
        unpack_deb(&deb.path, work.path(), &UNPACKED)?;
    }
    make_links_relative(work.path())?;
    remove(&key_file)?;
    remove(target)?;
    let path = work.keep();
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(&path, mode).context("open up", &path)?;
    std::fs::rename(&path, target).context("write", target)?;
    write_atomic(&key_file, key.as_bytes())
}

/// Absolute links would lead out of the folder.
fn make_links_relative(root: &Path) -> Result<()> {
    for entry in walkdir::WalkDir::new(root) {
        let entry = entry.map_err(|error| Error::Other(error.to_string()))?;
        if !entry.path_is_symlink() {
            continue;
        }
        let target = std::fs::read_link(entry.path()).context("read", entry.path())?;
        let Ok(below) = target.strip_prefix("/") else {
            continue;
        };
        let depth = entry.depth().saturating_sub(1);
        let up: PathBuf = std::iter::repeat_n("..", depth).collect();
        symlink(&up.join(below), entry.path())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("android-10")
    }

    #[test]
    fn the_pinned_packages_are_complete() {
        let manifest = Manifest::load(&data()).unwrap();
        for isa in [Isa::Arm64, Isa::Arm] {
            let architecture = manifest.architecture(isa).unwrap();
            for package in architecture.sysroot.iter().chain(&architecture.rust) {
                assert_eq!(package.sha256.len(), 64, "{}", package.file);
                let suffix = format!("_{}.deb", isa.debian());
                let all = package.file.ends_with("_all.deb") && !package.name.contains(':');
                assert!(all || package.file.ends_with(&suffix), "{}", package.file);
                assert!(
                    all || package.name.ends_with(&format!(":{}", isa.debian())),
                    "{}",
                    package.name
                );
            }
        }
        assert_eq!(
            manifest.arm64.as_ref().unwrap().sysroot.len(),
            manifest.arm.as_ref().unwrap().sysroot.len(),
            "the same libraries for both"
        );
    }

    /// Takes a revision that the archive has replaced, as it will replace the pinned ones.
    #[test]
    #[ignore = "downloads 18 MB of package lists from Debian's archive"]
    fn a_vanished_revision_is_replaced_by_one_of_the_same_version() {
        let dir = tempfile::tempdir().unwrap();
        let package = |version: &str| Package {
            name: "liblz4-1:arm64".into(),
            version: version.into(),
            file: format!("liblz4-1_{version}_arm64.deb"),
            sha256: "0".repeat(64),
        };
        let lists = dir.path().join("apt");
        let apt = || {
            let apt =
                Apt::for_architectures(&lists, &["bookworm".to_owned()], &["amd64", "arm64"])?;
            apt.update()?;
            Ok(apt)
        };
        let no_apt = || Err(Error::Other("no network is needed".to_owned()));
        let downloads = dir.path().join("downloads");
        create_dir(&downloads).unwrap();
        let (gone, progress) = (package("1.9.4-0"), Progress::new());
        let debs = fetch(&[&gone], &downloads, &progress, apt).unwrap();
        let name = debs[0]
            .path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        assert!(
            name.starts_with("liblz4-1_1.9.4-") && name != gone.file,
            "{name}"
        );
        // Found again without the network.
        let again = fetch(&[&gone], &downloads, &progress, no_apt).unwrap();
        assert_eq!(again[0].sha256, debs[0].sha256);
        unpack(&dir.path().join("sysroot"), &again, &progress).unwrap();
        let library = dir
            .path()
            .join("sysroot/usr/lib/aarch64-linux-gnu/liblz4.so.1");
        assert!(library.exists());

        let unknown = package("7.7.7-1");
        let result = fetch(&[&unknown], &downloads, &progress, || {
            Apt::for_architectures(&lists, &["bookworm".to_owned()], &["amd64", "arm64"])
        });
        let message = result.err().unwrap().to_string();
        assert!(
            message.contains("liblz4-1:arm64 neither in version 7.7.7-1")
                && message.contains("it has: 1.9.4-"),
            "{message}"
        );
    }

    #[test]
    fn another_revision_of_a_version_may_stand_in_for_it() {
        assert_eq!(upstream("1:1.2.13.dfsg-1"), "1.2.13.dfsg");
        assert_eq!(upstream("2.36-9+deb12u14"), upstream("2.36-9+deb12u15"));
        assert_ne!(upstream("72.1-3"), upstream("72.2-3"));
        assert_eq!(upstream("10.0.0+r36-4"), "10.0.0+r36");
    }

    #[test]
    fn absolute_links_are_made_relative() {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("usr/lib/x/libx.so.1");
        create_dir(library.parent().unwrap()).unwrap();
        std::fs::write(&library, "x").unwrap();
        let absolute = dir.path().join("usr/lib/x/libx.so");
        symlink(Path::new("/usr/lib/x/libx.so.1"), &absolute).unwrap();
        let relative = dir.path().join("usr/lib/x/liby.so");
        symlink(Path::new("libx.so.1"), &relative).unwrap();
        make_links_relative(dir.path()).unwrap();
        assert_eq!(
            std::fs::read_link(&absolute).unwrap(),
            Path::new("../../../usr/lib/x/libx.so.1")
        );
        assert_eq!(std::fs::read(&absolute).unwrap(), b"x");
        assert_eq!(
            std::fs::read_link(&relative).unwrap(),
            Path::new("libx.so.1")
        );
    }

    #[test]
    fn a_changed_package_is_found_named_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let package = Package {
            name: "x:arm64".into(),
            version: "1-1".into(),
            file: "x_1-1_arm64.deb".into(),
            sha256: "0".repeat(64),
        };
        let path = dir.path().join(&package.file);
        std::fs::write(&path, "not it").unwrap();
        let no_network = || Err(Error::Other("no network is needed".to_owned()));
        let result = fetch(&[&package], dir.path(), &Progress::new(), no_network);
        let message = result.err().unwrap().to_string();
        assert!(
            message.contains("x_1-1_arm64.deb has the wrong checksum"),
            "{message}"
        );
        assert!(!path.exists());
    }
}
