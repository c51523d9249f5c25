// SPDX-License-Identifier: Apache-2.0
//! Machine code for ART's code generators.

use hindsight_codegen_x86_64::{emit, Kind, Reg, RegSet, TracePoint};

use crate::bridge::ffi::TracePointSpec;

/// Appends the code of an x86-64 trace point to `code`. Returns what is wrong with the specification,
/// or nothing.
pub(crate) fn emit_x86_64(spec: &TracePointSpec, code: &mut Vec<u8>) -> String {
    // What the trace point may use without saving it; the code generator's visitors see to it.
    let (kind, free) = if spec.is_entry {
        let Some(method) = Reg::from_number(spec.method_register) else {
            return format!("x86-64 has no register {}", spec.method_register);
        };
        (Kind::Entry { method }, RegSet::of(&[Reg::Rax, Reg::R10]))
    } else if spec.returns_core_value {
        (Kind::Exit, RegSet::of(&[Reg::Rdx, Reg::R10]))
    } else {
        (Kind::Exit, RegSet::of(&[Reg::Rax, Reg::Rdx, Reg::R10]))
    };
    let point = TracePoint {
        wide_pointers: cfg!(feature = "wide-method-pointers"),
        free,
        ..TracePoint::new(kind, spec.cursor_offset)
    };
    match emit(&point) {
        Ok(emitted) => {
            code.extend_from_slice(&emitted.bytes);
            String::new()
        }
        Err(e) => e.to_string(),
    }
}
