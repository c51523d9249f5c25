// SPDX-License-Identifier: Apache-2.0
//! Faults planted in a small workspace: each is found, with its place, and nothing else is.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::check;

const LICENCE: &str = "// SPDX-License-Identifier: Apache-2.0\n";

/// A workspace without faults: the trace format, the runtime above it, the decoder beside it, and a document.
fn workspace() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(
        root,
        "Cargo.toml",
        "# SPDX-License-Identifier: Apache-2.0\n[workspace]\nresolver = \"2\"\n\
         members = [\"trace-format\", \"runtime\", \"host/analysis\"]\n",
    );
    manifest(root, "trace-format", "1.85", "");
    manifest(
        root,
        "runtime",
        "1.85",
        "trace-format = { path = \"../trace-format\" }\nlibc = \"0.2\"\n",
    );
    manifest(
        root,
        "host/analysis",
        "1.90",
        "trace-format = { path = \"../../trace-format\" }\nrayon = \"1\"\n",
    );
    rust(root, "trace-format/src/lib.rs", "");
    rust(
        root,
        "runtime/src/lib.rs",
        "mod ring;\nmod words;\npub use ring::Ring;\n",
    );
    rust(
        root,
        "runtime/src/ring.rs",
        "use crate::words::Word;\npub struct Ring(Word);\n",
    );
    rust(root, "runtime/src/words.rs", "pub(crate) struct Word;\n");
    rust(root, "host/analysis/src/lib.rs", "");
    write(
        root,
        "docs/guide.md",
        "<!-- SPDX-License-Identifier: Apache-2.0 -->\n# Guide to `rings`\n\n[here](#guide-to-rings), in `runtime/src/ring.rs`\n",
    );
    write(
        root,
        "README.md",
        "<!-- SPDX-License-Identifier: Apache-2.0 -->\n[guide](docs/guide.md#guide-to-rings)\n",
    );
    git(root, &["init", "--quiet"]);
    folder
}

fn manifest(root: &Path, folder: &str, rust: &str, dependencies: &str) {
    let name = folder.rsplit('/').next().unwrap();
    let text = format!(
        "# SPDX-License-Identifier: Apache-2.0\n[package]\nname = \"{name}\"\nversion = \"0.1.0\"\n\
         rust-version = \"{rust}\"\n[dependencies]\n{dependencies}"
    );
    write(root, &format!("{folder}/Cargo.toml"), &text);
}

fn rust(root: &Path, path: &str, text: &str) {
    write(root, path, &format!("{LICENCE}{text}"));
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn git(root: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .current_dir(root)
        .args(arguments)
        .status();
    assert!(status.unwrap().success());
}

fn problems(root: &Path) -> Vec<String> {
    let report = check(root).unwrap();
    report.problems.iter().map(ToString::to_string).collect()
}

/// Asserts that there is one problem for each pair: how it starts, and what it contains.
#[track_caller]
fn assert_problems(root: &Path, expected: &[(&str, &str)]) {
    let found = problems(root);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (problem, (start, part)) in found.iter().zip(expected) {
        assert!(
            problem.starts_with(start) && problem.contains(part),
            "{problem}"
        );
    }
}

#[test]
fn a_layout_without_faults_passes() {
    let folder = workspace();
    let report = check(folder.path()).unwrap();
    assert_eq!(problems(folder.path()), [""; 0]);
    assert_eq!(report.summary(), "layout: 3 crates, 5 modules, 0 problems");
}

#[test]
fn the_checkout_itself_can_be_read() {
    let report = check(Path::new(env!("HINDSIGHT_CHECKOUT"))).unwrap();
    assert!(
        report.crates > 10 && report.modules > 200,
        "{}",
        report.summary()
    );
}

#[test]
fn a_cycle_is_shown_edge_by_edge() {
    let folder = workspace();
    rust(
        folder.path(),
        "runtime/src/words.rs",
        "pub(crate) struct Word;\nfn f(_: &super::Ring) {}\n",
    );
    assert_problems(
        folder.path(),
        &[
            ("runtime/src/ring.rs:2: ", "crate::ring uses crate::words::Word, in the cycle crate::ring → crate::words → crate::ring"),
            ("runtime/src/words.rs:3: ", "crate::words uses crate::ring::Ring"),
        ],
    );
}

#[test]
fn a_cycle_of_parent_and_child_counts() {
    let folder = workspace();
    rust(
        folder.path(),
        "runtime/src/lib.rs",
        "mod ring;\nmod words;\npub use ring::Ring;\npub struct Limit;\nfn f(_: Ring) {}\n",
    );
    rust(
        folder.path(),
        "runtime/src/words.rs",
        "pub(crate) struct Word;\n",
    );
    rust(
        folder.path(),
        "runtime/src/ring.rs",
        "use super::Limit;\npub struct Ring(Limit, crate::words::Word);\n",
    );
    assert_problems(
        folder.path(),
        &[
            ("runtime/src/lib.rs:6: ", "crate uses crate::ring::Ring"),
            ("runtime/src/ring.rs:2: ", "crate::ring uses crate::Limit"),
        ],
    );
}

#[test]
fn uses_in_tests_and_by_re_exports_are_no_dependencies() {
    let folder = workspace();
    rust(
        folder.path(),
        "runtime/src/words.rs",
        "pub(crate) struct Word;\npub(crate) use crate::ring::Ring as Again;\n#[cfg(test)]\nuse crate::ring::Ring;\n\
         #[cfg(all(test, unix))]\nmod tests {\n    use crate::ring::Ring;\n}\n\
         impl Word {\n    #[test]\n    fn f(_: crate::Ring) {}\n}\n",
    );
    assert_eq!(problems(folder.path()), [""; 0]);
}

#[test]
fn uses_without_an_import_count() {
    let sources = [
        ("an impl block", "impl super::Ring {\n    fn f() {}\n}\n"),
        (
            "a macro's input",
            "fn f() {\n    drop(vec![crate::ring::make()]);\n}\n",
        ),
        (
            "an attribute",
            "#[some(with = crate::ring::make)]\nstruct S;\n",
        ),
        (
            "a glob",
            "use crate::ring::*;\nfn f() {\n    let g = make;\n}\n",
        ),
        (
            "a module's name",
            "use crate::ring;\nfn f() {\n    ring::make();\n}\n",
        ),
        (
            "an import in a function",
            "fn f() {\n    use crate::ring as other;\n    other::make();\n}\n",
        ),
        (
            "a re-export that is used",
            "pub use crate::ring::Ring;\nstruct S(Ring);\n",
        ),
        ("a macro", "fn f() {\n    ring_of!();\n}\n"),
    ];
    for (what, source) in sources {
        let folder = workspace();
        rust(
            folder.path(),
            "runtime/src/ring.rs",
            "use crate::words::Word;\npub struct Ring(Word);\npub(crate) fn make() {}\nmacro_rules! ring_of { () => {} }\n",
        );
        rust(
            folder.path(),
            "runtime/src/words.rs",
            &format!("pub(crate) struct Word;\n{source}"),
        );
        assert_eq!(
            problems(folder.path()).len(),
            2,
            "{what}: {:#?}",
            problems(folder.path())
        );
    }
}

#[test]
fn an_inherent_function_belongs_to_the_module_of_its_impl_block() {
    let folder = workspace();
    // `words` extends the type of `ring` and depends on it, and `ring` calls the extension.
    rust(
        folder.path(),
        "runtime/src/words.rs",
        "impl crate::Ring {\n    pub(crate) fn wrap(&self) {}\n}\n",
    );
    rust(
        folder.path(),
        "runtime/src/ring.rs",
        "pub struct Ring;\nimpl Ring {\n    fn f(&self) {\n        self.wrap();\n    }\n}\n",
    );
    assert_problems(
        folder.path(),
        &[
            (
                "runtime/src/ring.rs:5: ",
                "crate::ring uses crate::words::Ring::wrap",
            ),
            (
                "runtime/src/words.rs:2: ",
                "crate::words uses crate::ring::Ring",
            ),
        ],
    );
}

#[test]
fn a_dependency_against_the_direction_is_found() {
    let folder = workspace();
    manifest(
        folder.path(),
        "runtime",
        "1.85",
        "analysis = { path = \"../host/analysis\" }\n",
    );
    manifest(
        folder.path(),
        "host/analysis",
        "1.90",
        "runtime = { path = \"../../runtime\" }\n",
    );
    assert_problems(
        folder.path(),
        &[
            (
                "host/analysis/Cargo.toml:7: ",
                "host/analysis depends on runtime",
            ),
            ("runtime/Cargo.toml:7: ", "runtime depends on host/analysis"),
        ],
    );
}

#[test]
fn a_device_crate_has_listed_dependencies_only() {
    let folder = workspace();
    manifest(
        folder.path(),
        "runtime",
        "1.90",
        "thiserror = \"2\"\nserde = \"1\"\nloom = \"0.7\"\n[build-dependencies]\ncc = \"1\"\n",
    );
    assert_problems(
        folder.path(),
        &[
            ("runtime/Cargo.toml:5: ", "rust-version = \"1.85\""),
            ("runtime/Cargo.toml:8: ", "depends on serde"),
            ("runtime/Cargo.toml:9: ", "make it optional"),
            ("runtime/Cargo.toml:11: ", "depends on cc"),
        ],
    );
}

#[test]
fn a_crate_without_a_rule_is_found() {
    let folder = workspace();
    manifest(folder.path(), "elsewhere", "1.90", "");
    rust(folder.path(), "elsewhere/src/lib.rs", "");
    let root = fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
    write(
        folder.path(),
        "Cargo.toml",
        &root.replace("\"runtime\"", "\"runtime\", \"elsewhere\""),
    );
    assert_problems(folder.path(), &[("elsewhere/Cargo.toml:1: ", "no rule")]);
}

#[test]
fn a_missing_licence_line_is_found() {
    let folder = workspace();
    write(
        folder.path(),
        "runtime/src/words.rs",
        "pub(crate) struct Word;\n",
    );
    write(folder.path(), "scripts/run", "#!/bin/sh\ntrue\n");
    write(folder.path(), "data.json", "{}");
    assert_problems(
        folder.path(),
        &[
            ("runtime/src/words.rs:1: ", "no licence line"),
            ("scripts/run:1: ", "no licence line"),
        ],
    );
}

#[test]
fn dead_links_and_paths_are_found() {
    let folder = workspace();
    write(
        folder.path(),
        "docs/guide.md",
        "<!-- SPDX-License-Identifier: Apache-2.0 -->\n# Guide\n\n[away](../gone.md)\n[deeper](#no-heading)\n\
         `runtime/src/gone.rs`, `runtime/src/ring.rs:3`, `runtime/android-NN`, `elsewhere/art.cc`\n[web](https://example.com/x)\n",
    );
    rust(
        folder.path(),
        "trace-format/src/lib.rs",
        "//! See docs/old.md and `host/analysis/gone`.\n",
    );
    assert_problems(
        folder.path(),
        &[
            (
                "README.md:2: ",
                "docs/guide.md has no heading #guide-to-rings",
            ),
            ("docs/guide.md:4: ", "there is no gone.md"),
            (
                "docs/guide.md:5: ",
                "docs/guide.md has no heading #no-heading",
            ),
            (
                "docs/guide.md:6: ",
                "`runtime/src/gone.rs` is not in the checkout",
            ),
            (
                "trace-format/src/lib.rs:2: ",
                "`docs/old.md` is not in the checkout",
            ),
            (
                "trace-format/src/lib.rs:2: ",
                "`host/analysis/gone` is not in the checkout",
            ),
        ],
    );
}
