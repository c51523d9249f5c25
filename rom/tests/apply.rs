// SPDX-License-Identifier: Apache-2.0
//! `scripts/rom apply`, `undo` and `status` on small trees, in every state that can stop them.

mod common;

use common::has_tools;
use std::path::{Path, PathBuf};
use std::process::Command;

const TAG: &str = "android-10.0.0_r36";

/// A checkout of Hindsight and an AOSP tree, both small: project `art` with two patches, `system/core`
/// with one, and an overlay.
struct World {
    _dir: tempfile::TempDir,
    checkout: PathBuf,
    tree: PathBuf,
}

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn numbered(prefix: &str, n: usize) -> String {
    (1..=n).map(|i| format!("{prefix} {i}\n")).collect()
}

fn patch(subject: &str, body: &str) -> String {
    format!(
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n\
         From: Hindsight <hindsight@example.com>\nDate: Sat, 21 Nov 2026 07:19:23 +0000\n\
         Subject: [PATCH] {subject}\n\nBecause.\n---\n{body}-- \n2.0\n"
    )
}

fn change(file: &str, hunk: &str) -> String {
    format!("diff --git a/{file} b/{file}\nindex 1..2 100644\n--- a/{file}\n+++ b/{file}\n{hunk}")
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let (checkout, tree) = (dir.path().join("hindsight"), dir.path().join("aosp"));
        let pins: String = [
            ("platform/art", "art"),
            ("platform/system/core", "system/core"),
        ]
        .iter()
        .map(|(name, path)| {
            format!(
                "<extend-project name=\"{name}\" path=\"{path}\" revision=\"refs/tags/{TAG}\"/>"
            )
        })
        .collect();
        put(
            &checkout.join("manifests/android-10.xml"),
            &format!("<manifest>{pins}</manifest>"),
        );
        for folder in ["cc", "include", "java"] {
            put(&checkout.join("art-hooks").join(folder).join("x"), folder);
        }
        put(&checkout.join("aosp/common/hindsight.mk"), "mk\n");
        let patches = checkout.join("aosp-patches/android-10");
        put(
            &patches.join("art/0001-first.patch"),
            &patch(
                "First",
                &change(
                    "runtime/thread.cc",
                    "@@ -3,3 +3,4 @@\n thread 3\n thread 4\n+hook\n thread 5\n",
                ),
            ),
        );
        put(
            &patches.join("art/0002-second.patch"),
            &patch(
                "Second",
                "diff --git a/new.txt b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n",
            ),
        );
        put(
            &patches.join("system_core/0001-init.patch"),
            &patch(
                "Init",
                &change("init.rc", "@@ -1,2 +1,3 @@\n+import\n rc 1\n rc 2\n"),
            ),
        );
        let world = World {
            _dir: dir,
            checkout,
            tree,
        };
        for (project, file, text) in [
            ("art", "runtime/thread.cc", numbered("thread", 30)),
            ("system/core", "init.rc", numbered("rc", 5)),
        ] {
            put(&world.tree.join(project).join(file), &text);
            world.git(project, &["init", "-q", "-b", "main"]);
            world.git(project, &["add", "-A"]);
            world.git(project, &["commit", "-q", "-m", "upstream"]);
            world.git(project, &["tag", TAG]);
            // The state that repo sync leaves.
            world.git(project, &["checkout", "-q", "--detach"]);
        }
        world
    }

    fn git(&self, project: &str, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .current_dir(self.tree.join(project))
            .args(["-c", "user.name=t", "-c", "user.email=t@t"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rom"));
        command
            .arg("--checkout")
            .arg(&self.checkout)
            .arg("--tree")
            .arg(&self.tree)
            .args(arguments);
        command
    }

    /// Whether it succeeded, and its output.
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.command(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let (ok, text) = self.run(arguments);
        assert!(ok, "{arguments:?}: {text}");
        text
    }

    fn fails(&self, arguments: &[&str], because: &str) -> String {
        let (ok, text) = self.run(arguments);
        assert!(!ok, "{arguments:?} should have failed: {text}");
        assert!(
            text.contains(because),
            "{arguments:?}: not '{because}' but: {text}"
        );
        text
    }

    /// Everything that a step could have changed: HEAD, branches, index and files of both projects.
    fn snapshot(&self) -> String {
        let mut all = String::new();
        for project in ["art", "system/core"] {
            for arguments in [
                &["rev-parse", "HEAD"][..],
                &["branch", "-a"],
                &["for-each-ref"],
                &["status", "--porcelain"],
                &["diff", "HEAD"],
            ] {
                all += &self.git(project, arguments);
                all.push('\n');
            }
        }
        let mut there: Vec<_> = std::fs::read_dir(&self.tree)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != "external")
            .collect();
        there.sort();
        all + &format!(
            "{there:?} {}",
            self.tree.join("external/hindsight").exists()
        )
    }
}

#[test]
fn apply_can_be_repeated_and_undone_exactly() {
    let world = World::new();
    let before = world.snapshot();
    let said = world.succeeds(&["apply", "--dry-run"]);
    assert!(said.contains("apply 2 patches to art"), "{said}");
    assert!(said.contains("apply 1 patch to system/core"), "{said}");
    assert_eq!(world.snapshot(), before);

    world.succeeds(&["apply"]);
    let thread = std::fs::read_to_string(world.tree.join("art/runtime/thread.cc")).unwrap();
    assert!(thread.contains("thread 4\nhook\nthread 5"));
    assert!(world.tree.join("art/new.txt").exists());
    assert!(world.tree.join("external/hindsight/hindsight.mk").exists());
    assert_eq!(world.git("art", &["log", "-1", "--format=%s"]), "Second");
    assert!(world
        .succeeds(&["status"])
        .contains("art: 2 patches: patched"));
    let applied = world.snapshot();
    assert!(world
        .succeeds(&["apply"])
        .contains("art: 2 patches, in already"));
    assert_eq!(world.snapshot(), applied);

    world.succeeds(&["undo"]);
    assert_eq!(world.snapshot(), before);
    assert!(world
        .succeeds(&["undo"])
        .contains("no patches of Hindsight are in"));
    // The same commits again.
    world.succeeds(&["apply"]);
    assert_eq!(world.snapshot(), applied);
}

#[test]
fn a_branch_that_was_checked_out_is_checked_out_again() {
    let world = World::new();
    world.git("art", &["checkout", "-q", "main"]);
    world.succeeds(&["apply"]);
    world.succeeds(&["undo"]);
    assert_eq!(
        world.git("art", &["symbolic-ref", "--short", "HEAD"]),
        "main"
    );
}

#[test]
fn a_dirty_tree_is_left_alone() {
    let world = World::new();
    // The last project is the dirty one: the first must not have been changed.
    put(&world.tree.join("system/core/init.rc"), "mine\n");
    let before = world.snapshot();
    world.fails(
        &["apply"],
        "system/core has uncommitted changes (init.rc): commit or stash them",
    );
    assert_eq!(world.snapshot(), before);

    world.git("system/core", &["checkout", "-q", "init.rc"]);
    world.succeeds(&["apply"]);
    put(&world.tree.join("system/core/init.rc"), "mine\n");
    world.fails(&["undo"], "system/core has uncommitted changes");
    assert_eq!(
        std::fs::read_to_string(world.tree.join("system/core/init.rc")).unwrap(),
        "mine\n"
    );
}

#[test]
fn a_tree_at_another_commit_or_without_the_tag_is_left_alone() {
    let world = World::new();
    world.git("art", &["commit", "-q", "--allow-empty", "-m", "later"]);
    let before = world.snapshot();
    world.fails(&["apply"], &format!("not at the tag {TAG}"));
    assert_eq!(world.snapshot(), before);
    world.git("art", &["tag", "-d", TAG]);
    world.fails(&["apply"], &format!("there is no tag {TAG}"));
    std::fs::remove_dir_all(world.tree.join("art")).unwrap();
    world.fails(&["apply"], "is not there: run 'scripts/rom sync'");
    std::fs::create_dir(world.tree.join("art")).unwrap();
    world.fails(&["apply"], "is not a git work tree");
}

#[test]
fn a_patch_that_does_not_fit_says_where_its_lines_went() {
    let world = World::new();
    let file = world.tree.join("art/runtime/thread.cc");
    let text = numbered("thread", 30).replace("thread 3\nthread 4\nthread 5\n", "")
        + "thread 3\nthread 4 moved\nthread 5\n";
    put(&file, &text);
    world.git("art", &["commit", "-q", "-a", "-m", "r37"]);
    world.git("art", &["tag", "-f", TAG]);
    let before = world.snapshot();
    let said = world.fails(
        &["apply"],
        "does not apply to art; nothing has been touched",
    );
    assert!(said.contains("0001-first.patch ('First')"), "{said}");
    assert!(
        said.contains(
            "runtime/thread.cc: hunk 1 (line 3): the most similar place is line 28 (2 of 3 lines); not found \
             there: thread 4"
        ),
        "{said}"
    );
    assert_eq!(world.snapshot(), before);

    // The file itself has moved.
    world.git("art", &["mv", "runtime/thread.cc", "thread.cc"]);
    world.git("art", &["commit", "-q", "-m", "r38"]);
    world.git("art", &["tag", "-f", TAG]);
    world.fails(
        &["apply"],
        "runtime/thread.cc: is not in the tree; of that name there is thread.cc",
    );
}

/// A hunk that patch(1) would apply with fuzz: without a line of its context, and perhaps in a wrong place.
#[test]
fn a_hunk_that_needs_fuzz_is_refused_with_patch_file_and_remedy() {
    if !has_tools(
        "a_hunk_that_needs_fuzz_is_refused_with_patch_file_and_remedy",
        &[("patch", "patch")],
    ) {
        return;
    }
    let world = World::new();
    let text = numbered("thread", 30).replace("thread 5\n", "thread five\n");
    put(&world.tree.join("art/runtime/thread.cc"), &text);
    world.git("art", &["commit", "-q", "-a", "-m", "r37"]);
    world.git("art", &["tag", "-f", TAG]);
    let file = world
        .checkout
        .join("aosp-patches/android-10/art/0001-first.patch");
    let fuzzy = |fuzz: &str| {
        let patch = Command::new("patch")
            .current_dir(world.tree.join("art"))
            .args(["-p1", "--dry-run", "--batch", fuzz, "-i"])
            .arg(&file)
            .output()
            .unwrap();
        (
            patch.status.success(),
            String::from_utf8(patch.stdout).unwrap(),
        )
    };
    let (fits, said) = fuzzy("--fuzz=2");
    assert!(fits && said.contains("with fuzz"), "{said}");
    assert!(!fuzzy("--fuzz=0").0);

    let before = world.snapshot();
    let said = world.fails(
        &["apply"],
        "0001-first.patch ('First') does not apply to art",
    );
    assert!(
        said.contains("runtime/thread.cc: hunk 1 (line 3): ") && said.contains("thread 5"),
        "{said}"
    );
    let remedy = format!("Check out the tag {TAG} in art, or correct the patch");
    assert!(said.contains(&remedy), "{said}");
    assert_eq!(world.snapshot(), before);
}

/// Also where git is configured to ignore white space.
#[test]
fn context_that_differs_in_white_space_is_refused() {
    let world = World::new();
    let text = numbered("thread", 30).replace("thread 5\n", "thread   5\n");
    put(&world.tree.join("art/runtime/thread.cc"), &text);
    world.git("art", &["commit", "-q", "-a", "-m", "r37"]);
    world.git("art", &["tag", "-f", TAG]);
    world.git("art", &["config", "apply.ignoreWhitespace", "change"]);
    world.fails(&["apply"], "does not apply to art");
}

#[test]
fn a_patch_whose_lines_only_moved_applies() {
    let world = World::new();
    let text = numbered("added above", 10) + &numbered("thread", 30);
    put(&world.tree.join("art/runtime/thread.cc"), &text);
    world.git("art", &["commit", "-q", "-a", "-m", "r37"]);
    world.git("art", &["tag", "-f", TAG]);
    world.succeeds(&["apply"]);
    world.succeeds(&["undo"]);
}

#[test]
fn an_interrupted_apply_goes_on_or_back() {
    for then in ["apply", "undo"] {
        // Killed between two patches.
        let world = World::new();
        world.succeeds(&["apply"]);
        let applied = world.snapshot();
        world.git("art", &["reset", "-q", "--hard", "HEAD^"]);
        assert!(world
            .succeeds(&["status"])
            .contains("art: 2 patches: interrupted after 1 patch:"));
        if then == "apply" {
            world.succeeds(&[then]);
            assert_eq!(world.snapshot(), applied);
            world.succeeds(&["undo"]);
        } else {
            world.succeeds(&[then]);
        }
        assert_eq!(
            world.git("art", &["rev-parse", "HEAD"]),
            world.git("art", &["rev-parse", TAG])
        );

        // Killed inside git am: a file in the way stops it at a patch, in the same state.
        world.succeeds(&["apply"]);
        world.git("art", &["reset", "-q", "--hard", "HEAD^"]);
        put(&world.tree.join("art/new.txt"), "in the way");
        let patch = world
            .checkout
            .join("aosp-patches/android-10/art/0002-second.patch");
        let status = Command::new("git")
            .current_dir(world.tree.join("art"))
            .args(["-c", "user.name=t", "-c", "user.email=t@t", "am", "-q"])
            .arg(patch)
            .output()
            .unwrap();
        assert!(!status.status.success());
        std::fs::remove_file(world.tree.join("art/new.txt")).unwrap();
        assert!(world
            .succeeds(&["status"])
            .contains("interrupted inside git am"));
        world.succeeds(&["apply"]);
        assert_eq!(world.snapshot(), applied);
        world.succeeds(&["undo"]);
    }
}

#[test]
fn somebody_elses_am_and_commits_are_left_alone() {
    let world = World::new();
    let rebase = world.tree.join("art/.git/rebase-apply");
    std::fs::create_dir(&rebase).unwrap();
    world.fails(&["apply"], "somebody's 'git am' or rebase is going on");
    std::fs::remove_dir(&rebase).unwrap();

    world.succeeds(&["apply"]);
    world.git(
        "art",
        &["commit", "-q", "--allow-empty", "-m", "mine, on top"],
    );
    let before = world.snapshot();
    world.fails(&["apply"], "has commits on top of Hindsight's patches");
    let said = world.fails(&["undo"], "which undo would lose");
    assert!(said.contains("mine, on top"), "{said}");
    // The other project is undone.
    assert_ne!(world.snapshot(), before);
    assert_eq!(
        world.git("art", &["log", "-1", "--format=%s"]),
        "mine, on top"
    );
}

#[test]
fn other_patches_than_those_applied_are_noticed() {
    let world = World::new();
    world.succeeds(&["apply"]);
    let second = world
        .checkout
        .join("aosp-patches/android-10/art/0002-second.patch");
    put(
        &second,
        &std::fs::read_to_string(&second)
            .unwrap()
            .replace("+new\n", "+newer\n"),
    );
    world.fails(
        &["apply"],
        "patched by another version of Hindsight: undo, then apply",
    );
    world.succeeds(&["undo"]);
    world.succeeds(&["apply"]);
    assert_eq!(
        std::fs::read_to_string(world.tree.join("art/new.txt")).unwrap(),
        "newer\n"
    );
}

#[test]
fn an_untracked_file_in_the_way_is_kept() {
    let world = World::new();
    put(&world.tree.join("art/new.txt"), "mine");
    world.fails(
        &["apply"],
        "exist already, untracked: move them away: new.txt",
    );
    assert_eq!(
        std::fs::read_to_string(world.tree.join("art/new.txt")).unwrap(),
        "mine"
    );
}

#[test]
fn what_is_missing_is_said_before_anything_is_touched() {
    let world = World::new();
    let before = world.snapshot();
    world.fails(&["apply", "--min-disk", "100000000"], "disk:");
    // A dry run also prints it, and continues with what would be done.
    let said = world.succeeds(&["apply", "--dry-run", "--min-disk", "100000000"]);
    assert!(
        said.starts_with("missing: disk:") && said.contains("+ apply 2 patches to art"),
        "{said}"
    );
    let mut command = world.command(&["apply"]);
    let output = command
        .env("PATH", world.tree.join("nothing"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("git: not in PATH; it comes with"),
        "{said}"
    );
    assert_eq!(world.snapshot(), before);
    world.fails(&["--release", "12", "status"], "Android 10, 11 and 14");
}

#[test]
fn two_runs_at_once_do_not_mix() {
    let world = World::new();
    let file = std::fs::File::open(&world.tree).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    world.fails(&["apply"], "another scripts/rom is running");
    drop(file);
    world.succeeds(&["apply"]);
}

#[test]
fn a_project_without_patches_is_named() {
    let world = World::new();
    let by_hand =
        "system/core: no patches for Android 10; make the changes by hand, see docs/rom.md";
    assert!(!world.succeeds(&["status"]).contains("by hand"));
    let patches = world.checkout.join("aosp-patches/android-10/system_core");
    std::fs::remove_dir_all(patches).unwrap();
    for step in ["status", "apply"] {
        let said = world.succeeds(&[step]);
        assert!(said.contains(by_hand), "{said}");
    }
}

#[test]
fn patches_that_no_manifest_pins_are_a_mistake() {
    let world = World::new();
    put(
        &world
            .checkout
            .join("aosp-patches/android-10/bionic/0001-x.patch"),
        "x",
    );
    world.fails(&["apply"], "pins no project for them");
}
