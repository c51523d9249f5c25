// SPDX-License-Identifier: Apache-2.0
//! Trace points that call a shared stub when tracing is on: less code than the inline form, at the price
//! of a call. What is in the method is a test of one byte of the thread and a way to the stub, whose
//! address is in the thread.
//!
//! ```text
//! TailExit                          LaterExit                          JumpExit
//!     ldrb w16, [x19, #POLL]            ldrb w16, [x19, #POLL]             ldr x16, [x19, #STUB]
//!     cbnz w16, shared                  cbnz w16, shared, of the first     br  x16
//!     ret                               ret
//! shared:
//!     ldr  x16, [x19, #STUB]
//!     br   x16
//! ```
//!
//! They stand in place of the method's `ret`: the stub returns to the method's caller, so it must keep all
//! that the method returns, x0 and d0, and may change x16, x17 and the flags. No instruction of these
//! touches the ring. The link register is as it was at the method's entry.
//!
//! `JumpExit` leaves out the test: the thread's stub is one that does nothing but return while tracing is
//! off. It is the smallest, and costs an indirect jump also then.
//!
//! The `Pointer` sites test and call with one load: the word with the stub's address is 0 while tracing is
//! off. They are the smallest with a test. At an entry the stub finds the method in x0 and its return
//! address in x17, and keeps all but x16 and x17: the method's own link register may not be saved.
//!
//! ```text
//! PointerTailExit                   PointerLaterExit                   PointerLeafEntry
//!     ldr  x16, [x19, #STUB]            ldr  x16, [x19, #STUB]             ldr x16, [x19, #STUB]
//!     cbnz x16, shared                  cbnz x16, shared, of the first     cbz x16, done
//!     ret                               ret                                adr x17, done
//! shared:                                                                  br  x16
//!     br   x16                                                         done:
//! ```
//!
//! With a test of the poll byte there is none for an entry without a suspend check: keeping the link
//! register takes as many instructions as the whole inline form has.

use dynasmrt::aarch64::Aarch64Relocation;
use dynasmrt::{dynasm, DynasmApi, DynasmLabelApi, VecAssembler};

use crate::{EncodeError, RegSet, CURSOR_REGISTER, MAX_CURSOR_OFFSET, SCRATCH_REGISTER};

/// The greatest [`StubCall::poll_offset`]: `ldrb` has 12 bits for it.
pub const MAX_POLL_OFFSET: i32 = 4095;
/// The greatest [`StubCall::stub_offset`], in units of 8 bytes as the cursor's.
pub const MAX_STUB_OFFSET: i32 = MAX_CURSOR_OFFSET;
/// The least [`StubSite::LaterExit::shared_exit`]: `cbnz`, the second instruction, goes back 1 MiB.
pub const MIN_SHARED_EXIT: i32 = 4 - (1 << 20);

/// Where in a method a call of the stub stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StubSite {
    /// In place of a `ret`, with a way to the stub that later returns of the method can share.
    TailExit,
    /// In place of a later `ret` of the same method.
    LaterExit {
        /// Bytes from the start of this code to [`StubCode::shared_exit`] of the first exit: a negative
        /// multiple of 4, not less than [`MIN_SHARED_EXIT`].
        shared_exit: i32,
    },
    /// As `TailExit`, if the word with the stub's address is 0 while tracing is off.
    PointerTailExit,
    /// In place of a later `ret` of a method with a `PointerTailExit`.
    PointerLaterExit {
        /// As in `LaterExit`.
        shared_exit: i32,
    },
    /// At the entry of a method that has no suspend check there; the method is in x0.
    PointerLeafEntry,
    /// In place of a `ret`, without a test: the stub is called also while tracing is off.
    JumpExit,
}

/// What to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StubCall {
    /// The place.
    pub site: StubSite,
    /// Byte offset in the thread of the byte that is not 0 while tracing is on, from 0 to
    /// [`MAX_POLL_OFFSET`].
    pub poll_offset: i32,
    /// Byte offset in the thread of the stub's address: a multiple of 8 from 0 to [`MAX_STUB_OFFSET`].
    pub stub_offset: i32,
}

/// The code of a call of the stub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StubCode {
    /// Position-independent machine code that returns from the method.
    pub bytes: Vec<u8>,
    /// The registers that it may change before the stub runs (never the flags).
    pub clobbers: RegSet,
    /// Where in `bytes` the way to the stub starts, if later exits can branch to it.
    pub shared_exit: Option<usize>,
}

/// Emits a call of the stub.
pub fn emit_stub_call(call: &StubCall) -> Result<StubCode, EncodeError> {
    let StubCall {
        site,
        poll_offset,
        stub_offset,
    } = *call;
    // All that the assembler would panic on is refused here.
    let poll = match u32::try_from(poll_offset) {
        Ok(poll) if poll_offset <= MAX_POLL_OFFSET => poll,
        _ => return Err(EncodeError::PollOffset(poll_offset)),
    };
    let stub = match u32::try_from(stub_offset) {
        Ok(stub) if stub % 8 == 0 && stub_offset <= MAX_STUB_OFFSET => stub,
        _ => return Err(EncodeError::StubOffset(stub_offset)),
    };

    let mut ops = VecAssembler::<Aarch64Relocation>::new(0);
    match site {
        StubSite::JumpExit => {}
        StubSite::PointerTailExit
        | StubSite::PointerLaterExit { .. }
        | StubSite::PointerLeafEntry => dynasm!(ops; .arch aarch64; ldr x16, [x19, stub]),
        _ => dynasm!(ops; .arch aarch64; ldrb w16, [x19, poll]),
    }
    let mut shared = None;
    match site {
        StubSite::TailExit => {
            dynasm!(ops; .arch aarch64; cbnz w16, >shared; ret; shared:);
            shared = Some(ops.offset().0);
            dynasm!(ops; .arch aarch64; ldr x16, [x19, stub]; br x16);
        }
        StubSite::LaterExit { shared_exit } => {
            let distance = distance_back(shared_exit)?;
            dynasm!(ops; .arch aarch64; cbnz w16, distance; ret);
        }
        StubSite::PointerTailExit => {
            dynasm!(ops; .arch aarch64; cbnz x16, >shared; ret; shared:);
            shared = Some(ops.offset().0);
            dynasm!(ops; .arch aarch64; br x16);
        }
        StubSite::PointerLaterExit { shared_exit } => {
            let distance = distance_back(shared_exit)?;
            dynasm!(ops; .arch aarch64; cbnz x16, distance; ret);
        }
        StubSite::PointerLeafEntry => {
            dynasm!(ops; .arch aarch64; cbz x16, >done; adr x17, >done; br x16; done:);
        }
        StubSite::JumpExit => dynasm!(ops; .arch aarch64; ldr x16, [x19, stub]; br x16),
    }
    match ops.finalize() {
        Ok(bytes) => Ok(StubCode {
            bytes,
            clobbers: if site == StubSite::PointerLeafEntry {
                RegSet::of(&[CURSOR_REGISTER, SCRATCH_REGISTER])
            } else {
                RegSet::of(&[CURSOR_REGISTER])
            },
            shared_exit: shared,
        }),
        Err(e) => Err(EncodeError::Assembler {
            what: format!("{call:?}"),
            why: e.to_string(),
        }),
    }
}

/// From the branch, which is the second instruction, to a place this many bytes from the first.
fn distance_back(shared_exit: i32) -> Result<i32, EncodeError> {
    if !(MIN_SHARED_EXIT..0).contains(&shared_exit) || shared_exit % 4 != 0 {
        return Err(EncodeError::SharedExitDistance(shared_exit));
    }
    Ok(shared_exit - 4)
}
