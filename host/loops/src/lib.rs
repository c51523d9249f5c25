// SPDX-License-Identifier: Apache-2.0
//! Loops in methods whose branches were traced (rules `trace CLASS.METHOD`, `docs/events.md`): how often each went round,
//! which branches could leave it and did not, and which fields those branches read (the yield loops of Argus, USENIX ATC
//! 2021, section 3.3, where the field's address has to be searched for in register values; dex code names it).
//!
//! What is taken is recorded; what a branch reads comes from the method's dex code.

mod branches;
mod dex;
mod find;
mod sources;
mod taken;

pub use branches::{traced_calls, Edge, TracedCall};
pub use dex::{Archive, ArchiveError, Code, Dex, FieldName, MethodName};
pub use find::{loops, Exit, Loop, Sense};
pub use sources::Source;
