// SPDX-License-Identifier: Apache-2.0
//! The T32 instructions that trace points consist of.
//!
//! Each function encodes one instruction. The names of the encodings (T1, …) are from the Arm Architecture Reference
//! Manual. The caller has checked that the operands fit.

use crate::regs::Reg;

/// A branch whose target is not known yet.
#[must_use]
pub(crate) struct Branch {
    at: usize,
    reach: Reach,
}

/// The field of a branch that holds the distance.
enum Reach {
    /// Of `cbz` and `cbnz`: up to 126 bytes, in two parts.
    Compare,
    /// Of a conditional branch: up to 254 bytes.
    #[cfg(feature = "comparison")]
    Condition,
    /// Of an unconditional branch: up to 2046 bytes.
    #[cfg(feature = "comparison")]
    Always,
}

/// Code being assembled. A 32-bit instruction is two little-endian halfwords, the upper one first.
pub(crate) struct Assembler {
    bytes: Vec<u8>,
}

impl Assembler {
    pub(crate) fn new() -> Self {
        // Enough for the longest trace point of the inline form: an exit with a barrier and a prefetch.
        Assembler {
            bytes: Vec::with_capacity(30),
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn halfword(&mut self, halfword: u16) {
        self.bytes.extend(halfword.to_le_bytes());
    }

    fn word(&mut self, upper: u16, lower: u16) {
        self.halfword(upper);
        self.halfword(lower);
    }

    /// `ldr.w rt, [rn, #offset]` (T3; `rn` is not pc, `offset` less than 4096). With pc as `rt` a jump, to Thumb code
    /// if the lowest bit of the loaded word is set.
    pub(crate) fn ldr(&mut self, rt: Reg, rn: Reg, offset: u16) {
        debug_assert!(offset < 1 << 12 && rn != Reg::Pc);
        self.word(0xf8d0 | n(rn), n(rt) << 12 | offset);
    }

    /// `ldrb.w rt, [rn, #offset]` (T2; `rt` is neither sp nor pc, `rn` not pc, `offset` less than 4096).
    #[cfg(feature = "comparison")]
    pub(crate) fn ldrb(&mut self, rt: Reg, rn: Reg, offset: u16) {
        debug_assert!(offset < 1 << 12 && rt != Reg::Sp && rt != Reg::Pc && rn != Reg::Pc);
        self.word(0xf890 | n(rn), n(rt) << 12 | offset);
    }

    /// `str.w rt, [rn, #offset]` (T3; the same limits as `ldr`, and `rt` is not pc).
    pub(crate) fn str(&mut self, rt: Reg, rn: Reg, offset: u16) {
        debug_assert!(offset < 1 << 12 && rt != Reg::Pc && rn != Reg::Pc);
        self.word(0xf8c0 | n(rn), n(rt) << 12 | offset);
    }

    /// `strd rt, rt2, [rn], #step` (T1, post-indexed; a multiple of 4 up to 1020; `rn` differs from
    /// both others, none is sp or pc).
    pub(crate) fn strd_post(&mut self, rt: Reg, rt2: Reg, rn: Reg, step: u16) {
        debug_assert!(step % 4 == 0 && step <= 1020 && rn != rt && rn != rt2);
        self.word(
            STRD_POST | n(rn),
            n(rt) << 12 | n(rt2) << 8 | strd_step(step),
        );
    }

    /// `strd rt, rt2, [rn, #offset]` (T1; a multiple of 4 up to 1020; none is sp or pc).
    #[cfg(feature = "comparison")]
    pub(crate) fn strd(&mut self, rt: Reg, rt2: Reg, rn: Reg, offset: u16) {
        debug_assert!(offset % 4 == 0 && offset <= 1020);
        self.word(
            0xe9c0 | n(rn),
            n(rt) << 12 | n(rt2) << 8 | strd_step(offset),
        );
    }

    /// `str rt, [rn]` (T1 if both registers are low, else T3).
    #[cfg(feature = "comparison")]
    pub(crate) fn str_bare(&mut self, rt: Reg, rn: Reg) {
        if rt.is_low() && rn.is_low() {
            self.halfword(0x6000 | n(rn) << 3 | n(rt));
        } else {
            self.str(rt, rn, 0);
        }
    }

    /// `pldw [rn, #offset]` (T1, T2; from -255 to 4095; `rn` is not pc).
    #[cfg(feature = "comparison")]
    pub(crate) fn pldw(&mut self, rn: Reg, offset: i16) {
        debug_assert!((-255..=4095).contains(&offset) && rn != Reg::Pc);
        match u16::try_from(offset) {
            Ok(offset) => self.word(0xf8b0 | n(rn), 0xf000 | offset),
            Err(_) => self.word(0xf830 | n(rn), 0xfc00 | offset.unsigned_abs()),
        }
    }

    /// `add.w rd, rn, #value` (T3, which keeps the flags; less than 256).
    #[cfg(feature = "comparison")]
    pub(crate) fn add(&mut self, rd: Reg, rn: Reg, value: u8) {
        self.word(0xf100 | n(rn), n(rd) << 8 | u16::from(value));
    }

    /// `bfi rd, rn, #0, #bits` (T1; from 1 to 32).
    #[cfg(feature = "comparison")]
    pub(crate) fn bfi(&mut self, rd: Reg, rn: Reg, bits: u16) {
        debug_assert!((1..=32).contains(&bits));
        self.word(0xf360 | n(rn), n(rd) << 8 | (bits - 1));
    }

    /// `cmp.w rn, #0` (T2).
    #[cfg(feature = "comparison")]
    pub(crate) fn compare_zero(&mut self, rn: Reg) {
        self.word(0xf1b0 | n(rn), 0x0f00);
    }

    /// `cmp rn, rm` (T1 if both are low, else T2).
    #[cfg(feature = "comparison")]
    pub(crate) fn compare(&mut self, rn: Reg, rm: Reg) {
        if rn.is_low() && rm.is_low() {
            self.halfword(0x4280 | n(rm) << 3 | n(rn));
        } else {
            self.halfword(0x4500 | (n(rn) & 8) << 4 | n(rm) << 3 | n(rn) & 7);
        }
    }

    /// `mrrc p15, opc1, rt, rt2, c14` (T1): the low half to `rt`, the high one to `rt2`, which differs.
    pub(crate) fn mrrc_timer(&mut self, opc1: u16, rt: Reg, rt2: Reg) {
        debug_assert!(opc1 < 16 && rt != rt2);
        self.word(0xec50 | n(rt2), n(rt) << 12 | 0xf00 | opc1 << 4 | 0xe);
    }

    /// `isb sy` (T1).
    #[cfg(feature = "comparison")]
    pub(crate) fn isb(&mut self) {
        self.word(0xf3bf, 0x8f6f);
    }

    /// `mov.w rd, #0` (T2), which keeps the flags. The 16-bit encoding sets them outside of an IT block.
    pub(crate) fn zero(&mut self, rd: Reg) {
        self.word(0xf04f, n(rd) << 8);
    }

    /// `cbz rn, …` (T1; a low register), forwards only.
    pub(crate) fn cbz(&mut self, rn: Reg) -> Branch {
        debug_assert!(rn.is_low());
        let at = self.bytes.len();
        self.halfword(0xb100 | n(rn));
        let reach = Reach::Compare;
        Branch { at, reach }
    }

    /// `cbnz rn, …` (T1; a low register), forwards only.
    pub(crate) fn cbnz(&mut self, rn: Reg) -> Branch {
        debug_assert!(rn.is_low());
        let at = self.bytes.len();
        self.halfword(0xb900 | n(rn));
        let reach = Reach::Compare;
        Branch { at, reach }
    }

    /// `beq …` (T1), forwards only.
    #[cfg(feature = "comparison")]
    pub(crate) fn beq(&mut self) -> Branch {
        let at = self.bytes.len();
        self.halfword(0xd000);
        let reach = Reach::Condition;
        Branch { at, reach }
    }

    /// `bne …` (T1), forwards only.
    #[cfg(feature = "comparison")]
    pub(crate) fn bne(&mut self) -> Branch {
        let at = self.bytes.len();
        self.halfword(0xd100);
        let reach = Reach::Condition;
        Branch { at, reach }
    }

    /// `b …` (T2), forwards only.
    #[cfg(feature = "comparison")]
    pub(crate) fn b(&mut self) -> Branch {
        let at = self.bytes.len();
        self.halfword(0xe000);
        let reach = Reach::Always;
        Branch { at, reach }
    }

    /// `mov rd, rm` (T1), which keeps the flags.
    pub(crate) fn mov(&mut self, rd: Reg, rm: Reg) {
        debug_assert!(rd != Reg::Pc && rm != Reg::Pc);
        self.halfword(0x4600 | (n(rd) & 8) << 4 | n(rm) << 3 | n(rd) & 7);
    }

    /// `bx rm` (T1).
    pub(crate) fn bx(&mut self, rm: Reg) {
        self.halfword(0x4700 | n(rm) << 3);
    }

    /// `blx rm` (T1; not pc).
    pub(crate) fn blx(&mut self, rm: Reg) {
        debug_assert!(rm != Reg::Pc);
        self.halfword(0x4780 | n(rm) << 3);
    }

    /// Makes the end of the code, at least 4 bytes behind `branch`, its target.
    pub(crate) fn land(&mut self, branch: Branch) {
        // From the program counter, which reads as 4 bytes behind the instruction.
        let distance = self.bytes.len() - branch.at - 4;
        let (limit, field) = match branch.reach {
            Reach::Compare => (126, (distance >> 6 & 1) << 9 | (distance >> 1 & 0x1f) << 3),
            #[cfg(feature = "comparison")]
            Reach::Condition => (254, distance >> 1),
            #[cfg(feature = "comparison")]
            Reach::Always => (2046, distance >> 1),
        };
        debug_assert!(distance <= limit && distance % 2 == 0);
        let at = branch.at;
        let halfword = u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]);
        let patched = halfword | field as u16;
        self.bytes[at..at + 2].copy_from_slice(&patched.to_le_bytes());
    }
}

/// The upper halfword of [`Assembler::strd_post`], without `rn`: P = 0, U = 1, W = 1.
pub(crate) const STRD_POST: u16 = 0xe8e0;

/// The field of a `strd` that holds its offset.
pub(crate) const fn strd_step(bytes: u16) -> u16 {
    bytes / 4
}

fn n(register: Reg) -> u16 {
    u16::from(register.number())
}
