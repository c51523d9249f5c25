// SPDX-License-Identifier: Apache-2.0
//! The program hindsight-upload.

use std::process::ExitCode;

use hindsight_uploader::{client, parse, run, run_once, HELP};

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|a| a.to_string_lossy().into_owned());
    let failed = |message: &dyn std::fmt::Display| {
        eprintln!("hindsight-upload: {message}");
        ExitCode::FAILURE
    };
    let options = match parse(arguments) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => return failed(&message),
    };
    let collector = client(&options.ca, &options.host, options.port, options.deadline);
    let collector = match collector {
        Ok(collector) => collector,
        Err(message) => return failed(&message),
    };
    if !options.once {
        run(&options, &collector);
    }
    match run_once(&options, &collector) {
        Ok(_) => ExitCode::SUCCESS,
        Err(e) => failed(&e),
    }
}
