// SPDX-License-Identifier: Apache-2.0
//! The build files of the overlay: read by our own Blueprint parser, by GNU make (which stands in for Kati),
//! and by bpfmt.

mod common;

use common::{checkout, has_tools};
use hindsight_blueprint::{parse, Module, Tree, Value, Variation};
use hindsight_rom::overlay::{Overlay, PATH};
use hindsight_rom::patch::{in_folder, Patch};
use hindsight_rom::release::Release;
use hindsight_rom::rust_libs::{ART_HOOKS, LIBRARIES, TARGETS};
use std::path::{Path, PathBuf};
use std::process::Command;

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
            "libhindsight_service",
            "libhindsight_perfetto_source",
            "libhindsight_uploader",
            "hindsightd",
            "hindsight-perfetto",
            "hindsight-upload",
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
                    // The files that 'scripts/rom build' makes are not there yet.
                    if !before.starts_with(ART_HOOKS.folder) {
                        let found = walk(&folder.join(before))
                            .iter()
                            .any(|path| fits(path, text));
                        // A folder of an instruction set may be empty: x86 has no stubs.
                        assert!(
                            found || text.contains("/arch/"),
                            "{release}: {text} of {}",
                            module.name
                        );
                    }
                }
            }
        }
    }
}

/// The name of the module, and the folder of its Android.bp below the overlay.
const LIBRARY_MODULES: [(&str, &str); 4] = [
    ("libhindsight_art_hooks", ""),
    ("libhindsight_service", "service/"),
    ("libhindsight_perfetto_source", "service/"),
    ("libhindsight_uploader", "service/"),
];

/// 'scripts/rom build' puts each target's library where the Android.bp expects it; no module names one that it
/// does not make.
#[test]
fn each_library_is_where_its_module_expects_it() {
    for release in Release::ALL {
        let together = all_modules(tree(release).path());
        for (library, (name, folder)) in LIBRARIES.iter().zip(LIBRARY_MODULES) {
            let Value::Map(targets) = &together.module(name).unwrap().properties["target"] else {
                panic!("{name}")
            };
            let mut named = Vec::new();
            targets
                .values()
                .for_each(|value| strings(value, &mut named));
            let made = TARGETS.iter().filter(|target| library.is_for(**target));
            let mut expected = Vec::new();
            for target in made {
                assert!(targets.contains_key(target.soong), "{release}: {target:?}");
                let path = library.path(*target);
                let below = path.strip_prefix(folder).unwrap();
                expected.push(below.to_str().unwrap().to_owned());
            }
            expected.sort();
            named.sort_unstable();
            assert_eq!(named, expected, "{release}: {name}");
        }
    }
}

/// A program of the system, its library, what else it links, and its C++ file and init script without their endings.
const PROGRAMS: [(&str, &str, &[&str], &str); 3] = [
    (
        "hindsightd",
        "libhindsight_service",
        &["libcutils", "liblog"],
        "hindsightd",
    ),
    (
        "hindsight-perfetto",
        "libhindsight_perfetto_source",
        &["liblog"],
        "hindsight_perfetto",
    ),
    (
        "hindsight-upload",
        "libhindsight_uploader",
        &["liblog"],
        "hindsight_upload",
    ),
];

/// The programs: what they link, the scripts that init starts them by, one instruction set, device only.
#[test]
fn the_services_are_programs_of_the_device() {
    for release in Release::ALL {
        let dir = tree(release);
        let together = all_modules(dir.path());
        let list = |module: &str, property: &str| {
            let here = Variation::default();
            together.strings(module, property, &here).unwrap()
        };
        let folder = dir.path().join(PATH).join("service");
        for (program, library, shared, file) in PROGRAMS {
            assert_eq!(list(program, "static_libs"), [library]);
            assert_eq!(list(program, "shared_libs"), shared);
            let (source, script) = (format!("{file}.cc"), format!("{file}.rc"));
            assert_eq!(list(program, "srcs"), [source.as_str()]);
            assert_eq!(list(program, "init_rc"), [script.as_str()]);
            for file in [source, script] {
                assert!(folder.join(&file).exists(), "{release}: {file}");
            }
            for module in [program, library] {
                let properties = &together.module(module).unwrap().properties;
                let first = Value::String("first".into());
                assert_eq!(properties.get("compile_multilib"), Some(&first), "{module}");
                assert!(!properties.contains_key("host_supported"), "{module}");
            }
        }
        for library in &LIBRARIES[1..] {
            assert!(!library.is_for(TARGETS[4]), "the host has no {library:?}");
        }
    }
}

#[test]
fn products_have_the_programs_that_their_release_can_use() {
    if !has_tools(
        "products_have_the_programs_that_their_release_can_use",
        &[("make", "make")],
    ) {
        return;
    }
    for release in Release::ALL {
        let dir = tree(release);
        let mut expected = vec!["hindsight", "hindsightd", "hindsight-upload"];
        if release != Release::Android10 {
            expected.push("hindsight-perfetto");
        }
        let packages = made(dir.path(), 1, "PRODUCT_PACKAGES");
        assert_eq!(packages[1..], expected, "{release}");
    }
}

fn all_modules(tree: &Path) -> Tree {
    let mut together = Tree::new();
    for file in blueprints(tree) {
        let path = file.strip_prefix(tree).unwrap();
        together.load(tree, path).unwrap();
    }
    together
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

/// Every name of ours in the patched Android.bp files of art is a module or a folder of the overlay.
#[test]
fn what_the_patches_name_is_defined() {
    for release in Release::ALL {
        let together = all_modules(tree(release).path());
        let mut named = Vec::new();
        for patch in in_folder(&release.patches(&checkout()).join("art")).unwrap() {
            for file in Patch::load(&patch).unwrap().files {
                if file
                    .new
                    .as_deref()
                    .is_some_and(|path| path.ends_with("Android.bp"))
                {
                    let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
                    for (_, line) in lines.filter(|(kind, _)| *kind == '+') {
                        let texts = line.split('"').skip(1).step_by(2);
                        named.extend(
                            texts
                                .filter(|text| text.contains("hindsight"))
                                .map(str::to_owned),
                        );
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
        // libart, libart-compiler, programs with a static libart; in 14 libart_headers, too.
        let count = if release == Release::Android14 { 4 } else { 3 };
        assert_eq!(modules.len(), count, "{release}: {named:?}");
    }
}

/// The APEXes that libart is in, by their names in each release. Soong of Android 10 knows no such list.
#[test]
fn libraries_and_headers_are_available_to_the_apexes_of_art() {
    for release in Release::ALL {
        let expected: &[&str] = match release {
            Release::Android10 => &[],
            Release::Android11 => &["com.android.art.release", "com.android.art.debug"],
            Release::Android14 => &["com.android.art", "com.android.art.debug"],
        };
        let together = all_modules(tree(release).path());
        for module in ["libhindsight_art_hooks", "hindsight_headers"] {
            let apexes = together
                .strings(module, "apex_available", &Variation::default())
                .unwrap();
            assert_eq!(apexes, expected, "{release}: {module}");
        }
    }
}

/// The value of a variable in a makefile that includes hindsight.mk `times` times.
fn made(tree: &Path, times: usize, variable: &str) -> Vec<String> {
    let makefile = tree.join("product.mk");
    let text = format!(
        "TARGET_COPY_OUT_SYSTEM := system\n{variable} := vendor/sepolicy\n{}all: ; @echo $({variable})\n",
        "include external/hindsight/hindsight.mk\n".repeat(times)
    );
    std::fs::write(&makefile, text).unwrap();
    let make = Command::new("make")
        .current_dir(tree)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .args(["--no-print-directory", "--warn-undefined-variables", "-f"])
        .arg(&makefile)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&make.stderr).into_owned();
    assert!(make.status.success(), "{said}");
    let values = String::from_utf8(make.stdout).unwrap();
    values.split_whitespace().map(str::to_owned).collect()
}

/// build/make reads a product's makefiles twice where artifact path requirements apply. A policy folder that
/// is named twice is compiled twice, and the policy's build stops at the second declaration.
#[test]
fn makefiles_name_the_policy_folder_once_however_often_they_are_read() {
    if !has_tools(
        "makefiles_name_the_policy_folder_once_however_often_they_are_read",
        &[("make", "make")],
    ) {
        return;
    }
    for release in Release::ALL {
        let dir = tree(release);
        let variable = match release {
            Release::Android10 | Release::Android11 => "BOARD_PLAT_PRIVATE_SEPOLICY_DIR",
            Release::Android14 => "SYSTEM_EXT_PRIVATE_SEPOLICY_DIRS",
        };
        let folder = "external/hindsight/sepolicy/private";
        for times in [1, 2, 3] {
            assert_eq!(
                made(dir.path(), times, variable),
                ["vendor/sepolicy", folder],
                "{release}: included {times} times"
            );
        }
        assert!(dir.path().join(folder).join("hindsight.te").exists());
    }
}

#[test]
fn they_are_formatted_as_bpfmt_does() {
    let bpfmt = std::env::var_os("BPFMT").unwrap_or_else(|| "bpfmt".into());
    if !has_tools(
        "they_are_formatted_as_bpfmt_does",
        &[(&bpfmt, "blueprint-tools")],
    ) {
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
