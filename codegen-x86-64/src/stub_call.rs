// SPDX-License-Identifier: Apache-2.0
//! Trace points that call a stub while tracing is on: less code in the method than the inline form, at the price of a
//! call. The word with the stub's address is 0 while tracing is off, so one load both tests it and finds the stub.
//!
//! ```text
//! TailExit                           LaterExit                          LeafEntry
//!     mov  rdx, gs:[STUB]                mov  rdx, gs:[STUB]                mov  r11, gs:[STUB]
//!     test rdx, rdx                      test rdx, rdx                      test r11, r11
//!     jne  shared                        jne  shared, of the first exit     je   done
//!     ret                                ret                                call r11
//! shared:                                                               done:
//!     jmp  rdx
//! ```
//!
//! `FramedExit`, before the epilogue of a method, is as `LeafEntry` with rdx in the place of r11. The other exits stand in
//! place of the method's `ret`: the stub returns to the method's caller. So the stub keeps all
//! values that the method returns, in rax and xmm0; rdx never holds one. At an entry the stub finds the method in rdi
//! and may change [`CURSOR_REGISTER`] and the flags only. None of these instructions touches the ring.
//!
//! # Sites for comparison
//!
//! The poll sites test a byte of the thread. `ShortExit` is the smallest exit with a test, at the price of a jump that
//! is taken while tracing is off; it takes rcx. `JumpExit` and `CallEntry` have no test, so while tracing is off the
//! stub only returns.
//!
//! ```text
//! PollTailExit                        PollLaterExit                      PollLeafEntry
//!     cmp byte gs:[POLL], 0               cmp byte gs:[POLL], 0              cmp byte gs:[POLL], 0
//!     jne shared                          jne shared, of the first exit      je  done
//!     ret                                 ret                                call qword gs:[STUB]
//! shared:                                                                done:
//!     jmp qword gs:[STUB]
//!
//! ShortExit                           JumpExit                           CallEntry
//!     mov  rcx, gs:[STUB]                 jmp qword gs:[STUB]                call qword gs:[STUB]
//!     jrcxz done
//!     jmp  rcx
//! done:
//!     ret
//! ```

use dynasmrt::x64::X64Relocation;
use dynasmrt::{dynasm, DynasmApi, DynasmLabelApi, VecAssembler};
use hindsight_codegen_core::{EncodeError, Isa, StubCall, StubCode, StubSite};

use crate::isa::{CURSOR_REGISTER, X86_64};
use crate::regs::{Reg, RegSet};

/// Length of the load and the test of the stub's address, in bytes.
const POINTER_TEST_BYTES: i32 = 12;
/// Length of the test of the poll byte, in bytes.
#[cfg(feature = "comparison")]
const POLL_TEST_BYTES: i32 = 9;

/// Emits a call of the stub.
pub(crate) fn emit(call: &StubCall) -> Result<StubCode<X86_64>, EncodeError<X86_64>> {
    let stub = call.stub_offset;
    #[cfg(feature = "comparison")]
    let poll = call.poll_offset;
    #[cfg(feature = "comparison")]
    if poll < 0 {
        return Err(EncodeError::PollOffset(poll));
    }
    if !X86_64::reaches_word(stub) {
        return Err(EncodeError::StubOffset(stub));
    }

    let mut ops = VecAssembler::<X64Relocation>::new(0);
    let mut shared_exit = None;
    let clobbers = match call.site {
        StubSite::TailExit => {
            dynasm!(ops
                ; .arch x64
                ; gs mov rdx, [stub]
                ; test rdx, rdx
                ; jne BYTE >shared
                ; ret
                ; shared:
            );
            shared_exit = Some(ops.offset().0);
            dynasm!(ops; .arch x64; jmp rdx);
            RegSet::of(&[Reg::Rdx])
        }
        StubSite::LaterExit { shared_exit } => {
            let jump = jump_back(shared_exit, POINTER_TEST_BYTES)?;
            dynasm!(ops; .arch x64; gs mov rdx, [stub]; test rdx, rdx; .bytes jump; ret);
            RegSet::of(&[Reg::Rdx])
        }
        StubSite::LeafEntry => {
            dynasm!(ops
                ; .arch x64
                ; gs mov r11, [stub]
                ; test r11, r11
                ; je BYTE >done
                ; call r11
                ; done:
            );
            RegSet::of(&[CURSOR_REGISTER])
        }
        StubSite::FramedExit => {
            dynasm!(ops
                ; .arch x64
                ; gs mov rdx, [stub]
                ; test rdx, rdx
                ; je BYTE >done
                ; call rdx
                ; done:
            );
            // rdx also while the thread is not traced; the others are the stub's.
            RegSet::of(&[Reg::Rdx, Reg::R10, CURSOR_REGISTER])
        }
        #[cfg(feature = "comparison")]
        StubSite::PollTailExit => {
            dynasm!(ops; .arch x64; gs cmp BYTE [poll], BYTE 0; jne BYTE >shared; ret; shared:);
            shared_exit = Some(ops.offset().0);
            dynasm!(ops; .arch x64; gs jmp QWORD [stub]);
            RegSet::EMPTY
        }
        #[cfg(feature = "comparison")]
        StubSite::PollLaterExit { shared_exit } => {
            let jump = jump_back(shared_exit, POLL_TEST_BYTES)?;
            dynasm!(ops; .arch x64; gs cmp BYTE [poll], BYTE 0; .bytes jump; ret);
            RegSet::EMPTY
        }
        #[cfg(feature = "comparison")]
        StubSite::PollLeafEntry => {
            dynasm!(ops
                ; .arch x64
                ; gs cmp BYTE [poll], BYTE 0
                ; je BYTE >done
                ; gs call QWORD [stub]
                ; done:
            );
            RegSet::of(&[CURSOR_REGISTER])
        }
        #[cfg(feature = "comparison")]
        StubSite::ShortExit => {
            dynasm!(ops; .arch x64; gs mov rcx, [stub]; jrcxz BYTE >done; jmp rcx; done:; ret);
            RegSet::of(&[Reg::Rcx])
        }
        #[cfg(feature = "comparison")]
        StubSite::JumpExit => {
            dynasm!(ops; .arch x64; gs jmp QWORD [stub]);
            RegSet::EMPTY
        }
        #[cfg(feature = "comparison")]
        StubSite::CallEntry => {
            dynasm!(ops; .arch x64; gs call QWORD [stub]);
            RegSet::of(&[CURSOR_REGISTER])
        }
        site => return Err(EncodeError::Site(site)),
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

/// `jne` behind a test of `test_bytes` bytes, to a place `distance` bytes from the test's start.
fn jump_back(distance: i32, test_bytes: i32) -> Result<Vec<u8>, EncodeError<X86_64>> {
    // Relative to the end of the jump, whose short form has 2 bytes, and its long form 6.
    let relative = |jump_bytes| distance.checked_sub(test_bytes + jump_bytes);
    match (relative(2).map(i8::try_from), relative(6)) {
        _ if distance >= 0 => Err(EncodeError::SharedExitDistance(distance)),
        (Some(Ok(short)), _) => Ok(vec![0x75, short as u8]),
        (_, Some(near)) => Ok([&[0x0f, 0x85][..], &near.to_le_bytes()].concat()),
        (_, None) => Err(EncodeError::SharedExitDistance(distance)),
    }
}
