// SPDX-License-Identifier: Apache-2.0
//! `lab/<release>/sources.toml` and `packages.txt`: the packages to fetch, and the packages that must be installed.

use crate::error::{Error, Result};
use crate::util::read;
use serde::Deserialize;
use std::path::Path;

/// The contents of `sources.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The Debian suites that the packages come from.
    pub(crate) suites: Vec<String>,
    #[serde(rename = "package")]
    pub(crate) packages: Vec<Package>,
}

/// A package of the archive, as a source tree of the lab.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Package {
    /// The folder that it is unpacked to, under `src/`.
    pub(crate) folder: String,
    /// The package's name in the archive.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Versions, the best first. The first one that the archive still has is taken.
    #[serde(rename = "version")]
    pub(crate) versions: Vec<Version>,
    /// Debian's patches that are not applied, with the reason beside them in the file.
    #[serde(default)]
    pub(crate) skip_patches: Vec<String>,
    /// Whether Debian's patches are applied at all.
    #[serde(default)]
    pub(crate) debian_patches: bool,
    /// The files of Debian's own folder to keep, because its patches refer to them.
    #[serde(default)]
    pub(crate) debian_files: Vec<String>,
    /// Top-level folders to leave out of the tarball's paths.
    #[serde(default)]
    pub(crate) strip: usize,
    /// The files to unpack (patterns of `tar --wildcards`); all if empty.
    #[serde(default)]
    pub(crate) members: Vec<String>,
    /// If the archive has none of the versions, any version with this prefix is accepted whose unpacked files have the
    /// hash `members_sha256`.
    #[serde(default)]
    pub(crate) any_version: Option<String>,
    /// The hash of the unpacked files (see `source::tree_hash`).
    #[serde(default)]
    pub(crate) members_sha256: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// A source package: tarball and Debian's changes.
    Source,
    /// Only the upstream tarball of a source package.
    Tarball,
    /// A binary package, unpacked and not installed.
    Binary,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Version {
    pub(crate) version: String,
    #[serde(rename = "file")]
    pub(crate) files: Vec<PinnedFile>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PinnedFile {
    pub(crate) name: String,
    pub(crate) sha256: String,
}

impl PinnedFile {
    /// Whether this is the upstream tarball or the binary package, rather than Debian's part.
    pub(crate) fn is_main(&self) -> bool {
        self.name.contains(".orig.tar") || self.name.ends_with(".deb")
    }
}

impl Manifest {
    pub(crate) fn load(data: &Path) -> Result<Manifest> {
        let path = data.join("sources.toml");
        toml::from_str(&read(&path)?)
            .map_err(|error| Error::Other(format!("{}: {error}", path.display())))
    }

    pub(crate) fn package(&self, folder: &str) -> Result<&Package> {
        self.packages
            .iter()
            .find(|package| package.folder == folder)
            .ok_or_else(|| Error::Other(format!("sources.toml has no package for `{folder}`")))
    }
}

/// The packages in `packages.txt`: one a line, `#` starts a comment; `a | b` means either.
pub(crate) fn required_packages(data: &Path) -> Result<Vec<Vec<String>>> {
    Ok(read(&data.join("packages.txt"))?
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .filter(|line| !line.is_empty())
        .map(|line| line.split('|').map(|name| name.trim().to_owned()).collect())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Release;

    #[test]
    fn the_pinned_manifests_are_complete() {
        for release in Release::ALL {
            let data = Path::new(env!("CARGO_MANIFEST_DIR")).join(release.name());
            let manifest = Manifest::load(&data).unwrap();
            for folder in release.spec().shared_sources.iter().chain(&["art"]) {
                manifest.package(folder).unwrap();
            }
            for package in &manifest.packages {
                let name = &package.name;
                for version in &package.versions {
                    let main = version.files.iter().filter(|f| f.is_main()).count();
                    assert_eq!(main, 1, "{name}");
                    for file in &version.files {
                        assert_eq!(file.sha256.len(), 64, "{}", file.name);
                    }
                }
                if package.any_version.is_some() {
                    let hash = &package.members_sha256;
                    assert!(hash.is_some(), "{name}: nothing to check against");
                }
            }
            assert!(required_packages(&data)
                .unwrap()
                .iter()
                .any(|names| names[0] == "ninja-build"));
        }
    }
}
