// SPDX-License-Identifier: Apache-2.0
//! The lab: a real ART for Linux, built from Debian's source packages.
//!
//! [`build`] fetches, patches and compiles a [`Variant`] of ART, its core libraries and its boot
//! image into the cache folder. [`Lab::open`] finds such a build and starts its programs:
//!
//! ```no_run
//! use hindsight_lab::{Isa, Lab, Release, Variant};
//! # fn main() -> hindsight_lab::Result<()> {
//! let lab = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight)?;
//! let status = lab.dalvikvm_command().args(["-cp", "hello.jar", "Hello"]).status();
//! # Ok(()) }
//! ```
//!
//! Everything lives under one folder, `$HINDSIGHT_CACHE` (default `~/.cache/hindsight`); its
//! layout is described in `docs/lab.md`.

mod boot_image;
mod build;
pub mod cases;
mod confine;
pub mod device;
mod error;
mod layout;
mod lock;
mod progress;
mod release;
mod run;
pub mod run_test;
mod spec;
mod toolchain;
mod util;
pub mod vm;

pub use boot_image::{BootImage, BootImageSpec, BootJar};
pub use build::{build, checkout, clean, fetch, BuildOptions};
pub use confine::compile_confine;
pub use error::{Error, Result};
pub use layout::{cache_dir, checkout_dir};
pub use run::{App, Execution, Framework, JavaLibrary, Lab};
pub use spec::{Isa, Parts, Release, Variant};
