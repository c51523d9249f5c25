// SPDX-License-Identifier: Apache-2.0
//! The tool server: a warm JVM that runs javac, d8, smali and jasmin for the builds of tests.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use anyhow::{anyhow, bail, Context, Result};
use sha2::{Digest, Sha256};

use super::files::{hash_tree, io_context};
use super::layout::Layout;
use crate::util::hex;

/// The environment variable with the path of the server's socket.
pub(super) const SOCKET: &str = "HINDSIGHT_TOOL_SOCKET";

/// The first argument of this program when it is started as the client of the tool server.
pub(super) const ARGUMENT: &str = "run-test-tool";

/// Whether the program has called [`run_as_tool`].
static IS_CLIENT: AtomicBool = AtomicBool::new(false);

/// Folder of Debian's jars.
const JARS: &str = "/usr/share/java";

/// The jars of smali and jasmin, from Debian's libsmali-java and jasmin-sable.
const TOOL_JARS: [&str; 8] = [
    "antlr3-runtime.jar",
    "dexlib2.jar",
    "guava.jar",
    "jcommander.jar",
    "smali.jar",
    "smali-util.jar",
    "jasmin-sable.jar",
    "cup.jar",
];

/// One worker's server, started at its first use.
pub(super) struct Server<'a> {
    layout: &'a Layout,
    worker: usize,
    running: Mutex<Option<Running>>,
}

struct Running {
    child: Child,
    // Closing it ends the server.
    _stdin: Option<ChildStdin>,
    folder: tempfile::TempDir,
}

impl Running {
    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }
}

impl<'a> Server<'a> {
    /// A server for the worker of this number.
    pub(super) fn new(layout: &'a Layout, worker: usize) -> Server<'a> {
        Server {
            layout,
            worker,
            running: Mutex::new(None),
        }
    }

    /// The socket of the server, which is started if it isn't running.
    pub(super) fn socket(&self) -> Result<PathBuf> {
        let mut running = self.running.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(r) = running.as_mut() {
            if r.child.try_wait().is_ok_and(|s| s.is_none()) {
                return Ok(r.socket());
            }
        }
        let r = start(self.layout, self.worker)?;
        let socket = r.socket();
        *running = Some(r);
        Ok(socket)
    }

    /// Ends the server, and a tool that is still running in it.
    pub(super) fn stop(&self) {
        *self.running.lock().unwrap_or_else(|e| e.into_inner()) = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles the server once, for all workers.
fn compiled(layout: &Layout) -> Result<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let source = source(layout);
    let text = std::fs::read(&source).with_context(|| io_context("read", &source))?;
    let folder = layout
        .cache
        .join("tools")
        .join(&hex(&Sha256::digest(&text))[..16]);
    if folder.join("ToolServer.class").is_file() {
        return Ok(folder);
    }
    let parent = layout.cache.join("tools");
    std::fs::create_dir_all(&parent).with_context(|| io_context("make", &parent))?;
    let temporary = tempfile::tempdir_in(&parent)?;
    let out = Command::new("javac")
        .args(["-nowarn", "-cp"])
        .arg(std::env::join_paths(tool_jars()).context("a path with a colon")?)
        .arg("-d")
        .arg(temporary.path())
        .arg(&source)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("can't run javac: install openjdk-17-jdk-headless")?
        .wait_with_output()?;
    if !out.status.success() {
        bail!(
            "javac failed on {}:\n{}",
            source.display(),
            String::from_utf8_lossy(&out.stderr)
        );
    }
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::rename(temporary.keep(), &folder).with_context(|| io_context("make", &folder))?;
    Ok(folder)
}

fn tool_jars() -> impl Iterator<Item = PathBuf> {
    TOOL_JARS.iter().map(|j| Path::new(JARS).join(j))
}

fn source(layout: &Layout) -> PathBuf {
    layout.data.join("tools/ToolServer.java")
}

fn start(layout: &Layout, worker: usize) -> Result<Running> {
    let classes = compiled(layout)?;
    let mut class_path = vec![classes];
    class_path.extend(layout.dex_tools.iter().cloned());
    class_path.extend(tool_jars());
    for p in &class_path {
        if !p.exists() {
            bail!("{} is missing: install the packages libsmali-java and jasmin-sable, and build the lab", p.display());
        }
    }
    // A short path: a socket's path has at most 107 bytes.
    let folder = tempfile::Builder::new().prefix("hs-").tempdir()?;
    let log = layout
        .cache
        .join("logs")
        .join(format!("tool-server-{worker}.log"));
    std::fs::create_dir_all(layout.cache.join("logs"))?;
    let log_file = std::fs::File::create(&log).with_context(|| io_context("write", &log))?;
    let mut child = Command::new("java")
        // For short work on few cores, the serial collector and the fast compiler are best.
        .args([
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xms256m",
            "-Xmx1500m",
            "-Xss8m",
        ])
        .args(["-Djava.security.manager=allow", "-cp"])
        .arg(std::env::join_paths(&class_path).context("a path with a colon")?)
        .arg("ToolServer")
        .arg(folder.path().join("s"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log_file)
        .spawn()
        .context("can't run java: install openjdk-17-jdk-headless")?;
    let stdin = child.stdin.take();
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    let running = Running {
        child,
        _stdin: stdin,
        folder,
    };
    if line.trim() != "ready" {
        bail!("the tool server did not start: see {}", log.display());
    }
    Ok(running)
}

/// A hash of the tools: their results depend on it and on their arguments.
pub(super) fn fingerprint(layout: &Layout) -> Result<String> {
    let mut h = Sha256::new();
    let mut all: Vec<PathBuf> = vec![source(layout)];
    all.extend(layout.tool_inputs.iter().cloned());
    all.extend(
        ["smali.jar", "dexlib2.jar", "jasmin-sable.jar"]
            .iter()
            .map(|j| Path::new(JARS).join(j)),
    );
    for p in &all {
        hash_tree(&mut h, p)?;
    }
    Ok(hex(&h.finalize()))
}

/// Must be the first call of a program that runs run-tests, with its arguments: the builds of the tests start the same
/// program again for each call of a tool, with the arguments `run-test-tool TOOL ARGUMENTS…`. Returns the tool's exit
/// status, or `None` if the program was started for something else.
pub fn run_as_tool(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    IS_CLIENT.store(true, Ordering::Relaxed);
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    let status = arguments
        .map(|argument| argument.into_string())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|argument| anyhow!("the argument {argument:?} isn't UTF-8"))
        .and_then(|arguments| match arguments.split_first() {
            Some((tool, arguments)) => client(tool, arguments),
            None => bail!("usage: {ARGUMENT} javac|d8|smali|jasmin ARGUMENTS…"),
        });
    Some(match status {
        // Exit statuses of programs have eight bits.
        Ok(status) => ExitCode::from((status & 0xff) as u8),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// Fails unless this program can be the client of the tool server.
pub(super) fn check_client() -> Result<()> {
    if !IS_CLIENT.load(Ordering::Relaxed) {
        bail!("the program's `main` must call `run_as_tool` first, since the builds of the tests start it");
    }
    Ok(())
}

/// Runs a tool in the server and prints its output. Returns the tool's exit status.
fn client(tool: &str, arguments: &[String]) -> Result<i32> {
    let socket = std::env::var_os(SOCKET).with_context(|| {
        format!("{SOCKET} isn't set: this command is for the builds of run-tests")
    })?;
    let stream = UnixStream::connect(&socket).with_context(|| {
        format!(
            "can't reach the tool server at {}",
            Path::new(&socket).display()
        )
    })?;
    let mut w = BufWriter::new(&stream);
    let mut send = |b: &[u8]| -> std::io::Result<()> {
        w.write_all(&(b.len() as u32).to_be_bytes())?;
        w.write_all(b)
    };
    let cwd = std::env::current_dir()?;
    send(tool.as_bytes())?;
    send(
        cwd.to_str()
            .context("the working directory isn't UTF-8")?
            .as_bytes(),
    )?;
    w.write_all(&(arguments.len() as u32).to_be_bytes())?;
    for a in arguments {
        w.write_all(&(a.len() as u32).to_be_bytes())?;
        w.write_all(a.as_bytes())?;
    }
    w.flush()?;
    let mut r = BufReader::new(&stream);
    let mut receive = || -> std::io::Result<Vec<u8>> {
        let mut n = [0; 4];
        r.read_exact(&mut n)?;
        let mut b = Vec::new();
        (&mut r)
            .take(u32::from_be_bytes(n).into())
            .read_to_end(&mut b)?;
        Ok(b)
    };
    let out = receive().context("the tool server broke off")?;
    let err = receive().context("the tool server broke off")?;
    let mut status = [0; 4];
    r.read_exact(&mut status)
        .context("the tool server broke off")?;
    std::io::stdout().write_all(&out)?;
    std::io::stderr().write_all(&err)?;
    Ok(i32::from_be_bytes(status))
}
