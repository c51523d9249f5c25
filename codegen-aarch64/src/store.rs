// SPDX-License-Identifier: Apache-2.0
//! Recognizing the stores of trace points that may run onto the guard page.

use crate::isa::{CURSOR_REGISTER, SCRATCH_REGISTER, THREAD_REGISTER};
use crate::regs::Reg;

/// The number of bytes of code that [`wraps_at`] needs at most: two instructions.
pub const MAX_STORE_BYTES: usize = 8;

const CURSOR: u32 = CURSOR_REGISTER as u32;
const SCRATCH: u32 = SCRATCH_REGISTER as u32;
const THREAD: u32 = THREAD_REGISTER as u32;

// stp w?, w17, [x16], #8
const PAIR: u32 = 0x2881_0000 | SCRATCH << 10 | CURSOR << 5;
// str x?, [x16], #8
const WORD: u32 = 0xf800_8400 | CURSOR << 5;
/// The field of both that holds the number of the stored register.
const STORED: u32 = 0x1f;

// str x16, [x19, #?]
const PUBLISH: u32 = 0xf900_0000 | THREAD << 5 | CURSOR;
const PUBLISH_OFFSET: u32 = 0xfff << 10;
// mrs x17, cntvct_el0
const READ_COUNTER: u32 = 0xd53b_e040 | SCRATCH;
// b, over mrs and stp; over mrs, isb and stp
const TO_PUBLISH: [u32; 2] = [0x1400_0003, 0x1400_0004];

/// Whether `code`, read at the program counter, starts with a trace point's store that may run onto the guard page,
/// followed by the instruction that follows it in a trace point. [`MAX_STORE_BYTES`] bytes suffice.
///
/// `code` may end after the first instruction, at the end of the last page known to be readable; then that instruction
/// alone decides. The weaker check is not the only one: the fault handler has already compared the faulting address
/// and the cursor register with the ring's end.
///
/// Async-signal-safe: it only reads the bytes.
pub fn wraps_at(code: &[u8]) -> bool {
    let Some((store, rest)) = code.split_first_chunk() else {
        return false;
    };
    let store = u32::from_le_bytes(*store);
    let next = rest.first_chunk().map(|next| u32::from_le_bytes(*next));
    let follows = |right: &dyn Fn(u32) -> bool| next.is_none_or(right);

    let stored = store & STORED;
    match store & !STORED {
        PAIR => {
            // An exit stores the zero register, which has the stack pointer's number.
            (stored == Reg::Sp as u32 || may_hold_method(stored))
                && follows(&|next| next & !PUBLISH_OFFSET == PUBLISH)
        }
        WORD if stored == SCRATCH => follows(&|next| TO_PUBLISH.contains(&next)),
        WORD => may_hold_method(stored) && follows(&|next| next == READ_COUNTER),
        _ => false,
    }
}

fn may_hold_method(number: u32) -> bool {
    ![CURSOR, SCRATCH, THREAD, Reg::Sp as u32].contains(&number)
}
