// SPDX-License-Identifier: Apache-2.0
//! Source trees: unpacks, patches and updates them without touching unchanged files.

use super::fetch::{fetch_all, Fetched};
use super::manifest::{Kind, Manifest, Package};
use crate::error::{Error, IoContext, Result};
use crate::layout::Folders;
use crate::lock::Lock;
use crate::progress::Progress;
use crate::spec::{Release, Variant};
use crate::util::{create_dir, hex, read, remove, run, sha256_file, write_atomic};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of the unpacking: a change makes old trees be updated.
const FORMAT: &str = "1";

/// A source tree to create or update.
pub(crate) struct Tree<'a> {
    pub(crate) package: &'a Package,
    pub(crate) fetched: &'a Fetched,
    /// Patches on top of Debian's, in order.
    pub(crate) patches: Vec<PathBuf>,
    /// The folder of the tree.
    pub(crate) target: PathBuf,
}

impl Tree<'_> {
    /// A hash of all inputs of the tree.
    fn key(&self) -> Result<String> {
        let mut hash = Sha256::new();
        hash.update(FORMAT);
        hash.update(&self.fetched.identity);
        hash.update(format!("{:?}", self.package));
        for patch in &self.patches {
            hash.update(patch.file_name().unwrap_or_default().as_encoded_bytes());
            hash.update([0]);
            hash.update(std::fs::read(patch).context("read", patch)?);
        }
        Ok(hex(&hash.finalize()))
    }

    fn key_file(&self) -> PathBuf {
        let name = self
            .target
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        self.target.with_file_name(format!(".{name}.key"))
    }

    /// Creates the tree or updates it. Returns whether it did anything.
    ///
    /// Files with unchanged contents keep their time stamps, so that a changed patch recompiles only the files that it
    /// affects.
    pub(crate) fn update(&self, progress: &Progress) -> Result<bool> {
        let key = self.key()?;
        let key_file = self.key_file();
        let real = std::fs::symlink_metadata(&self.target).is_ok_and(|data| data.is_dir());
        if real && std::fs::read_to_string(&key_file).is_ok_and(|old| old == key) {
            return Ok(false);
        }
        progress.message(&format!("unpacking {}", self.package.folder));
        let parent = self.target.parent().unwrap_or(Path::new("."));
        create_dir(parent)?;
        sweep(parent)?;
        let work = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempdir_in(parent)
            .context("make a folder in", parent)?;
        unpack(self.package, self.fetched, work.path())?;
        for patch in &self.patches {
            apply(patch, &self.package.folder, work.path())?;
        }
        remove(&key_file)?;
        if real {
            synchronize(work.path(), &self.target)?;
        } else {
            // A link (of `--art-src`) may be in the way.
            remove(&self.target)?;
            let path = work.keep();
            let mode =
                <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
            std::fs::set_permissions(&path, mode).context("open up", &path)?;
            std::fs::rename(&path, &self.target).context("write", &self.target)?;
        }
        write_atomic(&key_file, key.as_bytes())?;
        Ok(true)
    }
}

const TEMPORARY: &str = ".unpack-";

/// Removes temporary folders of interrupted runs.
fn sweep(parent: &Path) -> Result<()> {
    for entry in std::fs::read_dir(parent).context("list", parent)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// The patches in a folder, in the order of their names; none if there is no such folder.
pub(crate) fn patches_in(dir: &Path) -> Result<Vec<PathBuf>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut patches: Vec<PathBuf> = std::fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| entry.map(|e| e.path())).collect())
        .context("list", dir)?;
    patches.retain(|path| path.extension().is_some_and(|e| e == "patch"));
    patches.sort();
    Ok(patches)
}

/// The patches that port a source folder to Debian.
pub(crate) fn port_patches(folders: &Folders, folder: &str) -> Result<Vec<PathBuf>> {
    let own = patches_in(&folders.data.join("port").join(folder))?;
    let ported_as = folders.spec.ported_as.iter();
    let Some((_, other)) = ported_as.into_iter().find(|(name, _)| *name == folder) else {
        return Ok(own);
    };
    let lab = folders.checkout.join("lab");
    let mut patches = patches_in(&lab.join(other).join("port").join(folder))?;
    patches.extend(own);
    Ok(patches)
}

/// The patches that put Hindsight into a source folder.
pub(crate) fn hindsight_patches(
    folders: &Folders,
    release: Release,
    folder: &str,
) -> Result<Vec<PathBuf>> {
    patches_in(
        &folders
            .checkout
            .join("aosp-patches")
            .join(release.name())
            .join(folder),
    )
}

/// Unpacks a package with Debian's patches.
fn unpack(package: &Package, fetched: &Fetched, to: &Path) -> Result<()> {
    if package.kind == Kind::Binary {
        let mut command = Command::new("dpkg-deb");
        command.arg("-x").arg(&fetched.main).arg(to);
        run(command, &format!("unpacking {}", fetched.main.display()))?;
        return Ok(());
    }
    let mut command = tar(&fetched.main, to);
    command.arg(format!("--strip-components={}", package.strip));
    if !package.members.is_empty() {
        command.arg("--wildcards").args(&package.members);
    }
    run(command, &format!("unpacking {}", fetched.main.display()))?;
    if let Some(expected) = &package.members_sha256 {
        let got = tree_hash(to)?;
        if got != *expected {
            // A pinned tarball has been verified, so its hash in sources.toml is wrong.
            return Err(Error::Other(format!(
                "the files of {} in {} have the hash {got}, not {expected} as sources.toml says{}",
                package.name,
                fetched.main.display(),
                if fetched.pinned {
                    ""
                } else {
                    "; this version can't take the pinned one's place"
                },
            )));
        }
    }
    if package.debian_patches {
        let Some(debian) = &fetched.debian else {
            return Err(Error::Other(format!(
                "{} comes without Debian's part",
                package.name
            )));
        };
        let parts = tempfile::tempdir_in(to).context("make a folder in", to)?;
        run(
            tar(debian, parts.path()),
            &format!("unpacking {}", debian.display()),
        )?;
        let patches = parts.path().join("debian/patches");
        for line in read(&patches.join("series"))?.lines() {
            let name = line.split('#').next().unwrap_or("").trim();
            if !name.is_empty() && !package.skip_patches.iter().any(|skip| skip == name) {
                apply(&patches.join(name), &package.folder, to)?;
            }
        }
        for file in &package.debian_files {
            let (from, to) = (
                parts.path().join("debian").join(file),
                to.join("debian").join(file),
            );
            create_dir(to.parent().unwrap_or(&to))?;
            std::fs::rename(&from, &to).context("move", &from)?;
        }
    }
    Ok(())
}

fn tar(archive: &Path, to: &Path) -> Command {
    let mut command = Command::new("tar");
    // -m sets the present time, since Ninja compares times.
    command
        .args(["--no-same-owner", "-xmf"])
        .arg(archive)
        .arg("-C")
        .arg(to);
    command
}

fn apply(patch: &Path, repo: &str, dir: &Path) -> Result<()> {
    let mut command = Command::new("patch");
    command.args([
        "-p1",
        "--batch",
        "--forward",
        // Every line of context must match: with fuzz, a hunk may land in a wrong place.
        "--fuzz=0",
        "--no-backup-if-mismatch",
        "--reject-file=-",
    ]);
    command.arg("-i").arg(patch).current_dir(dir);
    match run(command, "patch") {
        Ok(_) => Ok(()),
        Err(Error::Program { output, .. }) => Err(Error::Patch {
            patch: patch.to_owned(),
            repo: repo.to_owned(),
            output,
        }),
        Err(other) => Err(other),
    }
}

/// The hash of a tree: of the sorted list of its files' paths and SHA-256 sums.
pub(crate) fn tree_hash(dir: &Path) -> Result<String> {
    let mut lines = Vec::new();
    for entry in walkdir::WalkDir::new(dir) {
        let entry = entry.map_err(|error| Error::Other(error.to_string()))?;
        if entry.file_type().is_file() {
            let path = entry.path().strip_prefix(dir).unwrap_or(entry.path());
            lines.push(format!(
                "{} {}\n",
                path.display(),
                sha256_file(entry.path())?
            ));
        }
    }
    lines.sort();
    Ok(hex(&Sha256::digest(lines.concat())))
}

/// Makes `target` equal to `new`: moves the differing files over, and removes the others.
fn synchronize(new: &Path, target: &Path) -> Result<()> {
    let mut wanted = HashSet::new();
    for entry in walkdir::WalkDir::new(new).min_depth(1) {
        let entry = entry.map_err(|error| Error::Other(error.to_string()))?;
        let path = entry
            .path()
            .strip_prefix(new)
            .unwrap_or(entry.path())
            .to_owned();
        let to = target.join(&path);
        if entry.file_type().is_dir() {
            if !std::fs::symlink_metadata(&to).is_ok_and(|data| data.is_dir()) {
                remove(&to)?;
                create_dir(&to)?;
            }
        } else if !same(entry.path(), &to)? {
            remove(&to)?;
            std::fs::rename(entry.path(), &to).context("write", &to)?;
        }
        wanted.insert(path);
    }
    for entry in walkdir::WalkDir::new(target)
        .min_depth(1)
        .contents_first(true)
    {
        let entry = entry.map_err(|error| Error::Other(error.to_string()))?;
        let path = entry.path().strip_prefix(target).unwrap_or(entry.path());
        if !wanted.contains(path) {
            remove(entry.path())?;
        }
    }
    Ok(())
}

fn same(new: &Path, old: &Path) -> Result<bool> {
    let Ok(old_data) = std::fs::symlink_metadata(old) else {
        return Ok(false);
    };
    let new_data = std::fs::symlink_metadata(new).context("look at", new)?;
    if new_data.file_type() != old_data.file_type() {
        return Ok(false);
    }
    if new_data.is_symlink() {
        return Ok(std::fs::read_link(new).ok() == std::fs::read_link(old).ok());
    }
    Ok(new_data.len() == old_data.len()
        && new_data.permissions() == old_data.permissions()
        && std::fs::read(new).context("read", new)? == std::fs::read(old).context("read", old)?)
}

/// Creates a git work tree of ART in `dir` for development: the sources with Debian's patches as the first commit,
/// then one commit for each of our patches. Build it with `--art-src`.
///
/// # Errors
/// If `dir` exists and isn't empty, or a patch doesn't apply.
pub fn checkout(release: Release, variant: Variant, dir: &Path) -> Result<()> {
    let folders = Folders::new(release)?;
    let manifest = Manifest::load(&folders.data)?;
    let progress = Progress::new();
    let fetched = {
        let _lock = Lock::take(&folders.release)?;
        fetch_all(&folders, &manifest, &progress)?
    };
    let package = manifest.package("art")?;
    let fetched = &fetched
        .iter()
        .find(|(folder, _)| folder == "art")
        .ok_or_else(|| Error::Other("art has not been fetched".to_owned()))?
        .1;
    if std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Error::Other(format!("{} is not empty", dir.display())));
    }
    create_dir(dir)?;
    progress.message("unpacking art");
    unpack(package, fetched, dir)?;
    let git = |args: &[&str], last: Option<&Path>| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Hindsight authors"]);
        command.args([
            "-c",
            "user.email=authors@hindsight.invalid",
            "-c",
            "commit.gpgsign=false",
        ]);
        command.args(args).args(last).current_dir(dir);
        run(command, &format!("git {}", args.join(" ")))
    };
    git(&["init", "-q"], None)?;
    git(&["add", "-A", "-f"], None)?;
    git(&["commit", "-q", "-m", "ART as Debian packages it"], None)?;
    git(&["tag", "debian"], None)?;
    for patch in port_patches(&folders, "art")? {
        git(&["am", "-q"], Some(&patch))?;
    }
    git(&["tag", "port"], None)?;
    if variant == Variant::Hindsight {
        for patch in hindsight_patches(&folders, release, "art")? {
            git(&["am", "-q"], Some(&patch))?;
        }
    }
    progress.finish();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dir: &Path, path: &str, text: &str) {
        let path = dir.join(path);
        create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn time(path: &Path) -> std::time::SystemTime {
        std::fs::metadata(path).unwrap().modified().unwrap()
    }

    #[test]
    fn synchronizing_touches_only_what_differs() {
        let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        file(old.path(), "same.cc", "same");
        file(old.path(), "changed.cc", "old text");
        file(old.path(), "gone/deep/x.cc", "x");
        file(old.path(), "becomes_dir", "x");
        // A time in the past, so that a rewritten file is recognized without waiting.
        let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        for name in ["same.cc", "changed.cc"] {
            let file = std::fs::File::options()
                .write(true)
                .open(old.path().join(name))
                .unwrap();
            file.set_modified(past).unwrap();
        }
        file(new.path(), "same.cc", "same");
        file(new.path(), "changed.cc", "new text");
        file(new.path(), "added/y.cc", "y");
        file(new.path(), "becomes_dir/z", "z");
        let expected = tree_hash(new.path()).unwrap();

        synchronize(new.path(), old.path()).unwrap();
        assert_eq!(tree_hash(old.path()).unwrap(), expected);
        assert_eq!(time(&old.path().join("same.cc")), past);
        assert_ne!(time(&old.path().join("changed.cc")), past);
        assert!(!old.path().join("gone").exists());
    }

    #[test]
    fn a_patch_that_needs_fuzz_does_not_apply() {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path(), "repo/a.txt", "one\ntwo\nthree\nfour\n5\n");
        let change = "@@ -1,5 +1,6 @@\n one\n two\n three\n+ours\n four\n five\n";
        file(
            dir.path(),
            "fuzzy.patch",
            &format!("--- a/a.txt\n+++ b/a.txt\n{change}"),
        );
        let (patch, repo) = (dir.path().join("fuzzy.patch"), dir.path().join("repo"));
        assert!(apply(&patch, "art", &repo).is_err());
        file(&repo, "a.txt", "one\ntwo\nthree\nfour\nfive\n");
        apply(&patch, "art", &repo).unwrap();
    }

    #[test]
    fn a_patch_that_does_not_apply_is_named() {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path(), "repo/a.txt", "one\ntwo\n");
        file(
            dir.path(),
            "bad.patch",
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-uno\n+eins\n two\n",
        );
        let error = apply(
            &dir.path().join("bad.patch"),
            "art",
            &dir.path().join("repo"),
        )
        .unwrap_err();
        assert!(matches!(&error, Error::Patch { .. }));
        assert!(
            error
                .to_string()
                .contains("bad.patch does not apply to art"),
            "{error}"
        );
        // Only the original is left.
        assert_eq!(
            std::fs::read_dir(dir.path().join("repo")).unwrap().count(),
            1
        );
    }
}
