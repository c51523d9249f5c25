// SPDX-License-Identifier: Apache-2.0
//! Recognizing the stores of trace points that may run onto the guard page.

use crate::regs::Reg;

/// The number of bytes of code that [`wraps_at`] needs at most.
pub const MAX_STORE_BYTES: usize = 9;

// mov dword [r11], 0; rdtsc
const EXIT: [u8; 9] = [0x41, 0xc7, 0x03, 0, 0, 0, 0, 0x0f, 0x31];
// mov dword [r11], 1; jmp
const WIDE_CLOSE: [u8; 8] = [0x41, 0xc7, 0x03, 1, 0, 0, 0, 0xeb];
// rdtsc
const AFTER_METHOD: [u8; 2] = [0x0f, 0x31];
// add r11, 8
const AFTER_WIDE_METHOD: [u8; 4] = [0x49, 0x83, 0xc3, 0x08];

/// Whether `code`, read at the program counter, starts with a trace point's store that may run onto the guard page,
/// followed by the instruction that follows it in a trace point. [`MAX_STORE_BYTES`] bytes suffice.
///
/// `code` may end anywhere, at the end of the last page known to be readable; then the bytes that are there must match.
/// The weaker check is not the only one: the fault handler has already compared the faulting address and the cursor
/// register with the ring's end.
///
/// Async-signal-safe: it only reads the bytes.
pub fn wraps_at(code: &[u8]) -> bool {
    let Some(&rex) = code.first() else {
        return false;
    };
    if agree(code, &EXIT) || agree(code, &WIDE_CLOSE) {
        return true;
    }
    let after: &[u8] = match rex {
        0x41 | 0x45 => &AFTER_METHOD,
        0x49 | 0x4d => &AFTER_WIDE_METHOD,
        _ => return false,
    };
    code.get(1).is_none_or(|opcode| *opcode == 0x89)
        && code.get(2).is_none_or(|modrm| stores_method(rex, *modrm))
        && agree(code.get(3..).unwrap_or_default(), after)
}

/// Whether two pieces of code are equal as far as both go.
fn agree(a: &[u8], b: &[u8]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b)
}

/// Whether these bytes of a `mov` address `[r11]` and name a register that can hold a method.
fn stores_method(rex: u8, modrm: u8) -> bool {
    let register = modrm >> 3 & 7 | (rex & 4) << 1;
    modrm & 0xc7 == 0x03 && register != Reg::Rsp.number() && register != Reg::R11.number()
}
