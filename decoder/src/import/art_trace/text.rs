// SPDX-License-Identifier: Apache-2.0
//! The text of a trace: facts, threads, methods.

use super::model::Building;
use crate::bytes::{Bytes, Fault};
use crate::methods::Method;

/// Reads from `*version` to the line `*end`.
pub(super) fn section(input: &mut Bytes<'_>, building: &mut Building) -> Result<(), Fault> {
    let mut part = Part::Facts;
    loop {
        let at = input.at();
        let rest = input.rest();
        let Some(length) = rest.iter().position(|&byte| byte == b'\n') else {
            return Err(Fault {
                cut_off: true,
                ..input.fault(
                    "the text ends before its line '*end': the file is cut off, or the program was killed while it wrote it",
                )
            });
        };
        let line = String::from_utf8_lossy(&rest[..length]);
        input.take(length + 1, "a line")?;
        match line.as_ref() {
            "*version" => part = Part::Facts,
            "*threads" => part = Part::Threads,
            "*methods" => part = Part::Methods,
            "*end" => return Ok(()),
            line => match part {
                Part::Facts => fact(line, building),
                Part::Threads => thread(line, building),
                Part::Methods => method(line, building).map_err(|what| Fault::new(at, what))?,
            },
        }
    }
}

enum Part {
    Facts,
    Threads,
    Methods,
}

fn fact(line: &str, building: &mut Building) {
    let trace = &mut building.trace;
    match line.split_once('=') {
        Some(("clock", "dual")) => (trace.has_thread_clock, trace.has_wall_clock) = (true, true),
        Some(("clock", "thread-cpu")) => trace.has_thread_clock = true,
        Some(("clock", _)) => trace.has_wall_clock = true,
        Some(("data-file-overflow", "true")) => trace.overflow = true,
        Some(("pid", pid)) => trace.pid = pid.parse().unwrap_or_default(),
        _ => {}
    }
}

/// `id TAB name`
fn thread(line: &str, building: &mut Building) {
    if let Some((tid, name)) = line.split_once('\t') {
        if let Ok(tid) = tid.trim().parse() {
            building.listed_threads.push((tid, name.to_owned()));
        }
    }
}

/// `number TAB class TAB name TAB signature TAB source file`, and a line with Dalvik.
pub(super) fn method(line: &str, building: &mut Building) -> Result<(), String> {
    let Some((number, names)) = line.split_once('\t') else {
        return Err(format!("{line:?} is no line of the list of methods"));
    };
    let digits = number.trim().trim_start_matches("0x");
    let number = u64::from_str_radix(digits, 16)
        .map_err(|_| format!("{number:?} is no hexadecimal number of a method"))?;
    // The two low bits are the action's.
    name(number & !3, names, building);
    Ok(())
}

/// The fields after a method's number.
pub(super) fn name(number: u64, names: &str, building: &mut Building) {
    let mut fields = names.trim_end_matches('\n').split('\t');
    let mut field = || fields.next().unwrap_or_default();
    let method = Method {
        address: number,
        class: field().replace('/', "."),
        name: field().to_owned(),
        signature: field().to_owned(),
        source_file: field().to_owned(),
        ..Method::default()
    };
    building.names.entry(number).or_insert(method);
}
