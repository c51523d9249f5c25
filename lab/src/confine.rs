// SPDX-License-Identifier: Apache-2.0
//! The program that starts others as Android's zygote starts apps (`lab/vm/confine.c`).

use crate::error::Result;
use crate::layout::checkout_dir;
use crate::util::run;
use std::path::Path;
use std::process::Command;

/// Compiles the program. It needs no libraries; its source has its arguments.
///
/// # Errors
/// If the compiler fails.
pub fn compile_confine(output: &Path) -> Result<()> {
    let mut command = Command::new("clang-14");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"]);
    command
        .arg(output)
        .arg(checkout_dir()?.join("lab/vm/confine.c"));
    run(command, "compiling confine.c").map(drop)
}
