// SPDX-License-Identifier: Apache-2.0
//! An instruction set's registers, and the offsets that its instructions reach.

use std::fmt::{Debug, Display};
use std::hash::Hash;

/// A core register.
pub trait Register: Copy + Debug + Display + Eq + Ord + Hash + 'static {
    /// Its number in the instruction set.
    fn number(self) -> u8;

    /// The register with this number, if there is one.
    fn from_number(number: u8) -> Option<Self>;
}

/// A set of core registers.
pub trait RegisterSet<R: Register>:
    Copy + Debug + Display + Default + Eq + Hash + FromIterator<R> + 'static
{
    /// No register.
    const EMPTY: Self;

    /// Whether `register` is in it.
    fn contains(self, register: R) -> bool;
}

/// An instruction set. Offsets are in bytes from the thread register.
pub trait Isa: Copy + Debug + Eq + Hash + 'static {
    /// Its core registers.
    type Reg: Register;
    /// Sets of them.
    type RegSet: RegisterSet<Self::Reg>;

    /// Its name in messages.
    const NAME: &'static str;
    /// The registers that can neither hold the method nor be free, each with its use, for messages.
    const RESERVED_REGISTERS: &'static str;
    /// Size and alignment of the words in the thread, in bytes.
    const WORD_BYTES: i32;
    /// The greatest offset of a word that a load and a store reach.
    const MAX_WORD_OFFSET: i32;
    /// The least distance from a later exit to the first exit's jump, in bytes.
    const MIN_SHARED_EXIT: i32;
    /// The greatest offset of the poll byte that a load reaches.
    #[cfg(feature = "comparison")]
    const MAX_POLL_OFFSET: i32;
    /// The distances of a prefetch that an instruction can encode, in bytes.
    #[cfg(feature = "comparison")]
    const PREFETCH_DISTANCES: std::ops::RangeInclusive<i32>;

    /// The operand of an instruction that addresses the thread at `offset`, in the assembler's syntax.
    fn thread_operand(offset: i32) -> String;

    /// Whether instructions reach a word of the thread at `offset`.
    fn reaches_word(offset: i32) -> bool {
        (0..=Self::MAX_WORD_OFFSET).contains(&offset) && offset % Self::WORD_BYTES == 0
    }
}
