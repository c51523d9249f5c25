// SPDX-License-Identifier: Apache-2.0
//! The program that is recorded: how it is compiled, and started.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{run_test::Layout, BootJar, JavaLibrary, Lab, Release, Variant};

use super::options::{Options, Sanitizer};
use super::round::{Mode, Round};

/// The program and its parts.
pub(super) struct Built {
    pub(super) lab: Lab,
    pub(super) program: PathBuf,
    pub(super) churn: PathBuf,
    pub(super) hindsight: PathBuf,
    pub(super) library: PathBuf,
}

/// Compiles the program and its native half.
pub(super) fn build(options: &Options, checkout: &Path, folder: &Path) -> Result<Built> {
    let sanitized = options.sanitizer == Sanitizer::Address;
    let variant = match (options.stock, sanitized) {
        (true, _) => Variant::Stock,
        (false, true) => Variant::HindsightAddress,
        (false, false) => Variant::Hindsight,
    };
    let lab = Lab::open(Release::Android10, options.isa, variant)?;
    let source = checkout.join("lab/stress");
    let classes = folder.join("classes");
    let hindsight = folder.join("hindsight.jar");
    let library = JavaLibrary {
        sources: vec![checkout.join("art-hooks/java/dev/hindsight/Hindsight.java")],
        class_output: Some(classes.clone()),
        ..JavaLibrary::default()
    };
    lab.compile_java(&library, &hindsight)?;
    let program = folder.join("stress.jar");
    let library = JavaLibrary {
        sources: vec![source.join("Stress.java")],
        class_path: vec![classes],
        ..JavaLibrary::default()
    };
    lab.compile_java(&library, &program)?;
    let churn = folder.join("churn.jar");
    let library = JavaLibrary {
        sources: vec![source.join("churn/Churn.java")],
        ..JavaLibrary::default()
    };
    lab.compile_java(&library, &churn)?;

    let library = folder.join("libstress.so");
    let mut compiler = Command::new("clang-14");
    compiler.args(["-shared", "-fPIC", "-O1", "-g", "-pthread", "-fuse-ld=lld"]);
    // Never unloaded: ART unloads libraries at its end, when signals may still arrive for the handler.
    compiler.arg("-Wl,-z,nodelete");
    compiler.args(Layout::of(&lab).native_code_flags);
    if sanitized {
        compiler.arg("-fsanitize=address");
    }
    // jni.h: Debian's android-libnativehelper-dev.
    compiler
        .arg("-I/usr/include/android/nativehelper")
        .arg("-o")
        .arg(&library)
        .arg(source.join("stress.c"));
    let output = compiler.output().context("cannot run clang-14")?;
    ensure!(
        output.status.success(),
        "compiling lab/stress/stress.c: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(Built {
        lab,
        program,
        churn,
        hindsight,
        library,
    })
}

/// The command line of a round.
pub(super) fn command(built: &Built, options: &Options, round: &Round, folder: &Path) -> Command {
    let lab = &built.lab;
    let image = match round.mode {
        Mode::Interpreter => lab.core_interpreter_image(),
        _ => lab.core_image(),
    };
    let hindsight = BootJar::new(built.hindsight.clone());
    let mut command = lab.dalvikvm_command_extended(&image, &[hindsight]);
    match round.mode {
        Mode::Interpreter => command.arg("-Xint"),
        Mode::Jit => command.args([
            "-Xusejit:true",
            "-Xjitthreshold:200",
            "-Xjitinitialsize:64K",
            "-Xjitmaxsize:256K",
        ]),
        Mode::JitAtOnce => command.args([
            "-Xusejit:true",
            "-Xjitthreshold:0",
            "-Xjitinitialsize:64K",
            "-Xcompiler-option",
            "--debuggable",
        ]),
    };
    command
        .args(["-Xmx128m", "-Xss512K"])
        .arg("-cp")
        .arg(&built.program)
        .arg("Stress")
        .arg((round.seed ^ round.number << 32 & i64::MAX as u64).to_string())
        .arg(round.seconds.to_string())
        .arg(folder)
        .arg(&built.churn)
        .arg(&built.library)
        .arg(if round.exit_at_work { "exit" } else { "join" })
        .arg(if options.stock { "stock" } else { "recorded" });
    if !options.stock {
        command.env("HINDSIGHT", round.configuration(folder));
    }
    command
        // Also shows the dump at SIGQUIT, if the process hangs.
        .env("ANDROID_LOG_TAGS", "*:i")
        .current_dir(folder);
    command
}
