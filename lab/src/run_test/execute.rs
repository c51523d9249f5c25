// SPDX-License-Identifier: Apache-2.0
//! Runs a built test and checks the result as AOSP's `run-test` does.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::files::{copy_tree, io_context};
use super::options::Mode;
use super::report::{Outcome, Status};
use super::session::Session;
use super::{build, process, tools};

/// Builds, runs and checks one test, in `time_factor` times the normal time; the log of a failure is kept.
pub(super) fn test(
    context: &Session,
    name: &str,
    server: &tools::Server,
    time_factor: u32,
) -> Result<Outcome> {
    let log = context.logs.join(format!("{name}.log"));
    let _ = std::fs::remove_file(&log);
    let built = match build::build(context, name, server)? {
        Ok(b) => b,
        Err(text) => {
            std::fs::write(&log, text).with_context(|| io_context("write", &log))?;
            let reason = format!("its build took over {} s", build::BUILD_LIMIT.as_secs());
            return Ok(Outcome {
                build_seconds: build::BUILD_LIMIT.as_secs_f64(),
                untraced: Some(reason.clone()),
                reason: Some(reason),
                ..Outcome::new(Status::Failed)
            });
        }
    };
    let started = Instant::now();
    let work = context.work.join(name);
    let _ = std::fs::remove_dir_all(&work);
    copy_tree(&built.tree(), &work, false)?;
    let mut text = String::new();
    let mut balance = None;
    let reason = run_and_check(
        context,
        name,
        &work,
        &built,
        time_factor,
        &mut balance,
        &mut text,
    )?;
    let (balance, untraced) = match balance {
        Some(Recorded::Reports(balance)) => (Some(balance), None),
        Some(Recorded::Nothing(why)) => (None, Some(why)),
        None => (None, None),
    };
    let status = match reason {
        None => Status::Passed,
        Some(_) => Status::Failed,
    };
    let outcome = Outcome {
        build_seconds: built.elapsed.as_secs_f64(),
        run_seconds: started.elapsed().as_secs_f64(),
        events: balance.as_ref().map(|b| b.events),
        threads: balance.as_ref().map(|b| b.threads),
        wrapped: balance.as_ref().map(|b| b.wrapped),
        unbalanced: balance.map(|b| b.problems).unwrap_or_default(),
        untraced,
        agent: context.agents.contains(name),
        reason,
        ..Outcome::new(status)
    };
    if outcome.status == Status::Failed {
        if built.exit != 0 {
            // The machine may be the cause: build again the next time.
            built.forget();
        }
        std::fs::write(&log, text).with_context(|| io_context("write", &log))?;
    }
    if !context.options.keep {
        let _ = std::fs::remove_dir_all(&work);
    }
    Ok(outcome)
}

fn is_checker_test(name: &str) -> bool {
    name.trim_start_matches(|c: char| c.is_ascii_digit())
        .starts_with("-checker-")
}

/// The arguments that AOSP's `run-test -O --host --64 …` gives to a test's `run`.
fn run_arguments(context: &Session, name: &str, work: &Path) -> Vec<String> {
    let host = &context.scripts.host_out;
    let isa = context.layout.isa;
    let mut a: Vec<String> = ["--quiet", "-O", "--host"].map(String::from).to_vec();
    if isa.is_64_bit() {
        a.push("--64".into());
    }
    let mode: &[&str] = match context.options.mode {
        Mode::Aot => &["--prebuild"],
        Mode::Jit => &["--jit", "--no-prebuild"],
        Mode::Interpreter => &["--interpreter", "--prebuild"],
    };
    a.extend(mode.iter().map(|s| s.to_string()));
    let image = if context.options.mode == Mode::Aot {
        "core.art"
    } else {
        "core-interpreter.art"
    };
    a.extend([
        "--runtime-option".into(),
        "-XX:ThreadSuspendTimeout=500000".into(),
        "--lib".into(),
        "libart.so".into(),
    ]);
    a.extend([
        "--boot".into(),
        format!("{}/framework/{image}", host.display()),
    ]);
    a.extend([
        "--runtime-option".into(),
        format!(
            "-Djava.library.path={0}/{1}:{0}/{2}",
            host.display(),
            isa.library_dir(),
            isa.native_test_dir(),
        ),
    ]);
    a.push("--no-relocate".into());
    if runs_checker(context, name) {
        a.extend([
            "-Xcompiler-option".into(),
            format!("--dump-cfg={}/graph.cfg", work.display()),
        ]);
        a.extend(["-Xcompiler-option".into(), "-j1".into()]);
    }
    a.extend(["--testlib".into(), "arttest".into()]);
    a
}

fn runs_checker(context: &Session, name: &str) -> bool {
    context.options.mode == Mode::Aot && is_checker_test(name)
}

/// Returns the reason if the test failed, and adds the details to `log`. `found` receives the reports of a traced
/// test's processes about their recording, also if the test failed.
fn run_and_check(
    context: &Session,
    name: &str,
    work: &Path,
    built: &build::Built,
    time_factor: u32,
    found: &mut Option<Recorded>,
    log: &mut String,
) -> Result<Option<String>> {
    let isa = context.layout.isa;
    let output = work.join("output.txt");
    let limit = Duration::from_secs(context.options.timeout) * time_factor;
    let marker = |step: &str| {
        format!(
            "{}-{}-{name}-{step}",
            std::process::id(),
            context.options.mode.name()
        )
    };
    let balance = work.join("hindsight-balance");
    let mut reason = None;
    let mut nothing = "its build failed, so it was not run".to_owned();
    if built.exit == 0 {
        let mut run = Command::new("./run");
        run.args(run_arguments(context, name, work))
            .current_dir(work)
            .env("DEX_LOCATION", work);
        build::environment(context, name, &mut run);
        let preload = format!("LD_PRELOAD={}", context.scripts.brief_log.display());
        let mut launcher = "env".to_owned();
        if context.layout.emulator.is_empty() {
            let _ = write!(launcher, " {preload}");
        }
        let events = if context.options.events {
            "events=all,event-rings=1024"
        } else {
            "events=off"
        };
        if context.options.trace {
            std::fs::create_dir_all(&balance).with_context(|| io_context("make", &balance))?;
            // The largest test has a few hundred threads. Pages of a ring that are never written use no memory, but a
            // 32-bit process has too few addresses.
            let usual = if isa.is_64_bit() { 24 } else { 22 };
            let ring = context.options.ring.unwrap_or(usual);
            let (b, w) = (balance.display(), work.display());
            let _ = write!(
                launcher,
                " HINDSIGHT=trace=all,max-rings=unlimited,rewind=off,ring={ring},dir={w},check-balance={b},{events}"
            );
        } else if context.options.events {
            let _ = write!(launcher, " HINDSIGHT={events},dir={}", work.display());
        }
        if !context.layout.emulator.is_empty() {
            // -E: for the emulated program, not for the emulator.
            let _ = write!(
                launcher,
                " {} -E {preload}",
                context.layout.emulator.join(" ")
            );
        }
        run.env("HINDSIGHT_LAUNCHER", launcher)
            .env("HINDSIGHT_ISA", context.layout.isa.name());
        let _ = writeln!(log, "#### {run:?}");
        let f = process::run(&mut run, &output, limit, &marker("run"))?;
        nothing = match f.shell_status() {
            0 => "none of its processes ended normally".to_owned(),
            status => format!("none of its processes ended normally (exit status {status})"),
        };
        if f.status.is_none() {
            let _ = writeln!(log, "#### killed after {} s\n{}", limit.as_secs(), f.hang);
            nothing = format!("it took over {} s", limit.as_secs());
            reason = Some(nothing.clone());
        } else if f.shell_status() != 0 {
            reason = Some(format!("run exit status {}", f.shell_status()));
        } else if runs_checker(context, name) {
            let mut checker = Command::new("python3");
            checker
                .arg(context.layout.art.join("tools/checker/checker.py"))
                .arg("-q")
                .arg(format!(
                    "--arch={}",
                    context.layout.isa.name().to_uppercase()
                ))
                .arg("graph.cfg")
                .arg(work)
                .current_dir(work);
            let out = work.join("checker-output.txt");
            let f = process::run(&mut checker, &out, limit, &marker("checker"))?;
            let text = std::fs::read(&out)?;
            OpenOptions::new()
                .append(true)
                .open(&output)?
                .write_all(&text)?;
            if f.shell_status() != 0 {
                reason = Some(format!("checker exit status {}", f.shell_status()));
            }
        }
    } else {
        // Some tests expect their build to fail, and compare parts of this text.
        let mut text =
            std::fs::read(built.output()).with_context(|| io_context("read", &built.output()))?;
        let w = work.display();
        write!(
            text,
            "Failed to build in tmpdir={w} from oldwd={w} and cwd={w}\nNon-canonical tmpdir was {w}\nArgs: {name}\nbuild exit status: {}\nMax filename (NAME_MAX): 255\nMax pathlength (PATH_MAX): 4096\n",
            built.exit
        )?;
        std::fs::write(&output, text).with_context(|| io_context("write", &output))?;
    }
    let mut check = Command::new("./check");
    check.args(["expected.txt", "output.txt"]).current_dir(work);
    build::environment(context, name, &mut check);
    let check_output = work.join("check-output.txt");
    let f = process::run(&mut check, &check_output, limit, &marker("check"))?;
    if f.shell_status() != 0 {
        let what = if built.exit != 0 {
            "it does not build"
        } else {
            "its output is not as expected"
        };
        reason =
            Some(reason.map_or_else(|| what.to_owned(), |r: String| format!("{r}, and {what}")));
    }
    if context.options.trace && built.exit != 0 {
        *found = Some(Recorded::Nothing(nothing));
    } else if context.options.trace {
        let mut balance = read_balance(&balance, log)?;
        if context.unbalanced.contains(name) {
            let problems = &mut balance.problems;
            problems.retain(|which| !which.starts_with("unbalanced:"));
        }
        let first = balance.problems.first();
        reason = reason.or(first.map(|which| format!("its trace is not balanced: {which}")));
        *found = Some(match balance.reports {
            0 => Recorded::Nothing(nothing),
            _ => Recorded::Reports(balance),
        });
    }
    if reason.is_some() {
        let _ = writeln!(log, "#### diff of expected.txt and output.txt");
        let diff = Command::new("diff")
            .args([
                "--strip-trailing-cr",
                "-a",
                "-u",
                "expected.txt",
                "output.txt",
            ])
            .current_dir(work)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?
            .wait_with_output()?;
        let text = String::from_utf8_lossy(&diff.stdout);
        let lines: Vec<_> = text.lines().collect();
        for l in &lines[..lines.len().min(3000)] {
            let _ = writeln!(log, "{l}");
        }
        let text = std::fs::read(&check_output).unwrap_or_default();
        if !text.is_empty() {
            let _ = writeln!(
                log,
                "#### what the check printed\n{}",
                String::from_utf8_lossy(&text)
            );
        }
        if built.exit != 0 {
            let text = std::fs::read(built.output()).unwrap_or_default();
            let _ = writeln!(
                log,
                "#### what the build printed\n{}",
                String::from_utf8_lossy(&text)
            );
        }
    }
    Ok(reason)
}

/// The result of the reports on a traced test's recording.
enum Recorded {
    Reports(Balance),
    /// No process wrote a report, for this reason.
    Nothing(String),
}

/// The sum of Hindsight's `check-balance` reports.
#[derive(Debug, Default, PartialEq)]
struct Balance {
    /// Processes that wrote one.
    reports: u64,
    /// Threads in all of them.
    threads: u64,
    /// Threads whose ring wrapped.
    wrapped: u64,
    /// Events in all of them.
    events: u64,
    /// The errors in the recording.
    problems: Vec<String>,
}

/// Reads the reports, and adds the ones with errors to `log`.
///
/// A process that is killed, aborts or halts writes no report; some tests do so on purpose.
fn read_balance(reports: &Path, log: &mut String) -> Result<Balance> {
    let mut balance = Balance::default();
    for e in std::fs::read_dir(reports).with_context(|| io_context("read", reports))? {
        let path = e?.path();
        if path.extension().is_none_or(|x| x != "balance") {
            continue;
        }
        let text = std::fs::read_to_string(&path).with_context(|| io_context("read", &path))?;
        // "threads 7 wrapped 0 events 12 entries 6 unbalanced 0 unknown 0"
        let first = text.lines().next().unwrap_or("");
        let words: Vec<&str> = first.split_whitespace().collect();
        let number = |name: &str| {
            let i = words.iter().position(|w| *w == name)?;
            words.get(i + 1)?.parse::<u64>().ok()
        };
        balance.reports += 1;
        balance.threads += number("threads").unwrap_or(0);
        balance.wrapped += number("wrapped").unwrap_or(0);
        balance.events += number("events").unwrap_or(0);
        if number("unbalanced") != Some(0) || number("unknown").unwrap_or(0) != 0 {
            let _ = writeln!(log, "#### {}\n{text}", path.display());
            let before = balance.problems.len();
            let which = |l: &&str| l.starts_with("unbalanced:") || l.starts_with("unknown:");
            balance
                .problems
                .extend(text.lines().filter(which).map(str::to_owned));
            if balance.problems.len() == before {
                let unreadable = "an unreadable balance report";
                balance.problems.push(unreadable.to_owned());
            }
        }
    }
    Ok(balance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balance_reports() {
        let d = tempfile::tempdir().unwrap();
        let report = |name: &str, text: &str| std::fs::write(d.path().join(name), text).unwrap();
        let mut log = String::new();
        let mut read = || {
            let b = read_balance(d.path(), &mut log).unwrap();
            (b.reports, b.events, b.problems.first().cloned())
        };
        assert_eq!(read(), (0, 0, None));
        report(
            "1.balance",
            "threads 9 wrapped 0 events 12 entries 6 unbalanced 0 unknown 0\n",
        );
        report("other", "x");
        assert_eq!(read(), (1, 12, None));
        report(
            "2.balance",
            "threads 9 wrapped 0 events 3 entries 1 unbalanced 1 unknown 0\n\
             unbalanced: thread main (tid 4): 1 unmatched exits (first after A.b), 0 open\n",
        );
        let (reports, events, problem) = read();
        assert_eq!((reports, events), (2, 15));
        assert!(problem
            .unwrap()
            .contains("thread main (tid 4): 1 unmatched"));
        report("2.balance", "");
        assert!(read().2.is_some());
        report(
            "2.balance",
            "threads 1 wrapped 0 events 2 entries 1 unbalanced 0 unknown 1\nunknown: method 0x7000\n",
        );
        assert_eq!(read().2.as_deref(), Some("unknown: method 0x7000"));
        assert!(log.contains("2.balance"));
    }

    #[test]
    fn checker_tests() {
        assert!(
            is_checker_test("449-checker-bce") && is_checker_test("1004-checker-volatile-ref-load")
        );
        assert!(!is_checker_test("449-bce-checker-x") && !is_checker_test("001-HelloWorld"));
    }
}
