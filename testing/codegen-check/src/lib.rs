// SPDX-License-Identifier: Apache-2.0
//! Independent views of the machine code of trace points, for the emitters' tests and for the tables: what
//! a disassembler makes of it, what other assemblers make of its text, what an emulator makes of running
//! it.

mod assemble;
mod disassemble;
mod execute;

pub use assemble::assert_assemblers_agree;
pub use disassemble::{Disassembler, Instruction};
pub use execute::execute;

/// An instruction set that trace points are emitted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit ARM, in Thumb state.
    Thumb2,
    /// 64-bit x86.
    X86_64,
}
