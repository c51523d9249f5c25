// SPDX-License-Identifier: Apache-2.0
//! Machine code of trace points for AArch64: a [`TracePoint`] in, position-independent bytes out.
//!
//! ```
//! use hindsight_codegen_aarch64::{emit, Kind, Reg, TracePoint};
//!
//! let code = emit(&TracePoint::new(Kind::Entry { method: Reg::X0 }, 0x58))?;
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
//! # The other forms
//!
//! With the feature `comparison`. A prefetch stands behind the first `cbz`, a barrier behind each `mrs`.
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
//! Each store into the ring may hit the guard page after it. The store addresses memory through [`CURSOR_REGISTER`]
//! alone, and adds a slot to it afterwards (post-index). The architecture guarantees that a store that faults has not
//! changed its base register. So the handler finds the ring's end in that register, and all other registers as they
//! were before the instruction: it sets the register to the ring's start and resumes at the same instruction.
//! [`wraps_at`] recognizes these stores. A slot does not cross a page, so a store that faults has stored nothing.
//!
//! # Registers
//!
//! Every form changes x16 and x17 only; while tracing is off, x16 only. No form changes the flags or the stack. No
//! form needs another register, so `TracePoint::free` has no effect.

mod forms;
mod isa;
mod regs;
mod store;
mod stub_call;

use hindsight_codegen_core::Encoder;
#[cfg(feature = "comparison")]
pub use hindsight_codegen_core::{Form, MAX_RING_BYTES, MIN_RING_BYTES};
pub use hindsight_codegen_core::{Isa, StubCall, StubSite};
pub use isa::{Aarch64, CURSOR_REGISTER, SCRATCH_REGISTER, THREAD_REGISTER};
pub use regs::{Reg, RegSet};
pub use store::{wraps_at, MAX_STORE_BYTES};

/// Where in a method a trace point stands.
pub type Kind = hindsight_codegen_core::Kind<Reg>;
/// A trace point that records in place.
pub type TracePoint = hindsight_codegen_core::TracePoint<Aarch64>;
/// The code of a trace point that records in place.
pub type Code = hindsight_codegen_core::Code<Aarch64>;
/// The code of a call of the stub.
pub type StubCode = hindsight_codegen_core::StubCode<Aarch64>;
/// The reason why a trace point has no encoding.
pub type EncodeError = hindsight_codegen_core::EncodeError<Aarch64>;

impl Encoder for Aarch64 {
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
    Aarch64::emit(point)
}

/// Emits a call of a stub that records.
///
/// # Errors
/// A value of `call` has no encoding, or AArch64 has no such site.
pub fn emit_stub_call(call: &StubCall) -> Result<StubCode, EncodeError> {
    Aarch64::emit_stub_call(call)
}
