// SPDX-License-Identifier: Apache-2.0
//! `flash` and `boot-test`: puts a build on a device, and tests it there.

use crate::context::Context;
use anyhow::{anyhow, bail, Result};
use clap::Args;
use hindsight_rom::checks::find_tool;
use hindsight_rom::runner::{output, try_output};
use std::io::{IsTerminal, Write};
use std::process::Command;

/// Options of `flash`.
#[derive(Args)]
pub(crate) struct Flash {
    /// The product that was built, e.g. aosp_oriole
    #[arg(long)]
    product: String,
    /// The phone, as 'fastboot devices' shows it; needed if there is more than one
    #[arg(long)]
    serial: Option<String>,
    /// Also erase all of the user's data (fastboot -w)
    #[arg(long)]
    wipe: bool,
    /// Don't ask; requires --serial
    #[arg(long, requires = "serial")]
    yes: bool,
}

/// Options of `boot-test`.
#[derive(Args)]
pub(crate) struct BootTest {
    /// The device: avd, cuttlefish or phone; or lab, which needs no tree
    #[arg(long, value_parser = ["avd", "cuttlefish", "phone", "lab"])]
    pub(crate) target: String,
    /// Options of the suite, after --
    #[arg(last = true)]
    more: Vec<String>,
}

pub(crate) fn flash(context: &Context, options: &Flash) -> Result<()> {
    context.check(
        0,
        0,
        &[(
            "fastboot",
            "the Debian package fastboot, or the tree's own host tools",
        )],
    )?;
    let device = options
        .product
        .rsplit('_')
        .next()
        .filter(|device| !device.is_empty() && *device != "phone")
        .ok_or_else(|| {
            anyhow!(
                "{} is not a phone's product; 'scripts/rom boot-test' boots it",
                options.product
            )
        })?;
    let out = context.tree.join("out/target/product").join(device);
    let missing: Vec<&str> = ["android-info.txt", "boot.img", "system.img", "vbmeta.img"]
        .into_iter()
        .filter(|image| !out.join(image).exists())
        .collect();
    if !missing.is_empty() {
        bail!(
            "{} has no {}: run 'scripts/rom build --product {}'",
            out.display(),
            missing.join(", "),
            options.product
        );
    }
    let listed = output(Command::new("fastboot").arg("devices"))?;
    let serials: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let serial = match (&options.serial, serials.as_slice()) {
        (Some(wanted), all) if all.contains(&wanted.as_str()) => wanted.clone(),
        (Some(wanted), _) => {
            bail!("no phone {wanted} in fastboot mode ('adb reboot bootloader' switches to it)")
        }
        (None, [one]) => (*one).to_owned(),
        (None, []) => bail!("no phone in fastboot mode ('adb reboot bootloader' switches to it)"),
        (None, _) => bail!(
            "several phones are connected, name one with --serial: {}",
            serials.join(", ")
        ),
    };
    let getvar = |name: &str| -> Result<String> {
        // fastboot answers on standard error.
        let (_, out, err) =
            try_output(Command::new("fastboot").args(["-s", &serial, "getvar", name]))?;
        out.lines()
            .chain(err.lines())
            .find_map(|line| line.strip_prefix(&format!("{name}:")))
            .map(|value| value.trim().to_owned())
            .ok_or_else(|| {
                anyhow!(
                    "{serial} does not answer 'fastboot getvar {name}': {}",
                    err.trim()
                )
            })
    };
    let is = getvar("product")?;
    if is != device {
        bail!("{serial} is a {is}, and the build is for {device}; nothing has been written");
    }
    if getvar("unlocked")? != "yes" {
        bail!(
            "the boot loader of {serial} is locked; nothing has been written. Unlocking ('fastboot flashing unlock') \
             erases all of the user's data"
        );
    }
    println!(
        "This replaces the system of {serial} ({device}) with {}",
        out.display()
    );
    println!(
        "{}",
        if options.wipe {
            "and ERASES ALL DATA of its user."
        } else {
            "and keeps its user's data."
        }
    );
    if !options.yes && !context.runner.dry_run {
        if !std::io::stdin().is_terminal() {
            bail!("standard input is no terminal, so nobody can confirm; --yes with --serial needs no confirmation");
        }
        print!("Type the serial number to continue: ");
        std::io::stdout().flush()?;
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        if line.trim() != serial {
            bail!("not confirmed; nothing has been written");
        }
    }
    let mut command = Command::new("fastboot");
    command
        .env("ANDROID_PRODUCT_OUT", &out)
        .args(["-s", &serial]);
    if options.wipe {
        command.arg("-w");
    }
    context.runner.run(command.arg("flashall"))
}

pub(crate) fn boot_test(context: &Context, options: &BootTest) -> Result<()> {
    let adb = (
        "adb",
        "the Debian package adb, or the tree's own host tools",
    );
    let tools: &[(&str, &str)] = match options.target.as_str() {
        "cuttlefish" => &[
            adb,
            (
                "launch_cvd",
                "the tree's host tools (source build/envsetup.sh; lunch), or Cuttlefish's packages",
            ),
        ],
        "avd" => &[adb, ("emulator", "Android's SDK")],
        "lab" => &[],
        _ => &[adb],
    };
    // A running device needs no launcher.
    let tools = if options
        .more
        .iter()
        .any(|option| option.starts_with("--serial"))
    {
        &tools[..tools.len().min(1)]
    } else {
        tools
    };
    let (disk, memory) = match options.target.as_str() {
        "lab" => (1, 2),
        "phone" => (10, 0),
        _ => (10, 8),
    };
    context.check(disk, memory, tools)?;
    let cargo =
        find_tool("cargo").ok_or_else(|| anyhow!("no cargo in PATH; install Rust with rustup"))?;
    let mut command = Command::new(cargo);
    command.current_dir(&context.checkout);
    command.args([
        "run",
        "--quiet",
        "-p",
        "hindsight-emulator-tests",
        "--",
        "--target",
        &options.target,
    ]);
    command.args(&options.more);
    command.env("ANDROID_BUILD_TOP", &context.tree);
    context.runner.run(&mut command)
}
