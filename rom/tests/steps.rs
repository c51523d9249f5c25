// SPDX-License-Identifier: Apache-2.0
//! `sync`, `build` and `flash` with stand-ins for repo, lunch and fastboot, which record their arguments.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct World {
    dir: tempfile::TempDir,
}

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

impl World {
    fn new() -> World {
        let world = World {
            dir: tempfile::tempdir().unwrap(),
        };
        let manifest = "<manifest><extend-project name=\"platform/art\" path=\"art\" \
                        revision=\"refs/tags/android-10.0.0_r36\"/></manifest>";
        put(&world.path("hindsight/manifests/android-10.xml"), manifest);
        put(&world.path("hindsight/aosp/common/hindsight.mk"), "mk");
        for folder in ["cc", "include", "java"] {
            put(
                &world.path("hindsight/art-hooks").join(folder).join("x"),
                "x",
            );
        }
        std::fs::create_dir(world.path("aosp")).unwrap();
        for program in ["adb", "repo"] {
            world.program(program, "");
        }
        world
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// A program that records its arguments and then runs `script`.
    fn program(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        put(
            &path,
            &format!(
                "#!/bin/sh\necho \"{name} $*\" >> '{}'\n{script}\n",
                self.path("calls").display()
            ),
        );
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let output = Command::new(env!("CARGO_BIN_EXE_rom"))
            .env("PATH", path)
            .stdin(Stdio::null())
            .arg("--checkout")
            .arg(self.path("hindsight"))
            .env("ANDROID_BUILD_TOP", self.path("aosp"))
            .args(["--min-disk", "0", "--min-memory", "0"])
            .args(arguments)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn sync_initializes_once_and_pins() {
    let world = World::new();
    let local = world.path("aosp/.repo/local_manifests/hindsight.xml");
    let (ok, said) = world.run(&["sync", "--dry-run"]);
    assert!(
        ok && said.contains("repo init") && said.contains("repo sync"),
        "{said}"
    );
    assert!(world.calls().is_empty() && !local.exists());

    world.program(
        "repo",
        "[ \"$1\" = init ] && mkdir -p .repo/manifests .repo/manifests.git && touch .repo/manifest.xml && \
         printf 'merge = refs/tags/android-10.0.0_r36\\n' > .repo/manifests.git/config; exit 0",
    );
    let (ok, said) = world.run(&["sync", "--shallow", "-j", "9"]);
    assert!(ok, "{said}");
    let calls = world.calls();
    assert!(
        calls[0].contains("--manifest-branch refs/tags/android-10.0.0_r36 --depth 1"),
        "{calls:?}"
    );
    assert!(
        calls[1].starts_with("repo sync") && calls[1].ends_with("--jobs 9"),
        "{calls:?}"
    );
    assert_eq!(
        std::fs::read(&local).unwrap(),
        std::fs::read(world.path("hindsight/manifests/android-10.xml")).unwrap()
    );
    // Again: only what is missing.
    assert!(world.run(&["sync"]).0);
    assert_eq!(
        world
            .calls()
            .iter()
            .filter(|call| call.starts_with("repo init"))
            .count(),
        1
    );

    // A download that breaks off.
    world.program("repo", "exit 7");
    let (ok, said) = world.run(&["sync"]);
    assert!(
        !ok && said.contains("repo resumes where it stopped"),
        "{said}"
    );
}

#[test]
fn build_wants_a_patched_tree_and_plain_names() {
    let world = World::new();
    let (ok, said) = world.run(&["build", "--product", "x; rm -rf ."]);
    assert!(!ok && said.contains("is no name of a product"), "{said}");
    let (ok, said) = world.run(&["build", "--", "droid; true"]);
    assert!(!ok && said.contains("is no goal of m"), "{said}");
    let (ok, said) = world.run(&["build"]);
    assert!(
        !ok && said.contains("run 'scripts/rom apply' first"),
        "{said}"
    );
}

fn phone(world: &World, product: &str, unlocked: &str, devices: &str) {
    for image in ["android-info.txt", "boot.img", "system.img", "vbmeta.img"] {
        put(
            &world.path("aosp/out/target/product/oriole").join(image),
            "x",
        );
    }
    world.program(
        "fastboot",
        &format!(
            "case \"$*\" in devices) printf '{devices}' ;; *'getvar product') echo 'product: {product}' >&2 ;; \
             *'getvar unlocked') echo 'unlocked: {unlocked}' >&2 ;; esac"
        ),
    );
}

fn wrote(world: &World) -> bool {
    world.calls().iter().any(|call| call.contains("flashall"))
}

#[test]
fn flash_writes_only_what_was_confirmed_to_the_phone_that_was_meant() {
    let world = World::new();
    let flash = |more: &[&str]| world.run(&[&["flash", "--product", "aosp_oriole"], more].concat());
    let refuses = |more: &[&str], because: &str| {
        let (ok, said) = flash(more);
        assert!(!ok && said.contains(because), "not '{because}' but: {said}");
        assert!(!wrote(&world), "{:?}", world.calls());
    };
    world.program("fastboot", "");
    refuses(
        &[],
        "has no android-info.txt, boot.img, system.img, vbmeta.img: run 'scripts/rom build",
    );
    phone(&world, "oriole", "yes", "");
    refuses(&[], "no phone in fastboot mode");
    phone(&world, "oriole", "yes", "A1\\tfastboot\\nB2\\tfastboot\\n");
    refuses(&[], "name one with --serial: A1, B2");
    refuses(&["--serial", "C3"], "no phone C3");
    phone(&world, "raven", "yes", "A1\\tfastboot\\n");
    refuses(
        &["--serial", "A1", "--yes"],
        "A1 is a raven, and the build is for oriole",
    );
    phone(&world, "oriole", "no", "A1\\tfastboot\\n");
    refuses(&["--serial", "A1", "--yes"], "is locked");
    phone(&world, "oriole", "yes", "A1\\tfastboot\\n");
    refuses(&[], "nobody can confirm");
    refuses(&["--yes"], "--serial");
    let (ok, said) = flash(&["--dry-run"]);
    assert!(ok && said.contains("flashall") && !wrote(&world), "{said}");

    let (ok, said) = flash(&["--serial", "A1", "--yes"]);
    assert!(ok, "{said}");
    assert_eq!(world.calls().last().unwrap(), "fastboot -s A1 flashall");
    assert!(flash(&["--serial", "A1", "--yes", "--wipe"]).0);
    assert_eq!(world.calls().last().unwrap(), "fastboot -s A1 -w flashall");

    let (ok, said) = world.run(&["flash", "--product", "aosp_cf_x86_64_phone"]);
    assert!(!ok && said.contains("is not a phone's product"), "{said}");
}

#[test]
fn boot_tests_of_the_lab_need_no_tree() {
    let world = World::new();
    world.program("cargo", "");
    let (ok, said) = world.run(&["boot-test", "--target", "lab", "--", "--pairs", "2"]);
    assert!(ok, "{said}");
    let called = world.calls().pop().unwrap();
    assert!(
        called.ends_with("-p hindsight-emulator-tests -- --target lab --pairs 2"),
        "{called}"
    );
    // In the checkout itself, where other steps refuse to work.
    let checkout = world.path("hindsight");
    let checkout = checkout.to_str().unwrap();
    let there = |step: &[&str]| world.run(&[step, &["--tree", checkout]].concat());
    assert!(there(&["boot-test", "--target", "lab"]).0);
    let (ok, said) = there(&["boot-test", "--target", "phone"]);
    assert!(!ok && said.contains("inside each other"), "{said}");
}
