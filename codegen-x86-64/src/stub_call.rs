// SPDX-License-Identifier: Apache-2.0
//! Trace points that call a shared stub when tracing is on: less code than the inline form, at the price
//! of a call. What is in the method is a test of one byte of the thread and a way to the stub, whose
//! address is in the thread.
//!
//! ```text
//! TailExit                            LaterExit                          LeafEntry
//!     cmp byte gs:[POLL], 0               cmp byte gs:[POLL], 0              cmp byte gs:[POLL], 0
//!     jne shared                          jne shared, of the first exit      je  done
//!     ret                                 ret                                call qword gs:[STUB]
//! shared:                                                                done:
//!     jmp qword gs:[STUB]
//! ```
//!
//! The exits stand in place of the method's `ret`: the stub returns to the method's caller, so it must
//! keep all that the method returns, rax and xmm0. At an entry the stub finds the method in rdi and may
//! change [`CURSOR_REGISTER`] and the flags, nothing else. No instruction of these touches the ring.
//!
//! The `Pointer` sites test and call with one load: the word with the stub's address is 0 while tracing is
//! off. They are smaller, and take rdx at exits, which holds nothing that is returned.
//!
//! ```text
//! PointerTailExit                    PointerLaterExit                   PointerLeafEntry
//!     mov  rdx, gs:[STUB]                mov  rdx, gs:[STUB]                mov  r11, gs:[STUB]
//!     test rdx, rdx                      test rdx, rdx                      test r11, r11
//!     jne  shared                        jne  shared, of the first exit     je   done
//!     ret                                ret                                call r11
//! shared:                                                               done:
//!     jmp  rdx
//!
//! PointerExit: the smallest, with a jump that is taken while tracing is off; takes rcx
//!     mov  rcx, gs:[STUB]
//!     jrcxz done
//!     jmp  rcx
//! done:
//!     ret
//! ```
//!
//! `JumpExit` and `CallEntry` leave out the test: the thread's stub is one that does nothing while
//! tracing is off. They are the smallest, and cost a jump that is taken also then.

use dynasmrt::x64::X64Relocation;
use dynasmrt::{dynasm, DynasmApi, DynasmLabelApi, VecAssembler};

use crate::{EncodeError, Reg, RegSet, CURSOR_REGISTER};

/// Where in a method a call of the stub stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StubSite {
    /// In place of a `ret`, with a way to the stub that later returns of the method can share.
    TailExit,
    /// In place of a later `ret` of the same method.
    LaterExit {
        /// Bytes from the start of this code to [`StubCode::shared_exit`] of the first exit: negative.
        shared_exit: i32,
    },
    /// As `TailExit`, if the word with the stub's address is 0 while tracing is off.
    PointerTailExit,
    /// In place of a later `ret` of a method with a `PointerTailExit`.
    PointerLaterExit {
        /// As in `LaterExit`.
        shared_exit: i32,
    },
    /// In place of any `ret`, if the word with the stub's address is 0 while tracing is off.
    PointerExit,
    /// As `LeafEntry`, if the word with the stub's address is 0 while tracing is off.
    PointerLeafEntry,
    /// In place of a `ret`, without a test: the stub is called also while tracing is off.
    JumpExit,
    /// At the entry of a method that has no suspend check there; the method is in rdi.
    LeafEntry,
    /// The same without a test: the stub is called also while tracing is off.
    CallEntry,
}

/// What to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StubCall {
    /// The place.
    pub site: StubSite,
    /// Byte offset from the base of gs of the byte that is not 0 while tracing is on; not negative.
    pub poll_offset: i32,
    /// Byte offset from the base of gs of the stub's address; a multiple of 8, not negative.
    pub stub_offset: i32,
}

/// The code of a call of the stub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StubCode {
    /// Position-independent machine code. Control falls out of the end of an entry; an exit returns.
    pub bytes: Vec<u8>,
    /// The registers that it and the stub may change before control goes on (the flags too).
    pub clobbers: RegSet,
    /// Where in `bytes` the way to the stub starts, if later exits can branch to it.
    pub shared_exit: Option<usize>,
}

/// Bytes of the test of the poll byte.
const TEST_BYTES: i32 = 9;
/// Bytes of loading and testing the stub's address.
const POINTER_TEST_BYTES: i32 = 12;

/// Emits a call of the stub.
pub fn emit_stub_call(call: &StubCall) -> Result<StubCode, EncodeError> {
    let StubCall {
        site,
        poll_offset: poll,
        stub_offset: stub,
    } = *call;
    if poll < 0 {
        return Err(EncodeError::PollOffset(poll));
    }
    if stub < 0 || stub % 8 != 0 {
        return Err(EncodeError::StubOffset(stub));
    }

    let mut ops = VecAssembler::<X64Relocation>::new(0);
    match site {
        StubSite::JumpExit | StubSite::CallEntry => {}
        StubSite::PointerTailExit | StubSite::PointerLaterExit { .. } => {
            dynasm!(ops; .arch x64; gs mov rdx, [stub]; test rdx, rdx);
        }
        StubSite::PointerExit => dynasm!(ops; .arch x64; gs mov rcx, [stub]),
        StubSite::PointerLeafEntry => dynasm!(ops; .arch x64; gs mov r11, [stub]; test r11, r11),
        _ => dynasm!(ops; .arch x64; gs cmp BYTE [poll], BYTE 0),
    }
    let mut shared_exit = None;
    match site {
        StubSite::TailExit => {
            dynasm!(ops; .arch x64; jne BYTE >shared; ret; shared:);
            shared_exit = Some(ops.offset().0);
            dynasm!(ops; .arch x64; gs jmp QWORD [stub]);
        }
        StubSite::LaterExit { shared_exit } => {
            let jump = jump_back(shared_exit, TEST_BYTES)?;
            dynasm!(ops; .arch x64; .bytes jump; ret);
        }
        StubSite::PointerTailExit => {
            dynasm!(ops; .arch x64; jne BYTE >shared; ret; shared:);
            shared_exit = Some(ops.offset().0);
            dynasm!(ops; .arch x64; jmp rdx);
        }
        StubSite::PointerLaterExit { shared_exit } => {
            let jump = jump_back(shared_exit, POINTER_TEST_BYTES)?;
            dynasm!(ops; .arch x64; .bytes jump; ret);
        }
        StubSite::PointerExit => {
            dynasm!(ops; .arch x64; jrcxz BYTE >done; jmp rcx; done:; ret)
        }
        StubSite::PointerLeafEntry => dynasm!(ops; .arch x64; je BYTE >done; call r11; done:),
        StubSite::JumpExit => dynasm!(ops; .arch x64; gs jmp QWORD [stub]),
        StubSite::LeafEntry => {
            dynasm!(ops; .arch x64; je BYTE >done; gs call QWORD [stub]; done:)
        }
        StubSite::CallEntry => dynasm!(ops; .arch x64; gs call QWORD [stub]),
    }
    let clobbers = match site {
        StubSite::LeafEntry | StubSite::PointerLeafEntry | StubSite::CallEntry => {
            RegSet::of(&[CURSOR_REGISTER])
        }
        StubSite::PointerTailExit | StubSite::PointerLaterExit { .. } => RegSet::of(&[Reg::Rdx]),
        StubSite::PointerExit => RegSet::of(&[Reg::Rcx]),
        _ => RegSet::EMPTY,
    };
    match ops.finalize() {
        Ok(bytes) => Ok(StubCode {
            bytes,
            clobbers,
            shared_exit,
        }),
        Err(e) => Err(EncodeError::Assembler {
            what: format!("{call:?}"),
            why: e.to_string(),
        }),
    }
}

/// `jne` that follows a test, to a place this many bytes from the test's start.
fn jump_back(distance: i32, test_bytes: i32) -> Result<Vec<u8>, EncodeError> {
    // Relative to the end of the jump, whose short form has 2 bytes, and its long form 6.
    let relative = |jump_bytes| distance.checked_sub(test_bytes + jump_bytes);
    match (relative(2).map(i8::try_from), relative(6)) {
        _ if distance >= 0 => Err(EncodeError::SharedExitDistance(distance)),
        (Some(Ok(short)), _) => Ok(vec![0x75, short as u8]),
        (_, Some(near)) => Ok([&[0x0f, 0x85][..], &near.to_le_bytes()].concat()),
        (_, None) => Err(EncodeError::SharedExitDistance(distance)),
    }
}
