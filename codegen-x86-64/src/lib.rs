// SPDX-License-Identifier: Apache-2.0
//! Machine code of trace points for x86-64: a [`TracePoint`] in, position-independent bytes out.
//!
//! ```
//! use hindsight_codegen_x86_64::{emit, Kind, Reg, RegSet, TracePoint};
//!
//! let code = emit(&TracePoint {
//!     free: RegSet::of(&[Reg::Rax, Reg::R10]),
//!     ..TracePoint::new(Kind::Entry { method: Reg::Rdi }, 0x58)
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
//! # The other forms
//!
//! With the feature `comparison`. A prefetch (`prefetchw`) stands behind the first `je`, a barrier (`lfence`) behind
//! `rdtsc`.
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
//! The first store into a slot may hit the guard page after the ring. The store addresses memory through
//! [`CURSOR_REGISTER`] alone, without a displacement, and a store that faults changes no register. So the handler sets
//! that register to the ring's start and resumes at the same instruction. [`wraps_at`] recognizes these stores. The
//! second store into a slot never faults: a slot does not cross a page.
//!
//! # Registers
//!
//! Trace points change r11, the flags, the registers in `TracePoint::free`, and while they run up to 16 bytes below
//! the stack pointer; while tracing is off, r11 and the flags only.

mod forms;
mod isa;
mod regs;
mod store;
mod stub_call;

use hindsight_codegen_core::Encoder;
#[cfg(feature = "comparison")]
pub use hindsight_codegen_core::{Form, MAX_RING_BYTES, MIN_RING_BYTES};
pub use hindsight_codegen_core::{Isa, StubCall, StubSite};
pub use isa::{CURSOR_REGISTER, X86_64};
pub use regs::{Reg, RegSet};
pub use store::{wraps_at, MAX_STORE_BYTES};

/// Where in a method a trace point stands.
pub type Kind = hindsight_codegen_core::Kind<Reg>;
/// A trace point that records in place.
pub type TracePoint = hindsight_codegen_core::TracePoint<X86_64>;
/// The code of a trace point that records in place.
pub type Code = hindsight_codegen_core::Code<X86_64>;
/// The code of a call of the stub.
pub type StubCode = hindsight_codegen_core::StubCode<X86_64>;
/// The reason why a trace point has no encoding.
pub type EncodeError = hindsight_codegen_core::EncodeError<X86_64>;

impl Encoder for X86_64 {
    fn emit(point: &TracePoint) -> Result<Code, EncodeError> {
        forms::emit(point)
    }

    fn emit_stub_call(call: &StubCall) -> Result<StubCode, EncodeError> {
        stub_call::emit(call)
    }
}

/// Emits the code of a trace point that records in place.
///
/// # Errors
/// A value of `point` has no encoding.
pub fn emit(point: &TracePoint) -> Result<Code, EncodeError> {
    X86_64::emit(point)
}

/// Emits a call of a stub that records.
///
/// # Errors
/// A value of `call` has no encoding, or x86-64 has no such site.
pub fn emit_stub_call(call: &StubCall) -> Result<StubCode, EncodeError> {
    X86_64::emit_stub_call(call)
}
