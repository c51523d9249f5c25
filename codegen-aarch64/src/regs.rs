// SPDX-License-Identifier: Apache-2.0
//! 64-bit core registers and sets of them.

hindsight_codegen_core::registers! {
    u32:
    X0, X1, X2, X3, X4, X5, X6, X7, X8, X9, X10, X11, X12, X13, X14, X15, X16, X17, X18, X19, X20, X21,
    X22, X23, X24, X25, X26, X27, X28, X29, X30,
    /// The stack pointer. In some instructions its number, 31, encodes the zero register.
    Sp,
}
