// SPDX-License-Identifier: Apache-2.0
//! `sync`: downloads AOSP.

use crate::context::{Context, GIT};
use anyhow::{bail, Context as _, Result};
use clap::Args;
use hindsight_rom::project::State;
use hindsight_rom::release::Release;
use hindsight_rom::runner::write_atomic;
use std::path::PathBuf;
use std::process::Command;

const LOCAL_MANIFEST: &str = ".repo/local_manifests/hindsight.xml";

/// Options of `sync`.
#[derive(Args)]
pub(crate) struct Sync {
    /// Where AOSP's manifest comes from
    #[arg(
        long,
        default_value = "https://android.googlesource.com/platform/manifest"
    )]
    url: String,
    /// A mirror made by 'repo init --mirror', to copy from
    #[arg(long)]
    reference: Option<PathBuf>,
    /// Without history: 60 GB less
    #[arg(long)]
    shallow: bool,
    /// How many projects are downloaded at a time
    #[arg(long, short, default_value_t = 4)]
    jobs: u32,
}

pub(crate) fn sync(context: &Context, options: &Sync) -> Result<()> {
    let manifest = context.release.manifest(&context.checkout);
    hindsight_rom::manifest::load(&manifest)?;
    context.check(
        match (context.release, options.shallow) {
            (Release::Android14, false) => 250,
            (_, false) => 170,
            (_, true) => 110,
        },
        8,
        &[
            (
                "repo",
                "the Debian package repo (contrib), or https://gerrit.googlesource.com/git-repo",
            ),
            GIT,
            ("python3", "the Debian package python3"),
        ],
    )?;
    let tag = context.release.tag();
    let manifests = context.tree.join(".repo/manifests");
    let at = if manifests.is_dir() {
        let file = std::fs::read_to_string(context.tree.join(".repo/manifests.git/config"))
            .unwrap_or_default();
        file.contains(&format!("merge = refs/tags/{tag}"))
    } else {
        false
    };
    if manifests.is_dir() && !at && context.tree.join(".repo/manifest.xml").exists() {
        // The tree is at another release: repo would check out another version of each project.
        for project in context.projects()? {
            if project.dir.exists()
                && !matches!(project.state()?.0, State::Pristine | State::Foreign(_))
            {
                bail!(
                    "{} has patches in it; run 'scripts/rom undo' first",
                    project.dir.display()
                );
            }
        }
    }
    let _lock = if context.tree.is_dir() {
        context.lock()?
    } else {
        None
    };
    if !at {
        let mut init = Command::new("repo");
        init.current_dir(&context.tree);
        init.args([
            "init",
            "--manifest-url",
            &options.url,
            "--manifest-branch",
            &format!("refs/tags/{tag}"),
        ]);
        if options.shallow {
            init.args(["--depth", "1"]);
        }
        if let Some(reference) = &options.reference {
            init.arg("--reference").arg(std::path::absolute(reference)?);
        }
        context.runner.run(&mut init)?;
    }
    let text = std::fs::read(&manifest)?;
    let local = context.tree.join(LOCAL_MANIFEST);
    if std::fs::read(&local).ok().as_ref() != Some(&text)
        && context
            .runner
            .does(&format!("copy {} to {LOCAL_MANIFEST}", manifest.display()))
    {
        write_atomic(&local, &text)?;
    }
    let mut sync = Command::new("repo");
    sync.current_dir(&context.tree);
    sync.args([
        "sync",
        "--current-branch",
        "--optimized-fetch",
        "--jobs",
        &options.jobs.to_string(),
    ]);
    context
        .runner
        .run(&mut sync)
        .context("run the same command again: repo resumes where it stopped")
}
