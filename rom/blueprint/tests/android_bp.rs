// SPDX-License-Identifier: Apache-2.0
//! Reads the `Android.bp` files of ART and libcore that the lab has unpacked.

use hindsight_blueprint::{parse, Source, Tree, Variation};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The sources of a lab, of stock ART or of the patched one.
fn sources() -> PathBuf {
    let cache = match std::env::var_os("HINDSIGHT_CACHE") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(&std::env::var_os("HOME").unwrap()).join(".cache/hindsight"),
    };
    ["stock", "hindsight"]
        .map(|variant| cache.join("lab/android-10").join(variant).join("src"))
        .into_iter()
        .find(|dir| dir.join("art/runtime/Android.bp").exists())
        .expect("the lab's sources are not unpacked: cargo xtask lab build --stock")
}

fn blueprints(root: &Path, dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root.join(dir)).unwrap().flatten() {
        let path = dir.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            blueprints(root, &path, found);
        } else if path.extension().is_some_and(|e| e == "bp") {
            found.push(path);
        }
    }
}

fn linux() -> Variation {
    Variation {
        arch: vec!["x86_64".into()],
        target: ["host", "linux", "linux_glibc", "not_windows"]
            .map(String::from)
            .to_vec(),
        codegen: ["arm", "arm64", "x86", "x86_64"].map(String::from).to_vec(),
        linkage: None,
    }
}

#[test]
#[ignore = "needs the lab's sources: cargo xtask lab build --stock"]
fn every_file_parses_and_the_libraries_sources_exist() {
    let root = sources();
    let mut files = Vec::new();
    blueprints(&root, Path::new("art"), &mut files);
    blueprints(&root, Path::new("libcore"), &mut files);
    assert!(
        files.len() > 40,
        "only {} files in {}",
        files.len(),
        root.display()
    );

    let mut tree = Tree::new();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for file in &files {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        for module in parse(&file.display().to_string(), &text).unwrap().modules {
            *kinds.entry(module.kind).or_default() += 1;
        }
        tree.add(file, &text).unwrap();
    }
    assert!(kinds["art_cc_library"] >= 10, "{kinds:?}");
    assert!(kinds["filegroup"] >= 10, "{kinds:?}");

    for (module, count, sample) in [
        ("libart", 200, "art/runtime/thread.cc"),
        (
            "libart-compiler",
            80,
            "art/compiler/optimizing/code_generator_arm64.cc",
        ),
        (
            "libartpalette-system",
            1,
            "art/libartpalette/system/palette_fake.cc",
        ),
        (
            "libjavacore",
            20,
            "libcore/luni/src/main/native/Register.cpp",
        ),
        ("libarttest", 30, "art/test/004-JniTest/jni_test.cc"),
        (
            "openjdk_java_files",
            1000,
            "libcore/ojluni/src/main/java/java/lang/String.java",
        ),
    ] {
        let mut found = 0;
        let mut has_sample = false;
        for source in tree.sources(module, &linux()).unwrap() {
            let Source::File(path) = source else { continue };
            assert!(
                root.join(&path).is_file(),
                "{module}: {} does not exist",
                path.display()
            );
            has_sample |= path == Path::new(sample);
            found += 1;
        }
        assert!(found >= count, "{module}: only {found} sources");
        assert!(has_sample, "{module}: no {sample}");
    }
    // Generated sources and other ISAs' files.
    let art = tree.sources("libart", &linux()).unwrap();
    assert!(
        art.contains(&Source::Output("libart_mterp.x86_64".into())),
        "no interpreter"
    );
    assert!(!art
        .iter()
        .any(|s| matches!(s, Source::File(p) if p.ends_with("entrypoints_init_arm.cc"))));
    assert_eq!(
        tree.strings("libart", "generated_sources", &linux())
            .unwrap(),
        ["art_operator_srcs"]
    );
}
