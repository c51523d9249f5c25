// SPDX-License-Identifier: Apache-2.0
//! Runs a program in one mode.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use hindsight_decoder::{art_trace, Trace};
use hindsight_lab::{BootImage, Isa, Lab};

use super::context::Context;
use super::images::{run_verbose, verbose, LOG, NO_INLINING, TRIVIAL_METHODS};
use super::inlining::Inlined;
use super::mode::Mode;
use super::programs::Program;

/// Size of ART's buffer in bytes: 4.7 million events. It drops further ones, and reports that.
const REFERENCE_BYTES: usize = 64 << 20;
/// Size of Hindsight's ring, log2 of its bytes: more events than in ART's buffer.
const RING: u32 = 27;
/// The same for 32-bit processes, whose rings share 4 GiB: 4 million events.
const SMALL_RING: u32 = 25;

/// The recording of a run.
pub(super) struct Run {
    pub(super) trace: Trace,
    /// The inlined calls of the program's own code, if it was compiled with inlining.
    pub(super) inlined: Option<Inlined>,
}

/// The tracers of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracers {
    /// Hindsight only.
    Ours,
    /// ART's, too: the run is a reference.
    Both,
    /// The same, of a program that dex2oat has verified, but not compiled. Verification of a class in the process
    /// looks for other classes, and throws an exception for a missing one, whose constructors are Java code.
    /// Programs that are compiled ahead of time don't do that.
    BothVerifiedAhead,
}

/// The file of ART's own tracer, in the folder of a run.
pub(super) const REFERENCE: &str = "art.trace";

/// Runs a program to its end, and reads its recording. An error is the reason why it can't be compared.
///
/// All runs of a program are in a folder of the same name, as the length of a path can change a program's
/// way. The folder is renamed to `folder` at the end.
pub(super) fn execute(
    context: &Context,
    program: &Program,
    mode: Mode,
    folder: &Path,
    tracers: Tracers,
) -> Result<Run> {
    let place = folder.with_file_name("run");
    fs::create_dir(&place).with_context(|| format!("cannot make {}", place.display()))?;
    let result = execute_in(context, program, mode, &place, tracers);
    fs::rename(&place, folder).with_context(|| format!("cannot rename {}", place.display()))?;
    result
}

fn execute_in(
    context: &Context,
    program: &Program,
    mode: Mode,
    folder: &Path,
    tracers: Tracers,
) -> Result<Run> {
    let lab = &context.lab;
    let image = |image: Option<&BootImage>| image.cloned().context("there is no image");
    let (image, option) = match mode {
        Mode::Interpreter => (context.interpreter.clone(), "-Xint"),
        Mode::Jit => (context.interpreter.clone(), "-Xusejit:true"),
        Mode::Aot => (image(context.not_inlined.as_ref())?, "-Xusejit:false"),
        Mode::AotInlined => {
            let with = context.inlined.as_ref().map(|(image, _)| image);
            (image(with)?, "-Xusejit:false")
        }
    };
    let mut inlined = None;
    let class_path = folder.join("program.jar");
    let more = folder.join(format!("{}-ex.jar", program.name));
    for (from, to) in program.jars().iter().zip([&class_path, &more]) {
        fs::copy(from, to).with_context(|| format!("{}", from.display()))?;
    }
    let compiled = mode.is_ahead();
    if compiled || tracers == Tracers::BothVerifiedAhead {
        let oat = folder.join("oat").join(lab.isa().name());
        fs::create_dir_all(&oat)?;
        let mut compiler = lab.dex2oat_command_with(&image);
        compiler.env(TRIVIAL_METHODS, context.trivial.name());
        let filter = if compiled { "speed" } else { "verify" };
        compiler
            .arg(format!("--dex-file={}", class_path.display()))
            .arg(format!("--oat-file={}", oat.join("program.odex").display()))
            .arg(format!("--compiler-filter={filter}"))
            .args(["--class-loader-context=PCL[]", "--host", "-j1"]);
        if lab.isa().is_native() {
            compiler.arg("--instruction-set-features=runtime");
        }
        if mode == Mode::AotInlined {
            compiler.args(verbose());
            inlined = Some(run_verbose(&mut compiler, &folder.join(LOG))?);
        } else {
            if mode == Mode::Aot {
                compiler.arg(NO_INLINING);
            }
            let log = folder.join("dex2oat.txt");
            let done = finish(&mut compiler, &log, context.timeout)?;
            ensure!(done == Some(true), "dex2oat fails");
        }
    }
    let mut command = lab.dalvikvm_command_with(&image);
    command
        .arg(option)
        // Few programs then need a garbage collection, after which they would see cleared references.
        .arg("-Xms128m")
        .arg("-Djava.library.path=".to_owned() + &program.libraries);
    if mode == Mode::Jit {
        command.args(["-Xjitthreshold:0", "-Xcompiler-option", NO_INLINING]);
    }
    let mut threads = "main";
    if tracers != Tracers::Ours {
        let file = folder.join(REFERENCE);
        threads = "all";
        command
            .arg("-Xmethod-trace")
            .arg(format!("-Xmethod-trace-file:{}", file.display()))
            .arg(format!("-Xmethod-trace-file-size:{REFERENCE_BYTES}"));
    }
    command
        .arg("-cp")
        .arg(&class_path)
        .arg(&program.class)
        .args(&program.arguments);
    command
        .current_dir(folder)
        .env("DEX_LOCATION", folder)
        .env(TRIVIAL_METHODS, context.trivial.name());
    if let Some(library) = &context.preload {
        command.env("LD_PRELOAD", library);
    }
    let ring = if lab.isa() == Isa::Arm {
        SMALL_RING
    } else {
        RING
    };
    let rewind = match &context.rewind {
        Some(limit) => format!("{limit},rewind-log=yes"),
        None => "off".to_owned(),
    };
    command.env(
        "HINDSIGHT",
        format!(
            "trace={threads},max-rings=unlimited,ring={ring},snapshot-at-exit=yes,events={},rewind={rewind},dir={}",
            if context.events { "all" } else { "off" },
            folder.display()
        ),
    );
    let log = folder.join("output.txt");
    ensure!(
        finish(&mut command, &log, context.timeout)?.is_some(),
        "they take too long"
    );
    if let Some(expected) = &program.prints {
        let printed = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
        let printed = String::from_utf8_lossy(&printed);
        ensure!(
            printed.lines().any(|line| line == expected),
            "they don't print what they should:\n{printed}"
        );
    }
    let mut traces = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|x| x == "hindsight"));
    let (Some(file), None) = (traces.next(), traces.next()) else {
        bail!("they write no trace, or several (they abort, halt, or start processes)");
    };
    let trace = Trace::open(&file)?;
    let main = trace
        .main_thread()
        .context("their main thread has no ring at the end")?;
    ensure!(!is_shutdown(&main.name), MAIN_IS_LOST);
    ensure!(
        main.stats.overwritten_slots == 0,
        "they have more events than the ring holds"
    );
    ensure!(
        context.rewind.is_none() || main.stats.taken_back > 0,
        "no call was taken back"
    );
    Ok(Run { trace, inlined })
}

/// The reason for leaving out a run in which more threads ended after `main` than ended threads keep their rings.
/// Another run may succeed.
pub(super) const MAIN_IS_LOST: &str = "their main thread ends before others, whose rings are kept";

/// Whether a thread is the one that ends the process. It has the id of the main thread, which is detached before.
fn is_shutdown(name: &str) -> bool {
    // `Runtime::~Runtime` attaches it.
    name.starts_with("Shutdown thread")
}

/// Compiles the library that makes a program's identity hash codes the same in each run; see `same_time.c`. Only for
/// this machine.
pub(super) fn same_time(lab: &Lab, checkout: &Path, folder: &Path) -> Result<Option<PathBuf>> {
    if !lab.isa().is_native() {
        return Ok(None);
    }
    let library = folder.join("libsame_time.so");
    let output = Command::new("clang-14")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(checkout.join("lab/oracle/same_time.c"))
        .output()
        .context("cannot run clang-14 (package clang-14)")?;
    ensure!(
        output.status.success(),
        "cannot compile same_time.c:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(Some(library))
}

/// Reads the file of ART's tracer in the folder of a run. An error is the reason why it can't be compared.
pub(super) fn read_reference(folder: &Path) -> Result<art_trace::ArtTrace> {
    let Ok(trace) = art_trace::read(&folder.join(REFERENCE)) else {
        bail!("ART's tracer wrote no file (they end by System.exit, abort, or are killed)");
    };
    ensure!(
        !trace.overflow,
        "they have more events than ART's tracer holds"
    );
    Ok(trace)
}

/// Whether a command succeeded; `None` if it had to be killed.
fn finish(command: &mut Command, log: &Path, limit: Duration) -> Result<Option<bool>> {
    let output = fs::File::create(log)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::is_shutdown;

    #[test]
    fn the_thread_that_ends_the_process_is_not_the_main_thread() {
        assert!(is_shutdown("Shutdown thread"));
        assert!(is_shutdown("Shutdown thread (no java peer)"));
        assert!(!is_shutdown("main"));
    }
}
