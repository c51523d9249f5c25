// SPDX-License-Identifier: Apache-2.0
//! The files that become `external/hindsight` in the tree: ART's hooks, the boot jar, build files.
//!
//! They are copied, since Soong does not follow links out of the tree. A list of the copies, with their
//! hashes, lies among them: a later run updates files that have changed in the checkout, and refuses to
//! overwrite a copy that somebody has changed.

use crate::release::Release;
use crate::runner::write_atomic;
use anyhow::{anyhow, bail, Context, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder of the overlay in the tree.
pub const PATH: &str = "external/hindsight";
const LIST: &str = ".hindsight-overlay.json";

/// The overlay of one release: paths in the tree, and the files that they are copies of.
#[derive(Clone, Debug)]
pub struct Overlay {
    dir: PathBuf,
    files: BTreeMap<String, PathBuf>,
}

/// The effect of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Files written.
    pub written: usize,
    /// Files removed.
    pub removed: usize,
}

impl Overlay {
    /// The files of `checkout` for this release: `art-hooks/{cc,include,java}`, `aosp/common/` and
    /// `aosp/android-NN/`; of two with the same path, the later one.
    ///
    /// # Errors
    /// If a folder can't be read.
    pub fn of(checkout: &Path, tree: &Path, release: Release) -> Result<Overlay> {
        let mut files = BTreeMap::new();
        let mut add = |from: PathBuf, to: &str| -> Result<()> {
            for entry in walkdir::WalkDir::new(&from) {
                let entry = entry.with_context(|| format!("cannot list {}", from.display()))?;
                if entry.file_type().is_file() {
                    let inside = entry.path().strip_prefix(&from).unwrap_or(entry.path());
                    files.insert(format!("{to}{}", inside.display()), entry.path().to_owned());
                }
            }
            Ok(())
        };
        for folder in ["cc", "include", "java"] {
            add(
                checkout.join("art-hooks").join(folder),
                &format!("art-hooks/{folder}/"),
            )?;
        }
        add(checkout.join("aosp/common"), "")?;
        let own = checkout.join("aosp").join(release.name());
        if own.is_dir() {
            add(own, "")?;
        }
        Ok(Overlay {
            dir: tree.join(PATH),
            files,
        })
    }

    /// The paths of the files, below [`PATH`].
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The files: their paths below [`PATH`], and the files of the checkout that they are copies of.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.files
            .iter()
            .map(|(path, from)| (path.as_str(), from.as_path()))
    }

    /// Whether anything would be written or removed.
    ///
    /// # Errors
    /// As [`Overlay::update`].
    pub fn is_current(&self) -> Result<bool> {
        Ok(self.work()? == (Vec::new(), Vec::new()))
    }

    /// Updates the copy.
    ///
    /// # Errors
    /// If files there are not ours or have been changed: then none is touched.
    pub fn update(&self) -> Result<Change> {
        let (write, remove) = self.work()?;
        if write.is_empty() && remove.is_empty() {
            return Ok(Change::default());
        }
        // The list first holds the old and the new, so that an interrupted run knows its own files.
        let new = self.hashes()?;
        let mut both = read_list(&self.dir)?.unwrap_or_default();
        for (path, hashes) in &new {
            let known = both.entry(path.clone()).or_default();
            known.extend(hashes.clone());
            known.dedup();
        }
        write_list(&self.dir, &both)?;
        for path in &write {
            let from = &self.files[path];
            let bytes =
                std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
            write_atomic(&self.dir.join(path), &bytes)?;
        }
        for path in &remove {
            remove_file(&self.dir, path)?;
        }
        write_list(&self.dir, &new)?;
        Ok(Change {
            written: write.len(),
            removed: remove.len(),
        })
    }

    /// Removes the files that [`Overlay::update`] has written, for any release. Other files stay, such as
    /// the compiled libraries, which [`crate::rust_libs`] removes.
    ///
    /// # Errors
    /// If one of the files has been changed: then nothing is touched.
    pub fn remove(tree: &Path) -> Result<Change> {
        let dir = tree.join(PATH);
        let Some(list) = read_list(&dir)? else {
            return Ok(Change::default());
        };
        let mut changed = Vec::new();
        for (path, hashes) in &list {
            if hash_of(&dir.join(path))?.is_some_and(|hash| !hashes.contains(&hash)) {
                changed.push(path.as_str());
            }
        }
        refuse(&dir, &changed)?;
        let mut removed = 0;
        for path in list.keys() {
            removed += usize::from(remove_file(&dir, path)?);
        }
        std::fs::remove_file(dir.join(LIST)).with_context(|| format!("cannot remove {LIST}"))?;
        let _ = std::fs::remove_dir(&dir);
        Ok(Change {
            written: 0,
            removed,
        })
    }

    fn hashes(&self) -> Result<BTreeMap<String, Vec<String>>> {
        self.files
            .iter()
            .map(|(path, from)| {
                let hash =
                    hash_of(from)?.ok_or_else(|| anyhow!("{} has vanished", from.display()))?;
                Ok((path.clone(), vec![hash]))
            })
            .collect()
    }

    /// The files to write, and the files to remove.
    fn work(&self) -> Result<(Vec<String>, Vec<String>)> {
        let known = read_list(&self.dir)?.unwrap_or_default();
        let (mut write, mut remove, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        for (path, wanted) in self.hashes()? {
            match hash_of(&self.dir.join(&path))? {
                Some(there) if wanted.contains(&there) => {}
                Some(there)
                    if !known
                        .get(&path)
                        .is_some_and(|hashes| hashes.contains(&there)) =>
                {
                    changed.push(path);
                }
                _ => write.push(path),
            }
        }
        for (path, hashes) in &known {
            if !self.files.contains_key(path) {
                match hash_of(&self.dir.join(path))? {
                    Some(there) if !hashes.contains(&there) => changed.push(path.clone()),
                    _ => remove.push(path.clone()),
                }
            }
        }
        refuse(
            &self.dir,
            &changed.iter().map(String::as_str).collect::<Vec<_>>(),
        )?;
        Ok((write, remove))
    }
}

fn refuse(dir: &Path, changed: &[&str]) -> Result<()> {
    if !changed.is_empty() {
        bail!(
            "these files in {} have been changed after scripts/rom copied them; move your changes to this checkout, \
             and remove the files there: {}",
            dir.display(),
            changed.join(", ")
        );
    }
    Ok(())
}

fn remove_file(dir: &Path, path: &str) -> Result<bool> {
    let file = dir.join(path);
    let removed = match std::fs::remove_file(&file) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => {
            return Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
    };
    // A folder is removed with its last file.
    for folder in file.ancestors().skip(1).take_while(|folder| *folder != dir) {
        if std::fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(removed)
}

fn hash_of(path: &Path) -> Result<Option<String>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(
            Sha256::digest(bytes)
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect(),
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn read_list(dir: &Path) -> Result<Option<BTreeMap<String, Vec<String>>>> {
    let path = dir.join(LIST);
    if !path.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let list: BTreeMap<String, Vec<String>> = serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is damaged; remove the folder and run 'scripts/rom apply' again",
            path.display()
        )
    })?;
    let inside = |path: &str| {
        Path::new(path)
            .components()
            .all(|c| matches!(c, std::path::Component::Normal(_)))
    };
    if let Some(bad) = list.keys().find(|path| !inside(path)) {
        bail!(
            "{} names '{bad}', which is outside the folder; remove the folder and run 'scripts/rom apply' again",
            path.display()
        );
    }
    Ok(Some(list))
}

fn write_list(dir: &Path, list: &BTreeMap<String, Vec<String>>) -> Result<()> {
    write_atomic(
        &dir.join(LIST),
        serde_json::to_string_pretty(list)?.as_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(dir: &Path, path: &str, text: &str) {
        write_atomic(&dir.join(path), text.as_bytes()).unwrap();
    }

    #[test]
    fn copies_are_updated_and_taken_back_but_never_over_changes() {
        let (checkout, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (checkout, tree) = (checkout.path(), tree.path());
        for folder in ["cc", "include", "java"] {
            put(checkout, &format!("art-hooks/{folder}/x"), folder);
        }
        put(checkout, "aosp/common/Android.bp", "common");
        put(checkout, "aosp/common/hindsight.mk", "mk");
        put(checkout, "aosp/android-10/Android.bp", "ten");
        let overlay = || Overlay::of(checkout, tree, Release::Android10).unwrap();
        let there = |path: &str| std::fs::read_to_string(tree.join(PATH).join(path)).ok();

        assert!(!overlay().is_current().unwrap());
        assert_eq!(
            overlay().update().unwrap(),
            Change {
                written: 5,
                removed: 0
            }
        );
        assert_eq!(there("Android.bp").as_deref(), Some("ten"));
        assert_eq!(there("art-hooks/cc/x").as_deref(), Some("cc"));
        assert_eq!(overlay().update().unwrap(), Change::default());

        // Changed here: updated there; gone here: gone there.
        put(checkout, "art-hooks/cc/x", "new");
        std::fs::remove_file(checkout.join("aosp/common/hindsight.mk")).unwrap();
        assert_eq!(
            overlay().update().unwrap(),
            Change {
                written: 1,
                removed: 1
            }
        );
        assert_eq!(there("art-hooks/cc/x").as_deref(), Some("new"));

        // Changed there: neither overwritten nor removed, and nothing else touched.
        put(tree, "external/hindsight/art-hooks/cc/x", "mine");
        put(checkout, "art-hooks/java/x", "newer");
        assert!(overlay()
            .update()
            .unwrap_err()
            .to_string()
            .contains("art-hooks/cc/x"));
        assert!(Overlay::remove(tree)
            .unwrap_err()
            .to_string()
            .contains("art-hooks/cc/x"));
        assert_eq!(there("art-hooks/java/x").as_deref(), Some("java"));

        put(tree, "external/hindsight/art-hooks/cc/x", "new");
        put(tree, "external/hindsight/prebuilt/lib.a", "not ours");
        assert_eq!(Overlay::remove(tree).unwrap().removed, 4);
        assert!(there("prebuilt/lib.a").is_some() && there("Android.bp").is_none());
        assert!(!tree.join(PATH).join("art-hooks").exists());

        // Somebody else's file is in the way.
        put(tree, "external/hindsight/Android.bp", "other");
        assert!(overlay()
            .update()
            .unwrap_err()
            .to_string()
            .contains("Android.bp"));
    }
}
