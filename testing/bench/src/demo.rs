// SPDX-License-Identifier: Apache-2.0
//! The app of the demo (`lab/demo`), on a build of ART.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use hindsight_lab::{App, Execution, Framework, Isa, Lab, Release, Variant};

use crate::ahead::{self, Environment};
use crate::process::Process;

/// The app on a build of ART.
pub(crate) struct Demo {
    framework: Framework,
    app: App,
    execution: Execution,
    folder: PathBuf,
    environment: Environment,
}

impl Demo {
    /// On a finished build. The app keeps its notes in `folder`. `environment`: empty for the build's own trace points; others
    /// need [`Execution::Jit`].
    pub(crate) fn open(
        variant: Variant,
        checkout: &Path,
        folder: &Path,
        execution: Execution,
        environment: Environment,
    ) -> Result<Demo> {
        let lab = Lab::open(Release::Android10, Isa::X86_64, variant)?;
        let mut framework = Framework::build(&lab, &|step| eprintln!("bench: building {step}"))?;
        let app = framework.compile_app("notes", &checkout.join("lab/demo"))?;
        if !environment.is_empty() {
            let (jars, files) = (&framework.boot_image().jars, folder.join("demo-boot"));
            let image = ahead::boot_image(&lab, jars, &files, environment)?;
            framework = framework.with_boot_image(image);
        }
        Ok(Demo {
            framework,
            app,
            execution,
            folder: folder.to_owned(),
            environment,
        })
    }

    /// The app with a configuration of tracing; an empty one is off.
    pub(crate) fn command(&self, configuration: &str) -> Command {
        let main_class = "com.example.notes.NotesApp";
        let mut command = (self.framework).app_command(&self.app, main_class, self.execution);
        command.arg(&self.folder).env_remove("HINDSIGHT");
        command.envs(self.environment.iter().copied());
        command.env("ANDROID_LOG_TAGS", "*:s");
        if !configuration.is_empty() {
            let folder = self.folder.display();
            command.env("HINDSIGHT", format!("{configuration},dir={folder}"));
        }
        command
    }
}

/// Waits until the app has filled its list of notes.
pub(crate) fn wait_for_start(process: &mut Process) -> Result<()> {
    while !process.line()?.starts_with("notes: started") {}
    Ok(())
}
