// SPDX-License-Identifier: Apache-2.0
//! Machine code of trace points for AArch64: a [`TracePoint`] in, position-independent bytes out.
//!
//! ```
//! use hindsight_codegen_aarch64::{emit, Form, Kind, Reg, TracePoint};
//!
//! let code = emit(&TracePoint {
//!     kind: Kind::Entry { method: Reg::X0 },
//!     cursor_offset: 0x58,
//!     wide_pointers: false,
//!     form: Form::Inline,
//!     barrier: false,
//!     prefetch: None,
//! })?;
//! assert_eq!(code.bytes.len(), 20);
//! # Ok::<(), hindsight_codegen_aarch64::EncodeError>(())
//! ```
//!
//! # The sequence
//!
//! ```text
//!     ldr  x16, [x19, #CURSOR]  the next slot, or 0: tracing is off
//!     cbz  x16, done
//!     mrs  x17, cntvct_el0
//!     stp  w0, w17, [x16], #8   entry: the method; exit: wzr. May run onto the guard page
//!     str  x16, [x19, #CURSOR]  only now is the slot part of the ring
//! done:
//! ```
//!
//! With wide pointers, between `cbz` and the end of an entry (seven instructions run for a method
//! below 4 GiB, eleven for another):
//!
//! ```text
//!     lsr  x17, x0, #32
//!     cbz  x17, narrow
//!     str  x0, [x16], #8        the whole pointer. May run onto the guard page
//!     mrs  x17, cntvct_el0
//!     lsl  x17, x17, #32
//!     orr  x17, x17, #1
//!     str  x17, [x16], #8       the slot that closes the event. May run onto the guard page
//!     b    publish
//! narrow:
//!     mrs  x17, cntvct_el0
//!     stp  w0, w17, [x16], #8   may run onto the guard page
//! publish:
//!     str  x16, [x19, #CURSOR]
//! ```
//!
//! A prefetch stands behind the first `cbz`, a barrier behind each `mrs`.
//!
//! # The other forms
//!
//! ```text
//! Masked                            Hubble                             Nanoscope
//!     ldr  x16, [x19, #CURSOR]          ldr  x16, [x19, #CURSOR]           ldr  x16, [x19, #CURSOR]
//!     cbz  x16, done                    cbz  x16, done                     cbz  x16, done
//!     mrs  x17, cntvct_el0              ldr  w17, [x19, #STOP]             mrs  x17, cntvct_el0
//!     stp  w0, w17, [x16]               cbz  w17, go                       str  x0, [x16]
//!     add  x17, x16, #8                 str  xzr, [x19, #CURSOR]           str  x17, [x16, #8]
//!     bfi  x16, x17, #0, #BITS          b    done                          add  x16, x16, #16
//!     str  x16, [x19, #CURSOR]      go: mrs  x17, cntvct_el0               str  x16, [x19, #CURSOR]
//! done:                                 stp  w0, w17, [x16], #8        done:
//!                                       ldr  x17, [x19, #END]
//!                                       sub  x17, x17, x16
//!                                       cbnz x17, publish
//!                                       ldr  x16, [x19, #START]
//!                                   publish:
//!                                       str  x16, [x19, #CURSOR]
//!                                   done:
//! ```
//!
//! # The contract with the fault handler
//!
//! Each store into the ring may hit the guard page after it. It addresses memory through
//! [`CURSOR_REGISTER`] alone, and adds a slot to it afterwards (post-index). The architecture promises
//! that a store that faults has not changed its base register, so the handler finds the ring's end in
//! it, and the other registers as before the instruction: after setting that register to the ring's
//! start, resuming at the same instruction is right. [`wraps_at`] recognizes these stores. None of them
//! stores a part of its bytes before it faults: a slot does not cross a page.
//!
//! # What it changes
//!
//! x16 and x17, in every form; nothing at all but x16 while tracing is off. Not the flags, not the stack. These two
//! are enough for every form, so unlike on x86-64 nobody has to say which other registers are free.

mod forms;
mod regs;
mod store;
mod stub_call;

pub use hindsight_codegen_core::{Form, MAX_RING_BYTES, MIN_RING_BYTES};
pub use regs::{Reg, RegSet};
pub use store::{wraps_at, MAX_STORE_BYTES};
pub use stub_call::{
    emit_stub_call, StubCall, StubCode, StubSite, MAX_POLL_OFFSET, MAX_STUB_OFFSET, MIN_SHARED_EXIT,
};

/// The register that holds the address of the slot being written: the platform's first scratch register.
pub const CURSOR_REGISTER: Reg = Reg::X16;
/// The register that holds the counter: the platform's second scratch register.
pub const SCRATCH_REGISTER: Reg = Reg::X17;
/// The register that holds the thread, in ART's compiled code.
pub const THREAD_REGISTER: Reg = Reg::X19;

/// The greatest [`TracePoint::cursor_offset`]: `ldr` and `str` have 12 bits for it, in units of 8 bytes.
pub const MAX_CURSOR_OFFSET: i32 = 4095 * 8;
/// The distances that `prfum` can encode, in bytes.
pub const PREFETCH_DISTANCES: std::ops::RangeInclusive<i32> = -256..=255;

/// Where in a method a trace point stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The entry; `method` holds the `ArtMethod*`.
    Entry {
        /// Any register but x16, x17, x19 and sp. Kept.
        method: Reg,
    },
    /// An exit.
    Exit,
}

/// What to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TracePoint {
    /// Entry or exit.
    pub kind: Kind,
    /// Byte offset of the cursor in the thread; a multiple of 8 from 0 to [`MAX_CURSOR_OFFSET`].
    pub cursor_offset: i32,
    /// Whether an `ArtMethod*` may be 4 GiB or higher. If not, its upper half is not looked at.
    pub wide_pointers: bool,
    /// The layout.
    pub form: Form,
    /// Whether an instruction synchronization barrier follows the read of the counter, so that nothing
    /// behind it starts before. Costs tens of cycles; meant for cores with errata.
    pub barrier: bool,
    /// How many bytes past the slot being written to prefetch, within [`PREFETCH_DISTANCES`]; `None`
    /// for no prefetch. One that meets the guard page does nothing.
    pub prefetch: Option<i32>,
}

impl TracePoint {
    /// A trace point without any option, to start from: `TracePoint { free, ..TracePoint::new(…) }`.
    pub const fn new(kind: Kind, cursor_offset: i32) -> Self {
        TracePoint {
            kind,
            cursor_offset,
            wide_pointers: false,
            form: Form::Inline,
            barrier: false,
            prefetch: None,
        }
    }
}

/// The code of a trace point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Position-independent machine code; control falls out of its end.
    pub bytes: Vec<u8>,
    /// The registers that it may change (never the flags).
    pub clobbers: RegSet,
}

/// Why a trace point cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The method is in a register that a trace point cannot take it from.
    #[error("the method cannot be in {0}: x16 holds the cursor, x17 the counter, x19 the thread and sp the stack; ask the register allocator for another register")]
    MethodRegister(Reg),
    /// The cursor's offset is not that of a word in the thread that an instruction can reach.
    #[error("the cursor cannot be at [x19, #{0}]: the offset must be a multiple of 8 from 0 to {MAX_CURSOR_OFFSET}; take it from the build's asm_defines, and keep the cursor near the start of the thread")]
    CursorOffset(i32),
    /// The prefetch distance does not fit its instruction.
    #[error("cannot prefetch at a distance of {0} bytes: it must be from {min} to {max}; choose one within", min = PREFETCH_DISTANCES.start(), max = PREFETCH_DISTANCES.end())]
    PrefetchDistance(i32),
    /// A word of the form is not in the thread where an instruction can reach it.
    #[error("a word of {form:?} cannot be at [x19, #{offset}]: the offset must be a multiple of {alignment} from 0 to {max}", max = 4095 * alignment)]
    FormOffset {
        /// The form.
        form: Form,
        /// What cannot be.
        offset: i32,
        /// What it must be a multiple of: the word's size.
        alignment: i32,
    },
    /// This version does not know the form.
    #[error(
        "hindsight-codegen-aarch64 has no {0:?}; build all codegen crates from the same version"
    )]
    Form(Form),
    /// The ring's size is none that arithmetic can wrap.
    #[error("a ring of {0} bytes cannot be wrapped by masking: its size must be a power of two from {MIN_RING_BYTES} to {MAX_RING_BYTES}")]
    RingBytes(u32),
    /// The poll byte's offset is not one that an instruction can reach.
    #[error("the poll byte cannot be at [x19, #{0}]: the offset must be from 0 to {MAX_POLL_OFFSET}; take it from the build's asm_defines, and keep the byte near the start of the thread")]
    PollOffset(i32),
    /// The stub's offset is not that of a word in the thread that an instruction can reach.
    #[error("the stub cannot be at [x19, #{0}]: the offset must be a multiple of 8 from 0 to {MAX_STUB_OFFSET}; take it from the build's asm_defines, and keep the stub near the start of the thread")]
    StubOffset(i32),
    /// A later exit cannot reach the first one.
    #[error("the shared exit cannot be {0} bytes from a later one: it must be a multiple of 4 from {MIN_SHARED_EXIT} to -4; use StubSite::TailExit again")]
    SharedExitDistance(i32),
    /// The assembler gave up, which would be a bug of this crate.
    #[error("the assembler refused {what}: {why}; this is a bug in hindsight-codegen-aarch64")]
    Assembler {
        /// What was asked for.
        what: String,
        /// What the assembler says.
        why: String,
    },
}

/// Emits the code of a trace point.
pub fn emit(point: &TracePoint) -> Result<Code, EncodeError> {
    forms::emit(point)
}
