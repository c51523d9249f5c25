// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask patches`: what the patch sets cost upstream, and whether they apply to it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::patch::{in_folder, Footprint, Patch};
use crate::project::{patches, Project, State};
use crate::release::Release;
use crate::runner::output;
use anyhow::{bail, ensure, Context as _, Result};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// How many lines ART's patches may add: more would be hard to carry from release to release.
const ART_AIM: usize = 150;
const MIRROR: &str = "http://deb.debian.org/debian";
const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

/// `cargo xtask patches …`.
#[derive(clap::Subcommand)]
pub enum Patches {
    /// Counts the files that the patches change, and the lines that they add and remove, per release and project
    Stat,
    /// Applies every patch set to pristine sources and takes it out again, as scripts/rom does
    Check {
        /// Only this release: 10, 11 or 14
        #[arg(long)]
        release: Option<Release>,
        /// Also build ART with its patches, in the lab
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

impl Source {
    /// The tarball's name.
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Builds the ART of a release with its patches, and says what was built.
pub type Builder<'a> = &'a dyn Fn(Release) -> Result<String>;

/// Does it; ART is built by `builder`.
///
/// # Errors
/// If a patch can't be read, or (`Check`) doesn't apply or compile; all others have been tried then.
pub fn run(command: &Patches, checkout: &Path, builder: Builder<'_>) -> Result<()> {
    match command {
        Patches::Stat => {
            print!("{}", table(&rows(checkout, &Release::ALL)?));
            Ok(())
        }
        Patches::Check {
            release,
            build,
            mirror,
        } => {
            let releases = release.map_or(Release::ALL.to_vec(), |release| vec![release]);
            check(checkout, &releases, build.then_some(builder), mirror)
        }
    }
}

/// What the patches of one project come to.
#[derive(Debug, Default)]
struct Row {
    release: String,
    project: String,
    patches: usize,
    /// Files of upstream that are changed.
    files: usize,
    sum: Footprint,
    /// How many lines the patches may add, if there is an aim.
    aim: Option<usize>,
}

/// The footprint of each project that the manifests of these releases pin.
fn rows(checkout: &Path, releases: &[Release]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for release in releases {
        for pinned in crate::manifest::load(&release.manifest(checkout))? {
            let mut row = Row {
                release: release.name(),
                aim: (pinned.path == "art").then_some(ART_AIM),
                ..Row::default()
            };
            let mut files = BTreeSet::new();
            for patch in in_folder(&release.patches(checkout).join(pinned.folder()))? {
                let patch = Patch::load(&patch)?;
                row.patches += 1;
                row.sum += patch.footprint();
                files.extend(patch.files.into_iter().filter_map(|file| file.old));
            }
            row.files = files.len();
            row.project = pinned.path;
            rows.push(row);
        }
    }
    Ok(rows)
}

/// The footprint as a table; what is over its aim is said below it.
fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "release     project          patches  files  added  (aim)  removed  in new files\n",
    );
    let mut over = String::new();
    for row in rows {
        let (release, project) = (&row.release, &row.project);
        if row.patches == 0 {
            text += &format!("{release:<11} {project:<16}    none\n");
            continue;
        }
        let aim = row.aim.map_or(String::new(), |aim| format!("({aim})"));
        text += &format!(
            "{release:<11} {project:<16} {:>7}  {:>5}  {:>5}  {aim:>5}  {:>7}  {:>12}\n",
            row.patches, row.files, row.sum.added, row.sum.removed, row.sum.new_file_lines
        );
        if let Some(aim) = row.aim.filter(|aim| row.sum.added > *aim) {
            over += &format!(
                "{release}, {project}: {} lines more than the aim are added\n",
                row.sum.added - aim
            );
        }
    }
    text + &over
}

/// What was tried, in words, and what of it failed.
#[derive(Default)]
struct Tried {
    passed: usize,
    failed: Vec<String>,
}

impl Tried {
    /// Prints how it went; whether it went well.
    fn note(&mut self, what: &str, result: Result<String>) -> bool {
        let went_well = result.is_ok();
        match result {
            Ok(how) => {
                println!("{what}: {how}");
                self.passed += 1;
            }
            Err(error) => {
                println!("{what}: FAILED: {error:#}");
                self.failed.push(what.to_owned());
            }
        }
        went_well
    }
}

fn check(
    checkout: &Path,
    releases: &[Release],
    builder: Option<Builder<'_>>,
    mirror: &str,
) -> Result<()> {
    let file = checkout.join("aosp-patches/sources.toml");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let sources: Sources = toml::from_str(&text).with_context(|| format!("{}", file.display()))?;
    let mut tried = Tried::default();
    for release in releases {
        let mut art_applies = false;
        for project in Project::all(checkout, Path::new("/"), *release)? {
            let path = &project.pinned.path;
            let source = sources.source.iter().find(|source| {
                source.release == release.number() && source.project == project.pinned.path
            });
            let result = match source {
                Some(source) => check_one(checkout, *release, path, source, mirror).map(|n| {
                    let (n, tarball) = (patches(n), source.name());
                    format!("{n}: in and out again, on {tarball}")
                }),
                None => Err(anyhow::anyhow!(
                    "{} has no pristine source for it",
                    file.display()
                )),
            };
            let applies = tried.note(&format!("{}, {path}", release.name()), result);
            art_applies |= applies && path == "art";
        }
        if let Some(build) = builder {
            let result = if art_applies {
                build(*release)
            } else {
                Err(anyhow::anyhow!(
                    "not built, as there is no patched art to build"
                ))
            };
            tried.note(&format!("{}, the lab's build", release.name()), result);
        }
    }
    print!("\n{}", table(&rows(checkout, releases)?));
    for what in &tried.failed {
        println!("FAILED: {what}");
    }
    let failed = tried.failed.len();
    println!("{} passed, {failed} failed, 0 skipped", tried.passed);
    ensure!(
        failed == 0,
        "{failed} of {} failed: {}",
        failed + tried.passed,
        tried.failed.join("; ")
    );
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
    let name = source.name();
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "From 0 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n---\n";

    fn put(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A checkout whose patch of Android 11's art changes `a.cc`, adding so many lines, and makes a file.
    fn checkout(added: usize) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let pin = |path: &str| {
            format!(
                "<extend-project name=\"platform/{path}\" path=\"{path}\" \
                 revision=\"refs/tags/android-11.0.0_r48\"/>"
            )
        };
        put(
            &dir.path().join("manifests/android-11.xml"),
            &format!("<manifest>{}{}</manifest>", pin("art"), pin("build/make")),
        );
        let change = format!(
            "diff --git a/a.cc b/a.cc\n--- a/a.cc\n+++ b/a.cc\n@@ -1,2 +1,{} @@\n one\n-two\n{}",
            added + 1,
            "+more\n".repeat(added)
        );
        let new =
            "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n";
        let art = dir.path().join("aosp-patches/android-11/art");
        put(&art.join("0001-x.patch"), &format!("{HEAD}{change}{new}"));
        // The same file again is one file.
        put(&art.join("0002-y.patch"), &format!("{HEAD}{change}"));
        dir
    }

    #[test]
    fn the_footprint_is_one_line_for_each_project() {
        let dir = checkout(3);
        let text = table(&rows(dir.path(), &[Release::Android11]).unwrap());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[1],
            ["android-11", "art", "2", "1", "6", "(150)", "2", "1"]
        );
        assert_eq!(lines[2], ["android-11", "build/make", "none"]);
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn more_than_the_aim_is_said() {
        let text = |added| {
            let dir = checkout(added);
            table(&rows(dir.path(), &[Release::Android11]).unwrap())
        };
        assert!(!text(75).contains("more than the aim"));
        assert!(text(76).contains("android-11, art: 2 lines more than the aim are added"));
    }

    #[test]
    fn what_does_not_apply_is_not_built() {
        let dir = checkout(3);
        put(
            &dir.path().join("aosp-patches/sources.toml"),
            "[[source]]\nrelease = 10\nproject = \"art\"\npath = \"x\"\nsha256 = \"0\"\n",
        );
        let built = std::cell::Cell::new(false);
        let build = |_| {
            built.set(true);
            Ok(String::new())
        };
        let error = check(dir.path(), &[Release::Android11], Some(&build), "").unwrap_err();
        assert_eq!(
            error.to_string(),
            "2 of 2 failed: android-11, art; android-11, the lab's build"
        );
        assert!(!built.get());
    }
}
