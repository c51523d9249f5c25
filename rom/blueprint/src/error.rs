// SPDX-License-Identifier: Apache-2.0
//! The errors of this crate.

use std::path::PathBuf;

/// An error in a file, or in a question about its modules.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not Blueprint (or uses a part of the language that is not supported).
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// Name of the file as given to [`parse`].
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// The token found, and the one expected.
        message: String,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// No loaded file defines a module that the caller or another module names.
    #[error("no module `{name}` in the loaded Android.bp files{}", wanted_by(.by))]
    NoModule {
        /// The missing name.
        name: String,
        /// The module that refers to it; empty if the caller asked for it.
        by: String,
    },
    /// Two files define a module of the same name.
    #[error("{second}:{line}: module `{name}` is also defined in {first}")]
    Duplicate {
        /// The module's name.
        name: String,
        /// The file that defined it first.
        first: String,
        /// The file that defines it again.
        second: String,
        /// The line in the second file.
        line: usize,
    },
    /// A property has another type than expected.
    #[error("{file}:{line}: `{property}` of module `{module}` is {found}, not {expected}")]
    Type {
        /// The file of the module.
        file: String,
        /// The line of the module.
        line: usize,
        /// The module's name.
        module: String,
        /// The property, with its path (`target.linux.srcs`).
        property: String,
        /// The type found.
        found: &'static str,
        /// The type expected.
        expected: &'static str,
    },
    /// A module inherits from itself through its defaults or filegroups.
    #[error("module `{0}` refers to itself through its defaults or sources")]
    Cycle(String),
}

fn wanted_by(by: &str) -> String {
    if by.is_empty() {
        String::new()
    } else {
        format!(" (needed by `{by}`)")
    }
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
