// SPDX-License-Identifier: Apache-2.0
//! Readers of other formats than `.hindsight`. `docs/file-formats.md` has their layouts.

pub mod art_trace;
pub mod hubble;
pub mod nanoscope;
pub(crate) mod shared_memory;
