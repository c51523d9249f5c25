// SPDX-License-Identifier: Apache-2.0
//! The lab as a device: its VM with the framework's boot image. The environment holds the configuration, and
//! the standard error of the VMs is the log.

use crate::target::Target;
use anyhow::{bail, ensure, Context as _, Result};
pub use hindsight_lab::Variant;
use hindsight_lab::{Framework, Isa, JavaLibrary, Lab, Parts, Release};
use std::cell::RefCell;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use wait_timeout::ChildExt as _;

/// The lab's class that starts programs. Without an argument it prints its usage and exits with status 2.
const LAUNCHER: &str = "dev.hindsight.lab.AppProcess";
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
            let config = format!("trace=main,dir={}", self.traces.path().display());
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
        for entry in std::fs::read_dir(self.traces.path())? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "hindsight")
            {
                all.push(path.display().to_string());
            }
        }
        Ok(all)
    }

    fn pull(&self, path: &str) -> Result<Vec<u8>> {
        std::fs::read(path).with_context(|| format!("cannot read {path}"))
    }

    fn log(&mut self) -> Result<Option<String>> {
        Ok(Some(self.log.take()))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
