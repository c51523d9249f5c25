// SPDX-License-Identifier: Apache-2.0
//! Runs the guest: qemu without KVM, the image and the disk as files without names, the console line by line.

use super::kernel::Kernel;
use crate::error::{Error, IoContext as _, Result};
use rustix::io::FdFlags;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PROGRAM: &str = "qemu-system-x86_64";
/// The kernel's parameters: its messages stay in its log; a panic powers off (with qemu's -no-reboot).
const PARAMETERS: &str =
    "console=ttyS0 quiet panic=-1 security=selinux selinux=1 enforcing=0 rdinit=/init no_timer_check";

/// Ends qemu whenever the caller stops waiting for it.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots the guest, and gives each line of its console to `line`. Returns when the guest has powered off.
///
/// # Errors
/// If qemu can't be started or fails, or the guest is not off after `limit`; qemu has then been ended.
pub(super) fn run(
    kernel: &Kernel,
    image: &File,
    disk: &File,
    limit: Duration,
    mut line: impl FnMut(&str),
) -> Result<()> {
    let mut command = Command::new(PROGRAM);
    command.args([
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-smp",
        "2",
        "-m",
        "2048",
    ]);
    command.args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
    ]);
    command
        .args(["-serial", "stdio", "-kernel"])
        .arg(&kernel.image);
    command.args(["-append", PARAMETERS]);
    command.args(["-initrd", &inherited(image)?, "-drive"]);
    let disk = inherited(disk)?;
    command.arg(format!("file={disk},format=raw,if=virtio,cache=unsafe"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: prctl is async-signal-safe, and the closure touches no memory of the parent.
    unsafe {
        // If this process is killed, qemu is, too.
        command.pre_exec(
            || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        );
    }
    let start = Instant::now();
    let mut qemu = KillOnDrop(command.spawn().map_err(|source| Error::NoProgram {
        program: PROGRAM.to_owned(),
        package: "qemu-system-x86",
        source,
    })?);
    let said = read_lines(qemu.0.stderr.take());
    let console = read_lines(qemu.0.stdout.take());
    let mut last = String::new();
    loop {
        match console.recv_timeout(limit.saturating_sub(start.elapsed())) {
            Ok(text) => {
                line(&text);
                last = text;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                return Err(Error::Other(format!(
                    "the guest is not off after {} s; its last line: {last}",
                    limit.as_secs()
                )))
            }
        }
    }
    let status = qemu.0.wait().context("wait for", PROGRAM)?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Program {
        what: "running the guest".to_owned(),
        status: status.to_string(),
        output: said.iter().collect::<Vec<_>>().join("\n"),
    })
}

/// A path by which a child process finds this open file, which has no name.
fn inherited(file: &File) -> Result<String> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::io::fcntl_setfd(file, FdFlags::empty())
        .map_err(std::io::Error::from)
        .context("pass on", &path)?;
    Ok(path)
}

/// The lines of a pipe, which a thread reads.
fn read_lines<R: std::io::Read + Send + 'static>(pipe: Option<R>) -> mpsc::Receiver<String> {
    let (lines, received) = mpsc::channel();
    if let Some(pipe) = pipe {
        std::thread::spawn(move || {
            for line in BufReader::new(pipe)
                .split(b'\n')
                .map_while(|line| line.ok())
            {
                let text = String::from_utf8_lossy(&line);
                if lines.send(text.trim_end_matches('\r').to_owned()).is_err() {
                    return;
                }
            }
        });
    }
    received
}
