// SPDX-License-Identifier: Apache-2.0
//! Recognizing the stores of trace points that may run onto the guard page.

use hindsight_trace_format::slot::SLOT_BYTES;

use crate::encode::{strd_step, STRD_POST};
use crate::isa::{RESERVED, THREAD_REGISTER};
use crate::regs::Reg;

/// The number of bytes of code that [`wraps_at`] needs at most.
pub const MAX_STORE_BYTES: usize = 8;

/// The register that holds the cursor, if `code` starts with a trace point's store that may run onto the guard page,
/// followed by the instruction that follows it in a trace point. The handler sets that register to the ring's start.
///
/// `code` is read at the program counter, whose lowest bit is clear also in Thumb state; [`MAX_STORE_BYTES`] bytes
/// suffice. The caller has checked that the processor was in Thumb state: in Arm state the same bytes are another
/// instruction.
///
/// `code` may end anywhere, at the end of the last page known to be readable; then the bytes that are there must match.
/// The weaker check is not the only one: the fault handler also compares the faulting address and the cursor register
/// with the ring's end.
///
/// Async-signal-safe: it only reads the bytes.
pub fn wraps_at(code: &[u8]) -> Option<Reg> {
    // strd method|zero, counter, [cursor], #8
    let [upper_low, upper_high] = STRD_POST.to_le_bytes();
    let first = *code.first()?;
    let cursor = Reg::from_number(first & 0xf)?;
    let is_store = first & 0xf0 == upper_low
        && cursor.is_low()
        && at(code, 1, |b| b == upper_high)
        && at(code, 2, |b| u16::from(b) == strd_step(SLOT_BYTES as u16))
        && at(code, 3, |b| stores_slot(b >> 4, b & 0xf, cursor));
    // str.w cursor, [r9, #CURSOR]
    let is_followed = at(code, 4, |b| b == 0xc0 | THREAD_REGISTER.number())
        && at(code, 5, |b| b == 0xf8)
        && at(code, 6, |b| b % 4 == 0)
        && at(code, 7, |b| b >> 4 == cursor.number());
    (is_store && is_followed).then_some(cursor)
}

/// Whether a byte is right, or cut off.
fn at(code: &[u8], index: usize, is_right: impl Fn(u8) -> bool) -> bool {
    code.get(index).is_none_or(|byte| is_right(*byte))
}

/// Whether registers of these numbers can hold the halves of a slot.
fn stores_slot(low: u8, counter: u8, cursor: Reg) -> bool {
    let usable =
        |number| Reg::from_number(number).is_some_and(|r| r != cursor && !RESERVED.contains(r));
    low != counter && usable(low) && usable(counter)
}
