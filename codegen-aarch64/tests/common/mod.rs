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
                            wide_pointers,
                            barrier,
                            prefetch,
                            ..TracePoint::new(kind, cursor_offset)
                        });
                    }
                }
            }
        }
    }
    points
}

/// Offsets of words in the made-up thread. `GO` is a stop word that is 0, `STOP` one that is not.
pub(crate) const START: i32 = 0xa0;
pub(crate) const END: i32 = 0xa8;
pub(crate) const GO: i32 = 0xb0;
pub(crate) const STOP: i32 = 0xb4;

/// Every form except the default one, with a ring of a page, for some registers and an exit, narrow and wide,
/// with and without each option.
pub(crate) fn other_forms(cursor_offset: i32) -> Vec<TracePoint> {
    let hubble = |stop_offset| Form::Hubble {
        stop_offset,
        start_offset: START,
        end_offset: END,
    };
    let forms = [
        Form::Masked { ring_bytes: 4096 },
        hubble(GO),
        hubble(STOP),
        Form::Nanoscope,
    ];
    let mut points = Vec::new();
    for form in forms {
        points.extend(
            all_points(&[cursor_offset])
                .into_iter()
                .filter_map(|point| {
                    let is_tried = match point.kind {
                        Kind::Entry { method } => matches!(method, Reg::X0 | Reg::X15 | Reg::X30),
                        Kind::Exit => true,
                    };
                    is_tried.then_some(TracePoint { form, ..point })
                }),
        );
    }
    points
}
