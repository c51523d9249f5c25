// SPDX-License-Identifier: Apache-2.0
//! The steps, the same for every target.

use crate::junit::{Case, Outcome};
use crate::target::Target;
use anyhow::{bail, ensure, Context as _, Result};
use hindsight_decoder::Trace;
use std::path::Path;
use std::time::{Duration, Instant};

/// The test program, see `java/`.
pub const CLASS: &str = "dev.hindsight.boottest.BootTest";
/// How often it calls `round`.
const ROUNDS: usize = 7;
/// How long it sleeps in `stall`.
const STALL: Duration = Duration::from_millis(500);
/// In the OAT header, if the code has trace points.
const OAT_KEY: &[u8] = b"hindsight-trace-points";

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long booting may take.
    pub boot_deadline: Duration,
    /// How many pairs of starts are compared.
    pub pairs: usize,
}

/// Runs all steps; those that depend on one that failed are skipped.
pub fn run(target: &mut dyn Target, jar: &Path, options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut before: Option<&'static str> = None;
    let mut step =
        |name: &'static str, vital: bool, body: &mut dyn FnMut() -> Result<Option<String>>| {
            let start = Instant::now();
            let outcome = match before {
                Some(failed) => Outcome::Skipped(format!("'{failed}' failed")),
                None => match body() {
                    Ok(Some(text)) => Outcome::Passed(text),
                    Ok(None) => Outcome::Skipped("the target has none".into()),
                    Err(error) => Outcome::Failed(format!("{error:#}")),
                },
            };
            if vital && matches!(outcome, Outcome::Failed(_)) {
                before = Some(name);
            }
            cases.push(Case {
                name,
                outcome,
                took: start.elapsed(),
            });
        };
    let mut trace = Vec::new();
    step("boots", true, &mut || {
        target.boot(options.boot_deadline)?;
        Ok(Some(target.name()))
    });
    step("the boot image has trace points", false, &mut || {
        let oat = target.boot_oat()?;
        ensure!(oat.starts_with(b"\x7fELF"), "the OAT file is no ELF file");
        let found = oat.windows(OAT_KEY.len()).any(|window| window == OAT_KEY);
        ensure!(
            found,
            "its header has no key '{}': this ART is not Hindsight's",
            String::from_utf8_lossy(OAT_KEY)
        );
        Ok(Some(format!("{} bytes", oat.len())))
    });
    step("the test program can be installed", true, &mut || {
        target.install(jar)?;
        Ok(Some(jar.display().to_string()))
    });
    step("an anomaly saves a trace", true, &mut || {
        let known = target.traces()?;
        let said = target.run(CLASS, true)?;
        let new: Vec<String> = target
            .traces()?
            .into_iter()
            .filter(|file| !known.contains(file))
            .collect();
        let [file] = new.as_slice() else {
            bail!(
                "{} new files instead of one ({}); the program said: {said}",
                new.len(),
                new.join(", ")
            );
        };
        trace = target.pull(file)?;
        Ok(Some(format!("{file}, {} bytes", trace.len())))
    });
    step("the trace holds what the program did", false, &mut || {
        Ok(Some(content(&trace)?))
    });
    step("without tracing there is no trace", false, &mut || {
        let known = target.traces()?.len();
        target.run(CLASS, false)?;
        ensure!(
            target.traces()?.len() == known,
            "a trace was saved though tracing was off"
        );
        Ok(Some(String::new()))
    });
    step("start-up, off and on", false, &mut || {
        ensure!(options.pairs > 0, "no pairs to compare");
        let mut differences = Vec::new();
        for pair in 0..options.pairs {
            // Either is first as often as the other: what comes second finds warm caches.
            let first = time(target, pair % 2 == 0)?;
            let second = time(target, pair % 2 == 1)?;
            let (on, off) = if pair % 2 == 0 {
                (first, second)
            } else {
                (second, first)
            };
            differences.push((on.as_secs_f64() - off.as_secs_f64()) * 1e3);
        }
        differences.sort_by(f64::total_cmp);
        Ok(Some(format!(
            "{} pairs of runs: on is {:+.1} ms slower than off in the median, from {:+.1} to {:+.1}",
            differences.len(),
            differences[differences.len() / 2],
            differences[0],
            differences[differences.len() - 1]
        )))
    });
    step("no crash and no denial in the log", false, &mut || {
        let Some(log) = target.log()? else {
            return Ok(None);
        };
        let bad = bad_lines(&log);
        ensure!(
            bad.is_empty(),
            "{} bad lines:\n{}",
            bad.len(),
            bad.join("\n")
        );
        Ok(Some(format!("{} lines", log.lines().count())))
    });
    let start = Instant::now();
    // Whatever has failed: what was changed is changed back.
    let outcome = match target.finish() {
        Ok(()) => Outcome::Passed(String::new()),
        Err(error) => Outcome::Failed(format!("{error:#}")),
    };
    cases.push(Case {
        name: "everything is put back",
        outcome,
        took: start.elapsed(),
    });
    cases
}

fn time(target: &dyn Target, traced: bool) -> Result<Duration> {
    let start = Instant::now();
    target.run(CLASS, traced)?;
    Ok(start.elapsed())
}

/// Decodes a trace and compares it with what the program's source says.
fn content(bytes: &[u8]) -> Result<String> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("boot-test.hindsight");
    std::fs::write(&path, bytes)?;
    let trace = Trace::open(&path).context("cannot decode it")?;
    let thread = trace.main_thread().context("no thread in it")?;
    let named = |method: &str| {
        let wanted = format!("{CLASS}.{method}");
        thread
            .slices
            .iter()
            .filter(|call| {
                let name = trace.methods.name(call.method).to_string();
                name == wanted || name.starts_with(&format!("{wanted}("))
            })
            .collect::<Vec<_>>()
    };
    let rounds = named("round");
    ensure!(
        rounds.len() == ROUNDS,
        "{} calls of round instead of {ROUNDS}",
        rounds.len()
    );
    let stalls = named("stall");
    let [stall] = stalls.as_slice() else {
        bail!("{} calls of stall instead of one", stalls.len())
    };
    ensure!(
        rounds.iter().all(|call| call.start_ns <= stall.start_ns),
        "a round began after the stall"
    );
    ensure!(
        rounds.iter().all(|call| call.depth == stall.depth),
        "main has called them all, from one depth"
    );
    let took = stall.end_ns.saturating_sub(stall.start_ns);
    ensure!(
        u128::from(took) >= STALL.as_nanos(),
        "the stall took {took} ns in the trace, and it sleeps for {} ms",
        STALL.as_millis()
    );
    Ok(format!(
        "{} calls; the stall took {:.1} ms",
        thread.slices.len(),
        took as f64 / 1e6
    ))
}

/// Lines of a log that should not be there: crashes of whatever process, and denials about Hindsight.
fn bad_lines(log: &str) -> Vec<&str> {
    let crashes = [
        "FATAL EXCEPTION",
        "Fatal signal ",
        "*** *** ***",
        "JNI DETECTED ERROR",
        "internal error in ",
    ];
    let ours = ["hindsight", "method_trace_data_file"];
    log.lines()
        .filter(|line| {
            crashes.iter().any(|text| line.contains(text))
                || (line.contains("avc: ")
                    && line.contains("denied")
                    && ours.iter().any(|text| line.contains(text)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_and_our_denials_are_bad_and_others_not() {
        let log =
            "ok\nE AndroidRuntime: FATAL EXCEPTION: main\nF libc: Fatal signal 11 (SIGSEGV)\n\
                   avc: denied { read } for name=\"u:object_r:hindsight_prop:s0\"\n\
                   avc: denied { read } for name=\"something else\"\nhindsight: fine\n";
        assert_eq!(bad_lines(log).len(), 3);
    }
}
