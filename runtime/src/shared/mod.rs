// SPDX-License-Identifier: Apache-2.0
//! The memory file in which a process keeps its rings, stacks and names, so that they can be read after it was killed.
//! `hindsight_trace_format::shared` defines what is where.

mod mapping;
mod memfd;
mod names;
mod room;

pub(crate) use mapping::{Facts, SharedMemory, Sizes};
#[cfg(not(feature = "loom"))]
pub(crate) use mapping::{SharedRing, View};
