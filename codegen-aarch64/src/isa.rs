// SPDX-License-Identifier: Apache-2.0
//! The fixed registers of trace points, and the offsets that instructions reach.

use hindsight_codegen_core::Isa;

use crate::regs::{Reg, RegSet};

/// The register that holds the address of the slot being written: the platform's first scratch register.
pub const CURSOR_REGISTER: Reg = Reg::X16;
/// The register that holds the counter: the platform's second scratch register.
pub const SCRATCH_REGISTER: Reg = Reg::X17;
/// The register that holds the thread, in ART's compiled code.
pub const THREAD_REGISTER: Reg = Reg::X19;

/// The 64-bit state of the Arm architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aarch64 {}

impl Isa for Aarch64 {
    type Reg = Reg;
    type RegSet = RegSet;

    const NAME: &'static str = "AArch64";
    const RESERVED_REGISTERS: &'static str =
        "x16 holds the cursor, x17 the counter, x19 the thread and sp the stack";
    const WORD_BYTES: i32 = 8;
    // `ldr` and `str` have 12 bits for it, in units of words.
    const MAX_WORD_OFFSET: i32 = 4095 * 8;
    // `cbnz`, the second instruction, goes back 1 MiB.
    const MIN_SHARED_EXIT: i32 = 4 - (1 << 20);
    // `ldrb` has 12 bits for it.
    #[cfg(feature = "comparison")]
    const MAX_POLL_OFFSET: i32 = 4095;
    // `prfum` has 9 bits for it.
    #[cfg(feature = "comparison")]
    const PREFETCH_DISTANCES: std::ops::RangeInclusive<i32> = -256..=255;

    fn thread_operand(offset: i32) -> String {
        format!("[x19, #{offset}]")
    }
}
