// SPDX-License-Identifier: Apache-2.0
//! Writes a scripted trace: `cargo run -p hindsight-testkit --example scene -- stall|busy FILE`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let script = match arguments.first().map(String::as_str) {
        Some("stall") => hindsight_testkit::stall(),
        Some("busy") => hindsight_testkit::busy(25, 1, 8_000, 60),
        _ => {
            eprintln!("usage: scene stall|busy FILE");
            return ExitCode::FAILURE;
        }
    };
    let Some(path) = arguments.get(1) else {
        eprintln!("scene: no FILE was given");
        return ExitCode::FAILURE;
    };
    match script.write(Path::new(path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("scene: {e}");
            ExitCode::FAILURE
        }
    }
}
