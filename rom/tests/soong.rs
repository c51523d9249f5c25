// SPDX-License-Identifier: Apache-2.0
//! The build files of the overlay, with our own Blueprint parser and, where it is installed, bpfmt.

use hindsight_blueprint::{parse, Module, Tree, Value};
use hindsight_rom::overlay::{Overlay, PATH};
use hindsight_rom::patch::{in_folder, Patch};
use hindsight_rom::release::Release;
use hindsight_rom::rust_libs::{LIBRARY, PREBUILT, TARGETS};
use std::path::{Path, PathBuf};
use std::process::Command;

fn checkout() -> PathBuf {
    Path::new(env!("HINDSIGHT_CHECKOUT"))
        .canonicalize()
        .unwrap()
}

/// The overlay of a release, copied to a tree.
fn tree(release: Release) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    Overlay::of(&checkout(), tree.path(), release)
        .unwrap()
        .update()
        .unwrap();
    tree
}

fn blueprints(tree: &Path) -> Vec<PathBuf> {
    let overlay = Overlay::of(&checkout(), tree, Release::Android10).unwrap();
    overlay
        .paths()
        .filter(|path| path.ends_with("Android.bp"))
        .map(|path| tree.join(PATH).join(path))
        .collect()
}

fn strings<'a>(value: &'a Value, all: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => all.push(text),
        Value::List(list) => list.iter().for_each(|value| strings(value, all)),
        Value::Map(map) => map.values().for_each(|value| strings(value, all)),
        _ => {}
    }
}

#[test]
fn all_modules_are_there_and_all_files_too() {
    for release in Release::ALL {
        let dir = tree(release);
        let mut modules: Vec<(PathBuf, Module)> = Vec::new();
        let mut together = Tree::new();
        for file in blueprints(dir.path()) {
            let text = std::fs::read_to_string(&file).unwrap();
            together
                .add(file.strip_prefix(dir.path()).unwrap(), &text)
                .unwrap();
            let folder = file.parent().unwrap().to_owned();
            modules.extend(
                parse("x", &text)
                    .unwrap()
                    .modules
                    .into_iter()
                    .map(|m| (folder.clone(), m)),
            );
        }
        for wanted in [
            "libhindsight_art_hooks",
            "hindsight",
            "hindsight_libart_defaults",
        ] {
            assert!(together.module(wanted).is_some(), "{release}: {wanted}");
        }
        for (folder, module) in &modules {
            let mut texts = Vec::new();
            module
                .properties
                .values()
                .for_each(|value| strings(value, &mut texts));
            for text in texts {
                if let Some(name) = text.strip_prefix(':') {
                    assert!(
                        together.module(name).is_some(),
                        "{release}: {text} of {}",
                        module.name
                    );
                } else if let Some((before, _)) = text.split_once('*') {
                    // What scripts/rom build makes is not there yet.
                    if !before.starts_with(PREBUILT) {
                        let found = walk(&folder.join(before))
                            .iter()
                            .any(|path| fits(path, text));
                        // Stubs in assembly come with the instruction set.
                        assert!(
                            found || text.contains("/arch/"),
                            "{release}: {text} of {}",
                            module.name
                        );
                    }
                }
            }
        }
        // Soong takes the library of every target from where it is put.
        for target in TARGETS {
            let library = together.module("libhindsight_art_hooks").unwrap();
            let mut texts = Vec::new();
            strings(&library.properties["target"], &mut texts);
            let path = format!("{PREBUILT}/{}/{LIBRARY}", target.triple);
            assert!(texts.contains(&path.as_str()), "{release}: {path}");
            let Value::Map(targets) = &library.properties["target"] else {
                panic!()
            };
            assert!(
                targets.contains_key(target.soong),
                "{release}: {}",
                target.soong
            );
        }
    }
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => all.extend(walk(&entry.path())),
            _ => all.push(entry.path()),
        }
    }
    all
}

fn fits(path: &Path, pattern: &str) -> bool {
    path.extension().and_then(|e| e.to_str()) == pattern.rsplit('.').next()
}

/// The names that ART's own files refer to are those that the overlay defines.
#[test]
fn what_the_patches_name_is_defined() {
    for release in Release::ALL {
        let dir = tree(release);
        let mut together = Tree::new();
        for file in blueprints(dir.path()) {
            together
                .load(dir.path(), file.strip_prefix(dir.path()).unwrap())
                .unwrap();
        }
        let mut named = Vec::new();
        for patch in in_folder(&release.patches(&checkout()).join("art")).unwrap() {
            for file in Patch::load(&patch).unwrap().files {
                if file
                    .new
                    .as_deref()
                    .is_some_and(|path| path.ends_with("Android.bp"))
                {
                    for (kind, line) in file.hunks.iter().flat_map(|hunk| &hunk.lines) {
                        if *kind == '+' && line.contains("hindsight") {
                            named.push(line.trim().trim_matches([',', '"']).to_owned());
                        }
                    }
                }
            }
        }
        let (folders, modules): (Vec<_>, Vec<_>) =
            named.iter().partition(|name| name.contains('/'));
        for name in &modules {
            assert!(together.module(name).is_some(), "{release}: {name}");
        }
        for name in folders {
            let ours = name.strip_prefix("external/hindsight/");
            assert!(
                ours.is_some_and(|path| checkout().join(path).is_dir()),
                "{release}: {name}"
            );
        }
        // Release by release, as their patches come.
        if release == Release::Android10 {
            assert_eq!(modules.len(), 2, "{named:?}");
        }
    }
}

#[test]
fn makefiles_include_what_is_there_and_name_the_policy_as_the_release_does() {
    for release in Release::ALL {
        let dir = tree(release);
        let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap();
        let mut all = read("external/hindsight/hindsight.mk");
        for line in all.clone().lines() {
            if let Some(path) = line.strip_prefix("include ") {
                all += &read(path);
            }
        }
        let variable = match release {
            Release::Android10 | Release::Android11 => "BOARD_PLAT_PRIVATE_SEPOLICY_DIR",
            Release::Android14 => "SYSTEM_EXT_PRIVATE_SEPOLICY_DIRS",
        };
        let set: Vec<&str> = all
            .lines()
            .filter(|line| !line.starts_with('#') && line.contains("SEPOLICY"))
            .collect();
        let folder = "external/hindsight/sepolicy/private";
        assert_eq!(set, [format!("{variable} += {folder}")], "{release}");
        assert!(dir.path().join(folder).join("hindsight.te").exists());
    }
}

#[test]
fn they_are_formatted_as_bpfmt_does() {
    let bpfmt = std::env::var_os("BPFMT").unwrap_or_else(|| "bpfmt".into());
    if Command::new(&bpfmt).arg("-help").output().is_err() {
        eprintln!("skipped: no bpfmt (the Debian package blueprint-tools, or BPFMT=path)");
        return;
    }
    for release in Release::ALL {
        let dir = tree(release);
        for file in blueprints(dir.path()) {
            let output = Command::new(&bpfmt).arg("-d").arg(&file).output().unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(
                output.stdout.is_empty(),
                "{}",
                String::from_utf8_lossy(&output.stdout)
            );
        }
    }
}
