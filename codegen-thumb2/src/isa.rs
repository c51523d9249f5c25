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
    // `ldr.w` and `str.w` have 12 bits for it, in bytes.
    const MAX_WORD_OFFSET: i32 = 4092;
    // There are no later exits.
    const MIN_SHARED_EXIT: i32 = 0;
    // `ldrb.w` has 12 bits for it.
    #[cfg(feature = "comparison")]
    const MAX_POLL_OFFSET: i32 = 4095;
    // `pldw` has 12 bits for it upwards, and 8 downwards.
    #[cfg(feature = "comparison")]
    const PREFETCH_DISTANCES: std::ops::RangeInclusive<i32> = -255..=4095;

    fn thread_operand(offset: i32) -> String {
        format!("[r9, #{offset}]")
    }
}
