// SPDX-License-Identifier: Apache-2.0
//! A process of another user, which wants what is not its own.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A user without rights.
const NOBODY: libc::c_long = 65534;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(300);

/// What the stranger tried.
#[derive(Debug, Default)]
pub(super) struct Tried {
    pub(super) attempts: u64,
    /// What it got, although it must not.
    pub(super) got: Vec<String>,
}

/// What there is to steal.
#[derive(Clone, Debug)]
pub(super) struct Prey {
    pub(super) commands: PathBuf,
    pub(super) store: PathBuf,
    /// A report that exists, if there is one.
    pub(super) report: Option<u64>,
    /// A process that shares its memory with the service.
    pub(super) pid: u32,
}

/// Tries everything, as another user. `None`: only root can become another user.
pub(super) fn visit(prey: &Prey) -> Result<Option<Tried>> {
    // SAFETY: no precondition.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(None);
    }
    as_nobody(|| Ok(try_all(prey))).map(Some)
}

/// Does something as another user. As this one, if this is not root.
pub(super) fn as_nobody<T: Send>(what: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: no precondition.
            if unsafe { libc::geteuid() } == 0 {
                // The system calls, other than the functions of libc, change the user of one thread only.
                become_nobody()?;
            }
            what()
        });
        thread.join().ok().context("the stranger has failed")?
    })
}

fn become_nobody() -> Result<()> {
    let no_groups: *const libc::gid_t = std::ptr::null();
    // SAFETY: numbers, and an empty list. Only this thread, which ends soon, is changed.
    let done = unsafe {
        [
            libc::syscall(libc::SYS_setgroups, 0_usize, no_groups),
            libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY),
            libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY),
        ]
    };
    anyhow::ensure!(done == [0; 3], "cannot become another user: {done:?}");
    Ok(())
}

fn try_all(prey: &Prey) -> Tried {
    let mut tried = Tried::default();
    let report = prey.report.unwrap_or(1);
    let commands = [
        "status".to_owned(),
        "reports".to_owned(),
        format!("get {report}"),
        format!("remove {report}"),
        "policy default".to_owned(),
        format!("report {} stolen", prey.pid),
    ];
    for command in commands {
        tried.attempts += 1;
        let answer = ask(&prey.commands, &command);
        if !answer.is_empty() {
            let answer = String::from_utf8_lossy(&answer);
            tried
                .got
                .push(format!("'{command}' is answered by '{}'", answer.trim()));
        }
    }
    let mut files = vec![
        prey.store.join(format!("{report}.hindsight")),
        prey.store.join(format!("{report}.toml")),
        prey.store.join(format!("{report}.context")),
        prey.store.join("limits.state"),
    ];
    let descriptors = format!("/proc/{}/fd", prey.pid);
    let own = std::fs::read_dir(descriptors)
        .into_iter()
        .flatten()
        .flatten();
    files.extend(own.map(|entry| entry.path()));
    for file in files {
        tried.attempts += 1;
        if std::fs::File::open(&file).is_ok() {
            tried.got.push(format!("{} can be opened", file.display()));
        }
    }
    tried.attempts += 1;
    if std::fs::read_dir(&prey.store).is_ok() {
        tried
            .got
            .push(format!("{} can be listed", prey.store.display()));
    }
    tried
}

/// All bytes of the answer.
fn ask(commands: &Path, command: &str) -> Vec<u8> {
    let mut answer = Vec::new();
    if let Ok(mut stream) = UnixStream::connect(commands) {
        let _ = stream.set_read_timeout(Some(PATIENCE));
        // The service may have closed it already.
        let _ = writeln!(stream, "{command}");
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut answer);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_is_open_to_everybody_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode).unwrap();
        let prey = Prey {
            commands: folder.path().join("commands"),
            store: folder.path().to_owned(),
            report: Some(7),
            // None: this thread may read what is its own process's.
            pid: 0,
        };
        std::fs::write(folder.path().join("7.toml"), "x").unwrap();
        let listener = UnixListener::bind(&prey.commands).unwrap();
        std::fs::set_permissions(&prey.commands, std::fs::Permissions::from_mode(0o666)).unwrap();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                // One answer; the others are refused.
                if number == 0 {
                    let _ = stream.unwrap().write_all(b"ok\n");
                }
            }
        });
        let Some(tried) = visit(&prey).unwrap() else {
            println!("skipped: only root can become another user");
            return;
        };
        assert_eq!(tried.got.len(), 3, "{tried:?}");
    }
}
