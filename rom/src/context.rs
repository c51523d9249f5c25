// SPDX-License-Identifier: Apache-2.0
//! The data that all steps of `scripts/rom` share.

use anyhow::{bail, Context as _, Result};
use hindsight_rom::checks::Needs;
use hindsight_rom::overlay::Overlay;
use hindsight_rom::project::Project;
use hindsight_rom::release::Release;
use hindsight_rom::runner::Runner;
use std::path::PathBuf;

/// git, with the package that it comes with: see [`Needs::tools`].
pub(crate) const GIT: (&str, &str) = ("git", "the Debian package git");

/// The checkout, the tree, and the options that all steps take.
pub(crate) struct Context {
    pub(crate) checkout: PathBuf,
    pub(crate) tree: PathBuf,
    pub(crate) release: Release,
    pub(crate) runner: Runner,
    /// Gigabytes that replace a step's own numbers.
    pub(crate) min_disk: Option<u64>,
    pub(crate) min_memory: Option<u64>,
}

impl Context {
    /// Checks what a step needs; a dry run only prints what is missing.
    pub(crate) fn check(&self, disk_gb: u64, memory_gb: u64, tools: &[(&str, &str)]) -> Result<()> {
        let needs = Needs {
            disk_gb: self.min_disk.unwrap_or(disk_gb),
            memory_gb: self.min_memory.unwrap_or(memory_gb),
            tools,
        };
        if !self.runner.dry_run {
            return needs.check(&self.tree);
        }
        for missing in needs.missing(&self.tree) {
            println!("missing: {missing}");
        }
        Ok(())
    }

    pub(crate) fn projects(&self) -> Result<Vec<Project>> {
        Project::all(&self.checkout, &self.tree, self.release)
    }

    pub(crate) fn overlay(&self) -> Result<Overlay> {
        Overlay::of(&self.checkout, &self.tree, self.release)
    }

    /// Names the pinned projects that have no patches for this release: these are changed by hand.
    pub(crate) fn say_what_is_by_hand(&self) -> Result<()> {
        for path in Project::without_patches(&self.checkout, self.release)? {
            println!(
                "{path}: no patches for {}; make the changes by hand, see docs/rom.md, 'Android 11 and 14'",
                self.release
            );
        }
        Ok(())
    }

    /// Locks the tree, since only one run at a time may change it. A dry run takes no lock.
    pub(crate) fn lock(&self) -> Result<Option<std::fs::File>> {
        if self.runner.dry_run {
            return Ok(None);
        }
        // Locks the folder itself, which leaves no file in the tree.
        let file = std::fs::File::open(&self.tree)
            .with_context(|| format!("cannot open {}", self.tree.display()))?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                bail!(
                    "another scripts/rom is running in {}; wait until it ends",
                    self.tree.display()
                )
            }
            // Some network file systems can't lock folders.
            Err(error) => eprintln!(
                "{} can't be locked ({error}): make sure that no other scripts/rom runs there",
                self.tree.display()
            ),
            Ok(()) => {}
        }
        Ok(Some(file))
    }
}
