// SPDX-License-Identifier: Apache-2.0
//! Trace points that call a stub while tracing is on: less code in the method than the inline form, at the price of a
//! call. The word with the stub's address is 0 while tracing is off, so one load both tests it and finds the stub.
//!
//! ```text
//! TailExit                          LaterExit                         LeafEntry
//!     ldr  x16, [x19, #STUB]            ldr  x16, [x19, #STUB]            ldr x16, [x19, #STUB]
//!     cbnz x16, shared                  cbnz x16, shared, of the first    cbz x16, done
//!     ret                               ret                               adr x17, done
//! shared:                                                                 br  x16
//!     br   x16                                                        done:
//! ```
//!
//! The exits stand in place of the method's `ret`: the stub returns to the method's caller. So the stub keeps all
//! values that the method returns, in x0 and d0; it may change x16, x17 and the flags. The link register is as it was
//! at the method's entry. At an entry the stub finds the method in x0 and its own return address in x17, because the
//! method may not have saved the link register; it keeps every register but x16 and x17. None of these instructions
//! touches the ring.
//!
//! # Sites for comparison
//!
//! The poll sites test a byte of the thread; `JumpExit` has no test, so while tracing is off the stub only returns.
//! There is no poll site at an entry: saving the link register takes as many instructions as the whole inline form.
//!
//! ```text
//! PollTailExit                      PollLaterExit                     JumpExit
//!     ldrb w16, [x19, #POLL]            ldrb w16, [x19, #POLL]            ldr x16, [x19, #STUB]
//!     cbnz w16, shared                  cbnz w16, shared, of the first    br  x16
//!     ret                               ret
//! shared:
//!     ldr  x16, [x19, #STUB]
//!     br   x16
//! ```

use dynasmrt::aarch64::Aarch64Relocation;
use dynasmrt::{dynasm, DynasmApi, DynasmLabelApi, VecAssembler};
use hindsight_codegen_core::{EncodeError, Isa, StubCall, StubCode, StubSite};

use crate::isa::{Aarch64, CURSOR_REGISTER, SCRATCH_REGISTER};
use crate::regs::{Reg, RegSet};

/// Emits a call of the stub.
pub(crate) fn emit(call: &StubCall) -> Result<StubCode<Aarch64>, EncodeError<Aarch64>> {
    // The assembler panics on a value out of range: all of them are refused here.
    let stub = match u32::try_from(call.stub_offset) {
        Ok(stub) if Aarch64::reaches_word(call.stub_offset) => stub,
        _ => return Err(EncodeError::StubOffset(call.stub_offset)),
    };
    #[cfg(feature = "comparison")]
    let poll = match u32::try_from(call.poll_offset) {
        Ok(poll) if call.poll_offset <= Aarch64::MAX_POLL_OFFSET => poll,
        _ => return Err(EncodeError::PollOffset(call.poll_offset)),
    };

    let mut ops = VecAssembler::<Aarch64Relocation>::new(0);
    let mut shared = None;
    match call.site {
        StubSite::TailExit => {
            dynasm!(ops; .arch aarch64; ldr x16, [x19, stub]; cbnz x16, >shared; ret; shared:);
            shared = Some(ops.offset().0);
            dynasm!(ops; .arch aarch64; br x16);
        }
        StubSite::LaterExit { shared_exit } => {
            let distance = distance_back(shared_exit)?;
            dynasm!(ops; .arch aarch64; ldr x16, [x19, stub]; cbnz x16, distance; ret);
        }
        StubSite::LeafEntry => {
            dynasm!(ops
                ; .arch aarch64
                ; ldr x16, [x19, stub]
                ; cbz x16, >done
                ; adr x17, >done
                ; br x16
                ; done:
            );
        }
        StubSite::FramedExit => {
            dynasm!(ops; .arch aarch64; ldr x16, [x19, stub]; cbz x16, >done; blr x16; done:);
        }
        #[cfg(feature = "comparison")]
        StubSite::PollTailExit => {
            dynasm!(ops; .arch aarch64; ldrb w16, [x19, poll]; cbnz w16, >shared; ret; shared:);
            shared = Some(ops.offset().0);
            dynasm!(ops; .arch aarch64; ldr x16, [x19, stub]; br x16);
        }
        #[cfg(feature = "comparison")]
        StubSite::PollLaterExit { shared_exit } => {
            let distance = distance_back(shared_exit)?;
            dynasm!(ops; .arch aarch64; ldrb w16, [x19, poll]; cbnz w16, distance; ret);
        }
        #[cfg(feature = "comparison")]
        StubSite::JumpExit => dynasm!(ops; .arch aarch64; ldr x16, [x19, stub]; br x16),
        site => return Err(EncodeError::Site(site)),
    }
    match ops.finalize() {
        Ok(bytes) => Ok(StubCode {
            bytes,
            clobbers: match call.site {
                StubSite::LeafEntry => RegSet::of(&[CURSOR_REGISTER, SCRATCH_REGISTER]),
                StubSite::FramedExit => RegSet::of(&[
                    Reg::X9,
                    Reg::X10,
                    CURSOR_REGISTER,
                    SCRATCH_REGISTER,
                    Reg::X30,
                ]),
                _ => RegSet::of(&[CURSOR_REGISTER]),
            },
            shared_exit: shared,
        }),
        Err(e) => Err(EncodeError::Assembler {
            what: format!("{call:?}"),
            why: e.to_string(),
        }),
    }
}

/// The distance from the branch, which is the second instruction, to a place `shared_exit` bytes from the first.
fn distance_back(shared_exit: i32) -> Result<i32, EncodeError<Aarch64>> {
    if !(Aarch64::MIN_SHARED_EXIT..0).contains(&shared_exit) || shared_exit % 4 != 0 {
        return Err(EncodeError::SharedExitDistance(shared_exit));
    }
    Ok(shared_exit - 4)
}
