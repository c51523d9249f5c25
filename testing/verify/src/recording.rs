// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify` without a check: all checks of recordings, one after the other.

use std::path::Path;

use anyhow::Result;
use clap::Parser;
use hindsight_lab::Isa;

use crate::checks::Check;

/// Which programs are recorded, and for how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The instruction set: x86_64, or under qemu-user arm64 or arm
    #[arg(long, default_value = "x86_64")]
    isa: Isa,
    /// The run-tests listed in FILE; default: all, and under qemu-user arm-set.txt
    #[arg(long, value_name = "FILE")]
    set: Option<String>,
    /// Duration of the stress test
    #[arg(long, default_value_t = 40)]
    seconds: u64,
}

/// The list of the run-tests that are worth their time under qemu-user.
const ARM_SET: &str = "lab/android-10/run-tests/arm-set.txt";

/// The command line of a check.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct CommandLine {
    #[command(subcommand)]
    check: Check,
}

/// The command lines of the checks.
fn checks(options: &Options) -> Vec<Vec<String>> {
    let set = match &options.set {
        Some(set) => Some(set.as_str()),
        None if options.isa.is_native() => None,
        None => Some(ARM_SET),
    };
    let seconds = options.seconds.to_string();
    let mut checks = match set {
        None => vec![vec!["oracle"], vec!["balance", "--all"]],
        Some(set) => vec![
            vec!["oracle", "--own"],
            vec!["oracle", "--set", set],
            vec!["balance", "--set", set],
        ],
    };
    checks.push(vec!["stress", "--seconds", &seconds]);
    checks.push(vec!["events"]);
    for check in &mut checks {
        check.extend(["--isa", options.isa.name()]);
    }
    (checks.iter())
        .map(|check| check.iter().map(ToString::to_string).collect())
        .collect()
}

/// Runs all checks, also after a failed one. Returns whether none found a problem.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let mut wrong = Vec::new();
    for arguments in checks(options) {
        let line = arguments.join(" ");
        println!("# cargo xtask verify {line}");
        match CommandLine::try_parse_from(arguments)?.check.run(checkout) {
            Ok(true) => {}
            Ok(false) => wrong.push(line),
            Err(error) => {
                println!("error: {error:#}");
                wrong.push(line);
            }
        }
    }
    match wrong.is_empty() {
        true => println!("verify: no problem"),
        false => println!("verify: problems in {}", wrong.join("; ")),
    }
    Ok(wrong.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The options, without a check.
    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct WithoutCheck {
        #[command(flatten)]
        options: Options,
    }

    fn lines(arguments: &[&str]) -> Vec<String> {
        let parsed = WithoutCheck::try_parse_from(arguments).unwrap();
        let checks = checks(&parsed.options);
        for check in &checks {
            CommandLine::try_parse_from(check).unwrap();
        }
        checks.iter().map(|check| check.join(" ")).collect()
    }

    #[test]
    fn all_checks_of_recordings_get_the_options() {
        assert_eq!(
            lines(&["--seconds", "9"]),
            [
                "oracle --isa x86_64",
                "balance --all --isa x86_64",
                "stress --seconds 9 --isa x86_64",
                "events --isa x86_64",
            ]
        );
        assert_eq!(
            lines(&["--isa", "arm"])[1..],
            [
                format!("oracle --set {ARM_SET} --isa arm"),
                format!("balance --set {ARM_SET} --isa arm"),
                "stress --seconds 40 --isa arm".to_owned(),
                "events --isa arm".to_owned(),
            ]
        );
        assert!(lines(&["--set", "some"]).contains(&"balance --set some --isa x86_64".to_owned()));
    }
}
