// SPDX-License-Identifier: Apache-2.0
//! Trace points that call a stub while tracing is on: less code in the method than the inline form, at the price of a
//! call. The word with the stub's address, whose lowest bit is set, is 0 while tracing is off, so one load both tests
//! it and finds the stub.
//!
//! ```text
//! FramedExit, before the pop        TailExit, in place of bx lr       LeafEntry
//!     ldr.w r2, [r9, #STUB]             ldr.w r2, [r9, #STUB]             ldr.w r4, [r9, #STUB]
//!     cbz   r2, done                    cbnz  r2, shared                  cbz   r4, done
//!     blx   r2                          bx    lr                          mov   ip, lr
//! done:                             shared:                               blx   r4
//!                                       bx    r2                      done:
//! ```
//!
//! - `FramedExit`: lr is in the frame. The stub keeps every register but r2, r3, ip, lr and the flags; so it keeps r0,
//!   r1, s0 and d0, in which methods return values.
//! - `TailExit`: the stub returns to the method's caller. The same registers are free.
//! - `LeafEntry`: the method is in r0. lr may not be saved, so the stub finds it in ip and puts it back; it keeps
//!   every register but r4, ip and the flags.
//!
//! None of these instructions touches the ring. A conditional branch backwards would take two instructions that change
//! flags, so each later return of a method has a `TailExit` of its own.
//!
//! # Sites for comparison
//!
//! The poll sites test a byte of the thread; `JumpExit` has no test, so while tracing is off the stub only returns.
//!
//! ```text
//! PollFramedExit                    PollTailExit                      PollLeafEntry
//!     ldrb.w r2, [r9, #POLL]            ldrb.w r2, [r9, #POLL]            ldrb.w r4, [r9, #POLL]
//!     cbz    r2, done                   cbnz   r2, shared                 cbz    r4, done
//!     ldr.w  lr, [r9, #STUB]            bx     lr                         mov    r4, lr
//!     blx    lr                     shared:                               ldr.w  ip, [r9, #STUB]
//! done:                                 ldr.w  pc, [r9, #STUB]            blx    ip
//!                                                                         mov    lr, r4
//! JumpExit                                                            done:
//!     ldr.w  pc, [r9, #STUB]
//! ```

use hindsight_codegen_core::{EncodeError, StubCall, StubCode, StubSite};

#[cfg(feature = "comparison")]
use hindsight_codegen_core::Isa as _;

use crate::encode::Assembler;
use crate::forms::word_offset;
use crate::isa::{Thumb2, THREAD_REGISTER};
use crate::regs::{Reg, RegSet};

/// The registers that an exit and its stub may change.
const EXIT_CLOBBERS: RegSet = RegSet::of(&[Reg::R2, Reg::R3, Reg::Ip, Reg::Lr]);
/// The registers that an entry and its stub may change.
const ENTRY_CLOBBERS: RegSet = RegSet::of(&[Reg::R4, Reg::Ip]);

/// Emits a call of the stub.
pub(crate) fn emit(call: &StubCall) -> Result<StubCode<Thumb2>, EncodeError<Thumb2>> {
    #[cfg(feature = "comparison")]
    let poll = match u16::try_from(call.poll_offset) {
        Ok(poll) if call.poll_offset <= Thumb2::MAX_POLL_OFFSET => poll,
        _ => return Err(EncodeError::PollOffset(call.poll_offset)),
    };
    let stub = word_offset(call.stub_offset).ok_or(EncodeError::StubOffset(call.stub_offset))?;

    let mut ops = Assembler::new();
    let clobbers = match call.site {
        StubSite::FramedExit => {
            ops.ldr(Reg::R2, THREAD_REGISTER, stub);
            let done = ops.cbz(Reg::R2);
            ops.blx(Reg::R2);
            ops.land(done);
            EXIT_CLOBBERS
        }
        StubSite::TailExit => {
            ops.ldr(Reg::R2, THREAD_REGISTER, stub);
            let shared = ops.cbnz(Reg::R2);
            ops.bx(Reg::Lr);
            ops.land(shared);
            ops.bx(Reg::R2);
            EXIT_CLOBBERS
        }
        StubSite::LeafEntry => {
            ops.ldr(Reg::R4, THREAD_REGISTER, stub);
            let done = ops.cbz(Reg::R4);
            ops.mov(Reg::Ip, Reg::Lr);
            ops.blx(Reg::R4);
            ops.land(done);
            ENTRY_CLOBBERS
        }
        #[cfg(feature = "comparison")]
        StubSite::PollFramedExit => {
            ops.ldrb(Reg::R2, THREAD_REGISTER, poll);
            let done = ops.cbz(Reg::R2);
            ops.ldr(Reg::Lr, THREAD_REGISTER, stub);
            ops.blx(Reg::Lr);
            ops.land(done);
            EXIT_CLOBBERS
        }
        #[cfg(feature = "comparison")]
        StubSite::PollTailExit => {
            ops.ldrb(Reg::R2, THREAD_REGISTER, poll);
            let shared = ops.cbnz(Reg::R2);
            ops.bx(Reg::Lr);
            ops.land(shared);
            ops.ldr(Reg::Pc, THREAD_REGISTER, stub);
            EXIT_CLOBBERS
        }
        #[cfg(feature = "comparison")]
        StubSite::PollLeafEntry => {
            ops.ldrb(Reg::R4, THREAD_REGISTER, poll);
            let done = ops.cbz(Reg::R4);
            ops.mov(Reg::R4, Reg::Lr);
            ops.ldr(Reg::Ip, THREAD_REGISTER, stub);
            ops.blx(Reg::Ip);
            ops.mov(Reg::Lr, Reg::R4);
            ops.land(done);
            ENTRY_CLOBBERS
        }
        #[cfg(feature = "comparison")]
        StubSite::JumpExit => {
            ops.ldr(Reg::Pc, THREAD_REGISTER, stub);
            EXIT_CLOBBERS
        }
        site => return Err(EncodeError::Site(site)),
    };
    Ok(StubCode {
        bytes: ops.finish(),
        clobbers,
        shared_exit: None,
    })
}
