// SPDX-License-Identifier: Apache-2.0
//! An app's place in the lab: a uid of its own, Android's folders with the modes as shipped, and the filter of system
//! calls. SELinux is not part of it (`cargo xtask lab vm` is for that).

use crate::apk::PACKAGE;
use crate::seccomp;
use anyhow::{bail, ensure, Context as _, Result};
use hindsight_lab::{cache_dir, compile_confine};
use std::fs::{create_dir, create_dir_all, set_permissions, Permissions};
use std::os::unix::fs::{chown, MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Debian's `nobody`: ART asks for the name of its uid, and this machine has no accounts of apps.
const UID: u32 = 65_534;
/// Exit status of `confine` where mounting is not allowed.
const CANNOT_MOUNT: i32 = 124;
const SIGSYS: i32 = 31;
/// A program that makes a call that the filter forbids: chroot(2).
const FORBIDDEN: &str = "/usr/sbin/chroot";

/// The place of an app.
pub(crate) struct Sandbox {
    dir: tempfile::TempDir,
    /// The folder of the lab's builds.
    builds: PathBuf,
}

impl Sandbox {
    /// Makes the folders, the filter and the program that starts the app.
    pub(crate) fn new() -> Result<Sandbox> {
        let dir = tempfile::tempdir()?;
        mode(dir.path(), 0o755)?;
        let sandbox = Sandbox {
            dir,
            builds: cache_dir()?,
        };
        for (folder, bits) in [("data", 0o771), ("data/app", 0o771), ("data/misc", 0o1771)] {
            sandbox.folder(folder, bits)?;
        }
        sandbox.folder("data/dalvik-cache", 0o771)?;
        // init.rc's 0773, and hindsight.rc's sticky bit.
        sandbox.folder("data/misc/trace", 0o1773)?;
        sandbox.folder("data/data", 0o771)?;
        sandbox.folder(&format!("data/data/{PACKAGE}"), 0o700)?;
        let own = sandbox.path(&format!("data/data/{PACKAGE}"));
        if is_root() {
            chown(&own, Some(UID), Some(UID)).context("the app's folder")?;
        }
        compile_confine(&sandbox.path("confine"))?;
        mode(&sandbox.path("confine"), 0o755)?;
        let filter = sandbox.path("filter");
        std::fs::write(&filter, seccomp::filter()?)?;
        mode(&filter, 0o644)?;
        Ok(sandbox)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    fn folder(&self, below: &str, bits: u32) -> Result<()> {
        let path = self.path(below);
        create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        mode(&path, bits)
    }

    /// `ANDROID_DATA`.
    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// The folder of traces.
    pub(crate) fn traces(&self) -> PathBuf {
        self.path("data/misc/trace")
    }

    /// Where an app's APK is.
    pub(crate) fn apk(&self) -> PathBuf {
        self.path("data/app/base.apk")
    }

    /// Copies the APK to its place.
    pub(crate) fn install(&self, apk: &Path) -> Result<()> {
        create_dir_all(self.path("data/app"))?;
        std::fs::copy(apk, self.apk()).with_context(|| format!("cannot copy {}", apk.display()))?;
        mode(&self.apk(), 0o644)
    }

    /// Why no app can be started here; `None` if one can.
    pub(crate) fn obstacle(&self) -> Result<Option<String>> {
        if !is_root() {
            return Ok(Some(
                "only root can start a program with another uid".to_owned(),
            ));
        }
        let output = self.output(&mut Command::new("/bin/true"), false)?;
        match output.status.code() {
            Some(0) => Ok(None),
            Some(CANNOT_MOUNT) => Ok(Some(format!(
                "mounting is not allowed here: {}",
                text(&output.stderr)
            ))),
            _ => bail!(
                "/bin/true ended with {}: {}",
                output.status,
                text(&output.stderr)
            ),
        }
    }

    /// The contents of a trace, which must be the app's own.
    pub(crate) fn read_trace(&self, path: &Path) -> Result<Vec<u8>> {
        let data = std::fs::metadata(path).with_context(|| format!("no {}", path.display()))?;
        ensure!(
            data.uid() == UID && data.mode() & 0o777 == 0o600,
            "{} belongs to uid {} and has the mode {:o}",
            path.display(),
            data.uid(),
            data.mode() & 0o777
        );
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// The command, started as the app, with the filter.
    pub(crate) fn confined(&self, command: &Command) -> Command {
        self.started_by_confine(command, true)
    }

    fn started_by_confine(&self, command: &Command, filtered: bool) -> Command {
        let mut confined = Command::new(self.path("confine"));
        confined.arg("--reach").arg(&self.builds);
        confined.arg(UID.to_string()).arg("-");
        if filtered {
            confined.arg(self.path("filter"));
        } else {
            confined.arg("-");
        }
        confined.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => confined.env(name, value),
                None => confined.env_remove(name),
            };
        }
        confined
    }

    fn output(&self, command: &mut Command, filtered: bool) -> Result<Output> {
        let mut confined = self.started_by_confine(command, filtered);
        confined.output().context("cannot start confine")
    }

    /// A forbidden call ends the process with SIGSYS; without the filter the same program only fails.
    pub(crate) fn forbidden_call(&self) -> Result<String> {
        let harmless = self.output(&mut Command::new("/bin/true"), true)?;
        ensure!(
            harmless.status.success(),
            "/bin/true under the filter ended with {}: {}",
            harmless.status,
            text(&harmless.stderr)
        );
        let mut program = Command::new(FORBIDDEN);
        program.arg("/tmp").arg("/bin/true");
        let free = self.output(&mut program, false)?;
        ensure!(
            free.status.code().is_some_and(|code| code != 0),
            "{FORBIDDEN} without the filter ended with {}",
            free.status
        );
        let filtered = self.output(&mut program, true)?;
        ensure!(
            filtered.status.signal() == Some(SIGSYS),
            "{FORBIDDEN} ended with {} instead of SIGSYS: {}",
            filtered.status,
            text(&filtered.stderr)
        );
        Ok("chroot(2) ends it with SIGSYS".to_owned())
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn mode(path: &Path, bits: u32) -> Result<()> {
    set_permissions(path, Permissions::from_mode(bits))
        .with_context(|| format!("cannot change the mode of {}", path.display()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
