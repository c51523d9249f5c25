// SPDX-License-Identifier: Apache-2.0
//! The memory file in which a process keeps its rings, stacks and names, so that they can be read after it was killed.
//! `hindsight_trace_format::shared` defines what is where.

mod header;
mod layout;
mod mapping;
mod memfd;
mod names;
mod ring;
mod room;

pub(crate) use header::Facts;
pub(crate) use layout::Sizes;
pub(crate) use mapping::SharedMemory;
#[cfg(not(feature = "loom"))]
pub(crate) use ring::{SharedRing, View};
