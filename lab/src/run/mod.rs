// SPDX-License-Identifier: Apache-2.0
//! Runs the programs of a finished build: dalvikvm, dex2oat, and apps on the framework.

mod boot;
mod files;
mod framework;
mod java;
mod javastream;
mod lab;

pub(crate) use files::java_files;
pub use framework::{App, Execution, Framework};
pub use java::JavaLibrary;
pub use lab::Lab;
