// SPDX-License-Identifier: Apache-2.0
//! The lab as a device: its VM with the framework's boot image. The environment holds the configuration, and
//! the standard error of the VMs is the log.

use crate::apk;
use crate::sandbox::Sandbox;
use crate::target::{Start, Target};
use anyhow::{bail, ensure, Context as _, Result};
pub use hindsight_lab::Variant;
use hindsight_lab::{Framework, Isa, JavaLibrary, Lab, Parts, Release};
use std::cell::RefCell;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use wait_timeout::ChildExt as _;

/// The lab's class that starts programs. Without an argument it prints its usage and exits with status 2.
const LAUNCHER: &str = "dev.hindsight.lab.AppProcess";
/// The app's class that stands for its activity.
const APP_CLASS: &str = "dev.hindsight.boottest.LabMain";
/// Time limit of a run; the suite's program takes a second.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The lab, built with `cargo xtask lab build`.
pub struct LabTarget {
    lab: Lab,
    framework: Framework,
    traces: tempfile::TempDir,
    jar: PathBuf,
    log: RefCell<String>,
    time_limit: Duration,
    /// The place of the app, once it is installed.
    sandbox: Option<Sandbox>,
    /// The running app, and the file of its output.
    app: Option<(Child, File)>,
}

impl LabTarget {
    /// Opens the built lab, and builds its framework unless that is up to date. The suite is for
    /// [`Variant::Hindsight`]; on the other it has to fail.
    ///
    /// # Errors
    /// If the lab isn't built, or the framework can't be.
    pub fn new(variant: Variant) -> Result<LabTarget> {
        let lab = Lab::open_parts(Release::Android10, Isa::X86_64, variant, Parts::Programs)?;
        let framework = Framework::build(&lab, &|what| eprintln!("building {what}"))
            .context("the lab's framework")?;
        Ok(LabTarget {
            lab,
            framework,
            traces: tempfile::tempdir()?,
            jar: PathBuf::new(),
            log: RefCell::default(),
            time_limit: TIME_LIMIT,
            sandbox: None,
            app: None,
        })
    }

    /// How long a program may run, two minutes unless this says otherwise.
    pub fn set_time_limit(&mut self, time_limit: Duration) {
        self.time_limit = time_limit;
    }

    /// Compiles the test program, for all targets: no SDK is needed.
    ///
    /// # Errors
    /// If the compiler fails.
    pub fn compile(&self, java: &Path, jar: &Path) -> Result<()> {
        let library = JavaLibrary {
            sources: vec![java.to_owned()],
            ..JavaLibrary::default()
        };
        Ok(self.lab.compile_java(&library, jar)?)
    }

    /// Compiles and builds the app, with temporary files in `dir`. In its sources `change`, if any, replaces the first
    /// text by the second.
    ///
    /// # Errors
    /// If a tool is missing or fails, or no source has the first text.
    pub fn build_app(&self, dir: &Path, apk: &Path, change: Option<(&str, &str)>) -> Result<()> {
        let app = Path::new(env!("CARGO_MANIFEST_DIR")).join("app");
        let (stubs, dex) = (dir.join("stubs"), dir.join("app.jar"));
        // What only the compiler needs has its own jar, which is thrown away.
        let of_stubs = java_files(&app.join("stubs"))?;
        self.compile_java(of_stubs, &[], Some(&stubs), &dir.join("stubs.jar"))?;
        let mut sources = java_files(&app.join("java"))?;
        if let Some((from, to)) = change {
            sources = changed(&sources, from, to, &dir.join("changed"))?;
        }
        self.compile_java(sources, &[stubs], None, &dex)?;
        let mut unzip = Command::new("unzip");
        unzip
            .args(["-q", "-o"])
            .arg(&dex)
            .args(["classes.dex", "-d"]);
        apk::run(unzip.arg(dir), "unzip")?;
        apk::build(
            &app.join("AndroidManifest.xml"),
            &dir.join("classes.dex"),
            apk,
        )
    }

    /// Compiles Java sources against the framework and `more` classes.
    fn compile_java(
        &self,
        sources: Vec<PathBuf>,
        more: &[PathBuf],
        class_output: Option<&Path>,
        jar: &Path,
    ) -> Result<()> {
        let mut class_path = self.framework.classes();
        class_path.extend_from_slice(more);
        let library = JavaLibrary {
            sources,
            class_path,
            class_output: class_output.map(Path::to_owned),
            ..JavaLibrary::default()
        };
        Ok(self.lab.compile_java(&library, jar)?)
    }

    fn vm(&self) -> Command {
        self.lab.dalvikvm_command_with(self.framework.boot_image())
    }

    /// Runs a VM to its end; returns its output. Its standard error also goes to the log.
    fn finish_vm(&self, mut command: Command, deadline: Duration) -> Result<(ExitStatus, String)> {
        // Files, not pipes: a full pipe would block the VM.
        let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdout(out.try_clone()?).stderr(err.try_clone()?);
        let mut child = command.spawn().context("cannot start dalvikvm")?;
        let status = child.wait_timeout(deadline)?;
        if status.is_none() {
            child.kill()?;
            child.wait()?;
        }
        let [out, err] = [&mut out, &mut err].map(|file| {
            let mut bytes = Vec::new();
            file.rewind()?;
            file.read_to_end(&mut bytes)?;
            std::io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
        });
        let (out, err) = (out?, err?);
        self.log.borrow_mut().push_str(&err);
        match status {
            Some(status) => Ok((status, out + &err)),
            None => bail!(
                "dalvikvm has not ended after {} s: {out}{err}",
                deadline.as_secs_f64()
            ),
        }
    }
}

/// An app that nobody stopped, because a step failed, ends with its target.
impl Drop for LabTarget {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.app {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Target for LabTarget {
    fn name(&self) -> String {
        format!(
            "lab {} {}",
            self.lab.variant().name(),
            self.lab.isa().name()
        )
    }

    fn boot(&mut self, deadline: Duration) -> Result<()> {
        let mut command = self.vm();
        command.env_remove("HINDSIGHT").arg(LAUNCHER);
        let (status, said) = self.finish_vm(command, deadline).context("not booted")?;
        // The usage message shows that the VM has started, with the framework in its boot image.
        ensure!(
            status.code() == Some(2) && said.contains(LAUNCHER),
            "not booted: dalvikvm ended with {status}: {said}"
        );
        Ok(())
    }

    fn boot_oat(&self) -> Result<Vec<u8>> {
        let image = &self.framework.boot_image().image;
        let dir = image.parent().unwrap_or(Path::new("."));
        let oat = dir.join(self.lab.isa().name()).join("core.oat");
        std::fs::read(&oat).with_context(|| format!("cannot read {}", oat.display()))
    }

    fn install(&mut self, jar: &Path) -> Result<()> {
        ensure!(jar.exists(), "{} is not there", jar.display());
        self.jar = std::path::absolute(jar)?;
        Ok(())
    }

    fn run(&self, class: &str, arguments: &[&str], traced: bool) -> Result<String> {
        let mut command = self.vm();
        command.arg("-cp").arg(&self.jar).arg(class).args(arguments);
        if traced {
            let config = format!("trace=main,rewind=off,dir={}", self.traces.path().display());
            command.env("HINDSIGHT", config);
        } else {
            command.env_remove("HINDSIGHT");
        }
        let (status, said) = self.finish_vm(command, self.time_limit)?;
        ensure!(status.success(), "dalvikvm ended with {status}: {said}");
        Ok(said)
    }

    fn traces(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        let of_app = self.sandbox.as_ref().map(Sandbox::traces);
        for dir in [Some(self.traces.path().to_owned()), of_app] {
            let Some(dir) = dir else { continue };
            for entry in std::fs::read_dir(dir)? {
                let path = entry?.path();
                if path
                    .extension()
                    .is_some_and(|extension| extension == "hindsight")
                {
                    all.push(path.display().to_string());
                }
            }
        }
        Ok(all)
    }

    fn install_app(&mut self, apk: &Path) -> Result<Start> {
        let sandbox = Sandbox::new()?;
        if let Some(why) = sandbox.obstacle()? {
            return Ok(Start::Skipped(why));
        }
        sandbox.install(apk)?;
        self.sandbox = Some(sandbox);
        Ok(Start::Ready)
    }

    fn start_app(&mut self) -> Result<()> {
        let sandbox = self.sandbox.as_ref().context("the app is not installed")?;
        let mut command = self.framework.jar_command(&sandbox.apk(), APP_CLASS);
        let config = format!("trace=main,events=all,dir={}", sandbox.traces().display());
        command.env("HINDSIGHT", config);
        command.env("ANDROID_DATA", sandbox.data());
        let output = tempfile::tempfile()?;
        let mut command = sandbox.confined(&command);
        command.stdin(Stdio::null());
        command
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?);
        let child = command.spawn().context("cannot start the app")?;
        self.app = Some((child, output));
        Ok(())
    }

    fn app_runs(&mut self) -> Result<bool> {
        let (child, _) = self.app.as_mut().context("the app was not started")?;
        Ok(child.try_wait()?.is_none())
    }

    fn stop_app(&mut self) -> Result<String> {
        let Some((mut child, mut output)) = self.app.take() else {
            return Ok(String::new());
        };
        let ended = child.try_wait()?;
        child.kill()?;
        child.wait()?;
        let mut bytes = Vec::new();
        output.rewind()?;
        output.read_to_end(&mut bytes)?;
        let mut said = String::from_utf8_lossy(&bytes).into_owned();
        self.log.borrow_mut().push_str(&said);
        if let Some(status) = ended {
            said.push_str(&format!("(it had ended with {status})"));
        }
        Ok(said)
    }

    fn forbidden_call(&mut self) -> Result<Option<String>> {
        let sandbox = self.sandbox.as_ref().context("the app is not installed")?;
        sandbox.forbidden_call().map(Some)
    }

    fn pull(&self, path: &str) -> Result<Vec<u8>> {
        if let Some(sandbox) = &self.sandbox {
            if Path::new(path).starts_with(sandbox.traces()) {
                return sandbox.read_trace(Path::new(path));
            }
        }
        std::fs::read(path).with_context(|| format!("cannot read {path}"))
    }

    fn log(&mut self) -> Result<Option<String>> {
        Ok(Some(self.log.take()))
    }

    fn finish(&mut self) -> Result<()> {
        self.stop_app().map(drop)
    }
}

/// The Java sources below a folder.
fn java_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == "java") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Copies sources to a folder; in the one that has it, `from` becomes `to`.
fn changed(sources: &[PathBuf], from: &str, to: &str, dir: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir(dir)?;
    let mut copies = Vec::new();
    let mut is_changed = false;
    for source in sources {
        let text = std::fs::read_to_string(source)?;
        is_changed |= text.contains(from);
        let copy = dir.join(source.file_name().context("a source without a name")?);
        std::fs::write(&copy, text.replace(from, to))?;
        copies.push(copy);
    }
    ensure!(is_changed, "the app has no '{from}'");
    Ok(copies)
}
