// SPDX-License-Identifier: Apache-2.0
//! The executed instructions of a trace point, counted from its disassembled bytes.

use hindsight_codegen_check::Instruction;

/// The cost of one path through a trace point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) instructions: usize,
    pub(super) loads: usize,
    pub(super) stores: usize,
}

/// The executed instructions, in their order, up to a jump that leaves the code. While tracing is off the first
/// condition leads out; while it is on, all later ones lead around rarely executed parts (a wide pointer, the ring's
/// end, a request to stop).
pub(super) fn path(code: &[Instruction], is_on: bool) -> Vec<&Instruction> {
    let mut ran = Vec::new();
    let mut at = 0;
    let mut is_first = true;
    while let Some(i) = code.iter().find(|i| i.at == at) {
        ran.push(i);
        let is_taken = match i.mnemonic() {
            "b" | "jmp" => true,
            // Something is 0.
            "cbz" | "beq" | "je" | "jrcxz" if is_first => !is_on,
            // Something is not.
            "cbnz" | "bne" | "jne" if is_first => is_on,
            "cbz" | "beq" | "je" | "cbnz" | "bne" | "jne" => true,
            _ if leaves(i) => break,
            _ => {
                at += i.size;
                continue;
            }
        };
        is_first &= matches!(i.mnemonic(), "b" | "jmp");
        at = match i.target() {
            Some(target) if is_taken => target as usize,
            _ => at + i.size,
        };
    }
    ran
}

/// Whether control goes to an address that is not in the code.
fn leaves(i: &Instruction) -> bool {
    matches!(i.mnemonic(), "ret" | "retq" | "br" | "bx" | "jmpq")
        || i.mnemonic() == "ldr.w" && i.text.contains(" pc,")
}

/// The cost of a path, without the return instruction that the code replaces.
pub(super) fn cost(path: &[&Instruction], replaces_return: bool) -> Cost {
    let is_return = |i: &Instruction| matches!(i.mnemonic(), "ret" | "retq") || i.text == "bx lr";
    let counted = path.iter().filter(|i| !(replaces_return && is_return(i)));
    let mut cost = Cost {
        instructions: 0,
        loads: 0,
        stores: 0,
    };
    for i in counted {
        cost.instructions += 1;
        cost.loads += i.loads;
        cost.stores += i.stores;
    }
    cost
}

/// Whether the instruction returns from the method to its caller.
pub(super) fn is_return(i: &Instruction) -> bool {
    matches!(i.mnemonic(), "ret" | "retq") || i.text == "bx lr"
}

#[cfg(test)]
mod tests {
    use hindsight_codegen_check::{Disassembler, Isa};

    use super::super::forms;
    use super::*;

    fn counted(isa: Isa, name: &str) -> [usize; 4] {
        let forms = forms::all(isa).unwrap();
        let form = forms.iter().find(|f| f.name == name).unwrap();
        let disassembler = Disassembler::new(isa);
        let count = |code: &Option<Vec<u8>>, is_on, replaces| {
            let Some(code) = code else { return 0 };
            let code = disassembler.instructions(code);
            cost(&path(&code, is_on), replaces).instructions
        };
        let replaces = form.exit_replaces > 0;
        [
            count(&form.entry, true, false),
            count(&form.exit, true, replaces),
            count(&form.entry, false, false),
            count(&form.exit, false, replaces),
        ]
    }

    #[test]
    fn counts_are_those_of_the_sequences_written_down() {
        for (isa, name, expected) in [
            (Isa::Aarch64, "inline", [5, 5, 2, 2]),
            (Isa::Aarch64, "inline_wide", [7, 5, 2, 2]),
            (Isa::Aarch64, "masked", [7, 7, 2, 2]),
            (Isa::Aarch64, "hubble", [12, 10, 2, 2]),
            (Isa::Aarch64, "nanoscope", [7, 7, 2, 2]),
            (Isa::Aarch64, "poll_stub", [0, 4, 0, 2]),
            (Isa::Aarch64, "pointer_stub", [4, 3, 2, 2]),
            (Isa::Aarch64, "jump_stub", [0, 2, 0, 2]),
            (Isa::Thumb2, "inline", [5, 6, 2, 2]),
            (Isa::Thumb2, "masked", [7, 8, 2, 2]),
            (Isa::Thumb2, "hubble", [11, 12, 2, 2]),
            (Isa::Thumb2, "nanoscope", [7, 8, 2, 2]),
            (Isa::Thumb2, "poll_stub", [6, 4, 2, 2]),
            (Isa::Thumb2, "pointer_stub", [4, 3, 2, 2]),
            (Isa::Thumb2, "pointer_stub_frameless", [0, 3, 0, 2]),
            (Isa::Thumb2, "jump_stub", [0, 1, 0, 1]),
            (Isa::X86_64, "inline", [10, 10, 3, 3]),
            (Isa::X86_64, "masked", [13, 13, 3, 3]),
            (Isa::X86_64, "hubble", [17, 14, 3, 3]),
            (Isa::X86_64, "nanoscope", [12, 12, 3, 3]),
            (Isa::X86_64, "poll_stub", [3, 3, 2, 2]),
            (Isa::X86_64, "pointer_stub", [4, 4, 3, 3]),
            (Isa::X86_64, "pointer_stub_jrcxz", [0, 3, 0, 2]),
            (Isa::X86_64, "jump_stub", [1, 1, 1, 1]),
        ] {
            assert_eq!(counted(isa, name), expected, "{isa:?} {name}");
        }
    }

    #[test]
    fn accesses_are_counted() {
        for (isa, loads, stores) in [
            (Isa::Aarch64, 1, 2),
            (Isa::Thumb2, 1, 2),
            (Isa::X86_64, 1, 3),
        ] {
            let forms = forms::all(isa).unwrap();
            let code = Disassembler::new(isa).instructions(forms[0].entry.as_ref().unwrap());
            let cost = cost(&path(&code, true), false);
            assert_eq!((cost.loads, cost.stores), (loads, stores), "{isa:?}");
        }
    }
}
