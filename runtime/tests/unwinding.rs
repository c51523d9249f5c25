// SPDX-License-Identifier: Apache-2.0
//! The crate refuses to be built so that panics end the process.

use std::path::Path;
use std::process::Command;

/// The compiler's messages for the module, and whether it accepts it.
fn compile(panic: &str) -> (String, bool) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::var("RUSTC").unwrap_or("rustc".into()))
        .args(["--crate-type", "lib", "--emit", "metadata", "--out-dir"])
        .arg(folder.path())
        .args(["-C", &format!("panic={panic}")])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/unwinding.rs"))
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    (messages, output.status.success())
}

#[test]
fn a_build_whose_panics_end_the_process_is_refused() {
    let (messages, is_accepted) = compile("abort");
    assert!(!is_accepted, "{messages}");
    assert!(messages.contains("needs panic=unwind"), "{messages}");
    let (messages, is_accepted) = compile("unwind");
    assert!(is_accepted, "{messages}");
}
