// SPDX-License-Identifier: Apache-2.0
//! The hooks pass Clang's analysis of ART's locks, by which AOSP builds ART: `-Wthread-safety-analysis` as an error. Run with
//! `--ignored` after `cargo xtask lab build`; two minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hindsight_lab::{Isa, Lab, Release, Variant};

const ANALYSIS: &str =
    "-Wno-everything -Wthread-safety-analysis -Werror=thread-safety-analysis -fsyntax-only";

/// The command by which the lab compiles a source of libart, as an analysis that writes nothing.
fn analysis(folder: &Path, source: &str) -> String {
    let object = format!("out/x86_64/obj/libart.so/{source}.o");
    let output = Command::new("ninja")
        .current_dir(folder)
        .args(["-t", "commands", &object])
        .output()
        .expect("ninja is installed");
    let commands = String::from_utf8(output.stdout).unwrap();
    let command = commands
        .lines()
        .find(|line| line.contains(&object))
        .unwrap_or_else(|| panic!("the lab does not compile {source}"));
    let mut words: Vec<&str> = command.split_whitespace().collect();
    words.retain(|word| *word != "ccache" && *word != "-w" && *word != "-MD");
    for option in ["-MF", "-o"] {
        if let Some(at) = words.iter().position(|word| *word == option) {
            words.drain(at..at + 2);
        }
    }
    format!("{} {ANALYSIS}", words.join(" "))
}

fn analyse(folder: &Path, command: &str) -> Result<(), String> {
    let output = Command::new("sh")
        .current_dir(folder)
        .args(["-c", command])
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build; takes two minutes"]
fn all_hooks_hold_the_locks_that_they_need() {
    let lab = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight).unwrap();
    let folder = lab.dir();
    let hooks = folder.join("hindsight/art-hooks/cc/runtime");
    let mut sources: Vec<PathBuf> = (fs::read_dir(&hooks).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|x| x == "cc"))
        .collect();
    sources.sort();
    assert!(sources.len() > 20, "{sources:?}");
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let errors: Vec<String> = (sources.iter())
        .map(|path| format!("hindsight/art-hooks/cc/runtime/{}", name(path)))
        .filter_map(|source| analyse(folder, &analysis(folder, &source)).err())
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));

    // The analysis finds a function that needs a lock and is called without it.
    let wrong = tempfile::NamedTempFile::with_suffix(".cc").unwrap();
    let text = "#include \"base/mutex.h\"\n\
        namespace art {\n\
        void Needs() REQUIRES_SHARED(Locks::mutator_lock_);\n\
        void Calls() { Needs(); }\n\
        }\n";
    fs::write(wrong.path(), text).unwrap();
    let source = "hindsight/art-hooks/cc/runtime/waits.cc";
    let command = analysis(folder, source).replace(source, wrong.path().to_str().unwrap());
    let error = analyse(folder, &command).unwrap_err();
    assert!(error.contains("mutator_lock_"), "{error}");
}
