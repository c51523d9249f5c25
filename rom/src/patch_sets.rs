// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask patches`: what the patch sets cost upstream, and whether they apply to it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::patch::{in_folder, Footprint, Patch};
use crate::project::{Project, State};
use crate::release::Release;
use crate::runner::output;
use anyhow::{bail, ensure, Context as _, Result};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// The aim for ART: more would be hard to carry from release to release.
const ART_LIMIT: usize = 150;
const MIRROR: &str = "http://deb.debian.org/debian";
const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

/// `cargo xtask patches …`.
#[derive(clap::Subcommand)]
pub enum Patches {
    /// Counts the lines that the patches add to and remove from upstream's files
    Stat,
    /// Applies every patch set to pristine sources and takes it out again, as scripts/rom does
    Check {
        /// Only this release: 10, 11 or 14
        #[arg(long)]
        release: Option<Release>,
        /// Also build the patched ART in the lab
        #[arg(long)]
        build: bool,
        /// Debian's archive
        #[arg(long, default_value = MIRROR)]
        mirror: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sources {
    source: Vec<Source>,
}

/// A pristine project, see `aosp-patches/sources.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    release: u32,
    project: String,
    path: String,
    sha256: String,
    #[serde(default)]
    strip: usize,
}

/// Does it.
///
/// # Errors
/// If a patch can't be read, or (`Check`) doesn't apply; all others have been tried then.
pub fn run(command: &Patches, checkout: &Path) -> Result<()> {
    match command {
        Patches::Stat => stat(checkout, &Release::ALL).map(drop),
        Patches::Check {
            release,
            build,
            mirror,
        } => {
            let releases = release.map_or(Release::ALL.to_vec(), |release| vec![release]);
            check(checkout, &releases, *build, mirror)
        }
    }
}

/// Prints the footprint, and returns that of ART for each release.
fn stat(checkout: &Path, releases: &[Release]) -> Result<Vec<Footprint>> {
    println!("release     project          patches  added  removed  in new files");
    let mut art = Vec::new();
    for release in releases {
        let mut of_art = Footprint::default();
        for pinned in crate::manifest::load(&release.manifest(checkout))? {
            let patches = in_folder(&release.patches(checkout).join(pinned.folder()))?;
            let mut sum = Footprint::default();
            for patch in &patches {
                sum += Patch::load(patch)?.footprint();
            }
            if !patches.is_empty() {
                println!(
                    "{:<11} {:<16} {:>7}  {:>5}  {:>7}  {:>12}",
                    release.name(),
                    pinned.path,
                    patches.len(),
                    sum.added,
                    sum.removed,
                    sum.new_file_lines
                );
            }
            if pinned.path == "art" {
                of_art = sum;
            }
        }
        if of_art.added > ART_LIMIT {
            println!(
                "{}: more than {ART_LIMIT} lines are added to art",
                release.name()
            );
        }
        art.push(of_art);
    }
    Ok(art)
}

fn check(checkout: &Path, releases: &[Release], build: bool, mirror: &str) -> Result<()> {
    let file = checkout.join("aosp-patches/sources.toml");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let sources: Sources = toml::from_str(&text).with_context(|| format!("{}", file.display()))?;
    let (mut passed, mut failed) = (0, 0);
    for release in releases {
        for project in Project::all(checkout, Path::new("/"), *release)? {
            let name = format!("{}, {}", release.name(), project.pinned.path);
            let source = sources.source.iter().find(|source| {
                source.release == release.number() && source.project == project.pinned.path
            });
            let result = match source {
                Some(source) => check_one(checkout, *release, &project.pinned.path, source, mirror),
                None => Err(anyhow::anyhow!(
                    "{} has no pristine source for it",
                    file.display()
                )),
            };
            match result {
                Ok(patches) => {
                    println!("{name}: {patches} patches apply and come out again");
                    passed += 1;
                }
                Err(error) => {
                    println!("{name}: {error:#}");
                    failed += 1;
                }
            }
        }
        if build && !release.patches(checkout).join("art").is_dir() {
            println!("{}: no patches for art, nothing to build", release.name());
        } else if build {
            let number = release.number().to_string();
            let status = Command::new("cargo")
                .current_dir(checkout)
                .args(["xtask", "lab", "build", "--release", &number])
                .status()?;
            println!("{}: the lab's build: {status}", release.name());
            if status.success() {
                passed += 1;
            } else {
                failed += 1;
            }
        }
    }
    stat(checkout, releases)?;
    println!("{passed} passed, {failed} failed, 0 skipped");
    ensure!(failed == 0, "{failed} patch sets failed");
    Ok(())
}

/// Makes a git tree of the project's files that the patches touch, and has `scripts/rom`'s own code
/// apply them, again, and undo them.
fn check_one(
    checkout: &Path,
    release: Release,
    path: &str,
    source: &Source,
    mirror: &str,
) -> Result<usize> {
    let tarball = fetch(source, mirror)?;
    let tree = tempfile::tempdir()?;
    let project = Project::all(checkout, tree.path(), release)?
        .into_iter()
        .find(|project| project.pinned.path == path)
        .context("the project has vanished")?;
    let mut files = BTreeSet::new();
    for patch in &project.patches {
        for change in Patch::load(patch)?.files {
            files.extend(change.old);
        }
    }
    unpack(&tarball, source.strip, &files, &project.dir)?;
    let git = |arguments: &[&str]| -> Result<String> {
        let identity = [
            "-c",
            "user.name=upstream",
            "-c",
            "user.email=upstream@localhost.invalid",
        ];
        let mut command = Command::new("git");
        command
            .current_dir(&project.dir)
            .args(identity)
            .args(["-c", "commit.gpgsign=false"]);
        output(command.args(arguments))
    };
    git(&["init", "--quiet"])?;
    git(&["add", "--all", "--force"])?;
    git(&["commit", "--quiet", "--message", "pristine"])?;
    git(&["tag", release.tag()])?;
    let before = git(&["rev-parse", "HEAD"])?;
    let patches = project.apply()?;
    ensure!(
        project.apply()? == 0,
        "applying a second time did something"
    );
    ensure!(
        project.state()?.0 == State::Applied,
        "applied, but the state is another"
    );
    ensure!(project.undo()?, "undo found nothing");
    ensure!(
        git(&["rev-parse", "HEAD"])? == before,
        "undo did not go back to the tag"
    );
    ensure!(
        git(&["status", "--porcelain"])?.is_empty(),
        "undo left changes behind"
    );
    Ok(patches)
}

/// The tarball, verified; downloaded unless it, or the lab's copy, is there.
fn fetch(source: &Source, mirror: &str) -> Result<PathBuf> {
    let name = source.path.rsplit('/').next().unwrap_or(&source.path);
    let cache = match (
        std::env::var_os("HINDSIGHT_CACHE"),
        std::env::var_os("HOME"),
    ) {
        (Some(dir), _) if !dir.is_empty() => PathBuf::from(dir),
        (_, Some(home)) => Path::new(&home).join(".cache/hindsight"),
        _ => bail!("neither HINDSIGHT_CACHE nor HOME is set: where to keep downloads?"),
    };
    let lab = cache
        .join(format!("lab/android-{}/downloads", source.release))
        .join(name);
    let own = cache.join("pristine").join(name);
    for file in [&lab, &own] {
        if let Ok(bytes) = std::fs::read(file) {
            if hex(&bytes) == source.sha256 {
                return Ok(file.clone());
            }
        }
    }
    if !Path::new(APT_HELPER).exists() {
        bail!("no {APT_HELPER}: the sources come from Debian's archive, with apt");
    }
    let dir = cache.join("pristine");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let partial = dir.join(format!("{name}.partial"));
    println!("downloading {name}");
    let url = format!("{mirror}/{}", source.path);
    output(
        Command::new(APT_HELPER)
            .args(["-o", "APT::Sandbox::User=root", "download-file", &url])
            .arg(&partial)
            .arg(format!("SHA256:{}", source.sha256)),
    )?;
    let bytes =
        std::fs::read(&partial).with_context(|| format!("cannot read {}", partial.display()))?;
    ensure!(
        hex(&bytes) == source.sha256,
        "{url} is not the file that sources.toml pins"
    );
    std::fs::rename(&partial, &own).with_context(|| format!("cannot write {}", own.display()))?;
    Ok(own)
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Unpacks these files; one that the tarball lacks is left to git to complain about, in its words.
fn unpack(tarball: &Path, strip: usize, files: &BTreeSet<String>, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    let list = output(Command::new("tar").arg("-tf").arg(tarball))?;
    let mut members = Vec::new();
    for member in list.lines() {
        let plain = member.strip_prefix("./").unwrap_or(member);
        let inside = plain.splitn(strip + 1, '/').nth(strip).unwrap_or("");
        if files.contains(inside) {
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
