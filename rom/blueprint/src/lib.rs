// SPDX-License-Identifier: Apache-2.0
//! Reads Blueprint, the language of `Android.bp` files.
//!
//! [`parse`] turns the text of one file into a [`File`] (variables are evaluated on the way).
//! [`Tree`] holds the modules of many files and answers what a build needs to know: the sources
//! of a module with its defaults, its architecture and target properties merged in.
//!
//! Only reading is supported, and only what ART's and libcore's files use: `select`, `if` and
//! the list functions of newer Soong are reported as syntax errors with their line.

mod error;
mod lexer;
mod parser;
mod tree;

pub use error::{Error, Result};
pub use parser::{parse, File, Map, Module, Value};
pub use tree::{Source, Tree, Variation};
