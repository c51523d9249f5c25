// SPDX-License-Identifier: Apache-2.0
//! Trace points to try.

use hindsight_codegen_x86_64::{Form, Kind, Reg, RegSet, TracePoint};

/// Registers with different roles in a trace point: the ones that rdtsc writes, ones that can keep values, one that may
/// hold the method.
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
                        wide_pointers,
                        free,
                        ..TracePoint::new(kind, cursor_offset)
                    });
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

/// Every form except the default one, with a ring of a page, and with options in turn.
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
        for (n, point) in all_points(&[cursor_offset]).into_iter().enumerate() {
            points.push(TracePoint {
                form,
                barrier: n % 3 == 0,
                prefetch: [None, Some(0), Some(64), Some(-128), Some(4096)][n % 5],
                ..point
            });
        }
    }
    points
}
