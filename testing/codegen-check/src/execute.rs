// SPDX-License-Identifier: Apache-2.0
//! Runs a freestanding program under an emulator.

use std::path::Path;
use std::process::{Command, Output};

use crate::tools::missing;
use crate::Isa;

/// Assembles and links a freestanding program (`_start`), runs it under qemu, and returns its output. `None` if a tool
/// is missing, and for x86-64, which needs no emulator.
///
/// # Panics
/// If a tool or the program fails, or if a tool is missing and `HINDSIGHT_REQUIRE_TOOLS` is 1.
pub fn execute(isa: Isa, source: &str) -> Option<Vec<u8>> {
    let (prefix, qemu) = match isa {
        Isa::Aarch64 => ("aarch64-linux-gnu", "qemu-aarch64"),
        Isa::Thumb2 => ("arm-linux-gnueabihf", "qemu-arm"),
        Isa::X86_64 => return None,
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [text, object, program] = ["run.s", "run.o", "run"].map(|file| folder.path().join(file));
    std::fs::write(&text, source).expect("the source is written");
    let o = Path::new("-o");
    run(&format!("{prefix}-as"), &[o, &object, &text])?;
    run(&format!("{prefix}-ld"), &[o, &program, &object])?;
    // Wrong code may run for ever.
    let limited = ["--kill-after=1", "60", qemu].map(Path::new);
    let output = run("timeout", &[&limited[..], &[&program]].concat())?;
    Some(output.stdout)
}

/// Runs a program; `None` if it is missing.
fn run(program: &str, arguments: &[&Path]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            let complaint = String::from_utf8_lossy(&output.stderr);
            let status = output.status;
            if program == "timeout" && status.code() == Some(127) {
                missing(&complaint);
                return None;
            }
            assert!(status.success(), "{program}: {status}: {complaint}");
            Some(output)
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            missing(program);
            None
        }
        Err(e) => panic!("{program}: {e}"),
    }
}
