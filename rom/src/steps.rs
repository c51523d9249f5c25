// SPDX-License-Identifier: Apache-2.0
//! The steps of `scripts/rom`.

use crate::Context;
use anyhow::{anyhow, bail, Context as _, Result};
use clap::Args;
use hindsight_rom::checks::{find_tool, Needs};
use hindsight_rom::overlay::{self, Overlay};
use hindsight_rom::project::{patches, Project, State};
use hindsight_rom::release::Release;
use hindsight_rom::runner::{output, try_output, write_atomic};
use hindsight_rom::rust_libs::{self, Target};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::Command;

const LOCAL_MANIFEST: &str = ".repo/local_manifests/hindsight.xml";
const GIT: (&str, &str) = ("git", "the Debian package git");

/// Options of `sync`.
#[derive(Args)]
pub(crate) struct Sync {
    /// Where AOSP's manifest comes from
    #[arg(
        long,
        default_value = "https://android.googlesource.com/platform/manifest"
    )]
    url: String,
    /// A mirror made by 'repo init --mirror', to copy from
    #[arg(long)]
    reference: Option<PathBuf>,
    /// Without history: 60 GB less
    #[arg(long)]
    shallow: bool,
    /// How many projects are downloaded at a time
    #[arg(long, short, default_value_t = 4)]
    jobs: u32,
}

/// Options of `build`.
#[derive(Args)]
pub(crate) struct Build {
    /// What to build, e.g. aosp_cf_x86_64_phone
    #[arg(long)]
    product: Option<String>,
    /// user, userdebug or eng
    #[arg(long, default_value = "userdebug", value_parser = ["user", "userdebug", "eng"])]
    variant: String,
    /// Only the Rust half
    #[arg(long)]
    rust_only: bool,
    /// How many commands run at a time; the build system's own choice if not given
    #[arg(long, short)]
    jobs: Option<u32>,
    /// Other goals for m than the whole image
    goals: Vec<String>,
}

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
    /// Don't ask; takes --serial
    #[arg(long, requires = "serial")]
    yes: bool,
}

/// Options of `boot-test`.
#[derive(Args)]
pub(crate) struct BootTest {
    /// What runs the build: avd, cuttlefish, or phone; or lab, which needs no tree
    #[arg(long, value_parser = ["avd", "cuttlefish", "phone", "lab"])]
    pub(crate) target: String,
    /// More for the suite, after --
    #[arg(last = true)]
    more: Vec<String>,
}

impl Context {
    fn check(&self, disk_gb: u64, memory_gb: u64, tools: &[(&str, &str)]) -> Result<()> {
        let needs = Needs {
            disk_gb: self.min_disk.unwrap_or(disk_gb),
            memory_gb: self.min_memory.unwrap_or(memory_gb),
            tools,
        };
        if !self.runner.dry_run {
            return needs.check(&self.tree);
        }
        for missing in needs.missing(&self.tree) {
            println!("missing: {missing}");
        }
        Ok(())
    }

    fn projects(&self) -> Result<Vec<Project>> {
        Project::all(&self.checkout, &self.tree, self.release)
    }

    fn overlay(&self) -> Result<Overlay> {
        Overlay::of(&self.checkout, &self.tree, self.release)
    }

    /// Names the projects that take part and have no patches for this release: what those would do is left to do.
    fn say_what_is_by_hand(&self) -> Result<()> {
        for path in Project::without_patches(&self.checkout, self.release)? {
            println!(
                "{path}: no patches for {}; what to do by hand is in docs/rom.md, 'Android 11 and 14'",
                self.release
            );
        }
        Ok(())
    }

    /// Only one run at a time changes a tree. A dry run changes none, and makes no file for it either.
    fn lock(&self) -> Result<Option<std::fs::File>> {
        if self.runner.dry_run {
            return Ok(None);
        }
        // The folder itself is locked: no file is left in somebody's tree.
        let file = std::fs::File::open(&self.tree)
            .with_context(|| format!("cannot open {}", self.tree.display()))?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                bail!("another scripts/rom is at work in {}", self.tree.display())
            }
            // Some network file systems lock no folders.
            Err(error) => eprintln!(
                "{} can't be locked ({error}): see that nothing else is at work there",
                self.tree.display()
            ),
            Ok(()) => {}
        }
        Ok(Some(file))
    }
}

pub(crate) fn sync(context: &Context, options: &Sync) -> Result<()> {
    let manifest = context.release.manifest(&context.checkout);
    hindsight_rom::manifest::load(&manifest)?;
    context.check(
        match (context.release, options.shallow) {
            (Release::Android14, false) => 250,
            (_, false) => 170,
            (_, true) => 110,
        },
        8,
        &[
            (
                "repo",
                "the Debian package repo (contrib), or https://gerrit.googlesource.com/git-repo",
            ),
            GIT,
            ("python3", "the Debian package python3"),
        ],
    )?;
    let tag = context.release.tag();
    let manifests = context.tree.join(".repo/manifests");
    let at = if manifests.is_dir() {
        let file = std::fs::read_to_string(context.tree.join(".repo/manifests.git/config"))
            .unwrap_or_default();
        file.contains(&format!("merge = refs/tags/{tag}"))
    } else {
        false
    };
    if manifests.is_dir() && !at && context.tree.join(".repo/manifest.xml").exists() {
        // Another release in the same tree: repo would check out other versions of everything.
        for project in context.projects()? {
            if project.dir.exists()
                && !matches!(project.state()?.0, State::Pristine | State::Foreign(_))
            {
                bail!(
                    "{} has patches in it; run 'scripts/rom undo' first",
                    project.dir.display()
                );
            }
        }
    }
    let _lock = if context.tree.is_dir() {
        context.lock()?
    } else {
        None
    };
    if !at {
        let mut init = Command::new("repo");
        init.current_dir(&context.tree);
        init.args([
            "init",
            "--manifest-url",
            &options.url,
            "--manifest-branch",
            &format!("refs/tags/{tag}"),
        ]);
        if options.shallow {
            init.args(["--depth", "1"]);
        }
        if let Some(reference) = &options.reference {
            init.arg("--reference").arg(std::path::absolute(reference)?);
        }
        context.runner.run(&mut init)?;
    }
    let text = std::fs::read(&manifest)?;
    let local = context.tree.join(LOCAL_MANIFEST);
    if std::fs::read(&local).ok().as_ref() != Some(&text)
        && context
            .runner
            .does(&format!("copy {} to {LOCAL_MANIFEST}", manifest.display()))
    {
        write_atomic(&local, &text)?;
    }
    let mut sync = Command::new("repo");
    sync.current_dir(&context.tree);
    sync.args([
        "sync",
        "--current-branch",
        "--optimized-fetch",
        "--jobs",
        &options.jobs.to_string(),
    ]);
    context
        .runner
        .run(&mut sync)
        .context("run the same command again: repo goes on where it was")
}

pub(crate) fn apply(context: &Context) -> Result<()> {
    context.check(1, 0, &[GIT])?;
    let _lock = context.lock()?;
    let projects = context.projects()?;
    let overlay = context.overlay()?;
    // All of it is looked at before any of it is touched.
    let mut problems = Vec::new();
    let mut work = Vec::new();
    for project in &projects {
        match project.state() {
            Ok((State::Foreign(why), _)) => problems.push(why),
            Ok((State::OtherVersion, _)) => {
                problems.push(format!("{}: {}", project.pinned.path, State::OtherVersion));
            }
            Ok((state, _)) => work.push((project, state)),
            Err(error) => problems.push(format!("{error:#}")),
        }
    }
    if let Err(error) = overlay.is_current() {
        problems.push(format!("{error:#}"));
    }
    if !problems.is_empty() {
        bail!(
            "{} is not ready; nothing has been touched:\n{}",
            context.tree.display(),
            problems.join("\n")
        );
    }
    for (project, state) in work {
        let n = patches(project.patches.len());
        if state == State::Applied {
            println!("{}: {n}, in already", project.pinned.path);
        } else if context
            .runner
            .does(&format!("apply {n} to {} ({state})", project.pinned.path))
        {
            project.apply()?;
            println!("{}: {n}, now in", project.pinned.path);
        }
    }
    context.say_what_is_by_hand()?;
    if overlay.is_current()? {
        println!("{}: up to date", overlay::PATH);
    } else if context.runner.does(&format!(
        "copy {} files to {}",
        overlay.paths().count(),
        overlay::PATH
    )) {
        let change = overlay.update()?;
        println!(
            "{}: {} files written, {} removed",
            overlay::PATH,
            change.written,
            change.removed
        );
    }
    Ok(())
}

pub(crate) fn undo(context: &Context) -> Result<()> {
    context.check(0, 0, &[GIT])?;
    let _lock = context.lock()?;
    if context.runner.dry_run {
        for project in context.projects()? {
            context
                .runner
                .does(&format!("take the patches out of {}", project.pinned.path));
        }
        context.runner.does(&format!("remove {}", overlay::PATH));
        return Ok(());
    }
    let mut problems = Vec::new();
    for project in context.projects()? {
        match project.undo() {
            Ok(true) => println!("{}: as it was", project.pinned.path),
            Ok(false) => println!("{}: there is nothing of ours", project.pinned.path),
            Err(error) => problems.push(format!("{error:#}")),
        }
    }
    match Overlay::remove(&context.tree) {
        Ok(change) => {
            println!("{}: {} files removed", overlay::PATH, change.removed);
            rust_libs::remove(&context.tree.join(overlay::PATH))?;
        }
        Err(error) => problems.push(format!("{error:#}")),
    }
    if !problems.is_empty() {
        bail!("the rest is undone, but:\n{}", problems.join("\n"));
    }
    Ok(())
}

pub(crate) fn status(context: &Context) -> Result<()> {
    println!(
        "{} ({}) in {}",
        context.release,
        context.release.tag(),
        context.tree.display()
    );
    for project in context.projects()? {
        let state = match project.state() {
            Ok((state, _)) => state.to_string(),
            Err(error) => format!("{error:#}"),
        };
        println!(
            "{}: {}: {state}",
            project.pinned.path,
            patches(project.patches.len())
        );
    }
    context.say_what_is_by_hand()?;
    match context.overlay()?.is_current() {
        Ok(true) => println!("{}: up to date", overlay::PATH),
        Ok(false) => println!("{}: apply has files to copy", overlay::PATH),
        Err(error) => println!("{}: {error:#}", overlay::PATH),
    }
    let product = context.release.products()[0];
    let missing = rust_libs::missing(&context.tree.join(overlay::PATH), product);
    if missing.is_empty() {
        println!("Rust libraries for {product}: there");
    } else {
        println!(
            "Rust libraries for {product}: build has to make those for {}",
            missing.join(", ")
        );
    }
    Ok(())
}

pub(crate) fn build(context: &Context, options: &Build) -> Result<()> {
    let product = options
        .product
        .as_deref()
        .unwrap_or(context.release.products()[0]);
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !plain(product) {
        bail!(
            "'{product}' is no name of a product; for {} there are {}",
            context.release,
            context.release.products().join(", ")
        );
    }
    if let Some(goal) = options.goals.iter().find(|goal| {
        !goal
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
    }) {
        bail!("'{goal}' is no goal of m");
    }
    if !context.release.products().contains(&product) {
        println!(
            "{product} is none of {}: going on with it",
            context.release.products().join(", ")
        );
    }
    let (disk, memory) = if options.rust_only { (3, 2) } else { (160, 16) };
    context.check(
        disk,
        memory,
        &[
            ("cargo", "rustup"),
            ("bash", "the Debian package bash"),
            GIT,
        ],
    )?;
    let _lock = context.lock()?;
    for project in context.projects()? {
        let (state, _) = project.state()?;
        if state != State::Applied {
            bail!(
                "{}: {state}; run 'scripts/rom apply' first",
                project.pinned.path
            );
        }
    }
    if !context.overlay()?.is_current()? {
        bail!(
            "{} is not up to date; run 'scripts/rom apply' first",
            overlay::PATH
        );
    }
    if !options.rust_only && !context.tree.join("build/envsetup.sh").exists() {
        let text = format!(
            "{} has no build/envsetup.sh: run 'scripts/rom sync'",
            context.tree.display()
        );
        if !context.runner.dry_run {
            bail!(text);
        }
        println!("missing: {text}");
    }
    let overlay = context.tree.join(overlay::PATH);
    rust_libs::build(
        &context.checkout,
        &overlay,
        &Target::of_product(product),
        context.runner,
    )?;
    if options.rust_only {
        return Ok(());
    }
    let mut script = format!(
        "set -e; source build/envsetup.sh; lunch {product}-{}; m",
        options.variant
    );
    if let Some(jobs) = options.jobs {
        script += &format!(" -j{jobs}");
    }
    for goal in &options.goals {
        script += &format!(" {goal}");
    }
    let mut command = Command::new("bash");
    command.current_dir(&context.tree).args(["-c", &script]);
    if context.release >= Release::Android14 {
        // Its ART comes as a prebuilt module otherwise.
        command.env("ART_MODULE_BUILD_FROM_SOURCE", "true");
    }
    context.runner.run(&mut command)
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
                "{} is not for a phone; 'scripts/rom boot-test' boots it",
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
            bail!("no phone {wanted} in fastboot mode ('adb reboot bootloader' gets it there)")
        }
        (None, [one]) => (*one).to_owned(),
        (None, []) => bail!("no phone in fastboot mode ('adb reboot bootloader' gets it there)"),
        (None, _) => bail!(
            "several phones are there, name one with --serial: {}",
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
            bail!("nobody is there to confirm; --yes with --serial goes without");
        }
        print!("Type the serial number to go on: ");
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
    // What runs already needs no launcher.
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
    let cargo = find_tool("cargo").ok_or_else(|| anyhow!("no cargo in PATH; rustup brings it"))?;
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
