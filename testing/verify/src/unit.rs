// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify unit`: the C++ unit tests of `art-hooks/tests/cc`, compiled as the lab compiles ART's compiler,
//! linked to the lab's libraries, and run for each form of trace points.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{bail, ensure, Context as _, Result};
use hindsight_lab::{Isa, Lab, Release, Variant};

use hindsight_verify::boot_images::Form;

const LIBRARY: &str = "root/lib64/libart-compiler.so: shared ";
/// The headers of Debian's libgtest-dev.
const GTEST: &str = "/usr/include/gtest";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The release of ART
    #[arg(long, default_value = "10")]
    release: u32,
}

/// The lab's command lines for compiling a file of ART's compiler and for linking to it, for `sh`.
#[derive(Debug, PartialEq, Eq)]
struct Recipe {
    compiler: String,
    flags: String,
    linker: String,
    link_flags: String,
}

impl Recipe {
    fn read(ninja: &str) -> Result<Recipe> {
        let value = |start: &str, name: &str| -> Result<String> {
            ninja
                .lines()
                .skip_while(|line| !line.contains(start))
                .skip(1)
                .take_while(|line| line.starts_with("  "))
                .find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(" = "))
                .map(|text| text.replace("$$", "$"))
                .with_context(|| format!("the lab's build.ninja has no '{name}' behind '{start}'"))
        };
        let before = |command: String, word: &str| -> Result<String> {
            let at = command
                .find(word)
                .with_context(|| format!("no {word} in '{command}'"))?;
            Ok(command[..at].to_owned())
        };
        let flags = ninja
            .lines()
            .find_map(|line| line.strip_prefix("cxx_compiler = "))
            .context("the lab's build.ninja has no flags for ART's compiler")?;
        Ok(Recipe {
            compiler: before(value("rule cxx", "command")?, "-MD ")?,
            flags: flags.to_owned(),
            linker: before(value("rule shared", "command")?, "-shared ")?,
            link_flags: value(LIBRARY, "ldflags")?,
        })
    }
}

/// Compiles and runs the tests. Returns whether all pass in every form.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let release = Release::ALL
        .into_iter()
        .find(|release| release.number() == options.release)
        .with_context(|| format!("there is no lab for Android {}", options.release))?;
    let lab = Lab::open(release, Isa::X86_64, Variant::Hindsight)?;
    ensure!(
        Path::new(GTEST).exists(),
        "the unit tests need GoogleTest: apt-get install libgtest-dev"
    );
    let folder = checkout
        .join("target/verify/unit")
        .join(release.number().to_string());
    let include = folder.join("include");
    fs::create_dir_all(&include).with_context(|| format!("cannot make {}", include.display()))?;
    // A link to this folder alone: other headers beside it would hide the lab's own.
    let link = include.join("gtest");
    if !link.exists() {
        std::os::unix::fs::symlink(GTEST, &link)
            .with_context(|| format!("cannot make {}", link.display()))?;
    }

    let build_file = lab.dir().join("build.ninja");
    let ninja = fs::read_to_string(&build_file)
        .with_context(|| format!("cannot read {}", build_file.display()))?;
    let recipe = Recipe::read(&ninja)?;
    let source = checkout.join("art-hooks/tests/cc/trace_points_test.cc");
    let (object, program) = (folder.join("test.o"), folder.join("test"));
    // Without optimization, so that the inline functions of the tested libraries are taken from the libraries.
    shell(
        &lab,
        &format!(
            "{} {} -O0 -DGTEST_HAS_RTTI=0 -I'{}' -c '{}' -o '{}'",
            recipe.compiler,
            recipe.flags,
            include.display(),
            source.display(),
            object.display()
        ),
    )?;
    // The newest ART's compiler exports next to nothing: its objects are linked themselves.
    let compiler = if release.number() >= 14 {
        "$(find out/x86_64/obj/libart-compiler.so -name '*.o')"
    } else {
        "-lart-compiler"
    };
    shell(
        &lab,
        &format!(
            "{} -o '{}' '{}' -Lout/x86_64/root/lib64 {compiler} {} \
             -Wl,-rpath,'{}' /usr/lib/x86_64-linux-gnu/libgtest.a /usr/lib/x86_64-linux-gnu/libgtest_main.a -lpthread",
            recipe.linker,
            program.display(),
            object.display(),
            recipe.link_flags,
            lab.root().join("lib64").display()
        ),
    )?;
    let (mut passed, mut failed) = (0, 0);
    for form in Form::ALL {
        let output = lab
            .command_at(&program)
            .envs(form.environment())
            .env("ANDROID_LOG_TAGS", "*:e")
            .arg("--gtest_brief=1")
            .output()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let here = count(&text, "[  PASSED  ] ").unwrap_or(0);
        let bad = count(&text, "[  FAILED  ] ").unwrap_or(0);
        if output.status.success() && here > 0 {
            println!("Android {}, {form}: {here} tests passed", release.number());
        } else {
            println!(
                "Android {}, {form}: {}\n{}",
                release.number(),
                output.status,
                text.trim_end()
            );
        }
        passed += here;
        // A program that crashes prints no number.
        failed += if output.status.success() && here > 0 {
            bad
        } else {
            bad.max(1)
        };
    }
    println!("unit: {passed} tests passed, {failed} failed");
    Ok(failed == 0)
}

/// The number in `[  PASSED  ] 8 tests.`
fn count(text: &str, before: &str) -> Option<usize> {
    text.lines()
        .filter_map(|line| line.strip_prefix(before)?.split(' ').next()?.parse().ok())
        .next()
}

/// Runs a command line of the lab's build, in its folder.
fn shell(lab: &Lab, command_line: &str) -> Result<()> {
    let output = Command::new("sh")
        .arg("-c")
        .arg(command_line)
        .current_dir(lab.dir())
        .output()
        .context("cannot run sh")?;
    if !output.status.success() {
        bail!(
            "{command_line}\n{}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NINJA: &str = "cxx_art = -O1\ncxx_compiler = -O2 -Isrc/art\nrule cxx\n  command = ccache c++ -MD -MF x\n  \
                         deps = gcc\nrule shared\n  command = c++ -fuse-ld=lld -shared -o $out\n\
                         build out/root/lib64/libart-compiler.so: shared a.o\n  soname = x\n  \
                         ldflags = -Wl,-rpath,'$$ORIGIN' -lart\n";

    #[test]
    fn the_recipe_is_the_labs() {
        let recipe = Recipe::read(NINJA).unwrap();
        assert_eq!(
            recipe,
            Recipe {
                compiler: "ccache c++ ".into(),
                flags: "-O2 -Isrc/art".into(),
                linker: "c++ -fuse-ld=lld ".into(),
                link_flags: "-Wl,-rpath,'$ORIGIN' -lart".into(),
            }
        );
        for gone in ["cxx_compiler = ", "rule cxx\n", "-shared ", "ldflags"] {
            assert!(Recipe::read(&NINJA.replace(gone, "")).is_err(), "{gone}");
        }
    }

    #[test]
    fn tests_are_counted() {
        let text =
            "x\n[  PASSED  ] 6 tests.\n[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] A.b\n";
        assert_eq!(count(text, "[  PASSED  ] "), Some(6));
        assert_eq!(count(text, "[  FAILED  ] "), Some(2));
        assert_eq!(count("crashed", "[  PASSED  ] "), None);
    }
}
