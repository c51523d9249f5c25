// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask patches`: how many of upstream's lines the patch sets change, and whether they apply to
//! pristine sources.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::links;
use crate::patch::{in_folder, Footprint, Patch};
use crate::pristine::{unpack, Source, Sources, MIRROR};
use crate::project::{patches, Project, State};
use crate::release::Release;
use crate::runner::output;
use anyhow::{anyhow, ensure, Context as _, Result};

/// How many lines ART's patches should add at most: each has to be ported to every release.
const ART_AIM: usize = 160;

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

/// Builds the ART of a release with its patches; returns a description of the result.
pub type Builder<'a> = &'a dyn Fn(Release) -> Result<String>;

/// Runs the command; `builder` builds ART.
///
/// # Errors
/// If a patch can't be read, or (`Check`) doesn't apply or compile; all others have been tried by then.
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

/// The footprint of one project's patches.
#[derive(Debug, Default)]
struct Row {
    release: String,
    project: String,
    patches: usize,
    /// Files of upstream that are changed.
    files: usize,
    sum: Footprint,
    /// How many lines the patches should add at most, if there is such an aim.
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

/// The footprint as a table; below it, the projects that are over their aim.
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

/// The outcome of the checks so far.
#[derive(Default)]
struct Tried {
    passed: usize,
    failed: Vec<String>,
}

impl Tried {
    /// Prints and counts an outcome; returns whether it is a success.
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
    let sources = Sources::load(checkout)?;
    let mut tried = Tried::default();
    for release in releases {
        let mut art_applies = false;
        for project in Project::all(checkout, Path::new("/"), *release)? {
            let path = &project.pinned.path;
            let name = format!("{}, {path}", release.name());
            let source = sources.source.iter().find(|source| {
                source.release == release.number() && source.project == project.pinned.path
            });
            let result = match source {
                Some(source) => source
                    .tarball()
                    .fetch(mirror)
                    .and_then(|tarball| check_one(checkout, *release, path, source, &tarball)),
                None => Err(anyhow!(
                    "{} has no pristine source for it",
                    Sources::path(checkout).display()
                )),
            };
            let links = match result {
                Ok(applied) => {
                    let (n, tarball) = (patches(applied.patches), &applied.tarball);
                    let how = format!("{n}: in and out again, on {tarball}");
                    art_applies |= tried.note(&name, Ok(how)) && path == "art";
                    applied.links
                }
                Err(error) => {
                    tried.note(&name, Err(error));
                    None
                }
            };
            if let Some(links) = links {
                tried.note(&format!("{name}, links"), links);
            }
        }
        if let Some(build) = builder {
            let result = if art_applies {
                build(*release)
            } else {
                Err(anyhow!("not built, as there is no patched art to build"))
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

/// A patch set that has been applied and undone.
struct Applied {
    patches: usize,
    tarball: String,
    /// For art: whether each link has the Rust library, see [`links`].
    links: Option<Result<String>>,
}

/// Makes a git tree of the project's files that the patches change, and runs the code of `scripts/rom` on it:
/// apply, apply again, undo. While art is patched, its links are checked.
fn check_one(
    checkout: &Path,
    release: Release,
    path: &str,
    source: &Source,
    tarball: &Path,
) -> Result<Applied> {
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
    let is_art = path == "art";
    // A file that the tarball lacks is reported by git when the patch is applied.
    let wanted = |file: &str| files.contains(file) || (is_art && is_blueprint(file));
    unpack(tarball, source.strip, &wanted, &project.dir)?;
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
        "applying a second time changed something"
    );
    ensure!(
        project.state()?.0 == State::Applied,
        "all patches are in, but the state is not 'patched'"
    );
    let links = is_art.then(|| check_links(checkout, tree.path(), release));
    ensure!(project.undo()?, "undo found nothing");
    ensure!(
        git(&["rev-parse", "HEAD"])? == before,
        "undo did not go back to the tag"
    );
    ensure!(
        git(&["status", "--porcelain"])?.is_empty(),
        "undo left changes behind"
    );
    Ok(Applied {
        patches,
        tarball: source.tarball().name().to_owned(),
        links,
    })
}

fn is_blueprint(file: &str) -> bool {
    file == "Android.bp" || file.ends_with("/Android.bp")
}

/// Checks that each link with our objects has the Rust library, and that the library may go into the same
/// APEXes as the modules that need it.
fn check_links(checkout: &Path, root: &Path, release: Release) -> Result<String> {
    let tree = links::load(checkout, root, release)?;
    let links = links::links(&tree, release)?;
    let without: Vec<String> = links
        .iter()
        .filter(|link| !link.has_library)
        .map(|link| format!("{} ({})", link.module, link.os))
        .collect();
    ensure!(
        without.is_empty(),
        "these have Hindsight's runtime objects and are linked without libhindsight_art_hooks; give it to them \
         in aosp/{}/Android.bp, in defaults that they take: {}",
        release.name(),
        without.join(", ")
    );
    let apexes = links::missing_apexes(&tree)?;
    ensure!(
        apexes.is_empty(),
        "Soong would stop; correct apex_available in aosp/{}/Android.bp: {}",
        release.name(),
        apexes.join("; ")
    );
    let names: BTreeSet<&str> = links.iter().map(|link| link.module.as_str()).collect();
    Ok(format!(
        "{} links of {} modules have the runtime objects, and the Rust library",
        links.len(),
        names.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "From 0 Mon Sep 17 00:00:00 2001\nFrom: x <x@localhost.invalid>\n\
                        Date: Sat, 21 Nov 2026 18:00:00 +0000\nSubject: [PATCH] x\n\n---\n";

    fn put(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A checkout whose patch of Android 11's art adds `added` lines to `a.cc`, and creates a file.
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
            ["android-11", "art", "2", "1", "6", "(160)", "2", "1"]
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
        assert!(!text(80).contains("more than the aim"));
        assert!(text(81).contains("android-11, art: 2 lines more than the aim are added"));
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

    /// A tarball with `a.cc` in it.
    fn tarball(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        put(&dir.path().join("art/a.cc"), text);
        let file = dir.path().join("art.tar");
        let mut tar = Command::new("tar");
        tar.current_dir(dir.path()).args(["-cf", "art.tar", "art"]);
        output(&mut tar).unwrap();
        (dir, file)
    }

    #[test]
    fn a_patch_that_needs_fuzz_is_refused_by_name() {
        let dir = checkout(3);
        let patches = dir.path().join("aosp-patches/android-11/art");
        std::fs::remove_file(patches.join("0002-y.patch")).unwrap();
        let change = "diff --git a/a.cc b/a.cc\n--- a/a.cc\n+++ b/a.cc\n@@ -1,5 +1,6 @@\n one\n two\n three\n\
                      +ours\n four\n five\n";
        put(&patches.join("0001-x.patch"), &format!("{HEAD}{change}"));
        for folder in [
            "aosp/common",
            "art-hooks/cc",
            "art-hooks/include",
            "art-hooks/java",
        ] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let source = Source {
            release: 11,
            project: "art".into(),
            path: "art.tar".into(),
            sha256: String::new(),
            strip: 1,
        };
        let checked = |text: &str| {
            let (_dir, file) = tarball(text);
            check_one(dir.path(), Release::Android11, "art", &source, &file)
        };
        let text = "one\ntwo\nthree\nfour\nfive\n";
        assert_eq!(checked(text).unwrap().patches, 1);
        // patch(1) would take this with a fuzz of 1.
        let error = checked(&text.replace("five", "5"))
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("0001-x.patch ('x') does not apply to art")
                && error.contains("a.cc: hunk 1 (line 1)")
                && error.contains("Check out the tag android-11.0.0_r48"),
            "{error}"
        );
    }
}
