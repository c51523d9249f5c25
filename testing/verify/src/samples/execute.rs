// SPDX-License-Identifier: Apache-2.0
//! Runs a program that records calls and stacks.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{ensure, Context as _, Result};
use hindsight_decoder::Trace;
use hindsight_lab::{JavaLibrary, Lab};

/// Mode of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Interpreter,
    Jit,
    /// The program is compiled ahead of time, with inlining.
    Aot,
}

impl Mode {
    pub(super) const ALL: [Mode; 3] = [Mode::Interpreter, Mode::Jit, Mode::Aot];

    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Interpreter => "interpreter",
            Mode::Jit => "jit",
            Mode::Aot => "aot",
        }
    }
}

/// A run of `lab/samples/RandomWork.java`.
pub(super) struct Program<'a> {
    pub(super) jar: &'a Path,
    pub(super) kind: &'a str,
    pub(super) seed: u64,
    pub(super) mode: Mode,
}

/// log2 of the bytes of a ring: no call is overwritten.
const RING: u32 = 26;
/// Of main and of the thread that it waits for.
const CONFIGURATION: &str =
    "trace=all,max-rings=unlimited,rewind=off,events=stacks+waits,snapshot-at-exit=yes";

/// Compiles the program.
pub(super) fn compile(lab: &Lab, checkout: &Path, folder: &Path) -> Result<PathBuf> {
    let jar = folder.join("samples.jar");
    let library = JavaLibrary {
        sources: vec![checkout.join("lab/samples/RandomWork.java")],
        ..JavaLibrary::default()
    };
    lab.compile_java(&library, &jar)?;
    Ok(jar)
}

/// How the stacks of a program were walked. Each walk over known frames was compared with ART's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Walks {
    pub(super) known: u64,
    with_art: u64,
    pub(super) different: u64,
}

impl Walks {
    /// From the line that the lab's build of ART prints (`art-hooks/cc/runtime/walk_check.h`).
    fn parse(line: &str) -> Option<Walks> {
        let mut numbers = line.strip_prefix("hindsight: stacks: ")?.split(", ");
        let mut next = |unit: &str| numbers.next()?.strip_suffix(unit)?.parse().ok();
        Some(Walks {
            known: next(" walks over known frames")?,
            with_art: next(" with ART")?,
            different: next(" different")?,
        })
    }

    pub(super) fn add(&mut self, other: Walks) {
        self.known += other.known;
        self.with_art += other.with_art;
        self.different += other.different;
    }
}

impl fmt::Display for Walks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} walks over known frames, {} with ART, {} different",
            self.known, self.with_art, self.different
        )
    }
}

/// Runs the program in a new folder, and reads its trace.
pub(super) fn execute(lab: &Lab, program: &Program<'_>, folder: &Path) -> Result<(Trace, Walks)> {
    fs::create_dir_all(folder)?;
    let class_path = folder.join("program.jar");
    fs::copy(program.jar, &class_path)?;
    let image = match program.mode {
        Mode::Interpreter => lab.core_interpreter_image(),
        Mode::Jit | Mode::Aot => lab.core_image(),
    };
    let mut command = lab.dalvikvm_command_with(&image);
    match program.mode {
        Mode::Interpreter => command.arg("-Xint"),
        Mode::Jit => {
            if program.kind == "unloading" {
                // The JIT collects its code.
                command.args(["-Xjitinitialsize:64K", "-Xjitmaxsize:64K"]);
            }
            command.args(["-Xusejit:true", "-Xjitthreshold:100"])
        }
        Mode::Aot => {
            let oat = folder.join("oat").join(lab.isa().name());
            fs::create_dir_all(&oat)?;
            let mut compiler = lab.dex2oat_command_with(&image);
            compiler
                .arg(format!("--dex-file={}", class_path.display()))
                .arg(format!("--oat-file={}", oat.join("program.odex").display()))
                .args(["--compiler-filter=speed", "--class-loader-context=PCL[]"])
                .args(["--host", "-j1"]);
            if lab.isa().is_native() {
                compiler.arg("--instruction-set-features=runtime");
            }
            finish(&mut compiler, &folder.join("dex2oat.txt")).context("dex2oat fails")?;
            command.arg("-Xusejit:false")
        }
    };
    let place = folder.display();
    command
        .arg("-cp")
        .arg(&class_path)
        .args(["RandomWork", program.kind, &program.seed.to_string()])
        .env(
            "HINDSIGHT",
            format!("{CONFIGURATION},ring={RING},dir={place}"),
        )
        .env("HINDSIGHT_CHECK_STACKS", "yes");
    let log = folder.join("output.txt");
    finish(&mut command, &log)?;
    let printed = fs::read_to_string(&log)?;
    ensure!(printed.contains("done"), "it did not end:\n{printed}");
    let walks = printed.lines().find_map(Walks::parse);
    let walks = walks.context("this ART does not check the walks of stacks")?;
    let traces: Vec<PathBuf> = (fs::read_dir(folder)?.flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|x| x == "hindsight"))
        .collect();
    ensure!(traces.len() == 1, "it wrote {} traces", traces.len());
    Ok((Trace::open(&traces[0])?, walks))
}

/// Runs a program; its output goes to `log`.
fn finish(command: &mut Command, log: &Path) -> Result<()> {
    let output = fs::File::create(log)?;
    let status = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    ensure!(status.success(), "{status}, see {}", log.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_about_walks_is_read() {
        let walks = Walks {
            known: 12,
            with_art: 3,
            different: 1,
        };
        let line = format!("hindsight: stacks: {walks}");
        assert_eq!(Walks::parse(&line), Some(walks));
        assert_eq!(Walks::parse(&line[..line.len() - 1]), None);
        assert_eq!(Walks::parse("done 5"), None);
    }
}
