// SPDX-License-Identifier: Apache-2.0
//! Shared by the tests: the checkout, and the treatment of a missing program.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod expected;
pub(crate) mod policy;

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn checkout() -> PathBuf {
    Path::new(env!("HINDSIGHT_CHECKOUT"))
        .canonicalize()
        .unwrap()
}

/// Whether all of these programs can be started, each given with the Debian package that has it. If not, the
/// test is skipped by name; with `HINDSIGHT_REQUIRE_TOOLS=1`, as in CI, it fails.
pub(crate) fn has_tools<P: AsRef<OsStr>>(test: &str, tools: &[(P, &str)]) -> bool {
    for (program, package) in tools {
        // Some print their version and succeed, others reject the option: either shows that they are there.
        let started = Command::new(program)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if started.is_err() {
            let program = program.as_ref().to_string_lossy();
            missing(
                test,
                &format!("no {program}; install the Debian package {package}"),
            );
            return false;
        }
    }
    true
}

/// Skips a test, by name and with the reason; fails it where everything has to be there.
pub(crate) fn missing(test: &str, why: &str) {
    assert!(!tools_are_required(), "{test} needs what is missing: {why}");
    // Not eprintln!, whose text the test harness drops when a test passes.
    let line = format!("skipped: {test}: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Whether a missing program is a failure.
pub(crate) fn tools_are_required() -> bool {
    std::env::var_os("HINDSIGHT_REQUIRE_TOOLS").is_some_and(|value| value == "1")
}
