// SPDX-License-Identifier: Apache-2.0
//! The steps of the suite. They are the same for every target.

use crate::junit::{Case, Outcome};
use crate::target::{Start, Target};
use crate::{apk, app_steps};
use anyhow::{bail, ensure, Context as _, Result};
use hindsight_decoder::{Call, Trace};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The test program, see `java/`.
pub const CLASS: &str = "dev.hindsight.boottest.BootTest";
/// How many times it calls `round`.
const ROUNDS: usize = 7;
/// How long it sleeps in `stall`.
const STALL: Duration = Duration::from_millis(500);
/// Key in the OAT header of code that Hindsight's dex2oat has compiled. Its value names the trace points.
const OAT_KEY: &str = "hindsight-trace-points";
/// The reason that the program gives for its anomaly.
const REASON: &str = "boot test: a stall of 500 ms";
/// The argument that makes the program end at once.
const START_ONLY: &str = "start";

/// Options of the suite.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long booting may take.
    pub boot_deadline: Duration,
    /// How many pairs of starts are compared.
    pub pairs: usize,
    /// The app; without it, the steps on it are skipped.
    pub apk: Option<PathBuf>,
    /// How long the app may take until it has saved a trace.
    pub app_deadline: Duration,
    /// The pause between two looks for its trace.
    pub poll: Duration,
}

/// A step's success: what it says, or why it was not made.
enum Done {
    Passed(String),
    Skipped(String),
}

impl From<Option<String>> for Done {
    fn from(said: Option<String>) -> Done {
        said.map_or_else(|| Done::Skipped("the target has none".into()), Done::Passed)
    }
}

const BOOTS: &str = "boots";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The steps after it depend on it.
    Vital,
    Other,
    /// Reads the log, so it runs whenever the device has booted.
    Last,
}

/// Runs all steps; skips steps that depend on a failed one.
pub fn run(target: &mut dyn Target, jar: &Path, options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut before: Option<&'static str> = None;
    let mut step = |name: &'static str, kind: Kind, body: &mut dyn FnMut() -> Result<Done>| {
        let start = Instant::now();
        let outcome = match before.filter(|failed| kind != Kind::Last || *failed == BOOTS) {
            Some(failed) => Outcome::Skipped(format!("'{failed}' failed")),
            None => match body() {
                Ok(Done::Passed(text)) => Outcome::Passed(text),
                Ok(Done::Skipped(why)) => Outcome::Skipped(why),
                Err(error) => Outcome::Failed(format!("{error:#}")),
            },
        };
        if kind == Kind::Vital && matches!(outcome, Outcome::Failed(_)) {
            before = Some(name);
        }
        cases.push(Case {
            name,
            outcome,
            took: start.elapsed(),
        });
    };
    let mut trace = Vec::new();
    step(BOOTS, Kind::Vital, &mut || {
        target.boot(options.boot_deadline)?;
        Ok(Done::Passed(target.name()))
    });
    step("the boot image has trace points", Kind::Other, &mut || {
        Ok(Done::Passed(trace_points(&target.boot_oat()?)?.to_owned()))
    });
    step(
        "the test program can be installed",
        Kind::Vital,
        &mut || {
            target.install(jar)?;
            Ok(Done::Passed(jar.display().to_string()))
        },
    );
    step("an anomaly saves a trace", Kind::Vital, &mut || {
        let known = target.traces()?;
        let said = target.run(CLASS, &[], true)?;
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
        let named = said
            .split_once(" file=")
            .and_then(|(_, rest)| rest.lines().next());
        ensure!(
            named == Some(file.as_str()),
            "{file} is new, but the program said: {said}"
        );
        trace = target.pull(file)?;
        Ok(Done::Passed(format!("{file}, {} bytes", trace.len())))
    });
    step(
        "the trace holds what the program did",
        Kind::Other,
        &mut || Ok(Done::Passed(content(&trace)?)),
    );
    step(
        "without tracing there is no trace",
        Kind::Other,
        &mut || {
            let known = target.traces()?.len();
            let said = target.run(CLASS, &[], false)?;
            ensure!(said.contains(" file=null"), "the program said: {said}");
            ensure!(
                target.traces()?.len() == known,
                "a trace was saved though tracing was off"
            );
            Ok(Done::Passed(String::new()))
        },
    );
    step("start-up, off and on", Kind::Other, &mut || {
        ensure!(options.pairs > 0, "no pairs to compare");
        let mut differences = Vec::new();
        for pair in 0..options.pairs {
            // On and off are first alternately, since the second run finds warm caches.
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
        Ok(Done::Passed(paired(&differences)))
    });
    let mut is_installed = false;
    step("the app is a sound APK", Kind::Other, &mut || {
        Ok(match &options.apk {
            None => Done::Skipped("no APK was given".into()),
            Some(apk) => Done::Passed(apk::check(apk)?),
        })
    });
    step("the app can be installed", Kind::Other, &mut || {
        let Some(apk) = &options.apk else {
            return Ok(Done::Skipped("no APK was given".into()));
        };
        Ok(match target.install_app(apk)? {
            Start::Skipped(why) => Done::Skipped(why),
            Start::Ready => {
                is_installed = true;
                Done::Passed(apk.display().to_string())
            }
        })
    });
    let missing = || Done::Skipped("the app is not installed".into());
    step(
        "a stall of the app's main looper saves a trace",
        Kind::Other,
        &mut || {
            if !is_installed {
                return Ok(missing());
            }
            Ok(Done::Passed(app_steps::stall(
                target,
                options.app_deadline,
                options.poll,
            )?))
        },
    );
    step(
        "a forbidden system call ends the app's process",
        Kind::Other,
        &mut || {
            if !is_installed {
                return Ok(missing());
            }
            Ok(target.forbidden_call()?.into())
        },
    );
    step("no crash and no denial in the log", Kind::Last, &mut || {
        let Some(log) = target.log()? else {
            return Ok(None.into());
        };
        let bad = bad_lines(&log);
        ensure!(
            bad.is_empty(),
            "{} bad lines:\n{}",
            bad.len(),
            bad.join("\n")
        );
        Ok(Done::Passed(format!("{} lines", log.lines().count())))
    });
    let start = Instant::now();
    // Restores the device, even after a failure.
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
    let said = target.run(CLASS, &[START_ONLY], traced)?;
    let took = start.elapsed();
    ensure!(
        said.contains("boottest: started"),
        "the program said: {said}"
    );
    Ok(took)
}

/// Describes the sorted differences of pairs, in ms. The interval from the smallest to the largest of `n`
/// contains the true median with a probability of `1 - 2^(1-n)`: unless all of them are on one side of it.
fn paired(sorted: &[f64]) -> String {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
        return "no pairs".into();
    };
    let n = sorted.len();
    let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
    let certainty = 100.0 * (1.0 - 0.5_f64.powi(n.min(64) as i32 - 1));
    format!(
        "{n} pairs of starts: on takes {median:+.1} ms more than off in the median; between {first:+.1} and \
         {last:+.1} ms with {certainty:.1} % certainty"
    )
}

/// The trace points of an OAT file's code, from the key-value store in its header.
fn trace_points(oat: &[u8]) -> Result<&str> {
    ensure!(
        oat.starts_with(b"\x7fELF"),
        "the OAT file is no ELF file ({} bytes)",
        oat.len()
    );
    let key = [OAT_KEY.as_bytes(), b"\0"].concat();
    let at = oat
        .windows(key.len())
        .position(|window| window == key)
        .with_context(|| {
            format!("its header has no key '{OAT_KEY}': it was not compiled by Hindsight's ART")
        })?;
    let value = oat[at + key.len()..].split(|byte| *byte == 0).next();
    let value = value
        .filter(|value| value.len() < 256)
        .and_then(|value| std::str::from_utf8(value).ok())
        .with_context(|| format!("its key '{OAT_KEY}' has no value that is text"))?;
    ensure!(
        value.starts_with("shared-") || value.starts_with("inline-"),
        "it was compiled without trace points: '{OAT_KEY}' is '{value}'"
    );
    Ok(value)
}

/// Decodes a trace and compares it with the calls in the program's source.
fn content(bytes: &[u8]) -> Result<String> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("boot-test.hindsight");
    std::fs::write(&path, bytes)?;
    let trace = Trace::open(&path).context("cannot decode it")?;
    ensure!(
        trace.process.reason == REASON,
        "its reason is '{}' instead of '{REASON}'",
        trace.process.reason
    );
    let thread = trace.main_thread().context("no thread in it")?;
    let named = |method: &str| {
        let wanted = format!("{CLASS}.{method}");
        thread
            .calls
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
        rounds.iter().all(|call| call.end_ns <= stall.start_ns),
        "a round ended after the stall had begun"
    );
    let mains = named("main");
    let [main] = mains.as_slice() else {
        bail!("{} calls of main instead of one", mains.len())
    };
    let from_main = |call: &Call| {
        call.depth == main.depth + 1 && (main.start_ns..=main.end_ns).contains(&call.start_ns)
    };
    ensure!(
        rounds.iter().chain(&stalls).all(from_main),
        "main has called each round and the stall, but in the trace it has not"
    );
    let took = stall.end_ns.saturating_sub(stall.start_ns);
    ensure!(
        u128::from(took) >= STALL.as_nanos(),
        "the stall took {took} ns in the trace, and it sleeps for {} ms",
        STALL.as_millis()
    );
    Ok(format!(
        "{} calls; the stall took {:.1} ms",
        thread.calls.len(),
        took as f64 / 1e6
    ))
}

/// The lines of a log that report a crash of any process, or an SELinux denial about Hindsight.
fn bad_lines(log: &str) -> Vec<&str> {
    let crashes = [
        "FATAL EXCEPTION",
        "Fatal signal ",
        "*** *** ***",
        "JNI DETECTED ERROR",
        "internal error in ",
        "Runtime aborting",
        "Check failed: ",
        "terminate called",
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

    #[test]
    fn an_oat_file_must_say_that_it_has_trace_points() {
        let oat = |value: &str| format!("\x7fELF..\0{OAT_KEY}\0{value}\0more\0").into_bytes();
        assert_eq!(trace_points(&oat("shared-1/x@1")).unwrap(), "shared-1/x@1");
        assert_eq!(trace_points(&oat("inline-1/x@1")).unwrap(), "inline-1/x@1");
        for (bytes, why) in [
            (oat("none"), "without trace points"),
            (oat(&"x".repeat(300)), "no value that is text"),
            (b"\x7fELF".to_vec(), "not compiled by Hindsight's ART"),
            (OAT_KEY.into(), "no ELF file"),
            (format!("\x7fELF{OAT_KEY}\0").into(), "without trace points"),
        ] {
            let error = trace_points(&bytes).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn the_median_of_pairs_is_of_the_middle_two_and_certainty_grows_with_their_number() {
        assert!(paired(&[-1.0, 2.0, 4.0, 9.0]).contains("+3.0 ms more"));
        assert!(paired(&[1.0]).ends_with("between +1.0 and +1.0 ms with 0.0 % certainty"));
        assert!(paired(&[1.0, 2.0, 3.0]).contains("75.0 %"));
        assert_eq!(paired(&[]), "no pairs");
    }
}
