// SPDX-License-Identifier: Apache-2.0
//! Runs the program of `lab/events` in one mode.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use hindsight_decoder::Trace;
use hindsight_lab::run_test::Mode;
use hindsight_lab::{BootJar, JavaLibrary, Lab};

use super::truth::Truth;

/// The file in which the program writes down what it does.
const TRUTH: &str = "truth.txt";

/// The compiled program.
pub(super) struct Program {
    jar: PathBuf,
    /// `dev.hindsight`.
    hindsight: PathBuf,
}

/// A run.
pub(super) struct Round {
    pub(super) seed: u64,
    pub(super) scenes: u64,
    pub(super) mode: Mode,
    /// Beside the folder and the size of rings.
    pub(super) configuration: &'static str,
    pub(super) timeout: Duration,
}

/// What a run has left.
pub(super) struct Recorded {
    pub(super) trace: Trace,
    pub(super) truth: Truth,
}

impl Program {
    /// Compiles it, to the folder.
    pub(super) fn compile(lab: &Lab, checkout: &Path, folder: &Path) -> Result<Program> {
        let classes = folder.join("classes");
        let hindsight = folder.join("hindsight.jar");
        lab.compile_java(
            &JavaLibrary {
                sources: java_files(&checkout.join("art-hooks/java/dev/hindsight"))?,
                class_output: Some(classes.clone()),
                ..JavaLibrary::default()
            },
            &hindsight,
        )?;
        let jar = folder.join("events.jar");
        lab.compile_java(
            &JavaLibrary {
                sources: java_files(&checkout.join("lab/events"))?,
                class_path: vec![classes],
                ..JavaLibrary::default()
            },
            &jar,
        )?;
        Ok(Program { jar, hindsight })
    }
}

/// Classes of `dev.hindsight` that need nothing of the framework.
const PLAIN: [&str; 2] = ["Events.java", "Hindsight.java"];

fn java_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.ends_with(".java") && (!folder.ends_with("dev/hindsight") || PLAIN.contains(&name))
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Runs the program to its end in an empty folder, and reads what it has left.
pub(super) fn run(lab: &Lab, program: &Program, round: &Round, folder: &Path) -> Result<Recorded> {
    let jar = folder.join("program.jar");
    fs::copy(&program.jar, &jar).with_context(|| format!("{}", program.jar.display()))?;
    let image = match round.mode {
        Mode::Interpreter => lab.core_interpreter_image(),
        Mode::Jit | Mode::Aot => lab.core_image(),
    };
    if round.mode == Mode::Aot {
        let oat = folder.join("oat").join(lab.isa().name());
        fs::create_dir_all(&oat)?;
        let mut compiler = lab.dex2oat_command_with(&image);
        compiler
            .arg(format!("--dex-file={}", jar.display()))
            .arg(format!("--oat-file={}", oat.join("program.odex").display()))
            .arg("--compiler-filter=speed")
            .args(["--class-loader-context=PCL[]", "--host", "-j1"]);
        finish(&mut compiler, &folder.join("dex2oat.txt"), round.timeout)?;
    }
    let mut command =
        lab.dalvikvm_command_extended(&image, &[BootJar::new(program.hindsight.clone())]);
    match round.mode {
        Mode::Interpreter => command.arg("-Xint"),
        Mode::Jit => command.args(["-Xusejit:true", "-Xjitthreshold:0"]),
        Mode::Aot => command.arg("-Xusejit:false"),
    };
    let truth = folder.join(TRUTH);
    command
        .arg("-Xmx128m")
        .arg("-cp")
        .arg(&jar)
        .arg("Causes")
        .arg(round.seed.to_string())
        .arg(round.scenes.to_string())
        .arg(&truth)
        .env(
            "HINDSIGHT",
            format!(
                "event-ring=17,event-rings=4096,event-spool=27,snapshot-at-exit=yes,dir={},{}",
                folder.display(),
                round.configuration
            ),
        )
        .current_dir(folder);
    finish(&mut command, &folder.join("output.txt"), round.timeout)?;
    let file = trace_in(folder)?;
    let text = fs::read_to_string(&truth).context("the program has written nothing down")?;
    Ok(Recorded {
        trace: Trace::open(&file)?,
        truth: Truth::parse(&text)?,
    })
}

/// The only trace in a folder.
fn trace_in(folder: &Path) -> Result<PathBuf> {
    let mut traces = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|x| x == "hindsight"));
    match (traces.next(), traces.next()) {
        (Some(file), None) => Ok(file),
        _ => bail!("it has written no trace, or several"),
    }
}

/// Runs a command that must succeed within the limit. What it says goes to the log.
fn finish(command: &mut Command, log: &Path, limit: Duration) -> Result<()> {
    let output = fs::File::create(log)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            bail!("it has not ended after {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let said = fs::read(log).unwrap_or_default();
    ensure!(
        status.success(),
        "{status}\n{}",
        String::from_utf8_lossy(&said).trim_end()
    );
    Ok(())
}
