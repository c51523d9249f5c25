// SPDX-License-Identifier: Apache-2.0
//! Trace points to try.

use hindsight_codegen_aarch64::{Form, Kind, Reg, TracePoint};

/// The registers that can hold a method.
pub(crate) fn method_registers() -> impl Iterator<Item = Reg> {
    Reg::ALL
        .into_iter()
        .filter(|r| !matches!(r, Reg::X16 | Reg::X17 | Reg::X19 | Reg::Sp))
}

/// Every method register and an exit, narrow and wide, with and without each option.
pub(crate) fn all_points(cursor_offsets: &[i32]) -> Vec<TracePoint> {
    let kinds = method_registers()
        .map(|method| Kind::Entry { method })
        .chain([Kind::Exit]);
    let mut points = Vec::new();
    for kind in kinds {
        for wide_pointers in [false, true] {
            for barrier in [false, true] {
                for prefetch in [None, Some(-256), Some(0), Some(64), Some(255)] {
                    for &cursor_offset in cursor_offsets {
                        points.push(TracePoint {
                            kind,
                            cursor_offset,
                            wide_pointers,
                            form: Form::Inline,
                            barrier,
                            prefetch,
                        });
                    }
                }
            }
        }
    }
    points
}
