// SPDX-License-Identifier: Apache-2.0
//! Requirements that are checked before a step changes anything: disk, memory, tools.

use anyhow::{bail, Result};
use std::path::{Path, PathBuf};

/// Gigabytes, as disks are sold.
const GB: u64 = 1_000_000_000;

/// The requirements of a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs<'a> {
    /// Free disk space where the tree is, in gigabytes.
    pub disk_gb: u64,
    /// Memory of the machine, in gigabytes.
    pub memory_gb: u64,
    /// Programs, each with the Debian package (or place) it comes from.
    pub tools: &'a [(&'a str, &'a str)],
}

impl Needs<'_> {
    /// Checks all requirements, and reports all missing ones at once.
    ///
    /// # Errors
    /// If one is not met.
    pub fn check(&self, tree: &Path) -> Result<()> {
        let missing = self.missing(tree);
        if !missing.is_empty() {
            bail!(
                "nothing has been changed, because this is missing:\n  {}",
                missing.join("\n  ")
            );
        }
        Ok(())
    }

    /// The requirements that are not met, each with where to get it.
    pub fn missing(&self, tree: &Path) -> Vec<String> {
        let mut missing = Vec::new();
        if let Some(free) = free_bytes(tree) {
            if free < self.disk_gb * GB {
                missing.push(format!(
                    "disk: {} GB are free at {}, and this takes about {} GB (--min-disk N sets another limit)",
                    free / GB,
                    tree.display(),
                    self.disk_gb
                ));
            }
        }
        if let Some(memory) = memory_bytes() {
            // Machines sold with 16 GB show a little less.
            if memory < self.memory_gb * GB * 9 / 10 {
                missing.push(format!(
                    "memory: the machine has {} GB, and this takes about {} GB (--min-memory N sets another limit)",
                    memory / GB,
                    self.memory_gb
                ));
            }
        }
        for (tool, from) in self.tools {
            if find_tool(tool).is_none() {
                missing.push(format!("{tool}: not in PATH; it comes with {from}"));
            }
        }
        missing
    }
}

/// Bytes that this user may still write to the disk of a folder, or of its nearest parent that exists.
fn free_bytes(dir: &Path) -> Option<u64> {
    let dir = dir.ancestors().find(|dir| dir.exists())?;
    let data = rustix::fs::statvfs(dir).ok()?;
    Some(data.f_bavail.saturating_mul(data.f_frsize))
}

/// Memory of the machine in bytes.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes * 1024)
}

/// The path of a program, looked up in PATH.
pub fn find_tool(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|dir| dir.join(name))
        .find(|path| {
            rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_said_at_once() {
        let needs = Needs {
            disk_gb: 1_000_000_000,
            memory_gb: 1_000_000_000,
            tools: &[("sh", "dash"), ("no-such-tool", "nowhere")],
        };
        let error = needs
            .check(Path::new("/no/such/folder"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("disk:") && error.contains("memory:"),
            "{error}"
        );
        assert!(
            error.contains("no-such-tool: not in PATH; it comes with nowhere"),
            "{error}"
        );
        assert!(!error.contains("sh: not"), "{error}");
        Needs {
            tools: &[("sh", "dash")],
            ..Needs::default()
        }
        .check(Path::new("."))
        .unwrap();
    }
}
