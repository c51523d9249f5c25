// SPDX-License-Identifier: Apache-2.0
//! Trace points that call a shared stub when tracing is on: less code than the inline form, at the price
//! of a call. What is in the method is a test of one byte of the thread and a way to the stub, whose
//! address is in the thread, with its lowest bit set.
//!
//! ```text
//! FramedExit, before the pop        TailExit, in place of bx lr       LeafEntry
//!     ldrb.w r2, [r9, #POLL]            ldrb.w r2, [r9, #POLL]            ldrb.w r4, [r9, #POLL]
//!     cbz    r2, done                   cbnz   r2, shared                 cbz    r4, done
//!     ldr.w  lr, [r9, #STUB]            bx     lr                         mov    r4, lr
//!     blx    lr                     shared:                               ldr.w  ip, [r9, #STUB]
//! done:                                 ldr.w  pc, [r9, #STUB]            blx    ip
//!                                                                         mov    lr, r4
//!                                                                     done:
//! ```
//!
//! - `FramedExit`: lr is in the frame. The stub keeps all but r2, r3, ip, lr and the flags, r0, r1, s0
//!   and d0 among the kept.
//! - `TailExit`: the stub returns to the method's caller; the same registers are free.
//! - `LeafEntry`: lr is not saved, r4 is free; the method is in r0. The stub keeps all but ip, lr and the
//!   flags.
//!
//! The `Pointer` sites test and call with one load: the word with the stub's address is 0 while tracing is
//! off. They are the smallest with a test. The stub of an entry finds the method in r0 and what lr was in
//! ip; it sets lr to that, and keeps all but r4, ip and the flags.
//!
//! ```text
//! PointerFramedExit                 PointerTailExit                   PointerLeafEntry
//!     ldr.w r2, [r9, #STUB]             ldr.w r2, [r9, #STUB]             ldr.w r4, [r9, #STUB]
//!     cbz   r2, done                    cbnz  r2, shared                  cbz   r4, done
//!     blx   r2                          bx    lr                          mov   ip, lr
//! done:                             shared:                               blx   r4
//!                                       bx    r2                      done:
//! ```
//!
//! No instruction of these touches the ring. A conditional branch backwards would take two instructions
//! that change flags, so later returns of a method have a `TailExit` of their own.
//!
//! `JumpExit` (`ldr.w pc, [r9, #STUB]` in place of `bx lr`) leaves out the test: the thread's stub is one
//! that does nothing but return while tracing is off. It is the smallest, and costs an indirect jump also
//! then.

use crate::encode::Assembler;
use crate::{EncodeError, Reg, RegSet, MAX_CURSOR_OFFSET, THREAD_REGISTER};

/// The greatest [`StubCall::poll_offset`]: `ldrb.w` has 12 bits for it.
pub const MAX_POLL_OFFSET: i32 = 4095;
/// The greatest [`StubCall::stub_offset`].
pub const MAX_STUB_OFFSET: i32 = MAX_CURSOR_OFFSET as i32;

/// Where in a method a call of the stub stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StubSite {
    /// Before the epilogue of a method that has saved lr.
    FramedExit,
    /// In place of the `bx lr` of a method that has not, or has popped it.
    TailExit,
    /// As `FramedExit`, if the word with the stub's address is 0 while tracing is off.
    PointerFramedExit,
    /// As `TailExit`, if the word with the stub's address is 0 while tracing is off.
    PointerTailExit,
    /// As `LeafEntry`, if the word with the stub's address is 0 while tracing is off.
    PointerLeafEntry,
    /// In place of a `bx lr`, without a test: the stub is called also while tracing is off.
    JumpExit,
    /// At the entry of a method that does not save lr; the method is in r0.
    LeafEntry,
}

/// What to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StubCall {
    /// The place.
    pub site: StubSite,
    /// Byte offset in the thread of the byte that is not 0 while tracing is on, from 0 to
    /// [`MAX_POLL_OFFSET`].
    pub poll_offset: i32,
    /// Byte offset in the thread of the stub's address: a multiple of 4 from 0 to [`MAX_STUB_OFFSET`].
    pub stub_offset: i32,
}

/// The code of a call of the stub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StubCode {
    /// Position-independent machine code, to be placed at an even address. Control falls out of its end,
    /// or it returns from the method.
    pub bytes: Vec<u8>,
    /// The registers that it and the stub may change before control goes on (the flags too).
    pub clobbers: RegSet,
}

/// Emits a call of the stub.
pub fn emit_stub_call(call: &StubCall) -> Result<StubCode, EncodeError> {
    let StubCall {
        site,
        poll_offset,
        stub_offset,
    } = *call;
    let poll = match u16::try_from(poll_offset) {
        Ok(poll) if poll_offset <= MAX_POLL_OFFSET => poll,
        _ => return Err(EncodeError::PollOffset(poll_offset)),
    };
    let stub = match u16::try_from(stub_offset) {
        Ok(stub) if stub % 4 == 0 && stub_offset <= MAX_STUB_OFFSET => stub,
        _ => return Err(EncodeError::StubOffset(stub_offset)),
    };

    let mut ops = Assembler::new();
    let clobbers = match site {
        StubSite::FramedExit => {
            ops.ldrb(Reg::R2, THREAD_REGISTER, poll);
            let done = ops.cbz(Reg::R2);
            ops.ldr(Reg::Lr, THREAD_REGISTER, stub);
            ops.blx(Reg::Lr);
            ops.land(done);
            RegSet::of(&[Reg::R2, Reg::R3, Reg::Ip, Reg::Lr])
        }
        StubSite::TailExit => {
            ops.ldrb(Reg::R2, THREAD_REGISTER, poll);
            let shared = ops.cbnz(Reg::R2);
            ops.bx(Reg::Lr);
            ops.land(shared);
            ops.ldr(Reg::Pc, THREAD_REGISTER, stub);
            RegSet::of(&[Reg::R2, Reg::R3, Reg::Ip, Reg::Lr])
        }
        StubSite::PointerFramedExit => {
            ops.ldr(Reg::R2, THREAD_REGISTER, stub);
            let done = ops.cbz(Reg::R2);
            ops.blx(Reg::R2);
            ops.land(done);
            RegSet::of(&[Reg::R2, Reg::R3, Reg::Ip, Reg::Lr])
        }
        StubSite::PointerTailExit => {
            ops.ldr(Reg::R2, THREAD_REGISTER, stub);
            let shared = ops.cbnz(Reg::R2);
            ops.bx(Reg::Lr);
            ops.land(shared);
            ops.bx(Reg::R2);
            RegSet::of(&[Reg::R2, Reg::R3, Reg::Ip, Reg::Lr])
        }
        StubSite::PointerLeafEntry => {
            ops.ldr(Reg::R4, THREAD_REGISTER, stub);
            let done = ops.cbz(Reg::R4);
            ops.mov(Reg::Ip, Reg::Lr);
            ops.blx(Reg::R4);
            ops.land(done);
            RegSet::of(&[Reg::R4, Reg::Ip])
        }
        StubSite::JumpExit => {
            ops.ldr(Reg::Pc, THREAD_REGISTER, stub);
            RegSet::of(&[Reg::R2, Reg::R3, Reg::Ip, Reg::Lr])
        }
        StubSite::LeafEntry => {
            ops.ldrb(Reg::R4, THREAD_REGISTER, poll);
            let done = ops.cbz(Reg::R4);
            ops.mov(Reg::R4, Reg::Lr);
            ops.ldr(Reg::Ip, THREAD_REGISTER, stub);
            ops.blx(Reg::Ip);
            ops.mov(Reg::Lr, Reg::R4);
            ops.land(done);
            RegSet::of(&[Reg::R4, Reg::Ip])
        }
    };
    Ok(StubCode {
        bytes: ops.finish(),
        clobbers,
    })
}
