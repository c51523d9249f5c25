// SPDX-License-Identifier: Apache-2.0
//! `lab run-test`: ART's own run-tests (`art/test/NNN-*`), built, run and checked as AOSP's `art/test/run-test` does.
//!
//! A test is a folder with sources, `expected.txt` and, where the defaults don't do, its own `build`, `run` and `check`
//! scripts. Those scripts, `default-build` and `run-test-jar` are AOSP's and are used as they are (a handful of lines are
//! adapted, see [`scripts`]); what AOSP's top-level `run-test` does around them is done here, so that
//! * a test is built once and its build kept, whatever the mode and the variant of ART it then runs on ([`build`]);
//! * the Java tools stay warm in one JVM per worker instead of starting one JVM per call ([`tools`]);
//! * a test that hangs is killed with everything that it started ([`process`]).

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
pub use tools::client as tool_client;
