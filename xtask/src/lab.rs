// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask lab …`

use crate::{device, vm};
use clap::{Args, Subcommand};
use hindsight_lab::{
    build, checkout, clean, fetch, run_test, BuildOptions, Isa, Lab, Parts, Release, Variant,
};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Downloads and verifies the sources
    Fetch(ReleaseArgument),
    /// Builds ART, its core libraries and boot images (fetches first if needed)
    Build {
        #[command(flatten)]
        build: BuildArguments,
        /// Only the parts that run programs: no run-tests, JVMTI, oatdump and other tools. A later build adds them
        #[arg(long)]
        programs: bool,
        /// Build this work tree of ART instead of the pinned sources and patches
        #[arg(long, value_name = "DIR", env = "HINDSIGHT_ART_SRC")]
        art_src: Option<PathBuf>,
    },
    /// Runs dalvikvm with the lab's boot class path
    Run {
        #[command(flatten)]
        build: BuildArguments,
        /// Arguments for dalvikvm: options, -cp, main class, its arguments
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "DALVIKVM ARGUMENTS"
        )]
        arguments: Vec<OsString>,
    },
    /// Runs ART's own run-tests; the last line is 'N passed, N failed, N skipped'
    RunTest {
        #[command(flatten)]
        build: BuildArguments,
        #[command(flatten)]
        options: run_test::Options,
    },
    /// Runs apps on a real kernel in a virtual machine, with SELinux enforcing the overlay's rules
    Vm(vm::Options),
    /// Runs hindsightd and some apps, and takes commands by standard input
    Device(device::Options),
    /// Makes a git work tree of the patched ART, for development
    Checkout {
        #[command(flatten)]
        release: ReleaseArgument,
        /// Leave out Hindsight's patches
        #[arg(long)]
        stock: bool,
        /// A folder that is new or empty
        dir: PathBuf,
    },
    /// Removes builds and sources, but not downloads and the compiler cache
    Clean(ReleaseArgument),
}

#[derive(Args)]
pub(crate) struct ReleaseArgument {
    /// The release of Android
    #[arg(long, default_value = "10")]
    release: Release,
}

#[derive(Args)]
pub(crate) struct BuildArguments {
    #[command(flatten)]
    release: ReleaseArgument,
    /// The instruction set: x86_64, or under qemu-user arm64 or arm
    #[arg(long, default_value = "x86_64")]
    isa: Isa,
    /// ART without Hindsight's patches
    #[arg(long)]
    stock: bool,
    /// ART with Hindsight's patches, checked by a sanitizer while it runs
    #[arg(long, value_enum, value_name = "SANITIZER", conflicts_with = "stock")]
    sanitize: Option<Sanitizer>,
}

/// A tool that checks a program while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sanitizer {
    /// AddressSanitizer
    Address,
    /// None
    None,
}

impl BuildArguments {
    fn variant(&self) -> Variant {
        match self.sanitize {
            Some(Sanitizer::Address) => Variant::HindsightAddress,
            _ => variant(self.stock),
        }
    }

    /// The finished build that the arguments select, with at least these parts.
    pub(crate) fn open(&self, parts: Parts) -> hindsight_lab::Result<Lab> {
        Lab::open_parts(self.release.release, self.isa, self.variant(), parts)
    }
}

fn variant(stock: bool) -> Variant {
    if stock {
        Variant::Stock
    } else {
        Variant::Hindsight
    }
}

pub(crate) fn run(command: Command) -> Result<ExitCode, Box<dyn std::error::Error>> {
    match command {
        Command::Fetch(release) => fetch(release.release)?,
        Command::Build {
            build: arguments,
            programs,
            art_src,
        } => {
            build(&BuildOptions {
                release: arguments.release.release,
                isa: arguments.isa,
                variant: arguments.variant(),
                parts: match programs {
                    true => Parts::Programs,
                    false => Parts::All,
                },
                art_source: art_src,
            })?;
        }
        Command::Run { build, arguments } => {
            let mut command = build.open(Parts::Programs)?.dalvikvm_command();
            command.args(arguments);
            // Returns only if the program cannot be started.
            let error = command.exec();
            return Err(format!("cannot run {:?}: {error}", command.get_program()).into());
        }
        Command::RunTest { build, options } => {
            let layout = run_test::Layout::of(&build.open(Parts::All)?);
            if !run_test::run(&layout, &options).map_err(|error| format!("{error:#}"))? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Vm(options) => return vm::run(&options),
        Command::Device(options) => {
            let checkout = hindsight_lab::checkout_dir()?;
            return device::run(&options, &checkout).map_err(|error| format!("{error:#}").into());
        }
        Command::Checkout {
            release,
            stock,
            dir,
        } => checkout(release.release, variant(stock), &dir)?,
        Command::Clean(release) => clean(release.release)?,
    }
    Ok(ExitCode::SUCCESS)
}
