// SPDX-License-Identifier: Apache-2.0
//! The instructions of machine code, by an independent disassembler, without the data between them.

use std::collections::BTreeMap;

use anyhow::{anyhow, Result};
use capstone::arch::{self, BuildsCapstone as _};
use capstone::Capstone;
use hindsight_lab::Isa;

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Byte offset in the code.
    pub(super) at: usize,
    pub(super) size: usize,
    /// Mnemonic and operands; a direct branch's target is an offset in the code.
    pub(super) text: String,
}

impl Instruction {
    pub(super) fn end(&self) -> usize {
        self.at + self.size
    }

    /// Without the suffix for the width of its encoding.
    pub(super) fn mnemonic(&self) -> &str {
        let mnemonic = self.text.split(' ').next().unwrap_or_default();
        mnemonic.strip_suffix(".w").unwrap_or(mnemonic)
    }

    pub(super) fn operands(&self) -> &str {
        self.text
            .split_once(' ')
            .map_or("", |(_, operands)| operands)
    }
}

/// A disassembler for an instruction set.
pub(super) struct Decoder {
    isa: Isa,
    capstone: Capstone,
}

impl Decoder {
    pub(super) fn new(isa: Isa) -> Result<Self> {
        let capstone = match isa {
            Isa::X86_64 => Capstone::new()
                .x86()
                .mode(arch::x86::ArchMode::Mode64)
                .build(),
            Isa::Arm64 => Capstone::new()
                .arm64()
                .mode(arch::arm64::ArchMode::Arm)
                .build(),
            Isa::Arm => Capstone::new()
                .arm()
                .mode(arch::arm::ArchMode::Thumb)
                .build(),
        };
        let capstone =
            capstone.map_err(|e| anyhow!("capstone cannot disassemble {}: {e}", isa.name()))?;
        Ok(Decoder { isa, capstone })
    }

    pub(super) fn isa(&self) -> Isa {
        self.isa
    }

    /// The alignment of instructions in bytes.
    pub(super) fn granule(&self) -> usize {
        match self.isa {
            Isa::X86_64 => 1,
            Isa::Arm64 => 4,
            Isa::Arm => 2,
        }
    }

    /// The instruction at the start of the bytes.
    pub(super) fn first(&self, bytes: &[u8]) -> Option<Instruction> {
        // The longest instruction.
        let bytes = &bytes[..bytes.len().min(16)];
        let decoded = self.capstone.disasm_count(bytes, 0, 1).ok()?;
        decoded.iter().next().map(convert)
    }

    /// The instructions of a method. Constants and jump tables are found by the instructions that address
    /// them, and left out.
    ///
    /// An error if some bytes are neither code nor addressed data.
    pub(super) fn method(&self, code: &[u8]) -> Result<Vec<Instruction>> {
        let mut instructions: Vec<Instruction> = Vec::with_capacity(code.len() / 4);
        let mut data = Data::default();
        let mut at = 0;
        while at < code.len() {
            if let Some(end) = data.end_of(at, code).filter(|&end| end > at) {
                at = end.next_multiple_of(self.granule());
                continue;
            }
            let stop = data
                .next_start(at)
                .map_or(code.len(), |start| start.min(code.len()));
            let decoded = self
                .capstone
                .disasm_all(&code[at..stop], at as u64)
                .map_err(|e| anyhow!("capstone fails at {at:#x}: {e}"))?;
            let before = at;
            for instruction in decoded.iter().map(convert) {
                if data.end_of(instruction.at, code).is_some() {
                    break;
                }
                at = instruction.end();
                self.note_data(&instruction, &instructions, code.len(), &mut data);
                instructions.push(instruction);
            }
            if at == before {
                match self.isa {
                    // Data behind the code: a table of 32-bit offsets, padding.
                    Isa::Arm64 => at += 4,
                    _ => {
                        let bytes = &code[at..code.len().min(at + 8)];
                        return Err(anyhow!("no instruction at {at:#x}: {bytes:02x?}"));
                    }
                }
            }
        }
        Ok(instructions)
    }

    /// The place of the data in the code that the instruction addresses.
    fn note_data(
        &self,
        instruction: &Instruction,
        before: &[Instruction],
        code_bytes: usize,
        data: &mut Data,
    ) {
        match self.isa {
            Isa::X86_64 => {
                let Some(distance) = after(&instruction.text, "[rip + ") else {
                    return;
                };
                // All constants are behind the code.
                let start = instruction.end() + distance as usize;
                if start < code_bytes {
                    data.0.insert(start, code_bytes - start);
                }
            }
            Isa::Arm64 => {
                if !matches!(instruction.mnemonic(), "ldr" | "ldrsw") {
                    return;
                }
                if let Some((register, target)) = instruction.operands().split_once(", #") {
                    let size = match register.as_bytes().first() {
                        Some(b'w' | b's') => 4,
                        Some(b'q') => 16,
                        _ => 8,
                    };
                    if let Some(start) = number(target).filter(|&n| n < code_bytes as u64) {
                        data.0.insert(start as usize, size);
                    }
                }
            }
            Isa::Arm => {
                let base = (instruction.at + 4) & !3;
                if let Some(distance) = after(&instruction.text, "[pc, #") {
                    let size = match instruction.operands().as_bytes().first() {
                        Some(b'd') => 8,
                        _ if instruction.mnemonic() == "ldrd" => 8,
                        _ => 4,
                    };
                    data.0.insert(base + distance as usize, size);
                } else if instruction.mnemonic() == "bx" && instruction.operands() != "lr" {
                    // A switch: adr table; ldr offset; add; bx; then the table.
                    let is_table = before.iter().rev().take(4).any(|i| {
                        matches!(i.mnemonic(), "adr" | "addw" | "add")
                            && (i.operands().contains(", pc, #") || i.mnemonic() == "adr")
                    });
                    if is_table {
                        data.0.insert(instruction.end(), 0);
                    }
                }
            }
        }
    }
}

/// Data in code: start and size. A jump table has the size 0, since its entries tell its end.
#[derive(Default)]
struct Data(BTreeMap<usize, usize>);

impl Data {
    /// The end of the data at this place, if there is any.
    fn end_of(&self, at: usize, code: &[u8]) -> Option<usize> {
        let (&start, &size) = self.0.range(..=at).next_back()?;
        match size {
            0 if start == at => Some(start + jump_table_bytes(code, start)),
            _ => Some(start + size).filter(|&end| end > at),
        }
    }

    fn next_start(&self, at: usize) -> Option<usize> {
        self.0.range(at + 1..).next().map(|(&start, _)| start)
    }
}

/// The size of a jump table: offsets of 32 bits from the table's start to places in the code, odd because
/// they are in Thumb state. The table ends at the first of its targets behind it.
fn jump_table_bytes(code: &[u8], table: usize) -> usize {
    let mut end = code.len();
    let mut at = table;
    while at + 4 <= end {
        let Some(entry) = code.get(at..).and_then(|rest| rest.first_chunk()) else {
            break;
        };
        let Some(target) = table.checked_add_signed(i32::from_le_bytes(*entry) as isize & !1)
        else {
            break;
        };
        if target >= code.len() {
            break;
        }
        if target > at {
            end = end.min(target);
        }
        at += 4;
    }
    at - table
}

fn convert(instruction: &capstone::Insn<'_>) -> Instruction {
    let mnemonic = instruction.mnemonic().unwrap_or_default();
    let text = format!("{mnemonic} {}", instruction.op_str().unwrap_or_default());
    Instruction {
        at: instruction.address() as usize,
        size: instruction.bytes().len(),
        text: text.trim_end().to_owned(),
    }
}

/// The number after `what` in a text.
pub(super) fn after(text: &str, what: &str) -> Option<u64> {
    let (_, rest) = text.split_once(what)?;
    number(rest.split(|c: char| !c.is_ascii_alphanumeric()).next()?)
}

/// A non-negative number in capstone's notation.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
