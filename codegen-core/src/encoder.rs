// SPDX-License-Identifier: Apache-2.0
//! The encodings of an instruction set.

use crate::error::EncodeError;
use crate::isa::Isa;
use crate::stub_call::{StubCall, StubCode};
use crate::trace_point::{Code, TracePoint};

/// Emits the machine code of an instruction set.
pub trait Encoder: Isa {
    /// Emits a trace point that records in place.
    ///
    /// # Errors
    /// A value of `point` has no encoding.
    fn emit(point: &TracePoint<Self>) -> Result<Code<Self>, EncodeError<Self>>;

    /// Emits a call of a stub that records.
    ///
    /// # Errors
    /// A value of `call` has no encoding, or the instruction set has no such site.
    fn emit_stub_call(call: &StubCall) -> Result<StubCode<Self>, EncodeError<Self>>;
}
