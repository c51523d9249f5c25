// SPDX-License-Identifier: Apache-2.0
//! What the demo's two runs have in common.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use anyhow::{ensure, Context as _, Result};
use serde::Deserialize;

/// The app is started so often at most until the result is as expected.
pub(super) const ATTEMPTS: u32 = 5;

pub(super) struct KillOnDrop(pub(super) Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Still running only after an error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Copies a file. Replaces an old file of the final name when the copy is complete.
pub(super) fn replace(from: &Path, to: &Path) -> Result<()> {
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut copy = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    let mut source =
        fs::File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
    std::io::copy(&mut source, &mut copy)
        .with_context(|| format!("cannot write {}", to.display()))?;
    copy.persist(to)
        .with_context(|| format!("cannot write {}", to.display()))?;
    Ok(())
}

pub(super) fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}

#[derive(Deserialize)]
pub(super) struct Link {
    pub(super) method: String,
}

/// What `hindsight why --json` writes.
pub(super) fn why_as_json(hindsight: &Path, trace: &Path) -> Result<Vec<u8>> {
    let mut command = Command::new(hindsight);
    command.args(["why", "--json"]).arg(trace);
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed ({})",
        output.status
    );
    Ok(output.stdout)
}

/// Whether `names` contains `expected` in this order and ends with the last of them. Between them may be methods of the
/// framework.
pub(super) fn ends_with_in_order(names: &[String], expected: &[&str]) -> bool {
    let mut rest = names.iter();
    expected
        .iter()
        .all(|wanted| rest.any(|name| name == wanted))
        && names
            .last()
            .is_some_and(|last| expected.last() == Some(&last.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn order_and_last_name_matter() {
        assert!(ends_with_in_order(
            &names(&["x", "a", "y", "b"]),
            &["a", "b"]
        ));
        assert!(!ends_with_in_order(&names(&["b", "a"]), &["a", "b"]));
        assert!(!ends_with_in_order(&names(&["a", "b", "c"]), &["a", "b"]));
        assert!(!ends_with_in_order(&[], &["a"]));
    }
}
