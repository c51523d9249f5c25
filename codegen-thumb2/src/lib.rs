// SPDX-License-Identifier: Apache-2.0
//! Machine code of trace points for 32-bit ARM (Thumb-2): a [`TracePoint`] in, position-independent
//! bytes out.
//!
//! ```
//! use hindsight_codegen_thumb2::{emit, Counter, Form, Kind, Reg, RegSet, TracePoint};
//!
//! let code = emit(&TracePoint {
//!     kind: Kind::Entry { method: Reg::R0 },
//!     cursor_offset: 0x58,
//!     counter: Counter::Virtual,
//!     barrier: false,
//!     prefetch: None,
//!     form: Form::Inline,
//!     free: RegSet::of(&[Reg::R4, Reg::Ip, Reg::Lr]),
//! })?;
//! assert_eq!(code.bytes.len(), 18);
//! # Ok::<(), hindsight_codegen_thumb2::EncodeError>(())
//! ```
//!
//! # The sequence
//!
//! With the free registers r4, ip and lr at an entry (whose frame has lr), r2, r3 and ip at an exit:
//!
//! ```text
//! entry:                                   exit:
//!     ldr.w r4, [r9, #CURSOR]                  ldr.w r2, [r9, #CURSOR]    the next slot, or 0: off
//!     cbz   r4, done                           cbz   r2, done
//!     mrrc  p15, 1, ip, lr, c14                mrrc  p15, 1, r3, ip, c14  low half first
//!                                              mov.w ip, #0
//!     strd  r0, ip, [r4], #8                   strd  ip, r3, [r2], #8     may run onto the guard page
//!     str.w r4, [r9, #CURSOR]                  str.w r2, [r9, #CURSOR]    now it is part of the ring
//! done:                                    done:
//! ```
//!
//! The cursor is in the lowest free register, the counter in the two next ones; the method's is never
//! one of them, even if it is free. With a barrier, `isb sy` follows `mrrc`; a prefetch (`pldw`) follows
//! `cbz`. Pointers have 32 bits, so there is no option for wide ones.
//!
//! # The other forms
//!
//! Entries; an exit has `mov.w lr, #0` before it stores lr in the place of r0.
//!
//! ```text
//! Masked                            Hubble                             Nanoscope
//!     ldr.w r4, [r9, #CURSOR]           ldr.w r4, [r9, #CURSOR]            ldr.w r4, [r9, #CURSOR]
//!     cbz   r4, done                    cbz   r4, done                     cbz   r4, done
//!     mrrc  p15, 1, ip, lr, c14         ldr.w ip, [r9, #STOP]              mrrc  p15, 1, ip, lr, c14
//!     strd  r0, ip, [r4]                cmp.w ip, #0                       strd  ip, lr, [r4, #8]
//!     add.w lr, r4, #8                  beq   go                           str   r0, [r4]
//!     bfi   r4, lr, #0, #BITS           mov.w ip, #0                       add.w r4, r4, #16
//!     str.w r4, [r9, #CURSOR]           str.w ip, [r9, #CURSOR]            str.w r4, [r9, #CURSOR]
//! done:                                 b     done                     done:
//!                                   go: mrrc  p15, 1, ip, lr, c14
//!                                       strd  r0, ip, [r4], #8
//!                                       ldr.w ip, [r9, #END]
//!                                       cmp   r4, ip
//!                                       bne   publish
//!                                       ldr.w r4, [r9, #START]
//!                                   publish:
//!                                       str.w r4, [r9, #CURSOR]
//!                                   done:
//! ```
//!
//! # The contract with the fault handler
//!
//! The `strd` may hit the guard page after the ring. It addresses memory through the cursor's register
//! alone, and a `strd` that aborts leaves the thread's registers as before it, also the one it would
//! have written back to: after setting that register to the ring's start, resuming at the same
//! instruction is right. [`wraps_at`] recognizes these stores and names the register. A slot does not
//! cross a page.
//!
//! # What it changes
//!
//! Three of the registers in [`TracePoint::free`]; while tracing is off, only the cursor's. Nothing
//! else: not the flags (but in Hubble's form), nothing on the stack.

mod encode;
mod forms;
mod regs;
mod store;
mod stub_call;

pub use hindsight_codegen_core::{Form, MAX_RING_BYTES, MIN_RING_BYTES};
pub use regs::{Reg, RegSet};
pub use store::{wraps_at, MAX_STORE_BYTES};
pub use stub_call::{
    emit_stub_call, StubCall, StubCode, StubSite, MAX_POLL_OFFSET, MAX_STUB_OFFSET,
};

/// The register that holds ART's `Thread*`.
pub const THREAD_REGISTER: Reg = Reg::R9;

/// What a trace point can neither use nor take the method from.
const RESERVED: RegSet = RegSet::of(&[THREAD_REGISTER, Reg::Sp, Reg::Pc]);

/// The largest offset that `ldr.w` and `str.w` reach at which a word is aligned.
const MAX_CURSOR_OFFSET: u16 = 4092;

/// The distances that `pldw` can encode, in bytes.
pub const PREFETCH_DISTANCES: std::ops::RangeInclusive<i32> = -255..=4095;

/// Where in a method a trace point stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The entry; `method` holds the `ArtMethod*`.
    Entry {
        /// Any register but r9, sp and pc. Kept, even if it is free.
        method: Reg,
    },
    /// An exit.
    Exit,
}

/// Which counter of the generic timer is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Counter {
    /// CNTVCT, which Linux lets programs read and the vDSO reads.
    #[default]
    Virtual,
    /// CNTPCT, which Linux does not let programs read unless it was changed to.
    Physical,
}

impl Counter {
    /// The first opcode of the `mrrc` that reads it.
    const fn opc1(self) -> u16 {
        match self {
            Counter::Physical => 0,
            Counter::Virtual => 1,
        }
    }
}

/// What to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TracePoint {
    /// Entry or exit.
    pub kind: Kind,
    /// Byte offset of the cursor from [`THREAD_REGISTER`]: a multiple of 4, from 0 to 4092.
    pub cursor_offset: i32,
    /// What to read the time from.
    pub counter: Counter,
    /// Whether an instruction barrier follows the reading of the counter, for cores whose errata
    /// demand it.
    pub barrier: bool,
    /// How many bytes past the slot being written to prefetch, within [`PREFETCH_DISTANCES`]; `None`
    /// for no prefetch. One that meets the guard page does nothing. Needs the Multiprocessing Extensions.
    pub prefetch: Option<i32>,
    /// The layout.
    pub form: Form,
    /// Registers whose values nobody needs any more: at least three beside the method's, at least
    /// one of them one of r0 to r7. Every other register is kept.
    pub free: RegSet,
}

impl TracePoint {
    /// A trace point without any option, to start from: `TracePoint { free, ..TracePoint::new(…) }`.
    pub const fn new(kind: Kind, cursor_offset: i32) -> Self {
        TracePoint {
            kind,
            cursor_offset,
            counter: Counter::Virtual,
            barrier: false,
            prefetch: None,
            form: Form::Inline,
            free: RegSet::EMPTY,
        }
    }
}

/// The code of a trace point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Position-independent machine code, to be placed at an even address; control falls out of its
    /// end.
    pub bytes: Vec<u8>,
    /// The registers that it may change (the flags are kept, but in [`Form::Hubble`]).
    pub clobbers: RegSet,
}

/// Why a trace point cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The method is in a register that a trace point cannot take it from.
    #[error("the method cannot be in {0}: r9 holds the thread, sp the stack, and pc is no place for it; ask the register allocator for another register")]
    MethodRegister(Reg),
    /// A register was given away that is never free.
    #[error("{0} cannot be a free register: r9 holds the thread, sp the stack, and pc is no place for data; leave it out of `free`")]
    ReservedFree(Reg),
    /// The cursor's offset is not that of a word in reach.
    #[error("the cursor cannot be at [r9, #{0}]: the offset must be a multiple of 4 from 0 to 4092; move the cursor's field to the front of the thread and take the offset from the build's asm_defines")]
    CursorOffset(i32),
    /// There are not enough registers.
    #[error("a trace point needs three free registers beside the method's, but got {0}; place it where more are free, as after the push that saves lr")]
    TooFewFree(RegSet),
    /// There are enough registers, but none for the cursor.
    #[error("none of the free registers {0} can hold the cursor, as cbz takes r0 to r7 only; free one of these")]
    NoCursorRegister(RegSet),
    /// The prefetch distance does not fit its instruction.
    #[error("cannot prefetch at a distance of {0} bytes: it must be from {min} to {max}; choose one within", min = PREFETCH_DISTANCES.start(), max = PREFETCH_DISTANCES.end())]
    PrefetchDistance(i32),
    /// A word of the form is not in the thread where an instruction can reach it.
    #[error("a word of {form:?} cannot be at [r9, #{offset}]: the offset must be a multiple of 4 from 0 to 4092")]
    FormOffset {
        /// The form.
        form: Form,
        /// What cannot be.
        offset: i32,
    },
    /// The ring's size is none that arithmetic can wrap.
    #[error("a ring of {0} bytes cannot be wrapped by masking: its size must be a power of two from {MIN_RING_BYTES} to {MAX_RING_BYTES}")]
    RingBytes(u32),
    /// The poll byte's offset is not one that an instruction can reach.
    #[error("the poll byte cannot be at [r9, #{0}]: the offset must be from 0 to {MAX_POLL_OFFSET}; move the byte to the front of the thread and take the offset from the build's asm_defines")]
    PollOffset(i32),
    /// The stub's offset is not that of a word in reach.
    #[error("the stub cannot be at [r9, #{0}]: the offset must be a multiple of 4 from 0 to {MAX_STUB_OFFSET}; move the stub's field to the front of the thread and take the offset from the build's asm_defines")]
    StubOffset(i32),
}

/// Emits the code of a trace point.
pub fn emit(point: &TracePoint) -> Result<Code, EncodeError> {
    forms::emit(point)
}
