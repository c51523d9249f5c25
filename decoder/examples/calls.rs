// SPDX-License-Identifier: Apache-2.0
//! Prints the calls of a trace's main thread in the order of their entries: depth, class, method,
//! signature. For comparing recordings with each other.
//!
//! `cargo run -p hindsight-decoder --example calls FILE.hindsight`

use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or("usage: calls FILE.hindsight")?;
    let trace = hindsight_decoder::Trace::open(path.as_ref())?;
    let thread = trace.main_thread().ok_or("no thread in the trace")?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for call in thread.calls.iter() {
        writeln!(out, "{} {}", call.depth, trace.methods.name(call.method))?;
    }
    Ok(())
}
