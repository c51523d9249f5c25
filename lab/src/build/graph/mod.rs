// SPDX-License-Identifier: Apache-2.0
//! The Ninja graph of the native part.
//!
//! The `Android.bp` files list the source files of each library. Soong's part (flags, include folders) and Debian's
//! names of libraries are in the tables of each release ([`crate::release`]).
//!
//! All paths are relative to the variant's folder, so that both variants run the same commands
//! and share the compiler cache.

mod boot_images;
mod flags;
mod objects;
mod rules;
mod sources;
mod state;
mod write;

pub(crate) use write::{file_name, write, PROGRAMS};
