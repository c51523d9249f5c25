// SPDX-License-Identifier: Apache-2.0
//! Programs of Debian's packages on a build of ART, compiled ahead of time or by the JIT.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use hindsight_lab::{BootImage, Isa, JavaLibrary, Lab, Release, Variant};
use hindsight_verify::debian;

use crate::ahead::{self, Environment};

/// The names of the programs in metrics, and the drivers in `lab/oracle/debian`.
pub(crate) const PROGRAMS: [(&str, &str); 7] = [
    ("rhino", "RhinoScript"),
    ("h2", "H2Database"),
    ("antlr", "AntlrTool"),
    ("gson", "GsonTree"),
    ("bsh", "BeanShellScript"),
    ("jsoup", "JsoupPage"),
    ("commons_math3", "CommonsMath"),
];

/// How a program's code is executed. The core libraries are compiled ahead of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Ahead,
    Jit,
}

/// A program as dex code, for all builds of ART.
pub(crate) struct Program {
    /// Its name in metrics.
    pub(crate) name: &'static str,
    class: &'static str,
    jar: PathBuf,
}

/// Compiles those of [`PROGRAMS`] that are wanted to dex code; all if `wanted` is empty.
pub(crate) fn dex(checkout: &Path, wanted: &[String]) -> Result<Vec<Program>> {
    for name in wanted {
        PROGRAMS
            .iter()
            .find(|program| program.0 == name)
            .with_context(|| format!("there is no program {name}"))?;
    }
    let lab = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight)?;
    let folder = checkout.join("target/bench/programs");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    PROGRAMS
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| w == name))
        .map(|&(name, class)| {
            let found = debian::programs(&lab, checkout, &folder, &|driver| driver == class)?;
            let found = found.into_iter().next().context("no such driver")?;
            Ok(Program {
                name,
                class,
                jar: found.jar,
            })
        })
        .collect()
}

/// A build of ART with the programs on it.
pub(crate) struct Device {
    lab: Lab,
    image: BootImage,
    /// `Repeat.java`, compiled ahead of time.
    repeat: PathBuf,
    folder: PathBuf,
    environment: Environment,
}

/// A program on a build of ART.
pub(crate) struct Installed<'a> {
    device: &'a Device,
    class: &'static str,
    jar: PathBuf,
    mode: Mode,
}

impl Device {
    /// A finished build of ART. Compiled code goes to a folder below `folder`. `environment`: empty for the build's own
    /// trace points.
    pub(crate) fn open(
        variant: Variant,
        checkout: &Path,
        folder: &Path,
        environment: Environment,
    ) -> Result<Device> {
        let lab = Lab::open(Release::Android10, Isa::X86_64, variant)?;
        let folder = folder.join(format!("{}-{}", variant.name(), environment.len()));
        fs::create_dir_all(&folder)?;
        let repeat = folder.join("repeat.jar");
        let library = JavaLibrary {
            sources: vec![checkout.join("lab/bench/Repeat.java")],
            ..JavaLibrary::default()
        };
        lab.compile_java(&library, &repeat)?;
        let mut image = lab.core_image();
        if !environment.is_empty() {
            image = ahead::boot_image(&lab, &image.jars, &folder.join("boot"), environment)?;
        }
        ahead::compile(&lab, &image, &repeat, environment, &[])?;
        Ok(Device {
            lab,
            image,
            repeat,
            folder,
            environment,
        })
    }

    pub(crate) fn install(&self, program: &Program, mode: Mode) -> Result<Installed<'_>> {
        // ART finds compiled code by the jar's path.
        let folder = self.folder.join(match mode {
            Mode::Ahead => "ahead",
            Mode::Jit => "jit",
        });
        fs::create_dir_all(&folder)?;
        let jar = folder.join(program.class).with_extension("jar");
        fs::copy(&program.jar, &jar).with_context(|| format!("{}", program.jar.display()))?;
        if mode == Mode::Ahead {
            ahead::compile(&self.lab, &self.image, &jar, self.environment, &[])?;
        }
        Ok(Installed {
            device: self,
            class: program.class,
            jar,
            mode,
        })
    }
}

/// `dalvikvm` with these jars; add the class and its arguments. An empty configuration is off.
pub(crate) fn virtual_machine(
    lab: &Lab,
    image: &BootImage,
    mode: Mode,
    jars: &[&Path],
    configuration: &str,
) -> Command {
    let mut command = lab.dalvikvm_command_with(image);
    command.arg(format!("-Xusejit:{}", mode == Mode::Jit));
    let jars: Vec<String> = jars.iter().map(|jar| jar.display().to_string()).collect();
    command.args(["-Xms128m", "-Xmx512m", "-cp", &jars.join(":")]);
    // The environment may have tracing configured.
    command.env_remove("HINDSIGHT");
    command.env("ANDROID_LOG_TAGS", "*:s");
    if !configuration.is_empty() {
        command.env("HINDSIGHT", configuration);
    }
    command
}

impl Installed<'_> {
    /// The program under `Repeat`, which does its work on request. An empty configuration is off.
    pub(crate) fn worker(&self, configuration: &str) -> Command {
        let mut command = self.repeat(configuration);
        command.args(["asked", self.class]);
        command
    }

    /// `Repeat`; add its arguments.
    fn repeat(&self, configuration: &str) -> Command {
        let device = self.device;
        let mut tracing = configuration.to_owned();
        if !tracing.is_empty() {
            tracing += &format!(",dir={}", device.folder.display());
        }
        let jars = [&*self.jar, &*device.repeat];
        let mut command = virtual_machine(&device.lab, &device.image, self.mode, &jars, &tracing);
        command.arg("Repeat").current_dir(&device.folder);
        command.envs(device.environment.iter().copied());
        command
    }

    /// How its code is executed.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// The control socket, for the configuration.
    pub(crate) fn socket(&self) -> PathBuf {
        self.device.folder.join("socket")
    }
}
