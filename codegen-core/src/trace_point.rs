// SPDX-License-Identifier: Apache-2.0
//! Trace points that record in place.

#[cfg(feature = "comparison")]
use crate::form::{Counter, Form};
use crate::isa::{Isa, RegisterSet};

/// Where in a method a trace point stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind<R> {
    /// The method's entry.
    Entry {
        /// The register that holds the `ArtMethod*`: any but those in `Isa::RESERVED_REGISTERS`. Its value is kept,
        /// except on x86-64 where the register is also free.
        method: R,
    },
    /// A method exit.
    Exit,
}

/// A trace point that records in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TracePoint<I: Isa> {
    /// Entry or exit.
    pub kind: Kind<I::Reg>,
    /// Offset of the cursor in the thread, in bytes: a multiple of `Isa::WORD_BYTES` from 0 to
    /// `Isa::MAX_WORD_OFFSET`.
    pub cursor_offset: i32,
    /// Whether an `ArtMethod*` may be 4 GiB or higher. If not, the code ignores its upper half. No effect where
    /// pointers have 32 bits.
    pub wide_pointers: bool,
    /// Registers whose values are dead. The code keeps every other register, except for the instruction set's
    /// scratch registers. Thumb-2 needs three beside the method's, one of them from r0 to r7; AArch64 needs none.
    pub free: I::RegSet,
    /// The layout.
    #[cfg(feature = "comparison")]
    pub form: Form,
    /// Whether an instruction barrier follows each read of the counter, so that no later instruction starts before
    /// it. Costs tens of cycles; for cores with errata.
    #[cfg(feature = "comparison")]
    pub barrier: bool,
    /// Distance in bytes from the slot being written to the memory to prefetch, within `Isa::PREFETCH_DISTANCES`;
    /// `None` for no prefetch. A prefetch of the guard page does nothing.
    #[cfg(feature = "comparison")]
    pub prefetch: Option<i32>,
    /// The counter to read. Only Thumb-2 has a choice.
    #[cfg(feature = "comparison")]
    pub counter: Counter,
}

impl<I: Isa> TracePoint<I> {
    /// A trace point without options, to start from: `TracePoint { free, ..TracePoint::new(…) }`.
    pub const fn new(kind: Kind<I::Reg>, cursor_offset: i32) -> Self {
        TracePoint {
            kind,
            cursor_offset,
            wide_pointers: false,
            free: I::RegSet::EMPTY,
            #[cfg(feature = "comparison")]
            form: Form::Inline,
            #[cfg(feature = "comparison")]
            barrier: false,
            #[cfg(feature = "comparison")]
            prefetch: None,
            #[cfg(feature = "comparison")]
            counter: Counter::Virtual,
        }
    }
}

/// The code of a trace point that records in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code<I: Isa> {
    /// Position-independent machine code. Control leaves it at its end.
    pub bytes: Vec<u8>,
    /// The registers that it may change. It may change the flags on x86-64, and on Thumb-2 in Hubble's form.
    pub clobbers: I::RegSet,
}
