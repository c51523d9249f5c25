// SPDX-License-Identifier: Apache-2.0
//! A finding.

use std::fmt;

/// A violation of a rule, shown as `file:line: what, and how to mend it`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// Path in the checkout.
    pub(crate) file: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// The violation and its remedy.
    pub(crate) what: String,
}

impl Problem {
    pub(crate) fn new(file: impl Into<String>, line: usize, what: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}
