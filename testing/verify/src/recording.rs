// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify` alone: the checks of what is recorded, one after the other.

use std::path::Path;

use anyhow::Result;
use clap::Parser;
use hindsight_lab::Isa;

use super::Verify;

/// Which programs to check the recording with.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The instruction set: x86_64, or under qemu-user arm64 or arm
    #[arg(long, default_value = "x86_64")]
    isa: Isa,
    /// Of ART's run-tests those listed in FILE; without it all, under qemu-user those of arm-set.txt
    #[arg(long, value_name = "FILE")]
    set: Option<String>,
    /// For how long to stress
    #[arg(long, default_value_t = 40)]
    seconds: u64,
}

/// Where the run-tests are named that are worth their time under qemu-user.
const ARM_SET: &str = "lab/android-10/run-tests/arm-set.txt";

/// A check, from its command line.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Check {
    #[command(subcommand)]
    what: Verify,
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
    for check in &mut checks {
        check.extend(["--isa", options.isa.name()]);
    }
    (checks.iter())
        .map(|check| check.iter().map(ToString::to_string).collect())
        .collect()
}

/// Runs all, whatever the others find. The result is whether none found a problem.
pub(super) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let mut wrong = Vec::new();
    for arguments in checks(options) {
        let line = arguments.join(" ");
        println!("# cargo xtask verify {line}");
        let check = Check::try_parse_from(arguments)?;
        match super::check(&check.what, checkout) {
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

    /// What `cargo xtask verify` takes.
    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct CommandLine {
        #[command(flatten)]
        verify: super::super::Arguments,
    }

    fn lines(arguments: &[&str]) -> Vec<String> {
        let parsed = CommandLine::try_parse_from(arguments).unwrap().verify;
        assert!(parsed.what.is_none());
        let checks = checks(&parsed.recording);
        for check in &checks {
            Check::try_parse_from(check).unwrap();
        }
        checks.iter().map(|check| check.join(" ")).collect()
    }

    #[test]
    fn what_is_checked_of_the_recording() {
        assert_eq!(
            lines(&["--seconds", "9"]),
            [
                "oracle --isa x86_64",
                "balance --all --isa x86_64",
                "stress --seconds 9 --isa x86_64",
            ]
        );
        assert_eq!(
            lines(&["--isa", "arm"])[1..],
            [
                format!("oracle --set {ARM_SET} --isa arm"),
                format!("balance --set {ARM_SET} --isa arm"),
                "stress --seconds 40 --isa arm".to_owned(),
            ]
        );
        assert!(lines(&["--set", "some"]).contains(&"balance --set some --isa x86_64".to_owned()));
    }

    #[test]
    fn one_check_is_still_one() {
        let parsed = CommandLine::try_parse_from(["stress", "--isa", "arm"]).unwrap();
        assert!(matches!(parsed.verify.what, Some(Verify::Stress(_))));
        assert!(CommandLine::try_parse_from(["--isa", "arm", "stress"]).is_err());
    }
}
