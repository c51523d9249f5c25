// SPDX-License-Identifier: Apache-2.0
//! Reasons why a trace point has no encoding.

#[cfg(feature = "comparison")]
use crate::form::{Form, MAX_RING_BYTES, MIN_RING_BYTES};
use crate::isa::Isa;
use crate::stub_call::StubSite;

/// The reason why a trace point has no encoding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError<I: Isa> {
    /// A trace point cannot take the method from this register.
    #[error("the method cannot be in {0}: {reserved}; ask the register allocator for another register", reserved = I::RESERVED_REGISTERS)]
    MethodRegister(I::Reg),
    /// This register is never free.
    #[error("{0} cannot be a free register: {reserved}; leave it out of `free`", reserved = I::RESERVED_REGISTERS)]
    ReservedFree(I::Reg),
    /// The set has too few free registers.
    #[error("a trace point needs three free registers beside the method's, but got {0}; place it where more are free, as after the push that saves lr")]
    TooFewFree(I::RegSet),
    /// No register of the set can hold the cursor.
    #[error("none of the free registers {0} can hold the cursor, as cbz takes r0 to r7 only; free one of these")]
    NoCursorRegister(I::RegSet),
    /// No instruction reaches a cursor at this offset.
    #[error("the cursor cannot be at {at}: {limits}", at = I::thread_operand(*.0), limits = word_limits::<I>())]
    CursorOffset(i32),
    /// No instruction reaches a stub's address at this offset.
    #[error("the stub cannot be at {at}: {limits}", at = I::thread_operand(*.0), limits = word_limits::<I>())]
    StubOffset(i32),
    /// A later exit cannot branch this far back.
    #[error("the shared exit cannot be {0} bytes from a later one: it must be before it, at a whole instruction, no further than {min} bytes; use StubSite::TailExit again", min = I::MIN_SHARED_EXIT)]
    SharedExitDistance(i32),
    /// The instruction set has no such call of the stub.
    #[error("{isa} has no {0:?}; choose another StubSite", isa = I::NAME)]
    Site(StubSite),
    /// No instruction reaches a poll byte at this offset.
    #[cfg(feature = "comparison")]
    #[error("the poll byte cannot be at {at}: the offset must be from 0 to {max}; take it from the build's asm_defines, and keep the byte near the start of the thread", at = I::thread_operand(*.0), max = I::MAX_POLL_OFFSET)]
    PollOffset(i32),
    /// No instruction can encode this distance of a prefetch.
    #[cfg(feature = "comparison")]
    #[error("cannot prefetch at a distance of {0} bytes: it must be from {min} to {max}; choose one within", min = I::PREFETCH_DISTANCES.start(), max = I::PREFETCH_DISTANCES.end())]
    PrefetchDistance(i32),
    /// No instruction reaches a word that the form needs at this offset.
    #[cfg(feature = "comparison")]
    #[error("a word of {form:?} cannot be at {at}: the offset must be a multiple of {alignment}, not negative and within reach of a load; keep the word near the start of the thread", at = I::thread_operand(*.offset))]
    FormOffset {
        /// The form.
        form: Form,
        /// The offset in bytes.
        offset: i32,
        /// The word's size in bytes.
        alignment: i32,
    },
    /// Arithmetic cannot wrap a ring of this size.
    #[cfg(feature = "comparison")]
    #[error("a ring of {0} bytes cannot be wrapped by masking: its size must be a power of two from {MIN_RING_BYTES} to {MAX_RING_BYTES}")]
    RingBytes(u32),
    /// The assembler refused the code, which would be a bug of the encoder.
    #[error("the assembler refused {what}: {why}; this is a bug in Hindsight's encoder for {isa}", isa = I::NAME)]
    Assembler {
        /// The specification.
        what: String,
        /// The assembler's message.
        why: String,
    },
}

fn word_limits<I: Isa>() -> String {
    format!(
        "the offset must be a multiple of {} from 0 to {}; take it from the build's asm_defines, and keep the word \
         near the start of the thread",
        I::WORD_BYTES,
        I::MAX_WORD_OFFSET
    )
}
