// SPDX-License-Identifier: Apache-2.0
//! One project of the tree: its state, and applying and undoing patches exactly.
//!
//! All patches are applied in a scratch index first, so that one that doesn't apply is found before any
//! project is touched. The resulting trees also tell which patches are in: the state follows from the tree
//! of HEAD, however the last run ended.

use crate::manifest::Pinned;
use crate::mismatch::explain;
use crate::patch::{self, FileChange, Patch};
use crate::release::Release;
use crate::runner::{output, shown, try_output, write_atomic};
use anyhow::{anyhow, bail, Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A project with the patches for it.
#[derive(Clone, Debug)]
pub struct Project {
    /// Its entry in the manifest.
    pub pinned: Pinned,
    /// The folder of its work tree.
    pub dir: PathBuf,
    /// The patches, in order.
    pub patches: Vec<PathBuf>,
    /// The branch that they are applied on.
    pub branch: String,
}

/// The state of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// At the tag, untouched.
    Pristine,
    /// An interrupted run has applied this many patches.
    Partly(usize),
    /// All patches are in.
    Applied,
    /// `git am` was interrupted in the middle of one of our patches.
    Interrupted,
    /// The patches of another version of this checkout are in.
    OtherVersion,
    /// It must not be changed; with the reason and the remedy.
    Foreign(String),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Pristine => write!(f, "not patched"),
            State::Partly(n) => write!(
                f,
                "interrupted after {}: apply continues, undo reverts",
                patches(*n)
            ),
            State::Applied => write!(f, "patched"),
            State::Interrupted => write!(
                f,
                "interrupted inside git am: apply continues, undo reverts"
            ),
            State::OtherVersion => write!(
                f,
                "patched by another version of Hindsight: undo, then apply"
            ),
            State::Foreign(why) => write!(f, "{why}"),
        }
    }
}

/// Kept in the project's git folder while patches are in.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// The commit below the patches.
    base: String,
    /// The branch that was checked out, if there was one.
    was_on: Option<String>,
    /// The last commit that is known to be ours.
    last: String,
}

/// The trees that the patches result in, one after the other.
pub struct Plan {
    base: String,
    trees: Vec<String>,
}

const RECORD: &str = "hindsight-patches.json";

/// Author of the commits. Fixed, so that applying again makes the same commits.
const IDENTITY: [&str; 2] = [
    "user.name=Hindsight",
    "user.email=hindsight@localhost.invalid",
];

impl Project {
    /// The projects of a release that have patches, in a tree.
    ///
    /// # Errors
    /// If the manifest or the patches can't be read, or there are patches for a project that the
    /// manifest doesn't pin.
    pub fn all(checkout: &Path, tree: &Path, release: Release) -> Result<Vec<Project>> {
        let pinned = crate::manifest::load(&release.manifest(checkout))?;
        let folder = release.patches(checkout);
        if let Ok(entries) = std::fs::read_dir(&folder) {
            for entry in entries.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.path().is_dir() && !pinned.iter().any(|project| project.folder() == name) {
                    bail!(
                        "{} has patches, but {} pins no project for them",
                        entry.path().display(),
                        release.manifest(checkout).display()
                    );
                }
            }
        }
        let mut all = Vec::new();
        for pinned in pinned {
            let patches = patch::in_folder(&folder.join(pinned.folder()))?;
            if !patches.is_empty() {
                all.push(Project {
                    dir: tree.join(&pinned.path),
                    pinned,
                    patches,
                    branch: format!("hindsight/{}", release.name()),
                });
            }
        }
        Ok(all)
    }

    /// The paths of the projects that the manifest of a release pins, and that have no patches for it.
    ///
    /// # Errors
    /// If the manifest or the patches can't be read.
    pub fn without_patches(checkout: &Path, release: Release) -> Result<Vec<String>> {
        let folder = release.patches(checkout);
        let mut paths = Vec::new();
        for pinned in crate::manifest::load(&release.manifest(checkout))? {
            if patch::in_folder(&folder.join(pinned.folder()))?.is_empty() {
                paths.push(pinned.path);
            }
        }
        Ok(paths)
    }

    fn git(&self) -> Command {
        let mut command = Command::new("git");
        command.current_dir(&self.dir).env("LC_ALL", "C");
        // Only this project's repository: none around it, none named by the environment, and no hooks.
        command.env(
            "GIT_CEILING_DIRECTORIES",
            self.dir.parent().unwrap_or(&self.dir),
        );
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        for setting in IDENTITY.iter().chain(&[
            "core.hooksPath=/dev/null",
            "commit.gpgsign=false",
            "am.threeWay=false",
            "core.autocrlf=false",
            "apply.whitespace=nowarn",
            // Context must match to the letter, whatever the user has configured.
            "apply.ignoreWhitespace=no",
            "advice.detachedHead=false",
        ]) {
            command.args(["-c", setting]);
        }
        command
    }

    fn ask(&self, arguments: &[&str]) -> Result<String> {
        output(self.git().args(arguments))
    }

    fn git_path(&self, name: &str) -> Result<PathBuf> {
        Ok(self.dir.join(self.ask(&["rev-parse", "--git-path", name])?))
    }

    fn record(&self) -> Result<Option<Record>> {
        let path = self.git_path(RECORD)?;
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let record = serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is damaged. It recorded the commit to which the patches were applied: check out the release's tag, then remove the file",
                path.display()
            )
        })?;
        Ok(Some(record))
    }

    fn write_record(&self, record: &Record) -> Result<()> {
        let text = serde_json::to_string_pretty(record)?;
        write_atomic(&self.git_path(RECORD)?, text.as_bytes())
    }

    fn head(&self) -> Result<String> {
        self.ask(&["rev-parse", "--verify", "HEAD^{commit}"])
    }

    /// The commit that the patches are made for.
    fn base(&self) -> Result<String> {
        let tag = format!("refs/tags/{}^{{commit}}", self.pinned.tag);
        let (found, commit, _) =
            try_output(self.git().args(["rev-parse", "--verify", "--quiet", &tag]))?;
        if found {
            return Ok(commit.trim().to_owned());
        }
        bail!(
            "{}: there is no tag {}; run 'scripts/rom sync', or in that folder 'git fetch <remote> tag {}'",
            self.pinned.path,
            self.pinned.tag,
            self.pinned.tag
        );
    }

    /// The state, and the plan if the project may be changed.
    ///
    /// # Errors
    /// If git fails, or a patch does not apply to the tag.
    pub fn state(&self) -> Result<(State, Option<Plan>)> {
        let foreign = |why: String| Ok((State::Foreign(why), None));
        if !self.dir.is_dir() {
            return foreign(format!(
                "{} is not there: run 'scripts/rom sync'",
                self.dir.display()
            ));
        }
        let (is_git, top, _) = try_output(self.git().args(["rev-parse", "--show-toplevel"]))?;
        let same =
            std::fs::canonicalize(top.trim_end()).ok() == std::fs::canonicalize(&self.dir).ok();
        if !is_git || !same {
            return foreign(format!("{} is not a git work tree", self.dir.display()));
        }
        let base = match self.base() {
            Ok(base) => base,
            Err(error) => return foreign(error.to_string()),
        };
        let record = self.record()?;
        for (name, what) in [
            ("rebase-merge", "a rebase"),
            ("MERGE_HEAD", "a merge"),
            ("CHERRY_PICK_HEAD", "a cherry-pick"),
        ] {
            if self.git_path(name)?.exists() {
                return foreign(format!(
                    "{what} is going on in {}: finish or abort it",
                    self.dir.display()
                ));
            }
        }
        let plan = self.plan(base)?;
        if self.git_path("rebase-apply")?.exists() {
            if record.is_some() && self.on_branch()?.as_deref() == Some(self.branch.as_str()) {
                return Ok((State::Interrupted, Some(plan)));
            }
            return foreign(format!(
                "somebody's 'git am' or rebase is going on in {}: finish or abort it",
                self.dir.display()
            ));
        }
        // Half a patch of an interrupted git am can't be here any more: its state was returned before.
        let changed = self.ask(&["status", "--porcelain", "--untracked-files=no"])?;
        if !changed.is_empty() {
            let mut names: Vec<&str> = changed
                .lines()
                .map(|line| line.get(3..).unwrap_or(line))
                .collect();
            let more = names.len().saturating_sub(5);
            names.truncate(5);
            return foreign(format!(
                "{} has uncommitted changes ({}{}): commit or stash them",
                self.dir.display(),
                names.join(", "),
                if more > 0 {
                    format!(" and {more} more")
                } else {
                    String::new()
                }
            ));
        }
        let head = self.head()?;
        if head == plan.base {
            return Ok((State::Pristine, Some(plan)));
        }
        let range = format!("{}..{head}", plan.base);
        let trees = self.ask(&["log", "--first-parent", "--reverse", "--format=%T", &range])?;
        let trees: Vec<&str> = trees.lines().collect();
        let on_base = self
            .git()
            .args(["merge-base", "--is-ancestor", &plan.base, &head])
            .status();
        if on_base.is_ok_and(|status| status.success())
            && trees.len() <= plan.trees.len()
            && trees.iter().zip(&plan.trees).all(|(a, b)| a == b)
        {
            let state = if trees.len() == plan.trees.len() {
                State::Applied
            } else {
                State::Partly(trees.len())
            };
            return Ok((state, Some(plan)));
        }
        match record {
            Some(record) if record.last == head => Ok((State::OtherVersion, Some(plan))),
            Some(record) => foreign(format!(
                "{} has commits on top of Hindsight's patches: move them away ('git rebase --onto {} {}'), \
                 then undo and apply",
                self.dir.display(),
                short(&record.base),
                short(&record.last)
            )),
            None => foreign(format!(
                "{} is at {}, not at the tag {} ({}) that the patches are for: run 'scripts/rom sync', or \
                 'git checkout {}' there",
                self.dir.display(),
                self.ask(&["describe", "--tags", "--always", "HEAD"])?,
                self.pinned.tag,
                short(&plan.base),
                self.pinned.tag
            )),
        }
    }

    fn on_branch(&self) -> Result<Option<String>> {
        let (on, name, _) =
            try_output(
                self.git()
                    .args(["symbolic-ref", "--quiet", "--short", "HEAD"]),
            )?;
        Ok(on.then(|| name.trim().to_owned()))
    }

    /// Applies all patches in a scratch index.
    ///
    /// # Errors
    /// If one does not apply; the error names each such hunk, and where upstream has its lines now.
    pub fn plan(&self, base: String) -> Result<Plan> {
        let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
        let index = scratch.path().join("index");
        let git = || {
            let mut command = self.git();
            command.env("GIT_INDEX_FILE", &index);
            command
        };
        output(git().args(["read-tree", &base]))?;
        let mut trees = Vec::new();
        for path in &self.patches {
            let (applies, _, said) = try_output(git().args(["apply", "--cached"]).arg(path))?;
            if !applies {
                let patch = Patch::load(path)?;
                let blob = |file: &str| try_output(git().args(["show", &format!(":{file}")]));
                let files = output(git().args(["ls-files"]))?;
                bail!("{}", explain(&self.pinned, &patch, &said, &blob, &files));
            }
            trees.push(output(git().args(["write-tree"]))?);
        }
        Ok(Plan { base, trees })
    }

    /// Files that the patches create and that exist already.
    fn in_the_way(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for path in &self.patches {
            for file in Patch::load(path)?.files {
                if let FileChange {
                    old: None,
                    new: Some(new),
                    ..
                } = file
                {
                    if self.dir.join(&new).exists() {
                        found.push(new);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Applies the patches that are not in yet, and returns their number.
    ///
    /// # Errors
    /// If the project must not be changed (see [`State::Foreign`]), or git fails; then it is unchanged, or in
    /// a state that apply continues from.
    pub fn apply(&self) -> Result<usize> {
        let (mut state, mut plan) = self.state()?;
        if state == State::Interrupted {
            self.ask(&["am", "--abort"])?;
            (state, plan) = self.state()?;
        }
        let plan = plan.ok_or_else(|| anyhow!("{}: {state}", self.pinned.path))?;
        let done = match state {
            State::Applied => return Ok(0),
            State::Pristine => 0,
            State::Partly(n) => n,
            other => bail!("{}: {other}", self.pinned.path),
        };
        if done == 0 {
            let in_the_way = self.in_the_way()?;
            if !in_the_way.is_empty() {
                bail!(
                    "{}: the patches create these files, which exist already, untracked: move them away: {}",
                    self.pinned.path,
                    in_the_way.join(", ")
                );
            }
            self.start(&plan.base)?;
        }
        for (i, patch) in self.patches.iter().enumerate().skip(done) {
            let mut command = self.git();
            command.args([
                "am",
                "--quiet",
                "--no-3way",
                "--committer-date-is-author-date",
            ]);
            command.arg(patch);
            let (ok, out, err) = try_output(&mut command)?;
            if !ok {
                // The patch applied in the scratch index, so the work tree is the reason. Back to before.
                let aborted = self.ask(&["am", "--abort"]).is_ok();
                bail!(
                    "{} failed in {}, though the patch fits{}:\n{}{}",
                    shown(&command),
                    self.dir.display(),
                    if aborted {
                        ""
                    } else {
                        " (and 'git am --abort' failed too)"
                    },
                    out.trim(),
                    err.trim()
                );
            }
            let mut record = self
                .record()?
                .ok_or_else(|| anyhow!("{RECORD} has vanished"))?;
            record.last = self.head()?;
            self.write_record(&record)?;
            let tree = self.ask(&["rev-parse", "HEAD^{tree}"])?;
            if tree != plan.trees[i] {
                bail!(
                    "{}: git am made another tree than planned; run undo and report it",
                    patch.display()
                );
            }
        }
        Ok(self.patches.len() - done)
    }

    /// Records the commit and branch that are checked out, then makes our branch.
    fn start(&self, base: &str) -> Result<()> {
        let was_on = self.on_branch()?;
        let reference = format!("refs/heads/{}", self.branch);
        let (exists, commit, _) =
            try_output(
                self.git()
                    .args(["rev-parse", "--verify", "--quiet", &reference]),
            )?;
        // A run killed right after it made the branch leaves the branch at the base.
        if exists && commit.trim() != base {
            bail!(
                "{}: a branch {} exists already, at {}, and is not checked out: delete or rename it",
                self.pinned.path,
                self.branch,
                short(commit.trim())
            );
        }
        let was_on = was_on.filter(|name| *name != self.branch).or_else(|| {
            // A killed run has checked out our branch already: the record has the one before.
            self.record()
                .ok()
                .flatten()
                .and_then(|record| record.was_on)
        });
        self.write_record(&Record {
            base: base.to_owned(),
            was_on,
            last: base.to_owned(),
        })?;
        self.ask(&["checkout", "--quiet", "-B", &self.branch])?;
        Ok(())
    }

    /// Removes the patches: the project is at its commit and on its branch from before. Returns whether
    /// there were any.
    ///
    /// # Errors
    /// If there are uncommitted changes or commits that are not ours, or git fails.
    pub fn undo(&self) -> Result<bool> {
        if !self.dir.is_dir() {
            return Ok(false);
        }
        let (is_git, top, _) = try_output(self.git().args(["rev-parse", "--show-toplevel"]))?;
        if !is_git
            || std::fs::canonicalize(top.trim_end()).ok() != std::fs::canonicalize(&self.dir).ok()
        {
            return Ok(false);
        }
        let Some(record) = self.record()? else {
            return Ok(false);
        };
        let ours = self.on_branch()?.as_deref() == Some(self.branch.as_str());
        if ours && self.git_path("rebase-apply")?.exists() {
            self.ask(&["am", "--abort"])?;
        }
        let changed = self.ask(&["status", "--porcelain", "--untracked-files=no"])?;
        if !changed.is_empty() {
            bail!(
                "{} has uncommitted changes: commit or stash them first\n{changed}",
                self.dir.display()
            );
        }
        let head = self.head()?;
        if ours {
            self.check_ours(&record, &head)?;
            let back = record.was_on.clone().unwrap_or_else(|| record.base.clone());
            if let Some(branch) = &record.was_on {
                let there =
                    self.ask(&["rev-parse", "--verify", &format!("refs/heads/{branch}")])?;
                if there != record.base {
                    bail!(
                        "{}: the branch {branch} has moved to {} meanwhile; check out what you want there, \
                         then run undo again",
                        self.pinned.path,
                        short(&there)
                    );
                }
            }
            let mut command = self.git();
            command.args(["checkout", "--quiet"]);
            if record.was_on.is_none() {
                command.arg("--detach");
            }
            output(command.arg(back))?;
        }
        // Our branch may exist without being checked out: after `repo sync`, for instance.
        let reference = format!("refs/heads/{}", self.branch);
        let (exists, commit, _) =
            try_output(
                self.git()
                    .args(["rev-parse", "--verify", "--quiet", &reference]),
            )?;
        if exists {
            if !ours {
                self.check_ours(&record, commit.trim())?;
            }
            self.ask(&["branch", "--quiet", "-D", &self.branch])?;
        }
        let path = self.git_path(RECORD)?;
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        Ok(true)
    }

    /// Fails if dropping `head` would lose commits that are not ours.
    fn check_ours(&self, record: &Record, head: &str) -> Result<()> {
        if head == record.base || head == record.last {
            return Ok(());
        }
        // The first of our commits, and nothing else.
        let ancestor = ["merge-base", "--is-ancestor", head, &record.last];
        if try_output(self.git().args(ancestor))?.0 {
            return Ok(());
        }
        // A run killed between a commit and its record.
        let parent = format!("{head}^");
        let (_, parent, _) =
            try_output(
                self.git()
                    .args(["rev-parse", "--verify", "--quiet", &parent]),
            )?;
        let committer = self.ask(&["show", "-s", "--format=%ce", head])?;
        if parent.trim() == record.last && IDENTITY[1].ends_with(&committer) {
            return Ok(());
        }
        let range = format!("{}..{head}", record.last);
        bail!(
            "{} has commits on top of Hindsight's patches, which undo would lose; move them away first:\n{}",
            self.dir.display(),
            self.ask(&["log", "--oneline", &range])?
        );
    }

    /// A hash of the patches, as a key for results that depend on them.
    ///
    /// # Errors
    /// If one can't be read.
    pub fn key(&self) -> Result<String> {
        let mut hash = Sha256::new();
        for patch in &self.patches {
            hash.update(
                std::fs::read(patch).with_context(|| format!("cannot read {}", patch.display()))?,
            );
        }
        Ok(hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect())
    }
}

/// `1 patch`, `2 patches`.
pub fn patches(n: usize) -> String {
    format!("{n} {}", if n == 1 { "patch" } else { "patches" })
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}
