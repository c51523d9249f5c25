// SPDX-License-Identifier: Apache-2.0
//! Machine code of trace points for 32-bit ARM (Thumb-2): a [`TracePoint`] in, position-independent
//! bytes out.
//!
//! ```
//! use hindsight_codegen_thumb2::{emit, Kind, Reg, RegSet, TracePoint};
//!
//! let code = emit(&TracePoint {
//!     free: RegSet::of(&[Reg::R4, Reg::Ip, Reg::Lr]),
//!     ..TracePoint::new(Kind::Entry { method: Reg::R0 }, 0x58)
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
//! The cursor is in the lowest free register, the counter in the two next ones. The method's register is never one of
//! the three, even if it is free. Pointers have 32 bits, so `TracePoint::wide_pointers` has no effect.
//!
//! # The other forms
//!
//! With the feature `comparison`. A barrier (`isb sy`) follows `mrrc`, a prefetch (`pldw`) follows `cbz`. These are
//! entries; an exit has `mov.w lr, #0` before it stores lr in the place of r0.
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
//! The `strd` may hit the guard page after the ring. It addresses memory through the cursor's register alone, and a
//! `strd` that aborts changes no register, not even the one that it would have written back to. So the handler sets
//! that register to the ring's start and resumes at the same instruction. [`wraps_at`] recognizes these stores and
//! names the register. A slot does not cross a page.
//!
//! # Registers
//!
//! Trace points change three of the registers in `TracePoint::free`; while tracing is off, the cursor's only. They
//! change nothing on the stack, and the flags in Hubble's form only.

mod encode;
mod forms;
mod isa;
mod regs;
mod store;
mod stub_call;

use hindsight_codegen_core::Encoder;
#[cfg(feature = "comparison")]
pub use hindsight_codegen_core::{Counter, Form, MAX_RING_BYTES, MIN_RING_BYTES};
pub use hindsight_codegen_core::{Isa, StubCall, StubSite};
pub use isa::{Thumb2, THREAD_REGISTER};
pub use regs::{Reg, RegSet};
pub use store::{wraps_at, MAX_STORE_BYTES};

/// Where in a method a trace point stands.
pub type Kind = hindsight_codegen_core::Kind<Reg>;
/// A trace point that records in place.
pub type TracePoint = hindsight_codegen_core::TracePoint<Thumb2>;
/// The code of a trace point that records in place, to be placed at an even address.
pub type Code = hindsight_codegen_core::Code<Thumb2>;
/// The code of a call of the stub, to be placed at an even address.
pub type StubCode = hindsight_codegen_core::StubCode<Thumb2>;
/// The reason why a trace point has no encoding.
pub type EncodeError = hindsight_codegen_core::EncodeError<Thumb2>;

impl Encoder for Thumb2 {
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
    Thumb2::emit(point)
}

/// Emits a call of a stub that records.
///
/// # Errors
/// A value of `call` has no encoding, or Thumb-2 has no such site.
pub fn emit_stub_call(call: &StubCall) -> Result<StubCode, EncodeError> {
    Thumb2::emit_stub_call(call)
}
