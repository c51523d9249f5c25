// SPDX-License-Identifier: Apache-2.0
//! The steps on the app: a stall of its main looper is saved, under an app's uid.

use crate::target::Target;
use anyhow::{ensure, Context as _, Result};
use hindsight_decoder::Trace;
use std::time::{Duration, Instant};

/// How long the app's message takes, at least. Equal to MILLIS in Stall.java.
const APP_STALL: Duration = Duration::from_millis(700);
/// The method that takes this time.
const METHOD: &str = "dev.hindsight.boottest.Stall.stall";
/// The reason of the watchdog's trace begins with it.
const REASON: &str = "a message on main took ";

/// Starts the app, looks every `poll` until it has saved a trace, ends it, and judges the trace.
///
/// # Errors
/// If there is no trace in time, or not of the stall.
pub(crate) fn stall(target: &mut dyn Target, deadline: Duration, poll: Duration) -> Result<String> {
    let known = target.traces()?;
    target.start_app()?;
    let found = wait_for_trace(target, &known, deadline, poll);
    let said = target.stop_app()?;
    let file = found.with_context(|| format!("the app said: {said}"))?;
    let bytes = target.pull(&file)?;
    Ok(format!("{file}, {}", judge(&bytes)?))
}

fn wait_for_trace(
    target: &mut dyn Target,
    known: &[String],
    deadline: Duration,
    poll: Duration,
) -> Result<String> {
    let start = Instant::now();
    loop {
        // Asked first: an app may save a trace, and then end.
        let runs = target.app_runs()?;
        let mut traces = target.traces()?.into_iter();
        if let Some(file) = traces.find(|file| !known.contains(file)) {
            return Ok(file);
        }
        ensure!(runs, "it has ended without a trace");
        ensure!(
            start.elapsed() < deadline,
            "no trace after {} s",
            deadline.as_secs()
        );
        std::thread::sleep(poll);
    }
}

fn judge(bytes: &[u8]) -> Result<String> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("app.hindsight");
    std::fs::write(&path, bytes)?;
    let trace = Trace::open(&path).context("cannot decode it")?;
    let reason = &trace.process.reason;
    ensure!(reason.starts_with(REASON), "its reason is '{reason}'");
    let thread = trace.main_thread().context("no thread in it")?;
    let stall = thread
        .calls
        .iter()
        .find(|call| {
            trace
                .methods
                .name(call.method)
                .to_string()
                .starts_with(METHOD)
        })
        .with_context(|| format!("no call of {METHOD} in it"))?;
    let took = stall.end_ns.saturating_sub(stall.start_ns);
    ensure!(
        u128::from(took) >= APP_STALL.as_nanos(),
        "{METHOD} took {took} ns in the trace, and it sleeps for {} ms",
        APP_STALL.as_millis()
    );
    Ok(format!("{reason}; {} calls", thread.calls.len()))
}
