// SPDX-License-Identifier: Apache-2.0
//! Core registers and sets of them.

use std::fmt;

/// A 64-bit core register, numbered as in the instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "they are named after the registers")]
pub enum Reg {
    X0 = 0,
    X1 = 1,
    X2 = 2,
    X3 = 3,
    X4 = 4,
    X5 = 5,
    X6 = 6,
    X7 = 7,
    X8 = 8,
    X9 = 9,
    X10 = 10,
    X11 = 11,
    X12 = 12,
    X13 = 13,
    X14 = 14,
    X15 = 15,
    X16 = 16,
    X17 = 17,
    X18 = 18,
    X19 = 19,
    X20 = 20,
    X21 = 21,
    X22 = 22,
    X23 = 23,
    X24 = 24,
    X25 = 25,
    X26 = 26,
    X27 = 27,
    X28 = 28,
    X29 = 29,
    X30 = 30,
    /// The stack pointer. Other instructions mean the zero register by its number.
    Sp = 31,
}

impl Reg {
    /// All of them, in the order of their numbers.
    pub const ALL: [Reg; 32] = [
        Reg::X0,
        Reg::X1,
        Reg::X2,
        Reg::X3,
        Reg::X4,
        Reg::X5,
        Reg::X6,
        Reg::X7,
        Reg::X8,
        Reg::X9,
        Reg::X10,
        Reg::X11,
        Reg::X12,
        Reg::X13,
        Reg::X14,
        Reg::X15,
        Reg::X16,
        Reg::X17,
        Reg::X18,
        Reg::X19,
        Reg::X20,
        Reg::X21,
        Reg::X22,
        Reg::X23,
        Reg::X24,
        Reg::X25,
        Reg::X26,
        Reg::X27,
        Reg::X28,
        Reg::X29,
        Reg::X30,
        Reg::Sp,
    ];

    /// The register with this number, if there is one.
    pub fn from_number(number: u8) -> Option<Reg> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Its number in the instruction set.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// A set of core registers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RegSet(u32);

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
