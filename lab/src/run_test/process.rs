// SPDX-License-Identifier: Apache-2.0
//! Runs one step of a test with a time limit, and leaves no process behind.
//!
//! A test may start daemons, new sessions and orphans. Each step gets its own session and a marker in its environment,
//! which its descendants inherit; this process is their subreaper. At the end of a step, successful or not, all
//! processes with the marker are killed and reaped.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::files::io_context;

const MARKER: &str = "HINDSIGHT_RUN_TEST_STEP";

/// The largest file, in bytes, that a test may write (AOSP's own limit).
const FILE_LIMIT: u64 = 128_000 * 1024;

/// The leaders of steps. They must not be reaped here, since [`run`] waits for them through their handles.
static OWN_CHILDREN: Mutex<Option<HashSet<i32>>> = Mutex::new(None);

fn with_own_children<T>(f: impl FnOnce(&mut HashSet<i32>) -> T) -> T {
    let mut guard = OWN_CHILDREN.lock().unwrap_or_else(|e| e.into_inner());
    f(guard.get_or_insert_with(HashSet::new))
}

/// The end of a step.
pub(super) struct Finished {
    /// `None` if it was killed at its time limit.
    pub(super) status: Option<ExitStatus>,
    /// Wall-clock time.
    pub(super) elapsed: Duration,
    /// The state of its threads when it was killed at its time limit.
    pub(super) hang: String,
}

impl Finished {
    /// The exit status as a shell reports it: 128 + signal for a killed process, 124 at the time limit.
    pub(super) fn shell_status(&self) -> i32 {
        match self.status {
            None => 124,
            Some(s) => s.code().unwrap_or_else(|| 128 + s.signal().unwrap_or(0)),
        }
    }
}

/// Makes orphaned descendants children of this process, so that they can be found and reaped.
pub(super) fn become_subreaper() {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes one integer, no pointer, and only changes which process reaps orphans.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Runs `command` with standard output and error in `output`, for at most `limit`.
///
/// `marker` must be unique to this step.
pub(super) fn run(
    command: &mut Command,
    output: &Path,
    limit: Duration,
    marker: &str,
) -> Result<Finished> {
    let file = File::create(output).with_context(|| io_context("write", output))?;
    command
        .env(MARKER, marker)
        .stdin(Stdio::null())
        .stderr(file.try_clone()?)
        .stdout(file);
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe functions are allowed: setsid and
    // setrlimit are. The rlimit is on the child's own stack.
    unsafe {
        command.pre_exec(|| {
            if libc::setsid() < 0 {
                return Err(io::Error::last_os_error());
            }
            let limit = libc::rlimit {
                rlim_cur: FILE_LIMIT,
                rlim_max: FILE_LIMIT,
            };
            if libc::setrlimit(libc::RLIMIT_FSIZE, &limit) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let started = Instant::now();
    // Under the lock, so that no sweep sees the child before it is registered.
    let mut child = with_own_children(|own| {
        let mut busy = 0;
        let child = loop {
            match command.spawn() {
                // A child that another worker is starting holds the script open for writing until its own exec.
                Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && busy < 200 => {
                    busy += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => break other?,
            }
        };
        own.insert(child.id() as i32);
        Ok::<_, io::Error>(child)
    })
    .with_context(|| format!("can't start {command:?}"))?;
    let pid = child.id() as i32;
    let in_time = wait_for_exit(pid, limit);
    let mut hang = String::new();
    if matches!(in_time, Ok(false)) {
        hang = describe(marker);
    }
    if !matches!(in_time, Ok(true)) {
        // SAFETY: kill has no memory effects; the child is not reaped yet, so that its process group is still its own.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
    }
    let status = child.wait();
    with_own_children(|own| own.remove(&pid));
    sweep(marker);
    let in_time = in_time.context("can't wait for a process (pidfd_open needs Linux 5.3)")?;
    let status = status.context("can't wait for a process")?;
    Ok(Finished {
        status: in_time.then_some(status),
        elapsed: started.elapsed(),
        hang,
    })
}

/// Waits until `pid`, a child that is not yet reaped, ends; false if it did not within `limit`.
fn wait_for_exit(pid: i32, limit: Duration) -> io::Result<bool> {
    // SAFETY: pidfd_open takes two integers, and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: pidfd_open has just returned this descriptor, so it is open and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let mut p = libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: `p` is one valid pollfd for the duration of the call.
        let n = unsafe { libc::poll(&mut p, 1, left.as_millis().min(i32::MAX as u128) as i32) };
        match n {
            0 if Instant::now() < end => {}
            0 => return Ok(false),
            n if n > 0 => return Ok(true),
            _ => {
                let e = io::Error::last_os_error();
                if e.kind() != io::ErrorKind::Interrupted {
                    return Err(e);
                }
            }
        }
    }
}

fn pids() -> Vec<i32> {
    let Ok(d) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    d.flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect()
}

/// The processes with the marker.
fn marked(marker: &str) -> Vec<i32> {
    let wanted = format!("{MARKER}={marker}");
    let me = std::process::id() as i32;
    pids()
        .into_iter()
        .filter(|&p| p != me)
        .filter(|p| {
            std::fs::read(format!("/proc/{p}/environ"))
                .is_ok_and(|e| e.split(|&b| b == 0).any(|v| v == wanted.as_bytes()))
        })
        .collect()
}

/// State letter, parent and session of a process.
fn state(pid: i32) -> Option<(char, i32, i32)> {
    let s = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain any character; it ends at the last parenthesis.
    let mut rest = s[s.rfind(')')? + 1..].split_whitespace();
    let letter = rest.next()?.chars().next()?;
    let parent = rest.next()?.parse().ok()?;
    let session = rest.nth(1)?.parse().ok()?;
    Some((letter, parent, session))
}

/// Kills processes with the marker until there are none, and reaps the orphans that this process has inherited.
fn sweep(marker: &str) {
    // Several rounds, since a process can fork during the search; a bound, since some processes can't be killed.
    for _ in 0..100 {
        let found = marked(marker);
        for &p in &found {
            // SAFETY: kill has no memory effects.
            unsafe { libc::kill(p, libc::SIGKILL) };
        }
        reap_orphans();
        if found.is_empty() {
            return;
        }
        std::thread::yield_now();
    }
}

/// Reaps children in other sessions: descendants of steps. This process's other children are in its own session.
fn reap_orphans() {
    let me = std::process::id() as i32;
    // SAFETY: getsid takes an integer and returns one.
    let my_session = unsafe { libc::getsid(0) };
    let all = pids();
    with_own_children(|own| {
        for p in all {
            let orphan = matches!(state(p), Some(('Z', parent, session)) if parent == me && session != my_session);
            if orphan && !own.contains(&p) {
                // SAFETY: waitpid accepts a null pointer in place of the status.
                unsafe { libc::waitpid(p, std::ptr::null_mut(), libc::WNOHANG) };
            }
        }
    });
}

/// The threads of all processes with the marker, with the kernel function in which each waits.
fn describe(marker: &str) -> String {
    let mut s = String::new();
    let read = |f: String| {
        std::fs::read_to_string(f)
            .unwrap_or_default()
            .trim()
            .replace('\0', " ")
    };
    for p in marked(marker) {
        let command: String = read(format!("/proc/{p}/cmdline"))
            .chars()
            .take(300)
            .collect();
        let _ = writeln!(s, "process {p}: {command}");
        let Ok(threads) = std::fs::read_dir(format!("/proc/{p}/task")) else {
            continue;
        };
        for t in threads.flatten() {
            let d = t.path().display().to_string();
            let _ = writeln!(
                s,
                "  thread {} {}: {} in {}",
                t.file_name().to_string_lossy(),
                read(format!("{d}/comm")),
                read(format!("{d}/status"))
                    .lines()
                    .find(|l| l.starts_with("State:"))
                    .unwrap_or("?"),
                read(format!("{d}/wchan"))
            );
        }
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(script: &str, limit: Duration, marker: &str) -> (Finished, String) {
        become_subreaper();
        let d = tempfile::tempdir().unwrap();
        let out = d.path().join("out");
        let mut c = Command::new("bash");
        c.arg("-c").arg(script);
        let f = run(&mut c, &out, limit, marker).unwrap();
        (f, std::fs::read_to_string(out).unwrap())
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn statuses_and_output() {
        let (f, out) = step("echo one; echo two >&2; exit 3", LONG, "statuses");
        assert_eq!((f.shell_status(), out.as_str()), (3, "one\ntwo\n"));
        let (f, _) = step("kill -SEGV $$", LONG, "signal");
        assert_eq!(f.shell_status(), 128 + 11);
    }

    #[test]
    fn a_hanging_step_is_killed_with_those_that_left_its_session() {
        let marker = format!("hang-{}", std::process::id());
        let script =
            "setsid sleep 1000 & (setsid bash -c 'sleep 1000 & sleep 1000' &) ; sleep 1000";
        let (f, _) = step(script, Duration::from_millis(400), &marker);
        assert!(f.status.is_none() && f.shell_status() == 124);
        assert!(f.hang.contains("sleep 1000"), "{}", f.hang);
        assert_eq!(marked(&marker), Vec::<i32>::new());
    }

    #[test]
    fn daemons_do_not_outlive_a_step_that_ends() {
        let marker = format!("daemon-{}", std::process::id());
        let (f, out) = step("setsid sleep 1000 >/dev/null 2>&1 & echo $!", LONG, &marker);
        assert_eq!(f.shell_status(), 0);
        let daemon: i32 = out.trim().parse().unwrap();
        assert!(
            matches!(state(daemon), None | Some(('Z', ..))),
            "{:?}",
            state(daemon)
        );
    }
}
