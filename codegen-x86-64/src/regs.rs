// SPDX-License-Identifier: Apache-2.0
//! Core registers and sets of them.

hindsight_codegen_core::registers! {
    u16: Rax, Rcx, Rdx, Rbx, Rsp, Rbp, Rsi, Rdi, R8, R9, R10, R11, R12, R13, R14, R15
}
