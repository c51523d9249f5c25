// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask lab vm`: the lab's ART on a real kernel, with SELinux enforcing the overlay's rules. See `docs/lab.md`.

mod binder;
mod console;
mod cpio;
mod image;
mod kernel;
mod policy;
mod qemu;
mod service;
mod steps;

use crate::build::check_packages;
use crate::confine::compile_confine;
use crate::error::{IoContext as _, Result};
use crate::layout::cache_dir;
use crate::lock::Lock;
use crate::run::{App, Execution, Framework, Lab};
use crate::util::{last_lines, run as run_program, run_with_input};
use console::Console;
use image::GuestFile;
use policy::Policy;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use steps::{Program, Step};

/// The program that the guest's apps run, below `lab/vm/java`.
const PROGRAM: &str = "dev.hindsight.vm.Snapshot";
/// The one that works until it is killed.
const KILLED: &str = "dev.hindsight.vm.Killed";
/// The disk that the guest writes the files to that it leaves.
const DISK_BYTES: u64 = 1 << 30;

/// A check and its result.
#[derive(Clone, Debug)]
pub struct Check {
    /// What has been checked.
    pub name: String,
    /// What came of it.
    pub verdict: Verdict,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is as it should be.
    Passed,
    /// It is not; with the reason.
    Failed(String),
    /// It could not be checked; with the reason.
    Skipped(String),
}

/// What the guest came to.
#[derive(Debug)]
pub struct Report {
    /// The checks, in the order of the guest.
    pub checks: Vec<Check>,
    /// The snapshots of the guest's apps, in the folder that [`run`] was given.
    pub snapshots: Vec<PathBuf>,
    /// The text of the kernel's events, with the clocks in its first line, if the kernel has recorded some.
    pub kernel_events: Option<PathBuf>,
}

/// Which steps the guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// All.
    All,
    /// Those on the system service.
    Service,
    /// Those on transactions through the kernel's binder.
    Binder,
    /// All, also transactions and real shortage of memory.
    Long,
}

impl Choice {
    /// Whether steps send transactions through the kernel's binder.
    #[must_use]
    pub fn has_binder(self) -> bool {
        matches!(self, Choice::Binder | Choice::Long)
    }
}

/// Programs that are compiled before.
#[derive(Clone, Debug)]
pub struct Programs {
    /// hindsightd's library, `libhindsight_service.a`.
    pub service: PathBuf,
    /// `vm-guest`.
    pub guest: PathBuf,
    /// `libkernel_binder.so`, the natives of programs that use the kernel's binder; only for [`Choice::has_binder`].
    pub binder: Option<PathBuf>,
}

/// Boots the guest, runs its steps, and judges them; the snapshots and the console's
/// lines are written to `out`. The guest is ended if it
/// is not off after `limit`.
///
/// # Errors
/// If a package is missing, a part can't be built, or the guest can't be started.
pub fn run(
    lab: &Lab,
    programs: &Programs,
    choice: Choice,
    out: &Path,
    limit: Duration,
    progress: &dyn Fn(&str),
) -> Result<Report> {
    let data = lab.folders.checkout.join("lab/vm");
    check_packages(&data)?;
    let dir = cache_dir()?.join("vm");
    let kernel = {
        let _lock = Lock::take(&dir)?;
        kernel::prepare(&dir, progress)?
    };
    let framework = Framework::build(lab, progress)?;
    let app = framework.compile_app("vm", &data.join("java"))?;
    let checkout = &lab.folders.checkout;
    let trace = policy::shipped_configuration(checkout)?;
    let program = Program {
        words: command_line(&framework, &app, PROGRAM, &trace),
        folders: policy::shipped_modes(checkout)?,
    };
    let service = policy::service_configuration(checkout)?;
    let mut steps = match choice {
        Choice::All | Choice::Long => steps::all(&program),
        Choice::Service | Choice::Binder => steps::begin(),
    };
    let of = |class| command_line(&framework, &app, class, &service);
    if choice == Choice::Binder {
        steps.extend(service::begin());
    } else {
        steps.extend(service::steps(&of(KILLED)));
    }
    if choice.has_binder() {
        steps.extend(binder::steps(&of(binder::SERVER), &of(binder::CLIENT)));
    }
    if choice == Choice::Long {
        steps.extend(service::shortage());
    }
    steps.extend(service::end());

    progress("the guest's image");
    let mut files = guest_files(lab, &data, &kernel, &steps)?;
    let work = tempfile::tempdir().context("make a folder in", std::env::temp_dir())?;
    let hindsightd = work.path().join("hindsightd");
    compile_service(checkout, &programs.service, &hindsightd)?;
    let mut beside = vec![
        ("/bin/vm-guest", &programs.guest),
        ("/bin/hindsightd", &hindsightd),
    ];
    beside.extend(programs.binder.as_ref().map(|path| (binder::LIBRARY, path)));
    for &(path, program) in &beside {
        files.push(GuestFile::program(path, read_bytes(program)?));
    }
    let beside: Vec<PathBuf> = beside.iter().map(|(_, path)| path.to_path_buf()).collect();
    files.push(GuestFile::data(app.jar(), read_bytes(app.jar())?));
    let image = image::write(lab, framework.dir(), &beside, &files)?;
    let disk = tempfile::tempfile().context("make a file in", std::env::temp_dir())?;
    disk.set_len(DISK_BYTES)
        .context("make", "the guest's disk")?;

    progress("the guest");
    let mut console = Console::default();
    // Written line by line: it tells where a guest hangs.
    let log = out.join("console.txt");
    let mut file = File::create(&log).context("write", &log)?;
    let mut written = Ok(());
    let ended = qemu::run(&kernel, &image, &disk, limit, |line| {
        console.line(line);
        written = writeln!(file, "{line}");
    });
    written.context("write", &log)?;
    let mut checks = judge(&steps, &console);
    checks.push(power_off(ended, &console));
    let snapshots = if console.packed {
        unpack(disk, out)?
    } else {
        Vec::new()
    };
    let kernel_events = Some(out.join("kernel.txt")).filter(|path| path.exists());
    Ok(Report {
        checks,
        snapshots,
        kernel_events,
    })
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).context("read", path)
}

/// The files of the guest that are made for it.
fn guest_files(
    lab: &Lab,
    data: &Path,
    kernel: &kernel::Kernel,
    steps: &[Step],
) -> Result<Vec<GuestFile>> {
    let mut files = vec![
        GuestFile::program("/init", read_bytes(&data.join("init"))?),
        GuestFile::program("/bin/confine", confine()?),
        GuestFile::data("/steps", script(steps)),
        GuestFile::data("/etc/passwd", steps::ACCOUNTS),
        GuestFile::data("/policy.toml", service::POLICY_FILE),
    ];
    let checkout = &lab.folders.checkout;
    let contexts = checkout.join("aosp/common/sepolicy/private/file_contexts");
    let script = checkout.join(policy::SERVICE_SCRIPT);
    files.push(GuestFile::data("/file_contexts", read_bytes(&contexts)?));
    files.push(GuestFile::data("/hindsightd.rc", read_bytes(&script)?));
    let mut order = String::new();
    for module in &kernel.modules {
        let name = module.file_name().unwrap_or_default();
        order.push_str(&format!("{}\n", name.display()));
        files.push(GuestFile::data(
            Path::new("/modules").join(name),
            read_bytes(module)?,
        ));
    }
    files.push(GuestFile::data("/modules/order", order));
    let release = lab
        .folders
        .data
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    for policy in Policy::ALL {
        let binary = policy::compile(&lab.folders.checkout, &release, policy)?;
        files.push(GuestFile::data(
            Path::new("/policy").join(policy.name()),
            binary,
        ));
    }
    Ok(files)
}

fn confine() -> Result<Vec<u8>> {
    let work = tempfile::tempdir().context("make a folder in", std::env::temp_dir())?;
    let program = work.path().join("confine");
    compile_confine(&program)?;
    read_bytes(&program)
}

/// An app's command line and environment, with the configuration that a device's init sets.
fn command_line(framework: &Framework, app: &App, class: &str, configuration: &str) -> String {
    let command = framework.app_command(app, class, Execution::Jit);
    let mut words = Vec::new();
    let mut set = |name: &str, value: &str| words.push(steps::quoted(&format!("{name}={value}")));
    for (name, value) in command.get_envs() {
        if let (false, Some(value)) = (name == "ANDROID_DATA", value) {
            set(&name.to_string_lossy(), &value.to_string_lossy());
        }
    }
    set("ANDROID_DATA", "/data");
    set("HINDSIGHT", configuration);
    words.push(steps::quoted(&command.get_program().to_string_lossy()));
    let arguments = command
        .get_args()
        .map(|word| steps::quoted(&word.to_string_lossy()));
    words.extend(arguments);
    words.join(" ")
}

/// hindsightd as it is on a device: `hindsightd.cc` with the service's library, and stand-ins for Android's functions.
fn compile_service(checkout: &Path, library: &Path, program: &Path) -> Result<()> {
    let android = checkout.join("lab/vm/android");
    let mut command = Command::new("c++");
    command.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    command.args(["-static-libstdc++", "-static-libgcc", "-s", "-I"]);
    command.arg(android.join("include"));
    command.arg(checkout.join("aosp/common/service/hindsightd.cc"));
    command.arg(android.join("android.cc")).arg(library);
    command.arg("-ldl").arg("-lm").arg("-o").arg(program);
    run_program(command, "compiling hindsightd.cc").map(drop)
}

/// The steps as the guest's shell reads them.
fn script(steps: &[Step]) -> String {
    let line = |step: &Step| format!("step {} {}\n", steps::quoted(&step.name), step.command);
    steps.iter().map(line).collect()
}

fn judge(steps: &[Step], console: &Console) -> Vec<Check> {
    let has = |name: &str| console.features.iter().any(|found| found == name);
    let lacks = |step: &Step| {
        let mut needed = step.needs.iter();
        needed
            .find(|name| !console.kernel.is_empty() && !has(name))
            .copied()
    };
    let has_selinux = has("selinux");
    let verdict = |step: &Step| match console.outcome(&step.name) {
        _ if !has_selinux && !console.kernel.is_empty() => {
            Verdict::Skipped(format!("the kernel {} has no SELinux", console.kernel))
        }
        _ if lacks(step).is_some() => Verdict::Skipped(format!(
            "the kernel {} has no {}",
            console.kernel,
            lacks(step).unwrap_or_default()
        )),
        None => Verdict::Failed("the guest did not come to it".to_owned()),
        Some(outcome) => step
            .objection(outcome)
            .map_or(Verdict::Passed, Verdict::Failed),
    };
    let check = |step: &Step| Check {
        name: step.name.clone(),
        verdict: verdict(step),
    };
    steps.iter().map(check).collect()
}

fn power_off(ended: Result<()>, console: &Console) -> Check {
    let other = || last_lines(&console.other.join("\n"), 20);
    let verdict = match ended {
        Ok(()) if console.ended => Verdict::Passed,
        Ok(()) => Verdict::Failed(format!("it ended before its last step:\n{}", other())),
        Err(error) => Verdict::Failed(format!("{error}\n{}", other())),
    };
    Check {
        name: "the guest powers off".to_owned(),
        verdict,
    }
}

/// Unpacks what the guest wrote to its disk; returns the traces.
fn unpack(mut disk: File, out: &Path) -> Result<Vec<PathBuf>> {
    disk.rewind().context("read", "the guest's disk")?;
    let mut tar = Command::new("tar");
    tar.args(["-x", "-f", "-", "--no-same-owner", "-C"])
        .arg(out);
    run_with_input(tar, Stdio::from(disk), "unpacking the guest's disk")?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(out).context("list", out)? {
        let path = entry.context("list", out)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "hindsight")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
