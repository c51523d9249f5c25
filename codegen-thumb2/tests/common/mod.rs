// SPDX-License-Identifier: Apache-2.0
//! Trace points to try, and their disassembly.

use capstone::prelude::*;
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
                                kind,
                                cursor_offset,
                                counter,
                                barrier,
                                form: Form::Inline,
                                free: RegSet::of(&[a, b, c]),
                            });
                        }
                    }
                }
            }
        }
    }
    points
}

/// One disassembled instruction.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    /// Where it stands in the code, in bytes.
    pub(crate) at: usize,
    /// Its size in bytes.
    pub(crate) size: usize,
    /// Mnemonic and operands.
    pub(crate) text: String,
}

/// An independent disassembler. Its names are made those of [`Reg`].
pub(crate) struct Disassembler(Capstone);

impl Disassembler {
    pub(crate) fn new() -> Self {
        let thumb = Capstone::new().arm().mode(arch::arm::ArchMode::Thumb);
        Disassembler(thumb.build().unwrap())
    }

    /// All of the code, which has to be instructions to its end.
    pub(crate) fn instructions(&self, code: &[u8]) -> Vec<Instruction> {
        let instructions: Vec<_> = self
            .0
            .disasm_all(code, 0)
            .unwrap()
            .iter()
            .map(|i| Instruction {
                at: i.address() as usize,
                size: i.bytes().len(),
                text: rename(&format!(
                    "{} {}",
                    i.mnemonic().unwrap(),
                    i.op_str().unwrap()
                )),
            })
            .collect();
        let size: usize = instructions.iter().map(|i| i.size).sum();
        assert_eq!(size, code.len(), "{code:02x?}: {instructions:?}");
        instructions
    }
}

/// r9 to r11 have names that depend on the platform.
fn rename(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        out += match &rest[..word] {
            "sb" => "r9",
            "sl" => "r10",
            "fp" => "r11",
            "r12" => "ip",
            other => other,
        };
        let next = word + usize::from(word < rest.len());
        out += &rest[word..next];
        rest = &rest[next..];
    }
    out
}
