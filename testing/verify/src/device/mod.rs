// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify device`: the lab's device under a random script of starts, stalls, crashes and kills, of apps and of the
//! service. Then every report is read, and the promises of the service are printed with what was measured.

mod apps;
mod at_once;
mod at_start;
mod disk;
mod hostile;
mod idle;
mod observe;
mod pressure;
mod promises;
mod reports;
mod sampler;
mod script;
mod status;
mod steady;
mod stranger;
mod table;
mod tight;
mod timing;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hindsight_lab::device::Device;
use hindsight_lab::{build, BuildOptions, Framework, Isa, Parts, Variant};

use crate::stress::dice::Dice;
use apps::CONFIGURATION;
use promises::Findings;
use script::Script;

/// Options of `verify device`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long the random script runs, in seconds; the other measurements take a minute or two more
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Number of the script; default: another one each time
    #[arg(long)]
    seed: Option<u64>,
    /// How many apps live at a time
    #[arg(long, default_value_t = 20)]
    apps: usize,
    /// So many of them are never told to do anything; default: a quarter
    #[arg(long, value_name = "N")]
    quiet: Option<usize>,
    /// The script goes on until it has killed the service so many times
    #[arg(long, default_value_t = 0, value_name = "N")]
    service_kills: u64,
    /// The budget of memory, MiB
    #[arg(long, default_value_t = 4096, value_name = "N")]
    budget_mib: u64,
    /// Leave out how long reports take and threads are held: that needs a machine that does little else
    #[arg(long)]
    without_times: bool,
    /// Only kill so many apps right after their start, and as many after one app has named the boot image's methods; count methods
    /// without names
    #[arg(long, value_name = "N")]
    at_start: Option<u64>,
    /// Only measure how long reports take and threads are held, and print the longest pauses with their times
    #[arg(long)]
    times: bool,
    /// Keep the files of the device in this folder, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// The most reports in a window that a policy may allow. The script leaves some to the measurements after it.
const MOST_REPORTS: u64 = 5000;

/// The most reports in each round in which pauses of threads are compared.
const PAUSES: usize = 200;

/// Runs the script. Returns whether there is no problem.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let lab = build(&BuildOptions {
        parts: Parts::Programs,
        ..BuildOptions::from_environment(Isa::X86_64, Variant::Hindsight)
    })?;
    let framework = Framework::build(&lab, &|step| eprintln!("verify device: building {step}"))?;
    let program = service_program(checkout)?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = match &options.keep {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            folder.canonicalize()?
        }
        None => temporary.path().canonicalize()?,
    };
    // Hostile clients are of other users, and must come as far as the sockets.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755))?;
    let device = Device::new(&framework, checkout, &program, &folder)?.with_own_clock(checkout)?;
    let seed = options.seed.unwrap_or_else(|| std::process::id().into());
    let policy = folder.join("policy.toml");
    std::fs::write(&policy, policy_text(options.budget_mib))
        .with_context(|| format!("cannot write {}", policy.display()))?;
    match options.at_start {
        Some(kills) => at_start(&device, &policy, kills, seed),
        None if options.times => times(&device, &policy),
        None => all(&device, &folder, policy, options, seed),
    }
}

/// hindsightd, which is beside this program.
pub(crate) fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's folder")?;
    let program = own.with_file_name("hindsightd");
    anyhow::ensure!(
        program.is_file(),
        "{} is not there: compile it by 'cargo build -p hindsight-service'",
        program.display()
    );
    Ok(program)
}

fn at_start(device: &Device, policy: &Path, kills: u64, seed: u64) -> Result<bool> {
    let service = device.start_service(Some(policy))?;
    let mut dice = Dice::new(seed, 0x0073_7461_7274_0000);
    let before = at_start::run(device, &service, kills, CONFIGURATION, &mut dice)?;
    println!("no process has named the boot image; {before}");
    at_start::name_boot_image(device, &service, CONFIGURATION)?;
    let after = at_start::run(device, &service, kills, CONFIGURATION, &mut dice)?;
    println!("one process has named the boot image; {after}");
    Ok(before.is_good() && after.is_good())
}

fn times(device: &Device, policy: &Path) -> Result<bool> {
    let service = device.start_service(Some(policy))?;
    let timing = timing::measure(device, &service, PAUSES)?;
    timing.print_rounds();
    let table = promises::of_times(&Some(Ok(timing)));
    println!("{table}");
    Ok(table.problems() == 0)
}

fn all(
    device: &Device,
    folder: &Path,
    policy: PathBuf,
    options: &Options,
    seed: u64,
) -> Result<bool> {
    let quiet = options.quiet.unwrap_or(options.apps / 4);
    anyhow::ensure!(
        quiet < options.apps,
        "--quiet {quiet}: with --apps {} no app is left to be told anything; name fewer",
        options.apps
    );
    println!(
        "seed {seed}; the same script again: cargo xtask verify device --seconds {} --apps {} --quiet {quiet} --service-kills {} \
         --budget-mib {} --seed {seed}",
        options.seconds, options.apps, options.service_kills, options.budget_mib
    );
    let mut script = Script::new(device, policy.clone(), seed, (options.apps, quiet))?;
    script.wait_until_all_are_known()?;
    step("idle apps");
    let window = Duration::from_secs((options.seconds / 4).clamp(9, 60));
    let (apps, service) = (script.apps.pids(), script.service.pid());
    let idle = idle::settled(&apps, service, window);
    let service_bytes = sampler::resident_bytes(service);

    step("steady apps");
    let window = Duration::from_secs((options.seconds / 4).clamp(20, 300));
    steady::run(&mut script, window)?;

    step("script");
    let observers = script.observe()?;
    let time = Duration::from_secs(options.seconds);
    script.run(time, options.service_kills, MOST_REPORTS * 4 / 5)?;
    device.move_clock(0)?;
    let descriptors = script.check_descriptors()?;
    let observed = match observers {
        Ok(observers) => Ok(observe::finish(observers, &device.socket())?),
        Err(error) => Err(format!("{error:#}")),
    };

    let timing = match options.without_times {
        true => None,
        false => {
            step("reports with a full ring");
            let measured = timing::measure(device, &script.service, PAUSES);
            Some(measured.map_err(|e| format!("{e:#}")))
        }
    };
    step("shortage of memory");
    let text = policy_text(options.budget_mib);
    let pressure = pressure::run(device, &script.service, &text, CONFIGURATION, folder)?;
    script.read_reports()?;
    step("another policy");
    let at_once = at_once::run(
        &device.at(&part(folder, "policy")?)?,
        &policy,
        CONFIGURATION,
    )?;
    step("a tight budget");
    let tight = part(folder, "tight")?;
    let text = policy_text(tight::BUDGET_MIB);
    let time = Duration::from_secs((options.seconds / 10).clamp(5, 60));
    let tight = tight::run(&device.at(&tight)?, &text, &tight, time)?;
    step("full disk");
    let disks = disk::run(&device.at(&part(folder, "small")?)?, &policy)?;

    let findings = Findings {
        apps: script.apps.started,
        app_hours: script.apps.lived().as_secs_f64() / 3600.0,
        quiet_hours: script.apps.quiet_time().as_secs_f64() / 3600.0,
        steady_hours: script.apps.steady.as_secs_f64() / 3600.0,
        budget: options.budget_mib << 20,
        totals: script.totals,
        peaks: script.sampler.finish(),
        service_bytes,
        descriptors,
        idle,
        observed,
        timing,
        pressure,
        at_once,
        tight,
        disks,
    };
    let table = findings.table();
    println!("{table}{}", findings.last_line(table.problems()));
    Ok(table.problems() == 0)
}

/// A folder for a further device.
fn part(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    // As the folder above.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn step(what: &str) {
    eprintln!("verify device: {what}");
}

/// Everything that ends is worth a report, as often as it happens; the user has agreed to everything.
fn policy_text(budget_mib: u64) -> String {
    format!(
        r#"
version = 1

[memory]
budget-mib = {budget_mib}
uid-share = 100
processes-per-uid = 64

[reports]
killed = "all"
queue = 64

[limits]
device = {MOST_REPORTS}
per-uid = {MOST_REPORTS}
per-detector = {MOST_REPORTS}
device-per-detector = {MOST_REPORTS}

[consent.end-user]
unasked = "full"

[detectors.outlier]
enabled = true
warm-up-seconds = 10

[[detectors.correlated]]
name = "memory-stall"
all = [
    {{ metric = "psi-memory-percent", over = 20, for-seconds = 2 }},
    {{ metric = "messages-ms", over = 400, for-seconds = 2 }},
]
"#
    )
}

/// Compiles hindsightd as it is on a device, with optimization: its times are measured.
fn service_program(checkout: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = checkout.join("target");
    let mut build = Command::new(cargo);
    build.current_dir(checkout);
    build.args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "hindsight-service",
    ]);
    build.arg("--target-dir").arg(&target);
    let status = build
        .status()
        .with_context(|| format!("cannot run {build:?}"))?;
    anyhow::ensure!(status.success(), "{build:?} failed ({status})");
    Ok(target.join("release/hindsightd"))
}
