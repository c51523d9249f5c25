// SPDX-License-Identifier: Apache-2.0
//! Trace points to try.

use hindsight_codegen_thumb2::{Counter, Form, Kind, Reg, RegSet, TracePoint};

/// Every register that a trace point may use or take the method from.
pub(crate) fn usable() -> impl Iterator<Item = Reg> + Clone {
    Reg::ALL
        .into_iter()
        .filter(|r| !matches!(r, Reg::R9 | Reg::Sp | Reg::Pc))
}

/// Every method register with every choice of three free registers, and exits, with all options.
pub(crate) fn all_points(cursor_offset: i32) -> Vec<TracePoint> {
    let kinds = usable()
        .map(|method| Kind::Entry { method })
        .chain([Kind::Exit]);
    let mut points = Vec::new();
    for kind in kinds {
        let others: Vec<Reg> = usable()
            .filter(|r| kind != Kind::Entry { method: *r })
            .collect();
        for (i, &a) in others.iter().enumerate() {
            for (j, &b) in others.iter().enumerate().skip(i + 1) {
                for &c in &others[j + 1..] {
                    if a > Reg::R7 {
                        continue;
                    }
                    for counter in [Counter::Virtual, Counter::Physical] {
                        for barrier in [false, true] {
                            points.push(TracePoint {
                                counter,
                                barrier,
                                free: RegSet::of(&[a, b, c]),
                                ..TracePoint::new(kind, cursor_offset)
                            });
                        }
                    }
                }
            }
        }
    }
    points
}

/// Offsets of words in the made-up thread. `GO` is a stop word that is 0, `STOP` one that is not.
pub(crate) const START: i32 = 0xa0;
pub(crate) const END: i32 = 0xa4;
pub(crate) const GO: i32 = 0xa8;
pub(crate) const STOP: i32 = 0xac;

/// Every form except the default one, with a ring of 512 slots, with many choices of registers and options.
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
    let all = all_points(cursor_offset);
    for (n, &point) in all.iter().step_by(7).enumerate() {
        let prefetch = [None, Some(-255), Some(-1), Some(0), Some(64), Some(4095)][n % 6];
        let form = forms[n / 6 % 4];
        points.push(TracePoint {
            form,
            prefetch,
            ..point
        });
    }
    points
}
