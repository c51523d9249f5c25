// SPDX-License-Identifier: Apache-2.0
//! Independent checks of the machine code of trace points, for the encoders' tests and for the tables in docs: a
//! disassembler, other assemblers, and an emulator.
//!
//! A missing tool skips a check, by name. With `HINDSIGHT_REQUIRE_TOOLS=1`, as in CI, it fails.

mod assemble;
mod disassemble;
mod execute;
mod tools;

pub use assemble::assert_assemblers_agree;
pub use disassemble::{Disassembler, Instruction};
pub use execute::execute;

/// An instruction set with trace points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit ARM, in Thumb state.
    Thumb2,
    /// 64-bit x86.
    X86_64,
}
