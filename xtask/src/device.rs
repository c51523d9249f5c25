// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask lab device`: hindsightd and some apps on this machine, to try things on.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{ensure, Context as _};
use hindsight_lab::device::{Device, DeviceApp, Service};
use hindsight_lab::{build, BuildOptions, Execution, Framework, Isa, Parts, Variant};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many apps are started at once
    #[arg(long, default_value_t = 2)]
    apps: usize,
    /// The policy of hindsightd; default: one that keeps a report of everything that ends
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Keep the files of the device in this folder
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// The user has agreed to everything; many processes of one user have room.
const POLICY: &str = r#"
version = 1

[memory]
budget-mib = 4096
uid-share = 100
processes-per-uid = 64

[reports]
killed = "all"

[consent.end-user]
unasked = "full"
"#;

const HELP: &str = "\
  status, dump, reports, get N, remove N, report PID REASON, record dalvikvm64 SECONDS, switch on|off, consent show, policy /FILE …
                       asks hindsightd; each of its commands is passed on
  app N COMMAND        tells app N: foreground, background, work N, busy, stall MS, lock MS, stuck, crash, exit, and others
  kill N               kills app N by SIGKILL
  start                starts one more app
  restart              kills hindsightd by SIGKILL, and starts it again
  help, quit";

pub(crate) fn run(options: &Options, checkout: &Path) -> anyhow::Result<ExitCode> {
    let lab = build(&BuildOptions {
        parts: Parts::Programs,
        ..BuildOptions::from_environment(Isa::X86_64, Variant::Hindsight)
    })?;
    let framework = Framework::build(&lab, &|step| eprintln!("lab device: building {step}"))?;
    let program = service_program(checkout)?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = options.folder.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let folder = folder.canonicalize()?;
    let policy = match &options.policy {
        Some(policy) => policy.clone(),
        None => {
            let policy = folder.join("policy.toml");
            std::fs::write(&policy, POLICY)
                .with_context(|| format!("cannot write {}", policy.display()))?;
            policy
        }
    };
    let device = Device::new(&framework, checkout, &program, &folder)?;
    let mut session = Session {
        service: device.start_service(Some(&policy))?,
        device,
        policy,
        apps: Vec::new(),
    };
    for _ in 0..options.apps {
        session.start()?;
    }
    println!("apps' socket:     {}", session.device.socket().display());
    println!("commands' socket: {}", session.device.commands().display());
    println!("reports:          {}", session.device.store().display());
    println!("logs:             {}", session.device.logs().display());
    println!("{HELP}");
    session.serve()?;
    Ok(ExitCode::SUCCESS)
}

/// What runs.
struct Session {
    device: Device,
    policy: PathBuf,
    service: Service,
    apps: Vec<Option<DeviceApp>>,
}

impl Session {
    fn start(&mut self) -> anyhow::Result<()> {
        let app = self
            .device
            .start_app(Execution::Jit, "trace=main,events=all")?;
        let pid = app.pid();
        println!("app {}: process {pid}", self.apps.len());
        self.apps.push(Some(app));
        Ok(())
    }

    /// Does what the lines of the standard input say. A line that cannot be done is no end.
    fn serve(&mut self) -> anyhow::Result<()> {
        for line in std::io::stdin().lock().lines() {
            let line = line.context("cannot read the standard input")?;
            match line.trim() {
                "quit" => break,
                "" => {}
                line => {
                    if let Err(error) = self.execute(line) {
                        println!("error: {error:#}");
                    }
                }
            }
        }
        Ok(())
    }

    fn execute(&mut self, line: &str) -> anyhow::Result<()> {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match command {
            "help" => println!("{HELP}"),
            "start" => self.start()?,
            "restart" => {
                self.service.kill();
                self.service = self.device.start_service(Some(&self.policy))?;
            }
            "kill" => {
                let (number, _) = self.app(rest)?;
                if let Some(mut app) = self.apps[number].take() {
                    app.kill();
                }
            }
            "app" => {
                let (number, command) = rest.split_once(' ').context("'app N COMMAND'")?;
                let (_, app) = self.app(number)?;
                for line in app.ask_for(command)? {
                    println!("{line}");
                }
                println!("ok");
            }
            _ => {
                for line in self.service.ask(line)? {
                    println!("{line}");
                }
                println!("ok");
            }
        }
        Ok(())
    }

    /// The app with this number.
    fn app(&mut self, number: &str) -> anyhow::Result<(usize, &mut DeviceApp)> {
        let known = self.apps.len();
        let found = number.trim().parse().ok().filter(|n: &usize| *n < known);
        let number = found.with_context(|| format!("'{number}' is no number below {known}"))?;
        let app = self.apps[number].as_mut();
        Ok((
            number,
            app.with_context(|| format!("app {number} was killed"))?,
        ))
    }
}

/// Builds hindsightd, which takes no time if nothing has changed.
fn service_program(checkout: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = checkout.join("target");
    let mut build = Command::new(cargo);
    build.current_dir(checkout);
    build.args(["build", "--quiet", "--package", "hindsight-service"]);
    build.arg("--target-dir").arg(&target);
    let status = build
        .status()
        .with_context(|| format!("cannot run {build:?}"))?;
    ensure!(status.success(), "{build:?} failed ({status})");
    Ok(target.join("debug/hindsightd"))
}
