// SPDX-License-Identifier: Apache-2.0
//! Real shortage of memory: programs that read more than their cgroup may keep. Apps in the background give their rings back.

use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hindsight_lab::device::{Device, Service};
use hindsight_lab::Execution;

use super::status::{until, Status};

/// What the programs may keep, and what they read again and again, MiB.
const LIMIT_MIB: u64 = 12;
const FILE_MIB: usize = 64;
const PROGRAMS: usize = 3;
/// So long it is tried to make memory short.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// How long work waited for memory, by the kernel's account, ms.
    pub(super) stalled_ms: u64,
    /// Rings of calls of apps that the user does not see: before, during, and after it.
    pub(super) rings: [u32; 3],
}

/// A cgroup, and the programs in it.
struct Group {
    folder: PathBuf,
    programs: Vec<Child>,
}

impl Drop for Group {
    fn drop(&mut self) {
        for program in &mut self.programs {
            let _ = program.kill();
            let _ = program.wait();
        }
        // The kernel takes a moment to see that it is empty.
        let end = Instant::now() + PATIENCE;
        while std::fs::remove_dir(&self.folder).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Group {
    /// `None`: the kernel has none for memory, or this process may not make one.
    fn new() -> Option<Group> {
        let name = format!("hindsight-verify-{}", std::process::id());
        let bytes = (LIMIT_MIB << 20).to_string();
        let versions = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        versions.iter().find_map(|(root, limit)| {
            let folder = Path::new(root).join(&name);
            std::fs::create_dir(&folder).ok()?;
            let group = Group {
                folder,
                programs: Vec::new(),
            };
            // Not there: the folder is one of another controller.
            std::fs::write(group.folder.join(limit), &bytes).ok()?;
            Some(group)
        })
    }

    /// Reads this file again and again.
    fn add(&mut self, file: &Path) -> Result<()> {
        let script = "echo $$ > \"$1/cgroup.procs\" && while cat \"$2\"; do :; done";
        let program = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(&self.folder)
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run sh")?;
        self.programs.push(program);
        Ok(())
    }
}

/// Has the system forget a file's content, which would count as memory of whoever wrote it.
fn forget(file: &std::fs::File) -> Result<()> {
    file.sync_all()?;
    // SAFETY: takes numbers; the descriptor is open.
    let done = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    anyhow::ensure!(done == 0, "posix_fadvise: {done}");
    Ok(())
}

/// How long some work waited for memory since the system was started, us.
fn stalled_us() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/pressure/memory").ok()?;
    let some = text.lines().find(|line| line.starts_with("some"))?;
    some.rsplit_once("total=")?.1.parse().ok()
}

/// With this policy's text, but that apps keep their rings when the user has left them. `Err` in the result: this machine does
/// not let us.
pub(super) fn run(
    device: &Device,
    service: &Service,
    policy: &str,
    configuration: &str,
    folder: &Path,
) -> Result<Result<Seen, String>> {
    let file = folder.join("pressure.toml");
    let text = policy.replace("[reports]", "[reports]\ngrace-seconds = 600");
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    service.ask(&format!("policy {}", file.display()))?;
    let seen = measure(device, service, configuration, folder);
    service.ask("policy default")?;
    seen
}

fn measure(
    device: &Device,
    service: &Service,
    configuration: &str,
    folder: &Path,
) -> Result<Result<Seen, String>> {
    let Some(before) = stalled_us() else {
        return Ok(Err("no /proc/pressure/memory".to_owned()));
    };
    let mut app = device.start_app(Execution::Aot, configuration)?;
    let pid = app.pid();
    let rings = || -> Result<u32> {
        let status = Status::of(service)?;
        Ok(status
            .connected(pid)
            .map_or(0, |process| process.rings_held))
    };
    app.ask("foreground")?;
    until(service, "an app has a ring", || Ok(rings()? != 0))?;
    // It keeps its ring, as long as nobody else needs one.
    app.ask("background")?;
    let mut seen = Seen {
        stalled_ms: 0,
        rings: [rings()?, 0, 0],
    };
    let Some(mut group) = Group::new() else {
        return Ok(Err("no cgroup for memory can be made".to_owned()));
    };
    let file = folder.join("much");
    std::fs::write(&file, vec![1; FILE_MIB << 20]).context("cannot write a file")?;
    forget(&std::fs::File::open(&file)?)?;
    for _ in 0..PROGRAMS {
        group.add(&file)?;
    }
    let end = Instant::now() + PATIENCE;
    seen.rings[1] = loop {
        let held = rings()?;
        if held == 0 || Instant::now() > end {
            break held;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    drop(group);
    let _ = std::fs::remove_file(&file);
    seen.stalled_ms = (stalled_us().unwrap_or(before) - before) / 1000;
    // The service's trigger: 10 % of the time.
    if seen.rings[1] != 0 && seen.stalled_ms < PATIENCE.as_millis() as u64 / 10 {
        let what = format!("memory was short for {} ms only", seen.stalled_ms);
        return Ok(Err(what));
    }
    if seen.rings[1] == 0 {
        app.ask("foreground")?;
        until(service, "an app has its ring again", || Ok(rings()? != 0))?;
        seen.rings[2] = rings()?;
    }
    app.ask("exit")?;
    app.wait()?;
    Ok(Ok(seen))
}
