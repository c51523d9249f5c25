// SPDX-License-Identifier: Apache-2.0
//! The fixed register of trace points, and the offsets that instructions reach.

use hindsight_codegen_core::Isa;

use crate::regs::{Reg, RegSet};

/// The register that holds the address of the slot being written: ART's scratch register.
pub const CURSOR_REGISTER: Reg = Reg::R11;

/// The 64-bit mode of the x86 architecture. The base of gs is the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum X86_64 {}

impl Isa for X86_64 {
    type Reg = Reg;
    type RegSet = RegSet;

    const NAME: &'static str = "x86-64";
    const RESERVED_REGISTERS: &'static str = "r11 holds the cursor and rsp the stack";
    const WORD_BYTES: i32 = 8;
    // A displacement has 32 bits, with its sign.
    const MAX_WORD_OFFSET: i32 = i32::MAX - 7;
    // The exit's test and its long jump, 18 bytes, are behind the place that the distance starts at.
    const MIN_SHARED_EXIT: i32 = i32::MIN + 18;
    #[cfg(feature = "comparison")]
    const MAX_POLL_OFFSET: i32 = i32::MAX;
    #[cfg(feature = "comparison")]
    const PREFETCH_DISTANCES: std::ops::RangeInclusive<i32> = i32::MIN..=i32::MAX;

    fn thread_operand(offset: i32) -> String {
        format!("gs:{offset}")
    }
}
