// SPDX-License-Identifier: Apache-2.0
//! hindsightd, the system service. Traced processes introduce themselves and hand over the memory that their rings are in
//! ([`hindsight_trace_format::protocol`]). The service decides how many rings each may use, and what is kept when something
//! goes wrong: also when the process that recorded it has been killed.
//!
//! [`engine`] decides, and does nothing else: it is told of each event and answers with what is to be done. Everything that
//! touches the system is around it.

mod client;
pub mod commands;
pub mod consent;
pub mod context;
pub mod daemon;
pub mod detectors;
pub mod engine;
pub mod ffi;
mod json;
mod key_folder;
pub mod limits;
pub mod os;
pub mod policy;
pub mod report;
pub mod start;
pub mod store;
mod text;
pub mod upload;

use std::ffi::OsString;

/// Runs the service with these arguments, the program's name first as in [`std::env::args_os`], until it is told to end.
/// Returns its exit code: 0, or 1 after an error, which is written to the standard error output.
pub fn run(arguments: impl Iterator<Item = OsString>) -> i32 {
    let arguments: Vec<OsString> = arguments.skip(1).collect();
    match start::run(&arguments) {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("hindsightd: {message}");
            1
        }
    }
}
