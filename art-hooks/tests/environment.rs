// SPDX-License-Identifier: Apache-2.0
//! The environment of an app does not choose the code that its process compiles; in the lab's build it does.

use std::path::Path;
use std::process::Command;

/// ART's headers, as far as the file needs them.
const HEADERS: [(&str, &str); 2] = [
    (
        "android-base/logging.h",
        "#include <iostream>\n#define LOG(severity) std::cerr\n",
    ),
    (
        "arch/instruction_set.h",
        "#pragma once\nnamespace art { enum class InstructionSet { kArm, kThumb2, kArm64, kX86, kX86_64 }; }\n",
    ),
];

/// Generated for builds with the feature `lab`; `lab_build.h` looks for it.
const LAB: (&str, &str) = ("hindsight-art-hooks/src/lab.rs.h", "");

const MAIN: &str = "
#include \"hindsight/runtime/trace_point_form.h\"
int main() {
  return static_cast<int>(art::hindsight::GetTracePointForm(art::InstructionSet::kArm64));
}
";

/// The form that a process with this variable compiles: the number of a `TracePointForm`.
fn form(folder: &Path, is_lab: bool, variable: &str) -> i32 {
    let art_hooks = Path::new(env!("CARGO_MANIFEST_DIR"));
    let headers = folder.join(if is_lab { "lab" } else { "device" });
    for (name, text) in HEADERS.iter().chain(is_lab.then_some(&LAB)) {
        let path = headers.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let main = headers.join("main.cc");
    std::fs::write(&main, MAIN).unwrap();
    let program = headers.join("main");
    let compiler = std::env::var("CXX").unwrap_or("c++".into());
    let compiled = Command::new(compiler)
        .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(&headers)
        .arg("-I")
        .arg(art_hooks.join("include"))
        .arg(&main)
        .arg(art_hooks.join("cc/runtime/trace_point_form.cc"))
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(compiled.success());
    let run = Command::new(program)
        .env("HINDSIGHT_TRACE_POINTS", variable)
        .status();
    run.unwrap().code().unwrap()
}

#[test]
fn only_the_labs_build_reads_the_variable() {
    const SHARED: i32 = 0;
    const INLINE: i32 = 1;
    const NONE: i32 = 2;
    let folder = tempfile::tempdir().unwrap();
    for (variable, in_the_lab) in [("shared", SHARED), ("inline", INLINE), ("none", NONE)] {
        assert_eq!(form(folder.path(), true, variable), in_the_lab);
        assert_eq!(form(folder.path(), false, variable), SHARED, "{variable}");
    }
}

/// Each reading of the environment, as `file: name`, with whether a phone's build has it.
#[test]
fn no_other_variable_of_ours_is_read_in_an_app() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cc");
    let mut found = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            found.extend(readings(&text).map(|condition| format!("{file}: {condition}")));
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(
        found,
        [
            "lifecycle.cc: not defined(ART_TARGET_ANDROID)",
            "naming_check.cc: defined(HINDSIGHT_LAB)",
            "trace_point_form.cc: defined(HINDSIGHT_LAB)",
            "walk_check.cc: defined(HINDSIGHT_LAB)",
        ]
    );
}

/// The innermost condition of the preprocessor around each call of `getenv`.
fn readings(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut conditions: Vec<String> = Vec::new();
    text.lines().filter_map(move |line| {
        if let Some(condition) = line.strip_prefix("#if ") {
            conditions.push(condition.to_owned());
        } else if line.starts_with("#if") {
            conditions.push(line.to_owned());
        } else if line.starts_with("#else") {
            let condition = conditions.pop().unwrap_or_default();
            conditions.push(format!("not {condition}"));
        } else if line.starts_with("#endif") {
            conditions.pop();
        }
        line.contains("getenv(")
            .then(|| conditions.last().cloned().unwrap_or_default())
    })
}
