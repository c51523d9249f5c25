// SPDX-License-Identifier: Apache-2.0
//! Runs emitted trace points on a model of the few instructions they may consist of, as the
//! independent disassembler reads them: a made-up thread, a ring with a page behind it that faults,
//! and a handler that wraps the cursor.

mod common;

use common::{Disassembler, Instruction};
use hindsight_codegen_thumb2::{emit, wraps_at, Kind, Reg, TracePoint, MAX_STORE_BYTES};
use hindsight_trace_format::slot::{Slot, SLOT_BYTES};

const CURSOR: i32 = 0x58;
const THREAD: u32 = 0xa000_1000;
const RING: u32 = 0x7fff_e000;
const SLOTS: u32 = 512;
const RING_END: u32 = RING + SLOTS * SLOT_BYTES as u32;
const METHOD: u32 = 0x7123_4560;
const UNTOUCHED: u64 = 0xeeee_eeee_eeee_eeee;

/// Core registers by number; pc's place is not used.
type Registers = [u32; 16];

/// A thread on a processor that has nothing but what trace points need.
struct Machine {
    registers: Registers,
    /// The word of the thread at [`CURSOR`].
    cursor: u32,
    ring: Vec<u64>,
    counter: u64,
    wraps: usize,
}

enum Outcome {
    Next,
    Jump(usize),
    /// A store to this address faulted; nothing has changed.
    Fault(u32),
}

impl Machine {
    fn new(cursor: u32, registers: Registers) -> Machine {
        Machine {
            registers,
            cursor,
            ring: vec![UNTOUCHED; SLOTS as usize],
            counter: 0x0123_4567_89ab_cdef,
            wraps: 0,
        }
    }

    fn get(&mut self, register: &str) -> &mut u32 {
        let register = Reg::ALL.into_iter().find(|r| r.to_string() == register);
        &mut self.registers[usize::from(register.expect("a register").number())]
    }

    /// The word of the thread that is the cursor.
    fn thread_word(&mut self, address: &str) -> &mut u32 {
        let offset = address.strip_prefix("[r9, #0x").unwrap();
        let offset = u32::from_str_radix(offset.strip_suffix(']').unwrap(), 16).unwrap();
        let address = *self.get("r9") + offset;
        assert_eq!(address, THREAD + CURSOR as u32);
        &mut self.cursor
    }

    fn step(&mut self, instruction: &Instruction) -> Outcome {
        let (mnemonic, operands) = instruction.text.split_once(' ').unwrap();
        // A comma inside of brackets is not one between operands.
        let (before, address) = match operands.find('[') {
            Some(at) => operands.split_at(at),
            None => (operands, ""),
        };
        let mut operands: Vec<&str> = before.split(", ").filter(|o| !o.is_empty()).collect();
        if !address.is_empty() {
            operands.push(address);
        }
        match (mnemonic, operands.as_slice()) {
            ("ldr.w", [rt, address]) => *self.get(rt) = *self.thread_word(address),
            ("str.w", [rt, address]) => *self.thread_word(address) = *self.get(rt),
            ("cbz", [rn, target]) => {
                if *self.get(rn) == 0 {
                    let target = target.strip_prefix("#0x").unwrap();
                    return Outcome::Jump(usize::from_str_radix(target, 16).unwrap());
                }
            }
            ("mrrc", ["p15", "#0" | "#1", rt, rt2, "c14"]) => {
                assert_ne!(rt, rt2, "unpredictable");
                // The architecture: CNTVCT<31:0> to the first register, <63:32> to the second.
                *self.get(rt) = self.counter as u32;
                *self.get(rt2) = (self.counter >> 32) as u32;
            }
            ("isb", ["sy"]) => {}
            ("mov.w", [rd, "#0"]) => *self.get(rd) = 0,
            ("strd", [rt, rt2, address]) => {
                let base = address.strip_prefix('[').unwrap();
                let base = base.strip_suffix("], #8").unwrap();
                assert!(base != *rt && base != *rt2, "unpredictable");
                let at = *self.get(base);
                assert_eq!(at % 4, 0, "unaligned");
                if at == RING_END {
                    return Outcome::Fault(at);
                }
                let words = [*self.get(rt), *self.get(rt2)].map(u64::from);
                self.ring[((at - RING) / SLOT_BYTES as u32) as usize] = words[1] << 32 | words[0];
                *self.get(base) = at + SLOT_BYTES as u32;
            }
            _ => panic!("a trace point has no business with {}", instruction.text),
        }
        Outcome::Next
    }

    /// Runs the code to its end; returns how many instructions completed.
    fn run(&mut self, disassembler: &Disassembler, code: &[u8]) -> usize {
        let instructions = disassembler.instructions(code);
        let mut pc = 0;
        let mut completed = 0;
        while pc < code.len() {
            let instruction = instructions
                .iter()
                .find(|i| i.at == pc)
                .expect("a jump into the middle of an instruction");
            match self.step(instruction) {
                Outcome::Next => pc += instruction.size,
                Outcome::Jump(target) => pc = target,
                Outcome::Fault(address) => {
                    let end = code.len().min(pc + MAX_STORE_BYTES);
                    let cursor = wraps_at(&code[pc..end]).expect("a store that wraps");
                    let cursor = &mut self.registers[usize::from(cursor.number())];
                    assert_eq!(*cursor, address);
                    *cursor = RING;
                    self.wraps += 1;
                    assert_eq!(self.wraps, 1, "it faults again and again");
                    continue;
                }
            }
            completed += 1;
        }
        assert_eq!(pc, code.len(), "control does not fall out of the end");
        completed
    }
}

/// Different in every register and every half.
fn registers(point: &TracePoint) -> Registers {
    let mut values: Registers = std::array::from_fn(|i| 0x0101_1010 * (i as u32 + 1));
    values[usize::from(Reg::R9.number())] = THREAD;
    if let Kind::Entry { method } = point.kind {
        values[usize::from(method.number())] = METHOD;
    }
    values
}

#[test]
fn while_tracing_is_off_two_instructions_run_and_one_register_changes() {
    let disassembler = Disassembler::new();
    for point in common::all_points(CURSOR) {
        let code = emit(&point).unwrap();
        let before = registers(&point);
        let mut machine = Machine::new(0, before);
        assert_eq!(machine.run(&disassembler, &code.bytes), 2, "{point:?}");
        assert_eq!(machine.cursor, 0);
        assert!(machine.ring.iter().all(|slot| *slot == UNTOUCHED));
        let changed: Vec<Reg> = Reg::ALL
            .into_iter()
            .filter(|r| {
                let i = usize::from(r.number());
                machine.registers[i] != before[i]
            })
            .collect();
        assert_eq!(changed, [code.clobbers.iter().next().unwrap()], "{point:?}");
    }
}

#[test]
fn every_trace_point_writes_its_slot_and_keeps_what_is_not_free() {
    let disassembler = Disassembler::new();
    for point in common::all_points(CURSOR) {
        let code = emit(&point).unwrap();
        for first in [0, 17, SLOTS - 1, SLOTS] {
            let before = registers(&point);
            let mut machine = Machine::new(RING + first * SLOT_BYTES as u32, before);
            let completed = machine.run(&disassembler, &code.bytes);

            let wraps = first == SLOTS;
            let written = if wraps { 0 } else { first };
            let expected = match point.kind {
                Kind::Entry { .. } => Slot::entry(METHOD, machine.counter),
                Kind::Exit => Slot::exit(machine.counter),
            };
            assert_eq!(machine.wraps, usize::from(wraps), "{point:?}");
            assert_eq!(
                Slot(machine.ring[written as usize]),
                expected,
                "{point:?} at slot {first}"
            );
            let touched = machine.ring.iter().filter(|s| **s != UNTOUCHED).count();
            assert_eq!(touched, 1, "{point:?}");
            assert_eq!(
                machine.cursor,
                RING + (written + 1) * SLOT_BYTES as u32,
                "{point:?} at slot {first}"
            );
            let on = match point.kind {
                Kind::Entry { .. } => 5,
                Kind::Exit => 6,
            };
            assert_eq!(completed, on + usize::from(point.barrier), "{point:?}");
            for r in Reg::ALL {
                let i = usize::from(r.number());
                if code.clobbers.contains(r) {
                    assert!(point.free.contains(r), "{r} is not free in {point:?}");
                } else {
                    assert_eq!(machine.registers[i], before[i], "{r}: {point:?}");
                }
            }
        }
    }
}
