// SPDX-License-Identifier: Apache-2.0
//! Pristine sources from Debian's archive, pinned by their SHA-256 sums. The patches are checked against them.

use crate::runner::output;
use anyhow::{bail, ensure, Context as _, Result};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's archive.
pub(crate) const MIRROR: &str = "http://deb.debian.org/debian";
const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

/// The list of pristine projects in a checkout: `aosp-patches/sources.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sources {
    pub(crate) source: Vec<Source>,
}

impl Sources {
    /// Where the list is.
    pub(crate) fn path(checkout: &Path) -> PathBuf {
        checkout.join("aosp-patches/sources.toml")
    }

    pub(crate) fn load(checkout: &Path) -> Result<Sources> {
        let file = Sources::path(checkout);
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        toml::from_str(&text).with_context(|| format!("{}", file.display()))
    }
}

/// A project of a release, as Debian packages it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Source {
    pub(crate) release: u32,
    pub(crate) project: String,
    pub(crate) path: String,
    pub(crate) sha256: String,
    /// How many folders the paths in the tarball begin with.
    #[serde(default)]
    pub(crate) strip: usize,
}

impl Source {
    pub(crate) fn tarball(&self) -> Tarball {
        Tarball {
            path: self.path.clone(),
            sha256: self.sha256.clone(),
        }
    }
}

/// A file of Debian's archive.
#[derive(Clone, Debug)]
pub(crate) struct Tarball {
    /// Its path in the archive, `pool/…`.
    pub(crate) path: String,
    /// The SHA-256 sum of its bytes, in hexadecimal.
    pub(crate) sha256: String,
}

impl Tarball {
    /// The file's name.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The file in the cache (`$HINDSIGHT_CACHE`, or `~/.cache/hindsight`), if it is there and has the sum.
    ///
    /// # Errors
    /// If no folder for the cache is known.
    fn cached(&self) -> Result<Option<PathBuf>> {
        let cache = cache()?;
        // The lab downloads some of the same files.
        let labs = std::fs::read_dir(cache.join("lab"))
            .into_iter()
            .flatten()
            .flatten();
        let folders = labs
            .map(|lab| lab.path().join("downloads"))
            .chain([cache.join("pristine")]);
        Ok(folders
            .map(|folder| folder.join(self.name()))
            .find(|file| std::fs::read(file).is_ok_and(|bytes| hex(&bytes) == self.sha256)))
    }

    /// The file in the cache; downloaded by apt from `mirror` if it is not there.
    ///
    /// # Errors
    /// If it can't be downloaded, or has another sum.
    pub(crate) fn fetch(&self, mirror: &str) -> Result<PathBuf> {
        if let Some(file) = self.cached()? {
            return Ok(file);
        }
        if !Path::new(APT_HELPER).exists() {
            bail!("no {APT_HELPER}: the sources come from Debian's archive, with apt");
        }
        let dir = cache()?.join("pristine");
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let partial = dir.join(format!("{}.{}.partial", self.name(), std::process::id()));
        println!("downloading {}", self.name());
        let url = format!("{mirror}/{}", self.path);
        output(
            Command::new(APT_HELPER)
                .args(["-o", "APT::Sandbox::User=root", "download-file", &url])
                .arg(&partial)
                .arg(format!("SHA256:{}", self.sha256)),
        )?;
        let bytes = std::fs::read(&partial)
            .with_context(|| format!("cannot read {}", partial.display()))?;
        ensure!(
            hex(&bytes) == self.sha256,
            "{url} has another SHA-256 sum than the one pinned for it"
        );
        let file = dir.join(self.name());
        std::fs::rename(&partial, &file)
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }
}

fn cache() -> Result<PathBuf> {
    match (
        std::env::var_os("HINDSIGHT_CACHE"),
        std::env::var_os("HOME"),
    ) {
        (Some(dir), _) if !dir.is_empty() => Ok(PathBuf::from(dir)),
        (_, Some(home)) => Ok(Path::new(&home).join(".cache/hindsight")),
        _ => bail!("neither HINDSIGHT_CACHE nor HOME is set: one of them must name the folder for downloads"),
    }
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Unpacks the files that `wanted` selects by their path without its first `strip` folders.
///
/// # Errors
/// If tar fails, or the tarball has none of them.
pub(crate) fn unpack(
    tarball: &Path,
    strip: usize,
    wanted: &dyn Fn(&str) -> bool,
    to: &Path,
) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let list = output(Command::new("tar").arg("-tf").arg(tarball))?;
    let mut members = Vec::new();
    for member in list.lines() {
        let plain = member.strip_prefix("./").unwrap_or(member);
        let inside = plain.splitn(strip + 1, '/').nth(strip).unwrap_or("");
        if wanted(inside) {
            members.push(member);
        }
    }
    ensure!(
        !members.is_empty(),
        "{} has none of the files that are patched",
        tarball.display()
    );
    let dots = usize::from(members[0].starts_with("./"));
    let mut command = Command::new("tar");
    command
        .args(["--no-same-owner", "-xf"])
        .arg(tarball)
        .arg("-C")
        .arg(to);
    command
        .arg(format!("--strip-components={}", strip + dots))
        .args(members);
    output(&mut command).map(drop)
}
