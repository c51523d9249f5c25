// SPDX-License-Identifier: Apache-2.0
//! Core registers and sets of them.

hindsight_codegen_core::registers! {
    u16: R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, R11, Ip, Sp, Lr, Pc
}

impl Reg {
    /// Whether it is one of r0 to r7, which 16-bit instructions can name.
    pub const fn is_low(self) -> bool {
        self.number() < 8
    }
}
