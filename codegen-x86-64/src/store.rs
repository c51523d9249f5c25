// SPDX-License-Identifier: Apache-2.0
//! Recognizing the stores of trace points that may run onto the guard page.

use crate::Reg;

/// As many bytes of code [`wraps_at`] looks at.
pub const MAX_STORE_BYTES: usize = 9;

const RDTSC: [u8; 2] = [0x0f, 0x31];

/// Whether `code` starts with a store of a trace point that may run onto the guard page, followed by
/// what follows it there. `code` is what the program counter points at; [`MAX_STORE_BYTES`] suffice.
///
/// Async-signal-safe: it only looks at the bytes.
pub fn wraps_at(code: &[u8]) -> bool {
    match *code {
        // mov dword [r11], 0; rdtsc
        [0x41, 0xc7, 0x03, 0, 0, 0, 0, ref rest @ ..] => rest.starts_with(&RDTSC),
        // mov dword [r11], 1; jmp
        [0x41, 0xc7, 0x03, 1, 0, 0, 0, 0xeb, ..] => true,
        // mov [r11], r32; rdtsc
        [rex @ (0x41 | 0x45), 0x89, modrm, ref rest @ ..] => {
            stores_method(rex, modrm) && rest.starts_with(&RDTSC)
        }
        // mov [r11], r64; add r11, 8
        [rex @ (0x49 | 0x4d), 0x89, modrm, 0x49, 0x83, 0xc3, 0x08, ..] => stores_method(rex, modrm),
        _ => false,
    }
}

/// Whether these bytes of a `mov` address `[r11]` and name a register that can hold a method.
fn stores_method(rex: u8, modrm: u8) -> bool {
    let register = modrm >> 3 & 7 | (rex & 4) << 1;
    modrm & 0xc7 == 0x03 && register != Reg::Rsp.number() && register != Reg::R11.number()
}
