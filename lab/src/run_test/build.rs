// SPDX-License-Identifier: Apache-2.0
//! Builds a test, once for each version of the test and its tools, for all modes and variants of ART.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::files::{copy_tree, hash_tree, io_context};
use super::session::Session;
use super::{process, tools};
use crate::util::hex;

/// Version of the build: a change rebuilds all tests.
const VERSION: &str = "1";

/// The time limit of a build. Only a hanging tool exceeds it, even on a busy machine.
pub(super) const BUILD_LIMIT: Duration = Duration::from_secs(900);

/// A built test in the cache.
pub(super) struct Built {
    folder: PathBuf,
    /// Exit status of the build script.
    pub(super) exit: i32,
    /// Wall-clock time, if it was built just now.
    pub(super) elapsed: Duration,
}

#[derive(Serialize, Deserialize)]
struct Record {
    exit: i32,
}

impl Built {
    /// The test's folder as it was after the build.
    pub(super) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// The output of the build.
    pub(super) fn output(&self) -> PathBuf {
        self.folder.join("build-output.txt")
    }

    /// Forgets this build, so that the next run builds again.
    pub(super) fn forget(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Builds a test or takes it from the cache. `Ok(Err(text))` if the build reached the time limit, with its output and
/// the state of its threads.
pub(super) fn build(
    context: &Session,
    name: &str,
    server: &tools::Server,
) -> Result<Result<Built, String>> {
    let layout = context.layout;
    let source = layout.art.join("test").join(name);
    let key = key(context, name, &source)?;
    let folder = layout.cache.join("builds").join(format!("{name}-{key}"));
    if let Ok(text) = std::fs::read(folder.join("build.json")) {
        if let Ok(r) = serde_json::from_slice::<Record>(&text) {
            return Ok(Ok(Built {
                folder,
                exit: r.exit,
                elapsed: Duration::ZERO,
            }));
        }
    }
    let parent = layout.cache.join("builds");
    std::fs::create_dir_all(&parent).with_context(|| io_context("make", &parent))?;
    let temporary = tempfile::Builder::new()
        .prefix(".building-")
        .tempdir_in(&parent)?;
    let tree = temporary.path().join("tree");
    copy_tree(&source, &tree, true)?;
    add_default_scripts(context, &tree)?;

    apply_patches(context, name, &tree)?;
    let exe = context.scripts.tool_client();
    let tool = |t: &str| format!("{} {} {t}", exe.display(), tools::ARGUMENT);
    let d8 = if context.unoptimized.contains(name) {
        format!("{} {DX_UNOPTIMIZED}", tool("d8"))
    } else {
        tool("d8")
    };
    let javac = format!(
        "{} -g -Xlint:-options -source 1.8 -target 1.8",
        tool("javac")
    );
    let output = temporary.path().join("build-output.txt");
    let mut command = Command::new("./build");
    command
        .arg("--host")
        .current_dir(&tree)
        .env(tools::SOCKET, server.socket()?)
        .env("JAVAC", javac)
        .env("D8", d8)
        .env("DEXMERGER", tool("d8"))
        .env("SMALI", tool("smali"))
        .env("JASMIN", tool("jasmin"))
        .env(
            "HINDSIGHT_BOOT_CLASSES",
            std::env::join_paths(&layout.boot_classes).context("a path with a colon")?,
        )
        .env("DEX_LOCATION", &tree);
    environment(context, name, &mut command);
    let marker = format!("{}-{name}-build", std::process::id());
    let finished = process::run(&mut command, &output, BUILD_LIMIT, &marker)?;
    if finished.status.is_none() {
        // It may still be busy with this test.
        server.stop();
        let text = String::from_utf8_lossy(&std::fs::read(&output)?).into_owned();
        return Ok(Err(format!("{text}\n{}", finished.hang)));
    }
    let exit = finished.shell_status();
    remove_class_files(&tree)?;
    let record = temporary.path().join("build.json");
    std::fs::File::create(&record)?.write_all(&serde_json::to_vec(&Record { exit })?)?;
    std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o755))?;
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::rename(temporary.keep(), &folder).with_context(|| io_context("make", &folder))?;
    Ok(Ok(Built {
        folder,
        exit,
        elapsed: finished.elapsed,
    }))
}

/// Sets the environment of a test's scripts, as AOSP's `run-test` does.
pub(super) fn environment(context: &Session, name: &str, command: &mut Command) {
    let s = &context.scripts;
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    command
        .env("PATH", format!("{}:{path}", s.bin.display()))
        .env("JAVA", "java")
        .env("RUN", s.etc.join("run-test-jar"))
        .env("NEED_DEX", "true")
        .env("USE_D8", "true")
        .env("USE_DESUGAR", "true")
        .env("SMALI_ARGS", "")
        .env("DX", "false")
        .env("DESUGAR", "true")
        .env("ZIPALIGN", "zipalign")
        .env("HIDDENAPI", s.host_out.join("bin/hiddenapi"))
        .env("ANDROID_BUILD_TOP", &s.top)
        .env("ANDROID_HOST_OUT", &s.host_out)
        .env("OUT_DIR", s.top.join("out"))
        .env("TEST_NAME", name)
        .env("TEST_RUNTIME", "art")
        .env("USER", "root")
        .env("LC_ALL", "C.UTF-8")
        .env(
            "HINDSIGHT_BOOT_MODULES",
            context.layout.boot_modules.join(" "),
        )
        .env("HINDSIGHT_BOOT_LOCATION", &context.layout.boot_location)
        .env_remove("JAVA_TOOL_OPTIONS")
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("D8_FLAGS")
        .env_remove("JAVAC_ARGS")
        .envs(&context.layout.environment);
}

/// A hash of all inputs of a build.
fn key(context: &Session, name: &str, source: &Path) -> Result<String> {
    static COMMON: OnceLock<Result<String, String>> = OnceLock::new();
    let common = COMMON
        .get_or_init(|| {
            let mut h = Sha256::new();
            h.update(VERSION);
            let add = |h: &mut Sha256| -> Result<()> {
                h.update(tools::fingerprint(context.layout)?);
                for f in ["default-build", "default-run", "default-check"] {
                    hash_tree(h, &context.scripts.etc.join(f))?;
                }
                hash_tree(h, &context.scripts.top.join("art/tools/javac-helper.sh"))
            };
            add(&mut h)
                .map(|()| hex(&h.finalize()))
                .map_err(|e| format!("{e:#}"))
        })
        .as_ref()
        .map_err(|e| anyhow!("{e}"))?;
    let mut h = Sha256::new();
    h.update(common);
    hash_tree(&mut h, source)?;
    for patch in patch_files(context, name) {
        hash_tree(&mut h, &patch)?;
    }
    h.update([context.unoptimized.contains(name) as u8]);
    Ok(hex(&h.finalize())[..20].to_owned())
}

/// Makes dx translate instruction by instruction (the lab's d8 passes `--dx=` options on).
const DX_UNOPTIMIZED: &str = "--dx=--no-optimize";

/// This repository's patches of a test: one for every variant of ART, one for the variant that runs it.
fn patch_files(context: &Session, name: &str) -> Vec<PathBuf> {
    let folder = context.layout.data.join("patches");
    let file = format!("{name}.patch");
    let candidates = [
        folder.join(&file),
        folder.join(&context.layout.variant).join(&file),
    ];
    candidates.into_iter().filter(|p| p.is_file()).collect()
}

fn apply_patches(context: &Session, name: &str, tree: &Path) -> Result<()> {
    for patch in patch_files(context, name) {
        let out = Command::new("patch")
            .args(["-p1", "--no-backup-if-mismatch", "-i"])
            .arg(&patch)
            .current_dir(tree)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("can't run patch: install it")?
            .wait_with_output()?;
        if !out.status.success() {
            bail!(
                "{} doesn't apply:\n{}",
                patch.display(),
                String::from_utf8_lossy(&out.stdout)
            );
        }
    }
    Ok(())
}

/// Adds the default scripts, beside the test's own or in place of missing ones, as AOSP's `run-test` does.
fn add_default_scripts(context: &Session, tree: &Path) -> Result<()> {
    for name in ["build", "run", "check"] {
        let own = tree.join(name);
        let default = format!("default-{name}");
        let to = if own.exists() {
            tree.join(&default)
        } else {
            own.clone()
        };
        std::fs::copy(context.scripts.etc.join(&default), &to)
            .with_context(|| io_context("write", &to))?;
        for f in [&own, &to] {
            std::fs::set_permissions(f, std::fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

/// Class files are only for runs on a JVM; some tests have ten thousand.
fn remove_class_files(tree: &Path) -> Result<()> {
    for e in std::fs::read_dir(tree)? {
        let e = e?;
        if e.file_name().to_string_lossy().starts_with("classes") && e.file_type()?.is_dir() {
            std::fs::remove_dir_all(e.path()).with_context(|| io_context("remove", &e.path()))?;
        }
    }
    Ok(())
}
