// SPDX-License-Identifier: Apache-2.0
//! Machine code of trace points for x86-64: a [`TracePoint`] in, position-independent bytes out.
//!
//! ```
//! use hindsight_codegen_x86_64::{emit, Form, Kind, Reg, RegSet, TracePoint};
//!
//! let code = emit(&TracePoint {
//!     kind: Kind::Entry { method: Reg::Rdi },
//!     cursor_offset: 0x58,
//!     wide_pointers: false,
//!     form: Form::Inline,
//!     barrier: false,
//!     prefetch: None,
//!     free: RegSet::of(&[Reg::Rax, Reg::R10]),
//! })?;
//! assert_eq!(code.bytes.len(), 42);
//! # Ok::<(), hindsight_codegen_x86_64::EncodeError>(())
//! ```
//!
//! # The sequence
//!
//! ```text
//!     mov  r11, gs:[CURSOR]     the next slot, or 0: tracing is off
//!     test r11, r11
//!     je   done
//!     mov  r10, rdx             only where rdx or rax are not free; a push where no register is
//!     mov  [r11], edi           entry: the method; exit: 0. May run onto the guard page
//!     rdtsc
//!     mov  [r11+4], eax
//!     add  r11, 8
//!     mov  gs:[CURSOR], r11     only now is the slot part of the ring
//!     mov  rdx, r10
//! done:
//! ```
//!
//! With wide pointers, between the saving and the first store of an entry:
//!
//! ```text
//!     mov  rax, rdi             rdx, if the method is in rax
//!     shr  rax, 32
//!     je   narrow
//!     mov  [r11], rdi           the whole pointer. May run onto the guard page
//!     add  r11, 8
//!     mov  dword [r11], 1       the slot that closes the event. May run onto the guard page
//!     jmp  read
//! narrow:
//!     mov  [r11], edi
//! read:
//!     rdtsc
//! ```
//!
//! A prefetch (`prefetchw`) stands behind the first `je`, a barrier (`lfence`) behind `rdtsc`.
//!
//! # The other forms
//!
//! ```text
//! Masked                       Hubble                              Nanoscope
//!     mov  r11, gs:[CURSOR]        mov  r11, gs:[CURSOR]               mov  r11, gs:[CURSOR]
//!     test r11, r11                test r11, r11                       test r11, r11
//!     je   done                    je   done                           je   done
//!     mov  r10, rdx                cmp  dword gs:[STOP], 0             mov  r10, rdx
//!     mov  [r11], edi              je   go                             mov  [r11], rdi
//!     rdtsc                        mov  qword gs:[CURSOR], 0           rdtsc
//!     mov  [r11+4], eax            jmp  done                           shl  rdx, 32
//!     lea  eax, [r11+8]        go: mov  r10, rdx                       or   rax, rdx
//!     xor  eax, r11d               mov  [r11], edi                     mov  [r11+8], rax
//!     and  eax, MASK               rdtsc                               add  r11, 16
//!     xor  r11, rax                mov  [r11+4], eax                   mov  gs:[CURSOR], r11
//!     mov  gs:[CURSOR], r11        add  r11, 8                         mov  rdx, r10
//!     mov  rdx, r10                cmp  r11, gs:[END]              done:
//! done:                            jne  inside
//!                                  mov  r11, gs:[START]
//!                              inside:
//!                                  mov  gs:[CURSOR], r11
//!                                  mov  rdx, r10
//!                              done:
//! ```
//!
//! # The contract with the fault handler
//!
//! The first store into a slot may hit the guard page after the ring. It addresses memory through
//! [`CURSOR_REGISTER`] alone, without a displacement, and the thread's registers are as before the
//! instruction: after setting that register to the ring's start, resuming at the same instruction is
//! right. [`wraps_at`] recognizes these stores. A second store to the same slot never faults: a slot
//! does not cross a page.
//!
//! # What it changes
//!
//! r11, the flags, the registers in [`TracePoint::free`], and while it runs up to 16 bytes below the
//! stack pointer. Nothing else; nothing at all but r11 and the flags while tracing is off.

mod forms;
mod regs;
mod store;
mod stub_call;

pub use hindsight_codegen_core::{Form, MAX_RING_BYTES, MIN_RING_BYTES};
pub use regs::{Reg, RegSet};
pub use store::{wraps_at, MAX_STORE_BYTES};
pub use stub_call::{emit_stub_call, StubCall, StubCode, StubSite};

/// The register that holds the address of the slot being written: ART's scratch register.
pub const CURSOR_REGISTER: Reg = Reg::R11;

/// Where in a method a trace point stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The entry; `method` holds the `ArtMethod*`.
    Entry {
        /// Any register but rsp and r11. Kept, unless it is free.
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
    /// Byte offset of the cursor from the base of gs; a multiple of 8, not negative.
    pub cursor_offset: i32,
    /// Whether an `ArtMethod*` may be 4 GiB or higher. If not, its upper half is not looked at.
    pub wide_pointers: bool,
    /// The layout.
    pub form: Form,
    /// Whether a barrier (`lfence`) follows the read of the counter, so that nothing behind it starts
    /// before. Costs tens of cycles.
    pub barrier: bool,
    /// How many bytes past the slot being written to prefetch; `None` for no prefetch. One that meets the
    /// guard page does nothing.
    pub prefetch: Option<i32>,
    /// Registers whose values nobody needs any more. r11 always is; every other one is kept.
    pub free: RegSet,
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
            free: RegSet::EMPTY,
        }
    }
}

/// The code of a trace point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Position-independent machine code; control falls out of its end.
    pub bytes: Vec<u8>,
    /// The registers that it may change (the flags too).
    pub clobbers: RegSet,
}

/// Why a trace point cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The method is in a register that a trace point cannot take it from.
    #[error("the method cannot be in {0}: r11 holds the cursor and rsp the stack; ask the register allocator for another register")]
    MethodRegister(Reg),
    /// The stack pointer was given away.
    #[error("rsp cannot be a free register; leave it out of `free`")]
    StackPointerFree,
    /// The cursor's offset is not that of a word in the thread.
    #[error("the cursor cannot be at gs:{0}: the offset must not be negative and must be a multiple of 8; take it from the build's asm_defines")]
    CursorOffset(i32),
    /// A word of the form is not in the thread.
    #[error("a word of {form:?} cannot be at gs:{offset}: the offset must not be negative and must be a multiple of {alignment}")]
    FormOffset {
        /// The form.
        form: Form,
        /// What cannot be.
        offset: i32,
        /// What it must be a multiple of: the word's size.
        alignment: i32,
    },
    /// The ring's size is none that arithmetic can wrap.
    #[error("a ring of {0} bytes cannot be wrapped by masking: its size must be a power of two from {MIN_RING_BYTES} to {MAX_RING_BYTES}")]
    RingBytes(u32),
    /// The poll byte's offset is not one of a byte in the thread.
    #[error("the poll byte cannot be at gs:{0}: the offset must not be negative; take it from the build's asm_defines")]
    PollOffset(i32),
    /// The stub's offset is not that of a word in the thread.
    #[error("the stub cannot be at gs:{0}: the offset must not be negative and must be a multiple of 8; take it from the build's asm_defines")]
    StubOffset(i32),
    /// A later exit cannot reach the first one.
    #[error("the shared exit cannot be {0} bytes from a later one: it must be before it, within 2 GiB; use StubSite::TailExit again")]
    SharedExitDistance(i32),
    /// The assembler gave up, which would be a bug of this crate.
    #[error("the assembler refused {what}: {why}; this is a bug in hindsight-codegen-x86-64")]
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
