// SPDX-License-Identifier: Apache-2.0
//! Copies and hashes folders.

use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The context of a failed operation: a verb and the file.
pub(super) fn io_context(what: &str, path: &Path) -> String {
    format!("can't {what} {}", path.display())
}

/// Adds names, executable bits and contents of a file or folder to a hash.
pub(super) fn hash_tree(h: &mut Sha256, path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fn add(h: &mut Sha256, path: &Path, name: &str) -> Result<()> {
        let meta = std::fs::metadata(path).with_context(|| io_context("read", path))?;
        h.update(name.as_bytes());
        h.update([
            0,
            meta.is_dir() as u8,
            (meta.permissions().mode() & 0o111 != 0) as u8,
        ]);
        if meta.is_dir() {
            let mut entries: Vec<_> = std::fs::read_dir(path)?.collect::<std::io::Result<_>>()?;
            entries.sort_by_key(|e| e.file_name());
            for e in &entries {
                add(h, &e.path(), &e.file_name().to_string_lossy())?;
            }
            h.update([1]);
        } else {
            h.update(meta.len().to_le_bytes());
            h.update(std::fs::read(path).with_context(|| io_context("read", path))?);
        }
        Ok(())
    }
    // Without the folder's own name: the same tools may be in another place.
    add(h, path, "")
}

/// Copies a folder with its permissions; symbolic links are followed if `follow`, else copied as links.
pub(super) fn copy_tree(from: &Path, to: &Path, follow: bool) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| io_context("make", to))?;
    for e in std::fs::read_dir(from).with_context(|| io_context("read", from))? {
        let e = e?;
        let (a, b) = (e.path(), to.join(e.file_name()));
        let kind = if follow {
            std::fs::metadata(&a)?.file_type()
        } else {
            e.file_type()?
        };
        if kind.is_dir() {
            copy_tree(&a, &b, follow)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&a)?, &b)?;
        } else {
            std::fs::copy(&a, &b).with_context(|| io_context("copy", &a))?;
        }
    }
    Ok(())
}
