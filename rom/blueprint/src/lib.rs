// SPDX-License-Identifier: Apache-2.0
//! Reads Blueprint, the language of `Android.bp` files.
//!
//! [`parse`] turns the text of one file into a [`File`] (variables are evaluated on the way).
//! [`Tree`] holds the modules of many files and answers a build's questions: the sources and lists of a
//! module, with its defaults, its architecture's and its target's properties merged in.
//!
//! The syntax is the part that the files of ART and libcore use: `select`, `if` and the list functions of
//! newer Soong are reported as syntax errors, with their line.

mod error;
mod lexer;
mod parser;
mod tree;

pub use error::{Error, Result};
pub use parser::{parse, File, Map, Module, Value};
pub use tree::{Source, Tree, Variation};
