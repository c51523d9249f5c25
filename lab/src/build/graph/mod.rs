// SPDX-License-Identifier: Apache-2.0
//! The Ninja graph of the native part.
//!
//! Which files a library consists of is read from the `Android.bp` files. What they don't say
//! outside Soong (flags, include folders, Debian's names of libraries) is in the tables of each
//! release ([`crate::release`]).
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
