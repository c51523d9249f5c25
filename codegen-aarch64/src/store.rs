// SPDX-License-Identifier: Apache-2.0
//! Recognizing the stores of trace points that may run onto the guard page.

use crate::{Reg, CURSOR_REGISTER, SCRATCH_REGISTER, THREAD_REGISTER};

/// As many bytes of code as [`wraps_at`] looks at: two instructions.
pub const MAX_STORE_BYTES: usize = 8;

const CURSOR: u32 = CURSOR_REGISTER as u32;
const SCRATCH: u32 = SCRATCH_REGISTER as u32;
const THREAD: u32 = THREAD_REGISTER as u32;

// stp w?, w17, [x16], #8
const PAIR: u32 = 0x2881_0000 | SCRATCH << 10 | CURSOR << 5;
// str x?, [x16], #8
const WORD: u32 = 0xf800_8400 | CURSOR << 5;
/// Where both have the number of the register that is stored.
const STORED: u32 = 0x1f;

// str x16, [x19, #?]
const PUBLISH: u32 = 0xf900_0000 | THREAD << 5 | CURSOR;
const PUBLISH_OFFSET: u32 = 0xfff << 10;
// mrs x17, cntvct_el0
const READ_COUNTER: u32 = 0xd53b_e040 | SCRATCH;
// b, over mrs and stp; over mrs, isb and stp
const TO_PUBLISH: [u32; 2] = [0x1400_0003, 0x1400_0004];

/// Whether `code` starts with a store of a trace point that may run onto the guard page, followed by
/// what follows it there. `code` is what the program counter points at; [`MAX_STORE_BYTES`] suffice.
///
/// It may be cut short after the first instruction, by the end of a page that nobody dares to read
/// across: then that instruction alone decides. That weakens the check where it is not the only one;
/// the handler has compared the faulting address and the cursor register with the ring's end already.
///
/// Async-signal-safe: it only looks at the bytes.
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
            // The zero register, which closes a call, has the stack pointer's number.
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
