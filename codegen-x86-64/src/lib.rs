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

mod regs;
mod store;
mod stub_call;

use dynasmrt::x64::X64Relocation;
use dynasmrt::{dynasm, DynasmApi, DynasmLabelApi, VecAssembler};
use hindsight_trace_format::slot::{COUNTER_OFFSET, SLOT_BYTES, TAG_EXIT, TAG_WIDE_ENTRY};

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

/// How a trace point is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Form {
    /// All of it inline; the guard page wraps the cursor.
    #[default]
    Inline,
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

/// How a register that the trace point needs is brought through it.
#[derive(Clone, Copy)]
enum Saved {
    Free,
    In(Reg),
    OnStack,
}

/// Emits the code of a trace point.
#[expect(
    clippy::useless_conversion,
    reason = "the assembler macro converts every register number"
)]
pub fn emit(point: &TracePoint) -> Result<Code, EncodeError> {
    let TracePoint {
        kind,
        cursor_offset: cursor,
        wide_pointers,
        form: Form::Inline,
        free,
    } = *point;
    if free.contains(Reg::Rsp) {
        return Err(EncodeError::StackPointerFree);
    }
    if cursor < 0 || cursor % 8 != 0 {
        return Err(EncodeError::CursorOffset(cursor));
    }
    let method = match kind {
        Kind::Entry { method } if matches!(method, Reg::Rsp | CURSOR_REGISTER) => {
            return Err(EncodeError::MethodRegister(method));
        }
        Kind::Entry { method } => Some(method),
        Kind::Exit => None,
    };

    let mut clobbers = RegSet::of(&[CURSOR_REGISTER]);
    // rdtsc writes rax and rdx. The method is still needed after they were saved.
    let mut spare = free
        .without(Reg::Rax)
        .without(Reg::Rdx)
        .without(CURSOR_REGISTER);
    if let Some(method) = method {
        spare = spare.without(method);
    }
    let mut save = |register: Reg| {
        if free.contains(register) {
            clobbers = clobbers.with(register);
            return Saved::Free;
        }
        // The highest-numbered ones are the least likely to be wanted next.
        match spare.iter().next_back() {
            Some(place) => {
                spare = spare.without(place);
                clobbers = clobbers.with(place);
                Saved::In(place)
            }
            None => Saved::OnStack,
        }
    };
    let saved = [(Reg::Rdx, save(Reg::Rdx)), (Reg::Rax, save(Reg::Rax))];

    let mut ops = VecAssembler::<X64Relocation>::new(0);
    dynasm!(ops
        ; .arch x64
        ; gs mov r11, QWORD [cursor]
        ; test r11, r11
        ; je BYTE >done
    );
    for (register, how) in saved {
        match how {
            Saved::Free => {}
            Saved::In(place) => {
                dynasm!(ops; .arch x64; mov Rq(place.number()), Rq(register.number()))
            }
            // (A register known only at run time would get a needless prefix.)
            Saved::OnStack if register == Reg::Rax => dynasm!(ops; .arch x64; push rax),
            Saved::OnStack => dynasm!(ops; .arch x64; push rdx),
        }
    }
    match method {
        Some(method) => {
            if wide_pointers {
                let upper = if method == Reg::Rax {
                    Reg::Rdx
                } else {
                    Reg::Rax
                };
                dynasm!(ops
                    ; .arch x64
                    ; mov Rq(upper.number()), Rq(method.number())
                    ; shr Rq(upper.number()), 32
                    ; je BYTE >narrow
                    ; mov [r11], Rq(method.number())
                    ; add r11, BYTE SLOT_BYTES as i8
                    ; mov DWORD [r11], TAG_WIDE_ENTRY as i32
                    ; jmp BYTE >read
                    ; narrow:
                );
            }
            dynasm!(ops; .arch x64; mov [r11], Rd(method.number()); read:);
        }
        None => dynasm!(ops; .arch x64; mov DWORD [r11], TAG_EXIT as i32),
    }
    dynasm!(ops
        ; .arch x64
        ; rdtsc
        ; mov [BYTE r11 + COUNTER_OFFSET as i8], eax
        ; add r11, BYTE SLOT_BYTES as i8
        ; gs mov QWORD [cursor], r11
    );
    for (register, how) in saved.into_iter().rev() {
        match how {
            Saved::Free => {}
            Saved::In(place) => {
                dynasm!(ops; .arch x64; mov Rq(register.number()), Rq(place.number()))
            }
            Saved::OnStack if register == Reg::Rax => dynasm!(ops; .arch x64; pop rax),
            Saved::OnStack => dynasm!(ops; .arch x64; pop rdx),
        }
    }
    dynasm!(ops; .arch x64; done:);

    match ops.finalize() {
        Ok(bytes) => Ok(Code { bytes, clobbers }),
        Err(e) => Err(EncodeError::Assembler {
            what: format!("{point:?}"),
            why: e.to_string(),
        }),
    }
}
