// SPDX-License-Identifier: Apache-2.0
//! Model checks by loom, and the parts of the machine that it needs replaced.

pub(crate) mod clock;
#[cfg(test)]
mod protocols;
#[cfg(test)]
mod stacks;
