// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify checker`: ART's own Checker on the programs in `lab/checker`, whose comments are assertions on
//! the compiler's graphs. They are compiled as a part of the boot image, so that the x86-64 lab's compiler suffices
//! for every instruction set.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{BootImageSpec, BootJar, Isa, JavaLibrary, Lab, Release, Variant};

use hindsight_verify::boot_images::Form;

/// The programs, each with the forms of trace points that it has assertions on.
const PROGRAMS: [(&str, &[Form]); 3] = [
    ("TracePoints", &[Form::Shared, Form::Inline]),
    ("SharedTracePoints", &[Form::Shared]),
    ("InlineTracePoints", &[Form::Inline]),
];
/// The nodes of trace points.
const NODES: [&str; 2] = [" TraceStart ", " TraceEnd "];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The instruction set of the compiled code
    #[arg(long, default_value = "all", value_parser = ["x86_64", "arm64", "arm", "all"])]
    isa: String,
    /// A folder with other versions of the programs
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Keeps the dumped graphs in this folder
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// Checks all assertions. Returns whether they hold.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let lab = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight)?;
    let programs = options
        .programs
        .clone()
        .unwrap_or_else(|| checkout.join("lab/checker"));
    let parent = checkout.join("target/verify");
    fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let temporary = tempfile::Builder::new()
        .prefix("checker")
        .tempdir_in(&parent)?;
    let jar = temporary.path().join("checker.jar");
    let sources = PROGRAMS.map(|(name, _)| programs.join(name).with_extension("java"));
    lab.compile_java(
        &JavaLibrary {
            sources: sources.to_vec(),
            ..JavaLibrary::default()
        },
        &jar,
    )?;

    let (mut groups, mut failed) = (0, 0);
    for isa in Isa::ALL {
        if options.isa != "all" && options.isa != isa.name() {
            continue;
        }
        for form in [Form::Shared, Form::Inline, Form::None] {
            let name = format!("{}-{form}", isa.name());
            let folder = options
                .keep
                .as_deref()
                .unwrap_or(temporary.path())
                .join(&name);
            let graphs = dump(&lab, isa, form, &jar, &folder)?;
            if form == Form::None {
                let text = fs::read_to_string(&graphs)?;
                ensure!(
                    text.contains("TracePoints.leaf"),
                    "{name}: no graph of the programs"
                );
                if let Some(node) = NODES.iter().find(|node| text.contains(**node)) {
                    println!("{name}: FAILED: there is a{node}without trace points");
                    failed += 1;
                }
                groups += 1;
                continue;
            }
            for (program, forms) in PROGRAMS {
                if !forms.contains(&form) {
                    continue;
                }
                let source = programs.join(program).with_extension("java");
                let here = assertion_groups(&source, isa)?;
                ensure!(
                    here > 0,
                    "{}: asserts nothing about {}",
                    source.display(),
                    isa.name()
                );
                let output = Command::new("python3")
                    .arg(lab.source_dir("art").join("tools/checker/checker.py"))
                    .arg("-q")
                    .arg(format!("--arch={}", isa.name().to_uppercase()))
                    .arg(&graphs)
                    .arg(&source)
                    .output()
                    .context("cannot run ART's Checker with python3")?;
                let text = [output.stdout, output.stderr].concat();
                let text = String::from_utf8_lossy(&text);
                groups += here;
                if output.status.success() {
                    println!("{name}: {program}: ok, {here} groups");
                } else {
                    println!("{name}: {program}: FAILED\n{}", text.trim_end());
                    failed += 1;
                }
            }
        }
    }
    println!("checker: {groups} groups of assertions, {failed} programs failed");
    Ok(failed == 0)
}

/// The number of assertion groups of a program for an instruction set. Checker ignores a misspelt group.
fn assertion_groups(source: &Path, isa: Isa) -> Result<usize> {
    let text =
        fs::read_to_string(source).with_context(|| format!("cannot read {}", source.display()))?;
    let own = format!("/// CHECK-START-{}:", isa.name().to_uppercase());
    Ok(text
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with("/// CHECK-START:") || line.starts_with(&own))
        .count())
}

/// Compiles the boot image with the programs in it. Returns the file with their graphs.
fn dump(lab: &Lab, isa: Isa, form: Form, jar: &Path, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let graphs = folder.join("graphs.cfg");
    let mut jars = lab.boot_class_path();
    jars.push(BootJar {
        path: jar.to_owned(),
        location: "checker.jar".to_owned(),
    });
    let spec = BootImageSpec {
        jars,
        filter: "speed".to_owned(),
        image: folder.join("core.art"),
        options: vec![
            "--no-watch-dog".into(),
            // Several threads would mix their graphs.
            "-j1".into(),
            "--verbose-methods=TracePoints.".into(),
            format!("--dump-cfg={}", graphs.display()).into(),
        ],
    };
    let mut command = lab.boot_image_command(&spec, isa);
    command.envs(form.environment());
    let output = command.output().context("cannot run dex2oat")?;
    ensure!(
        output.status.success(),
        "compiling lab/checker for {} ({form}): {}\n{}",
        isa.name(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(graphs)
}
