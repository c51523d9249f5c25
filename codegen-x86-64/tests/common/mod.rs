// SPDX-License-Identifier: Apache-2.0
//! Trace points to try.

use hindsight_codegen_x86_64::{Form, Kind, Reg, RegSet, TracePoint};

/// Registers that differ in what they mean to a trace point: those that rdtsc writes, places to save
/// to, one that may hold the method.
const INTERESTING: [Reg; 5] = [Reg::Rax, Reg::Rdx, Reg::R10, Reg::Rdi, Reg::R15];

/// Every method register with every set of interesting free registers, narrow and wide, and exits.
pub(crate) fn all_points(cursor_offsets: &[i32]) -> Vec<TracePoint> {
    let kinds = Reg::ALL
        .into_iter()
        .filter(|r| !matches!(r, Reg::Rsp | Reg::R11))
        .map(|method| Kind::Entry { method })
        .chain([Kind::Exit]);
    let mut points = Vec::new();
    for kind in kinds {
        for wide_pointers in [false, true] {
            for chosen in 0..1_u32 << INTERESTING.len() {
                let free: RegSet = (0..)
                    .zip(INTERESTING)
                    .filter(|(i, _)| chosen >> i & 1 != 0)
                    .map(|(_, register)| register)
                    .collect();
                for &cursor_offset in cursor_offsets {
                    points.push(TracePoint {
                        kind,
                        cursor_offset,
                        wide_pointers,
                        form: Form::Inline,
                        free,
                    });
                }
            }
        }
    }
    points
}
