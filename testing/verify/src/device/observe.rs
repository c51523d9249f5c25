// SPDX-License-Identifier: Apache-2.0
//! What threads of apps ask the system on their connection to the service, by strace: none but Hindsight's own ones may wait.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};

/// The thread that waits for messages of the service.
const WAITS: &str = "hindsight-io";
/// System calls on a socket that never wait.
const NEVER_WAIT: [&str; 8] = [
    "shutdown",
    "close",
    "getsockopt",
    "setsockopt",
    "fcntl",
    "getsockname",
    "getpeername",
    "dup",
];
const LIMIT: Duration = Duration::from_secs(300);

/// strace, at work on a process.
pub(super) struct Observer {
    strace: Child,
    output: PathBuf,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Observed {
    /// Apps.
    pub(super) apps: usize,
    /// The fewest attempts of one app to connect.
    pub(super) fewest_connects: u64,
    /// System calls on the connection, and on its making.
    pub(super) calls: u64,
    /// Attempts to connect.
    pub(super) connects: u64,
    /// Lines of calls that may wait for the service, by threads that must not.
    pub(super) waits: Vec<String>,
}

impl Observer {
    /// Attaches to all threads of a process. `Err`: this machine does not allow it.
    pub(super) fn attach(pid: u32, output: PathBuf) -> Result<Self> {
        let strace = Command::new("strace")
            .args(["-f", "-q", "-yy", "-s", "256", "--decode-pids=comm"])
            .args([
                "-e",
                "trace=%network,poll,ppoll,read,write,readv,writev,select,pselect6",
            ])
            .arg("-o")
            .arg(&output)
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(output.with_extension("errors"))?)
            .spawn()
            .context("cannot run strace (package strace)")?;
        let mut observer = Observer { strace, output };
        let end = Instant::now() + LIMIT;
        while !is_traced(pid) {
            if let Some(ended) = observer.strace.try_wait()? {
                let errors = std::fs::read_to_string(observer.output.with_extension("errors"));
                bail!(
                    "strace ended ({ended}): {}",
                    errors.unwrap_or_default().trim()
                );
            }
            anyhow::ensure!(Instant::now() < end, "strace does not attach");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(observer)
    }

    /// Detaches, and reads what was seen.
    fn finish(mut self, socket: &Path) -> Result<Observed> {
        self.stop();
        let text = std::fs::read(&self.output).context("strace wrote nothing")?;
        let text = String::from_utf8_lossy(&text);
        Ok(read(&text, &socket.display().to_string()))
    }

    fn stop(&mut self) {
        // SAFETY: takes numbers; it is a child of this process that was not waited for.
        unsafe { libc::kill(self.strace.id() as i32, libc::SIGINT) };
        let _ = self.strace.wait();
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Detaches from all apps, and reads what was seen of them together.
pub(super) fn finish(observers: Vec<Observer>, socket: &Path) -> Result<Observed> {
    let all = observers.into_iter().map(|one| one.finish(socket));
    Ok(together(all.collect::<Result<_>>()?))
}

fn together(all: Vec<Observed>) -> Observed {
    let mut sum = Observed {
        apps: all.len(),
        fewest_connects: all.iter().map(|one| one.connects).min().unwrap_or(0),
        ..Observed::default()
    };
    for one in all {
        sum.calls += one.calls;
        sum.connects += one.connects;
        sum.waits.extend(one.waits);
    }
    sum
}

/// Whether another process traces all threads.
fn is_traced(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let traced = tasks.into_iter().flatten().flatten().map(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let tracer = status.lines().find_map(|l| l.strip_prefix("TracerPid:"));
        tracer.is_some_and(|tracer| tracer.trim() != "0")
    });
    traced.fold(None, |all, one| Some(all.unwrap_or(true) && one)) == Some(true)
}

/// Finds the calls on connections of packets; nothing else in an app makes such sockets.
fn read(text: &str, socket: &str) -> Observed {
    let mut seen = Observed::default();
    for line in text.lines() {
        // 4711<main> sendto(12<UNIX-SEQPACKET:[1->2]>, "…", 8, MSG_DONTWAIT|MSG_NOSIGNAL, NULL, 0) = 8
        let Some((thread, call)) = line
            .split_once('<')
            .and_then(|(_, rest)| rest.split_once("> "))
        else {
            continue;
        };
        let is_connection = call.contains("UNIX-SEQPACKET")
            || call.contains("SOCK_SEQPACKET")
            || call.contains(socket);
        if !is_connection {
            continue;
        }
        let name = call.trim_start().split('(').next().unwrap_or_default();
        seen.calls += 1;
        seen.connects += u64::from(name == "connect");
        let is_harmless = thread == WAITS
            || NEVER_WAIT.contains(&name)
            || name.starts_with("<...")
            || (name.starts_with("send") && call.contains("MSG_DONTWAIT"));
        if !is_harmless {
            seen.waits.push(line.to_owned());
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_may_wait_by_other_threads_are_found() {
        let text = "\
1<hindsight-io> socket(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC|SOCK_NONBLOCK, 0) = 5<UNIX-SEQPACKET:[9]>
1<hindsight-io> connect(5<UNIX-SEQPACKET:[9]>, {sa_family=AF_UNIX, sun_path=\"/d/apps\"}, 110) = 0
1<hindsight-io> recvfrom(5<UNIX-SEQPACKET:[9->8]>,  <unfinished ...>
2<main> sendto(5<UNIX-SEQPACKET:[9->8]>, \"x\", 12, MSG_DONTWAIT|MSG_NOSIGNAL, NULL, 0) = 12
2<main> shutdown(5<UNIX-SEQPACKET:[9->8]>, SHUT_RDWR) = 0
2<main> read(0<UNIX-STREAM:[7->6]>, \"\", 10) = 0
2<main> sendto(5<UNIX-SEQPACKET:[9->8]>, \"x\", 12, MSG_NOSIGNAL, NULL, 0) = 12
2<main> recvfrom(5<UNIX-SEQPACKET:[9->8]>,  <unfinished ...>
2<main> connect(6, {sa_family=AF_UNIX, sun_path=\"/d/apps\"}, 110) = 0
";
        let seen = read(text, "/d/apps");
        assert_eq!((seen.calls, seen.connects), (8, 2));
        assert_eq!(seen.waits.len(), 3, "{:#?}", seen.waits);
        // An app that never connected was not observed, whatever others did.
        let both = together(vec![seen.clone(), Observed::default()]);
        let counts = (both.apps, both.connects, both.fewest_connects);
        assert_eq!((counts, both.waits), ((2, 2, 0), seen.waits));
    }
}
