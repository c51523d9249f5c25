// SPDX-License-Identifier: Apache-2.0
//! A reader of dex files, by the published format (source.android.com, "Dalvik executable format"): only what is needed to
//! find a method's code, and the names in it.

mod archive;
mod file;
mod instruction;

pub use archive::{Archive, ArchiveError};
pub use file::{Code, Dex, FieldName, MethodName};
pub(crate) use instruction::{decode, switch_targets, Kind};
