// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify …`: checks of compiled code and of recordings, by means that share no code with their makers.

mod balance;
mod case_runs;
mod cases;
mod causality;
mod checks;
mod detectors;
mod device;
mod events;
mod graphs;
mod libraries;
mod oat;
mod oracle;
mod perfetto;
mod pretty;
mod recording;
mod rounds;
mod samples;
mod stress;
mod trivial;
mod unit;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use checks::Check;

/// Checks of compiled code and of recordings
#[derive(Parser)]
#[command(
    bin_name = "cargo xtask verify",
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(subcommand)]
    check: Option<Check>,
    #[command(flatten)]
    recording: recording::Options,
}

fn main() -> ExitCode {
    if let Some(status) = hindsight_lab::run_test::run_as_tool(std::env::args_os()) {
        return status;
    }
    let arguments = Arguments::parse();
    let result = hindsight_lab::checkout_dir().map_err(anyhow::Error::from);
    match result.and_then(|checkout| run(&arguments, &checkout)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Checks and prints the findings. Returns whether there is no problem.
fn run(arguments: &Arguments, checkout: &Path) -> Result<bool> {
    match &arguments.check {
        Some(check) => check.run(checkout),
        None => recording::run(&arguments.recording, checkout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_check_the_recording_is_checked() {
        let parsed = Arguments::try_parse_from(["verify", "--isa", "arm"]).unwrap();
        assert!(parsed.check.is_none());
        let parsed = Arguments::try_parse_from(["verify", "stress", "--isa", "arm"]).unwrap();
        assert!(matches!(parsed.check, Some(Check::Stress(_))));
        assert!(Arguments::try_parse_from(["verify", "--isa", "arm", "stress"]).is_err());
    }
}
