// SPDX-License-Identifier: Apache-2.0
//! Disassembles code with capstone.

use capstone::arch::x86::X86OperandType;
use capstone::arch::{ArchOperand, BuildsCapstone, BuildsCapstoneSyntax};
use capstone::{arch, Capstone, RegAccessType};

use crate::Isa;

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its offset in the code, in bytes.
    pub at: usize,
    /// Its size in bytes.
    pub size: usize,
    /// Mnemonic and operands; a branch's target is a byte offset into the code. AT&T syntax for x86-64.
    pub text: String,
    /// The number of times that it reads memory. A pair, and a call's push, are one access.
    pub loads: usize,
    /// The number of times that it writes memory.
    pub stores: usize,
}

impl Instruction {
    /// The mnemonic.
    pub fn mnemonic(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// The target of a direct branch, as a byte offset into the code. `None` for any other instruction.
    pub fn target(&self) -> Option<i64> {
        let is_branch = matches!(
            self.mnemonic().split('.').next(),
            Some("b" | "cbz" | "cbnz")
        ) || self.text.starts_with('b') && self.text.contains(" #")
            || self.text.starts_with('j') && !self.text.contains('*');
        let (_, operand) = self.text.rsplit_once(' ')?;
        let digits = operand.trim_start_matches('#');
        let value = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()? as i64,
            None => digits.parse().ok()?,
        };
        is_branch.then_some(value)
    }
}

/// An independent disassembler.
pub struct Disassembler {
    isa: Isa,
    capstone: Capstone,
}

impl Disassembler {
    /// A disassembler for an instruction set.
    ///
    /// # Panics
    /// If capstone was built without it.
    pub fn new(isa: Isa) -> Self {
        let capstone = match isa {
            Isa::Aarch64 => Capstone::new()
                .arm64()
                .mode(arch::arm64::ArchMode::Arm)
                .build(),
            Isa::Thumb2 => Capstone::new()
                .arm()
                .mode(arch::arm::ArchMode::Thumb)
                .build(),
            Isa::X86_64 => Capstone::new()
                .x86()
                .mode(arch::x86::ArchMode::Mode64)
                .syntax(arch::x86::ArchSyntax::Att)
                .detail(true)
                .build(),
        };
        Disassembler {
            isa,
            capstone: capstone.expect("capstone knows the instruction set"),
        }
    }

    /// The instructions of `code`, as if it were at address 0.
    ///
    /// # Panics
    /// If a part of `code` is no instruction.
    pub fn instructions(&self, code: &[u8]) -> Vec<Instruction> {
        let decoded = self
            .capstone
            .disasm_all(code, 0)
            .expect("capstone disassembles");
        let instructions: Vec<_> = decoded.iter().map(|i| self.convert(i)).collect();
        let size: usize = instructions.iter().map(|i| i.size).sum();
        assert_eq!(size, code.len(), "{code:02x?}: {instructions:?}");
        instructions
    }

    fn convert(&self, i: &capstone::Insn<'_>) -> Instruction {
        let mnemonic = i.mnemonic().unwrap_or_default();
        let text = format!("{mnemonic} {}", i.op_str().unwrap_or_default());
        let text = text.trim_end();
        let (loads, stores) = match self.isa {
            Isa::X86_64 => self.x86_accesses(i, mnemonic),
            _ => (
                usize::from(mnemonic.starts_with("ld")),
                usize::from(mnemonic.starts_with("st")),
            ),
        };
        Instruction {
            at: i.address() as usize,
            size: i.bytes().len(),
            text: match self.isa {
                Isa::Thumb2 => rename(text),
                _ => text.to_owned(),
            },
            loads,
            stores,
        }
    }

    fn x86_accesses(&self, i: &capstone::Insn<'_>, mnemonic: &str) -> (usize, usize) {
        // These use the stack without naming it. An lea only computes an address.
        let (mut loads, mut stores) = match mnemonic {
            "push" | "pushq" | "call" | "callq" => (0, 1),
            "pop" | "popq" | "ret" | "retq" => (1, 0),
            "lea" | "leaq" | "leal" => return (0, 0),
            m if m.starts_with("prefetch") => return (0, 0),
            _ => (0, 0),
        };
        let detail = self.capstone.insn_detail(i).expect("detail was asked for");
        for operand in detail.arch_detail().operands() {
            let ArchOperand::X86Operand(operand) = operand else {
                continue;
            };
            if let X86OperandType::Mem(_) = operand.op_type {
                let access = operand.access;
                // Capstone reports no access for the operand of an indirect jump.
                let reads = access.is_none_or(|a| a.is_readable());
                loads += usize::from(reads);
                stores += usize::from(access.is_some_and(|a: RegAccessType| a.is_writable()));
            }
        }
        (loads, stores)
    }
}

/// Replaces the platform's names of r9 to r12.
fn rename(text: &str) -> String {
    let mut out = String::new();
    for part in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let name = match word {
            "sb" => "r9",
            "sl" => "r10",
            "fp" => "r11",
            "r12" => "ip",
            other => other,
        };
        out += name;
        out += &part[word.len()..];
    }
    out
}
