// SPDX-License-Identifier: Apache-2.0
//! A real traced, compiled once from the source in Perfetto's crate.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{ensure, Context as _, Result};

use super::setting::{wait_for, Sockets};

/// Where compiled programs are kept: as scripts/perfetto/setup.
fn cache() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("HINDSIGHT_CACHE") {
        return Ok(folder.into());
    }
    let home = std::env::var_os("HOME").context("HOME is not set; set HINDSIGHT_CACHE")?;
    Ok(Path::new(&home).join(".cache/hindsight"))
}

/// The folder of the crate's C++ source; cargo fetches the crate if it is not there.
fn source(folder: &Path) -> Result<PathBuf> {
    let manifest = folder.join("Cargo.toml");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--locked", "--format-version", "1"])
        .arg("--manifest-path")
        .arg(&manifest)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo cannot fetch the crate with Perfetto's source; check the network"
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array();
    let package = packages
        .and_then(|all| all.iter().find(|p| p["name"] == "perfetto-sdk-sys"))
        .and_then(|package| package["manifest_path"].as_str())
        .context("cargo names no folder of perfetto-sdk-sys")?;
    Ok(Path::new(package).with_file_name("libperfetto_c"))
}

/// The program; compiles it unless that was done before with the same source.
pub(super) fn program(checkout: &Path) -> Result<PathBuf> {
    let folder = checkout.join("testing/traced");
    let main = folder.join("traced.cc");
    let text = std::fs::read(&main).with_context(|| format!("cannot read {}", main.display()))?;
    let source = source(&folder)?;
    let names = source.to_string_lossy().into_owned().into_bytes();
    // FNV-1a: a name for the cache, which nobody attacks.
    let key = text
        .iter()
        .chain(&names)
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let target = cache()?.join("traced").join(format!("traced-{key:016x}"));
    if target.is_file() {
        return Ok(target);
    }
    eprintln!(
        "verify perfetto: compiling traced, once; it takes minutes and more than 2 GiB of memory"
    );
    let begun = Instant::now();
    let parent = target.parent().context("no folder")?;
    std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let unfinished = target.with_extension(std::process::id().to_string());
    let status = Command::new("nice")
        .args([
            "-n",
            "10",
            "c++",
            "-std=c++17",
            "-O1",
            "-DNDEBUG",
            "-w",
            "-I",
        ])
        .arg(&source)
        .arg(&main)
        .arg("-o")
        .arg(&unfinished)
        .args(["-lpthread", "-ldl"])
        .status()
        .context("cannot run c++; install it (Debian: apt-get install g++)")?;
    ensure!(status.success(), "traced does not compile ({status})");
    std::fs::rename(&unfinished, &target)
        .with_context(|| format!("cannot write {}", target.display()))?;
    eprintln!(
        "verify perfetto: compiled traced in {} s",
        begun.elapsed().as_secs()
    );
    Ok(target)
}

/// A program that is killed when this is dropped.
pub(super) struct Running {
    child: Child,
    name: &'static str,
}

impl Running {
    pub(super) fn start(command: &mut Command, log: &Path, name: &'static str) -> Result<Self> {
        let mut file = std::fs::File::options();
        let file = file.create(true).append(true).open(log);
        let file = file.with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file);
        let child = child
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Running { child, name })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(super) fn ensure_runs(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "{} has ended: {ended:?}", self.name);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts traced and waits until it listens.
pub(super) fn start(program: &Path, sockets: &Sockets) -> Result<Running> {
    let mut command = Command::new(program);
    command
        .env("PERFETTO_PRODUCER_SOCK_NAME", &sockets.producers)
        .env("PERFETTO_CONSUMER_SOCK_NAME", &sockets.consumers);
    let mut traced = Running::start(&mut command, &sockets.log("traced"), "traced")?;
    wait_for("traced listens", || {
        traced.ensure_runs()?;
        let is_there = std::os::unix::net::UnixStream::connect(&sockets.consumers).is_ok();
        Ok(is_there.then_some(()))
    })?;
    Ok(traced)
}
