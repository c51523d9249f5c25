// SPDX-License-Identifier: Apache-2.0
//! Core registers and sets of them.

use std::fmt;

/// A core register, numbered as in the instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "they are named after the registers")]
pub enum Reg {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R4 = 4,
    R5 = 5,
    R6 = 6,
    R7 = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
    Ip = 12,
    Sp = 13,
    Lr = 14,
    Pc = 15,
}

impl Reg {
    /// All of them, in the order of their numbers.
    pub const ALL: [Reg; 16] = [
        Reg::R0,
        Reg::R1,
        Reg::R2,
        Reg::R3,
        Reg::R4,
        Reg::R5,
        Reg::R6,
        Reg::R7,
        Reg::R8,
        Reg::R9,
        Reg::R10,
        Reg::R11,
        Reg::Ip,
        Reg::Sp,
        Reg::Lr,
        Reg::Pc,
    ];

    /// The register with this number, if there is one.
    pub fn from_number(number: u8) -> Option<Reg> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Its number in the instruction set.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Whether it is one of r0 to r7, which 16-bit instructions can name.
    pub const fn is_low(self) -> bool {
        self.number() < 8
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// A set of core registers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RegSet(u16);

impl RegSet {
    /// No register.
    pub const EMPTY: RegSet = RegSet(0);

    /// These registers.
    pub const fn of(registers: &[Reg]) -> RegSet {
        let mut set = RegSet::EMPTY;
        let mut i = 0;
        while i < registers.len() {
            set = set.with(registers[i]);
            i += 1;
        }
        set
    }

    /// This set and `register`.
    pub const fn with(self, register: Reg) -> RegSet {
        RegSet(self.0 | 1 << register.number())
    }

    /// This set but for `register`.
    pub const fn without(self, register: Reg) -> RegSet {
        RegSet(self.0 & !(1 << register.number()))
    }

    /// Whether `register` is in it.
    pub const fn contains(self, register: Reg) -> bool {
        self.0 & 1 << register.number() != 0
    }

    /// Its registers, in the order of their numbers.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Reg> {
        Reg::ALL.into_iter().filter(move |r| self.contains(*r))
    }
}

impl FromIterator<Reg> for RegSet {
    fn from_iter<I: IntoIterator<Item = Reg>>(registers: I) -> RegSet {
        registers.into_iter().fold(RegSet::EMPTY, RegSet::with)
    }
}

impl fmt::Debug for RegSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl fmt::Display for RegSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, register) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{register}")?;
        }
        f.write_str("}")
    }
}
