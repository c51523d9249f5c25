// SPDX-License-Identifier: Apache-2.0
//! Commands that take several files: a file that cannot be read is reported, and the command answers for the others.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::page::palette;

/// A file that could not be read.
#[derive(Serialize)]
pub(crate) struct Failure {
    /// The file.
    pub(crate) file: String,
    /// Why, and what to do.
    pub(crate) error: String,
}

impl Failure {
    /// Reports a failure on standard error, and keeps it for JSON.
    pub(crate) fn report(file: &Path, error: &anyhow::Error) -> Self {
        print_error(error);
        Failure {
            file: file.display().to_string(),
            error: with_causes(error),
        }
    }
}

/// Writes `hindsight: …` to standard error.
pub(crate) fn print_error(error: &anyhow::Error) {
    let style = palette(&io::stderr());
    // An error of standard error itself cannot be reported.
    let _ = writeln!(
        io::stderr(),
        "{}hindsight:{} {}",
        style.strong,
        style.reset,
        with_causes(error)
    );
}

/// The error and its causes in one line, without causes that the error's own text contains.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}
