// SPDX-License-Identifier: Apache-2.0
//! The fixed registers of trace points, and the offsets that instructions reach.

use hindsight_codegen_core::Isa;

use crate::regs::{Reg, RegSet};

/// The register that holds ART's `Thread*`.
pub const THREAD_REGISTER: Reg = Reg::R9;

/// The registers that a trace point can neither change nor take the method from.
pub(crate) const RESERVED: RegSet = RegSet::of(&[THREAD_REGISTER, Reg::Sp, Reg::Pc]);

/// The T32 instructions of the 32-bit Arm architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thumb2 {}

impl Isa for Thumb2 {
    type Reg = Reg;
    type RegSet = RegSet;

    const NAME: &'static str = "Thumb-2";
    const RESERVED_REGISTERS: &'static str =
        "r9 holds the thread, sp the stack and pc the program counter";
    const WORD_BYTES: i32 = 4;
    // `ldr.w` and `str.w` encode the offset in 12 bits, in bytes; the word is aligned.
    const MAX_WORD_OFFSET: i32 = 4092;
    // Later exits do not share the first exit's jump.
    const MIN_SHARED_EXIT: i32 = 0;
    // `ldrb.w` encodes the offset in 12 bits.
    #[cfg(feature = "comparison")]
    const MAX_POLL_OFFSET: i32 = 4095;
    // `pldw` encodes a positive offset in 12 bits, and a negative one in 8.
    #[cfg(feature = "comparison")]
    const PREFETCH_DISTANCES: std::ops::RangeInclusive<i32> = -255..=4095;

    fn thread_operand(offset: i32) -> String {
        format!("[r9, #{offset}]")
    }
}
