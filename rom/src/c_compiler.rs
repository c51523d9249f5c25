// SPDX-License-Identifier: Apache-2.0
//! The compiler for the C code and the assembly of crates for Android: any clang. The code needs no headers or libraries of
//! Android: the crate ring is told so as it tells itself for other targets without a sysroot.

use anyhow::{anyhow, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// No header of the build machine is used by mistake: clang's own stay. ring then leaves out the only header of C's library
/// that it includes, assert.h.
const FLAGS: &str = "-nostdlibinc -DRING_CORE_NOSTDLIBINC=1";
/// For 32-bit ARM: without them the build scripts name a processor without the instructions that Android demands. The floating-point
/// unit and the calling convention are those of Rust's target.
const ARMV7_FLAGS: &str = "--target=armv7a-linux-androideabi -mfpu=vfpv3-d16 -mfloat-abi=softfp";

/// clang, and the archiver of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CCompiler {
    clang: PathBuf,
    archiver: PathBuf,
}

impl CCompiler {
    /// Those in `PATH`: without a version in their name, or else the newest.
    ///
    /// # Errors
    /// If there is none, with the remedy.
    pub(crate) fn find() -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let program = |name: &str| {
            newest(&folders, name).ok_or_else(|| {
                anyhow!(
                    "no {name} or {name}-N in PATH, for the C code of the uploader's TLS library: install Debian's packages \
                     clang and llvm"
                )
            })
        };
        Ok(CCompiler {
            clang: program("clang")?,
            archiver: program("llvm-ar")?,
        })
    }

    /// The variables by which build scripts of crates find both. A compiler that is already named for the target stays.
    pub(crate) fn environment(&self, triple: &str) -> Vec<(String, OsString)> {
        let target = triple.replace('-', "_");
        if std::env::var_os(format!("CC_{target}")).is_some() {
            return Vec::new();
        }
        let flags = match triple.starts_with("armv7") {
            true => format!("{FLAGS} {ARMV7_FLAGS}"),
            false => FLAGS.to_owned(),
        };
        vec![
            (format!("CC_{target}"), self.clang.clone().into()),
            (format!("AR_{target}"), self.archiver.clone().into()),
            (format!("CFLAGS_{target}"), flags.into()),
        ]
    }
}

/// The program of this name in one of the folders, or else the one with the highest version: `clang-14`.
fn newest(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    let plain = folders.iter().map(|folder| folder.join(name));
    if let Some(found) = plain.into_iter().find(|path| path.is_file()) {
        return Some(found);
    }
    let all = folders.iter().flat_map(|folder| versions(folder, name));
    all.max_by_key(|(version, _)| *version)
        .map(|(_, path)| path)
}

fn versions(folder: &Path, name: &str) -> Vec<(u32, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let version = |path: &Path| {
        let rest = path.file_name()?.to_str()?.strip_prefix(name)?;
        rest.strip_prefix('-')?.parse().ok()
    };
    entries
        .map(|entry| entry.path())
        .filter_map(|path| Some((version(&path)?, path)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_name_is_taken_first_and_then_the_highest_version() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let paths = folders.each_ref().map(|folder| folder.path().to_owned());
        assert_eq!(newest(&paths, "clang"), None);
        for (at, name) in [
            (0, "clang-9"),
            (1, "clang-14"),
            (0, "clang-cpp-15"),
            (0, "clang++-16"),
        ] {
            std::fs::write(paths[at].join(name), "").unwrap();
        }
        assert_eq!(newest(&paths, "clang"), Some(paths[1].join("clang-14")));
        std::fs::write(paths[1].join("clang"), "").unwrap();
        assert_eq!(newest(&paths, "clang"), Some(paths[1].join("clang")));
    }
}
