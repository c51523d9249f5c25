// SPDX-License-Identifier: Apache-2.0
//! The demo's app beside the system service: it is killed in mid-stall, and the report that the service writes then is explained.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use serde::Deserialize;

use super::common::{
    ends_with_in_order, replace, succeed, why_as_json, KillOnDrop, Link, ATTEMPTS,
};
use super::expected;

/// What the service records and keeps: calls of all threads, and only ends of processes, so that the report is about the kill.
const POLICY: &str = r#"
version = 1

[memory]
budget-mib = 1024
ring-share = 80
call-rings = 16
rings-per-process = 16

[[record.override]]
package = "*"
background = true

[reports]
killed = "all"
severities = ["fatal"]
"#;
/// The storage does not answer for so long: the app is killed long before.
const STALL_MILLIS: u32 = 60_000;
/// The longest wait for anything, on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(120);
/// Time between two looks at the main thread.
const LOOK: Duration = Duration::from_millis(25);
/// The main thread waits for a lock if it does so at so many looks in a row, and has not run between them.
const LOOKS: u32 = 20;

/// Runs the app until the main thread waits for the lock, kills it, explains the service's report, and compares it with the app's
/// source. The report is copied to `trace`.
pub(super) fn run(
    app: impl Fn(&Path) -> Command,
    service: &Path,
    hindsight: &Path,
    trace: &Path,
) -> Result<()> {
    println!("\nThe same app again, beside the system service: its storage does not answer, and it is killed in mid-stall.");
    let mut last = None;
    // On a loaded machine the stall may begin before the threads have their rings.
    for _ in 0..ATTEMPTS {
        let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
        let folder = fs::canonicalize(scratch.path())?;
        let report = kill_in_stall(&app, service, &folder)?;
        replace(&report, trace)?;
        match check(&why_as_json(hindsight, trace)?) {
            Ok(()) => {
                println!("\n$ hindsight why {}", trace.display());
                return succeed(Command::new(hindsight).arg("why").arg(trace));
            }
            Err(problem) => {
                println!("demo: another attempt: {problem:#}");
                last = Some(problem);
            }
        }
    }
    Err(last.context("there was no attempt")?)
        .with_context(|| format!("{ATTEMPTS} attempts, and none of the killed app's reports agrees with its source; {} is the last", trace.display()))
}

/// Runs service and app in this folder, kills the app, and returns the report.
fn kill_in_stall(app: impl Fn(&Path) -> Command, service: &Path, folder: &Path) -> Result<PathBuf> {
    let commands = folder.join("commands");
    let store = folder.join("store");
    let policy = folder.join("policy.toml");
    fs::write(&policy, POLICY).with_context(|| format!("cannot write {}", policy.display()))?;
    let mut command = Command::new(service);
    command.arg("--socket").arg(folder.join("apps"));
    command.arg("--commands").arg(&commands);
    command.arg("--store").arg(&store);
    command.arg("--policy").arg(&policy);
    // Whoever runs the demo agrees to a trace of the demo's app.
    command.args(["--user", "internal", "--free-mib", "16"]);
    let log = folder.join("service.txt");
    command.stderr(fs::File::create(&log)?);
    let mut service = KillOnDrop(start(&mut command)?);
    wait_for("hindsightd does not answer", &log, || {
        if let Some(status) = service.0.try_wait()? {
            bail!("hindsightd ended ({status})");
        }
        Ok(status(&commands).ok())
    })?;

    let mut command = app(folder);
    command.arg(STALL_MILLIS.to_string());
    // It reports nothing by itself.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut app = KillOnDrop(start(&mut command)?);
    let pid = app.0.id();
    wait_for("the app's threads get no rings", &log, || {
        let has_rings = |p: &Process| p.pid == pid && p.rings_held >= 2;
        Ok(status(&commands)?
            .engine
            .processes
            .iter()
            .any(has_rings)
            .then_some(()))
    })?;
    println!("demo: the app (pid {pid}) records; hindsightd holds its rings");
    let (mut before, mut looks) = (None, 0);
    wait_for(
        "the app's main thread does not wait for its lock",
        &log,
        || {
            if let Some(status) = app.0.try_wait()? {
                bail!("the app ended by itself ({status})");
            }
            let now = waits(pid);
            looks = if now.is_some() && now == before {
                looks + 1
            } else {
                0
            };
            before = now;
            Ok((looks >= LOOKS).then_some(()))
        },
    )?;
    drop(app);
    println!("demo: its main thread waits for a lock: killed by SIGKILL");
    let number = wait_for(
        "hindsightd writes no report of the killed app",
        &log,
        || {
            let lines = ask(&commands, "reports")?;
            let mut reports = lines
                .iter()
                .filter_map(|line| serde_json::from_str::<Report>(line).ok());
            Ok(reports.find(|report| report.pid == pid))
        },
    )?;
    println!(
        "demo: hindsightd wrote report {}: {}, {}",
        number.report, number.detector, number.reason
    );
    Ok(store.join(format!("{}.hindsight", number.report)))
}

fn start(command: &mut Command) -> Result<std::process::Child> {
    command
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))
}

/// Looks again and again until there is something.
fn wait_for<T>(
    otherwise: &str,
    log: &Path,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + LIMIT;
    let problem = loop {
        match look() {
            Ok(Some(found)) => return Ok(found),
            Ok(None) if Instant::now() < end => std::thread::sleep(LOOK),
            Ok(None) => break anyhow::anyhow!("{otherwise} within {} s", LIMIT.as_secs()),
            Err(problem) => break problem,
        }
    };
    let log = fs::read_to_string(log).unwrap_or_default();
    Err(problem.context(format!("the service's log:\n{log}")))
}

/// The answer to `status`, as far as it is needed.
#[derive(Deserialize)]
struct Status {
    engine: Engine,
}

#[derive(Deserialize)]
struct Engine {
    processes: Vec<Process>,
}

#[derive(Deserialize)]
struct Process {
    pid: u32,
    rings_held: u32,
}

/// A line of the answer to `reports`.
#[derive(Deserialize)]
struct Report {
    report: u64,
    pid: u32,
    detector: String,
    reason: String,
}

fn status(commands: &Path) -> Result<Status> {
    let lines = ask(commands, "status")?;
    let line = lines.first().context("hindsightd has no status")?;
    serde_json::from_str(line).context("hindsightd wrote another status")
}

/// The lines of the service's answer.
fn ask(commands: &Path, command: &str) -> Result<Vec<String>> {
    let mut stream = UnixStream::connect(commands).context("cannot connect to hindsightd")?;
    stream.set_read_timeout(Some(LIMIT))?;
    writeln!(stream, "{command}")?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    BufReader::new(stream).read_to_string(&mut answer)?;
    let mut lines = answer.lines();
    let first = lines.next().unwrap_or_default();
    ensure!(first == "ok", "hindsightd answers {command:?} by {first:?}");
    Ok(lines.map(str::to_owned).collect())
}

/// If the main thread waits for a lock now: how often it has been scheduled so far.
fn waits(pid: u32) -> Option<u64> {
    let folder = PathBuf::from(format!("/proc/{pid}/task/{pid}"));
    let status = fs::File::open(folder.join("status")).ok()?;
    let lines = BufReader::new(status).lines().map_while(Result::ok);
    let (mut sleeps, mut switches) = (false, 0);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        match name {
            "State" => sleeps = value.starts_with('S'),
            "voluntary_ctxt_switches" | "nonvoluntary_ctxt_switches" => {
                switches += value.parse::<u64>().ok()?;
            }
            _ => {}
        }
    }
    // An idle main thread waits for its queue by another call. A kernel that does not tell leaves it open.
    let call = fs::read_to_string(folder.join("syscall")).ok();
    let call = call.and_then(|line| line.split(' ').next()?.parse::<i64>().ok());
    (sleeps && call.is_none_or(|call| call == FUTEX)).then_some(switches)
}

/// Number of the system call `futex` on this machine.
#[cfg(target_arch = "x86_64")]
const FUTEX: i64 = 202;
#[cfg(not(target_arch = "x86_64"))]
const FUTEX: i64 = 98;

/// What `hindsight why --json` finds.
#[derive(Deserialize)]
struct Stalls {
    chains: Vec<Chain>,
}

#[derive(Deserialize)]
struct Chain {
    thread: String,
    still_running: bool,
    links: Vec<Link>,
    lock_owner: Option<Owner>,
    /// Method and thread.
    culprit: Option<(String, String)>,
}

#[derive(Deserialize)]
struct Owner {
    thread: Option<String>,
}

/// Compares the stall in which the app was killed with the source of the app.
fn check(json: &[u8]) -> Result<()> {
    let stalls: Stalls = serde_json::from_slice(json).context("hindsight why wrote other JSON")?;
    let chain = stalls.chains.first().context("the report holds no stall")?;
    let waiting: Vec<String> = chain.links.iter().map(|link| link.method.clone()).collect();
    ensure!(
        chain.thread == "main" && ends_with_in_order(&waiting, &expected::WAITING),
        "the chain is {waiting:?} on thread {:?}; it must end with {:?}, on main",
        chain.thread,
        expected::WAITING
    );
    ensure!(
        chain.still_running,
        "the stall had ended before the app was killed"
    );
    let owner = chain.lock_owner.as_ref().and_then(|o| o.thread.as_deref());
    ensure!(
        owner == Some(expected::THREAD),
        "the lock's owner is {owner:?}; it must be {:?}",
        expected::THREAD
    );
    let culprit = chain.culprit.as_ref();
    let culprit = culprit.map(|(method, thread)| (method.as_str(), thread.as_str()));
    ensure!(
        culprit == Some((expected::CULPRIT, expected::THREAD)),
        "hindsight why names the culprit {culprit:?}; it must be {:?}",
        (expected::CULPRIT, expected::THREAD)
    );
    Ok(())
}
