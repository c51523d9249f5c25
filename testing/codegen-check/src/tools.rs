// SPDX-License-Identifier: Apache-2.0
//! Tools that may be missing.

use std::io::Write as _;

/// Debian's packages with the tools.
const PACKAGES: &str = "qemu-user, binutils-aarch64-linux-gnu, binutils-arm-linux-gnueabihf, llvm";

/// Says that a check is skipped because `tool` is missing.
///
/// # Panics
/// If `HINDSIGHT_REQUIRE_TOOLS` is 1.
pub(crate) fn missing(tool: &str) {
    let is_required = std::env::var_os("HINDSIGHT_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    let message = format!("not found: {} (Debian: {PACKAGES})", tool.trim());
    assert!(
        !is_required,
        "{message}; HINDSIGHT_REQUIRE_TOOLS=1 requires it"
    );
    // Not eprintln!, whose text the test harness drops when a test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {message}");
}
