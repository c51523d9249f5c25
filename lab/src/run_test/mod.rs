// SPDX-License-Identifier: Apache-2.0
//! `lab run-test`: ART's own run-tests (`art/test/NNN-*`), built, run and checked as AOSP's `art/test/run-test` does.
//!
//! A test is a folder with sources, `expected.txt` and, where the defaults are not enough, its own `build`, `run` and
//! `check` scripts. These scripts, `default-build` and `run-test-jar` are AOSP's, except for a handful of adapted lines
//! (see [`scripts`]). This module replaces AOSP's top-level `run-test`, so that
//! * a test is built once for all modes and variants of ART ([`build`]);
//! * the Java tools stay warm in one JVM per worker, instead of a new JVM per call ([`tools`]);
//! * a test that hangs is killed with all processes that it started ([`process`]).

mod build;
mod execute;
mod files;
mod layout;
mod options;
mod process;
mod report;
mod runner;
mod scripts;
mod session;
mod suite;
mod tools;

pub use layout::Layout;
pub use options::{Mode, Options};
pub use report::{Outcome, Report, Status};
pub use runner::run;
pub use tools::run_as_tool;
