// SPDX-License-Identifier: Apache-2.0
//! Core registers and sets of them.

use std::fmt;

/// A core register, numbered as in the instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "they are named after the registers")]
pub enum Reg {
    Rax = 0,
    Rcx = 1,
    Rdx = 2,
    Rbx = 3,
    Rsp = 4,
    Rbp = 5,
    Rsi = 6,
    Rdi = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
    R12 = 12,
    R13 = 13,
    R14 = 14,
    R15 = 15,
}

impl Reg {
    /// All of them, in the order of their numbers.
    pub const ALL: [Reg; 16] = [
        Reg::Rax,
        Reg::Rcx,
        Reg::Rdx,
        Reg::Rbx,
        Reg::Rsp,
        Reg::Rbp,
        Reg::Rsi,
        Reg::Rdi,
        Reg::R8,
        Reg::R9,
        Reg::R10,
        Reg::R11,
        Reg::R12,
        Reg::R13,
        Reg::R14,
        Reg::R15,
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
