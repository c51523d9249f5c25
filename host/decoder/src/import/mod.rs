// SPDX-License-Identifier: Apache-2.0
//! Readers of other programs' formats. `docs/file-formats.md` has their layouts.

pub mod art_trace;
pub mod hubble;
pub mod nanoscope;
