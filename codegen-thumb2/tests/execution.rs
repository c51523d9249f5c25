// SPDX-License-Identifier: Apache-2.0
//! Runs emitted trace points on a model of the few instructions that they may consist of, as an independent
//! disassembler decodes them: with a made-up thread, a ring followed by a page that faults, and a handler that wraps the cursor.

mod common;

use hindsight_codegen_check::{Disassembler, Instruction, Isa};
use hindsight_codegen_thumb2::{emit, wraps_at, Form, Kind, Reg, TracePoint, MAX_STORE_BYTES};
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

/// A thread on a processor with the instructions of trace points only.
struct Machine {
    registers: Registers,
    /// The word of the thread at [`CURSOR`].
    cursor: u32,
    ring: Vec<u64>,
    /// The result of the last comparison.
    equal: bool,
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
            equal: false,
            counter: 0x0123_4567_89ab_cdef,
            wraps: 0,
        }
    }

    fn get(&mut self, register: &str) -> &mut u32 {
        let register = Reg::ALL.into_iter().find(|r| r.to_string() == register);
        &mut self.registers[usize::from(register.expect("a register").number())]
    }

    /// The thread's word at this address; `None` for an address outside the thread.
    fn thread_word(&mut self, address: &str) -> Option<i32> {
        let offset = address.strip_prefix("[r9, #0x")?.strip_suffix(']')?;
        assert_eq!(*self.get("r9"), THREAD);
        Some(i32::from_str_radix(offset, 16).unwrap())
    }

    fn load(&mut self, address: &str) -> u32 {
        match self.thread_word(address).expect("a word of the thread") {
            CURSOR => self.cursor,
            common::START => RING,
            common::END => RING_END,
            common::GO => 0,
            common::STOP => 1,
            other => panic!("the thread has no word at {other:#x}"),
        }
    }

    /// Writes a word into the ring, or returns the address that faulted.
    fn store(&mut self, at: u32, value: u32) -> Outcome {
        assert_eq!(at % 4, 0, "unaligned");
        if at == RING_END {
            return Outcome::Fault(at);
        }
        let slot = &mut self.ring[((at - RING) / SLOT_BYTES as u32) as usize];
        *slot = match at % 8 {
            0 => *slot >> 32 << 32 | u64::from(value),
            _ => *slot & 0xffff_ffff | u64::from(value) << 32,
        };
        Outcome::Next
    }

    fn step(&mut self, instruction: &Instruction) -> Outcome {
        let (mnemonic, operands) = instruction.text.split_once(' ').unwrap();
        // A comma within brackets does not separate operands.
        let (before, address) = match operands.find('[') {
            Some(at) => operands.split_at(at),
            None => (operands, ""),
        };
        let mut operands: Vec<&str> = before.split(", ").filter(|o| !o.is_empty()).collect();
        if !address.is_empty() {
            operands.push(address);
        }
        match (mnemonic, operands.as_slice()) {
            ("ldr.w", [rt, address]) => *self.get(rt) = self.load(address),
            ("str.w", [rt, address]) if self.thread_word(address).is_some() => {
                assert_eq!(self.thread_word(address), Some(CURSOR));
                self.cursor = *self.get(rt);
            }
            ("str" | "str.w", [rt, address]) => {
                let (base, offset) = base_and_offset(address);
                let at = *self.get(base) + offset;
                let value = *self.get(rt);
                return self.store(at, value);
            }
            ("cmp" | "cmp.w", [rn, other]) => {
                let other = match *other {
                    "#0" => 0,
                    register => *self.get(register),
                };
                self.equal = *self.get(rn) == other;
            }
            ("add.w", [rd, rn, value]) => *self.get(rd) = *self.get(rn) + number(value),
            ("bfi", [rd, rn, "#0", bits]) => {
                let mask = (1 << number(bits)) - 1;
                *self.get(rd) = *self.get(rd) & !mask | *self.get(rn) & mask;
            }
            ("beq", [target]) if self.equal => return Outcome::Jump(number(target) as usize),
            ("bne", [target]) if !self.equal => return Outcome::Jump(number(target) as usize),
            ("beq" | "bne", [_]) => {}
            ("b", [target]) => return Outcome::Jump(number(target) as usize),
            ("pldw", [_]) => {}
            ("cbz", [rn, target]) => {
                if *self.get(rn) == 0 {
                    return Outcome::Jump(number(target) as usize);
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
                let (address, writes_back) = match address.strip_suffix(", #8") {
                    Some(address) => (address, true),
                    None => (*address, false),
                };
                let (base, offset) = base_and_offset(address);
                assert!(!writes_back || base != *rt && base != *rt2, "unpredictable");
                let at = *self.get(base) + offset;
                let words = [*self.get(rt), *self.get(rt2)];
                if let fault @ Outcome::Fault(_) = self.store(at, words[0]) {
                    return fault;
                }
                self.store(at + 4, words[1]);
                if writes_back {
                    *self.get(base) = at + SLOT_BYTES as u32;
                }
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

/// `#16` or `#0x10`.
fn number(text: &str) -> u32 {
    let digits = text.strip_prefix('#').expect("a number");
    match digits.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).unwrap(),
        None => digits.parse().unwrap(),
    }
}

/// `[r4]` or `[r4, #8]`.
fn base_and_offset(address: &str) -> (&str, u32) {
    let inner = address.strip_prefix('[').unwrap();
    let inner = inner.strip_suffix(']').unwrap();
    match inner.split_once(", ") {
        Some((base, offset)) => (base, number(offset)),
        None => (inner, 0),
    }
}

/// A value that differs for every register and every half of it.
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
    let disassembler = Disassembler::new(Isa::Thumb2);
    let mut points = common::all_points(CURSOR);
    points.extend(common::other_forms(CURSOR));
    for point in points {
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
    let disassembler = Disassembler::new(Isa::Thumb2);
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

#[test]
fn the_other_forms_write_their_events_and_keep_what_is_not_free() {
    let disassembler = Disassembler::new(Isa::Thumb2);
    for point in common::other_forms(CURSOR) {
        let code = emit(&point).unwrap();
        for first in [0, 17, SLOTS - 2, SLOTS - 1] {
            if point.form == Form::Nanoscope && first == SLOTS - 1 {
                // Its events are two slots long.
                continue;
            }
            let before = registers(&point);
            let mut machine = Machine::new(RING + first * SLOT_BYTES as u32, before);
            let completed = machine.run(&disassembler, &code.bytes);
            assert_eq!(machine.wraps, 0, "{point:?}");
            for r in Reg::ALL {
                let i = usize::from(r.number());
                let is_kept = !code.clobbers.contains(r);
                assert!(
                    !is_kept || machine.registers[i] == before[i],
                    "{r}: {point:?}"
                );
            }

            let mut expected = vec![UNTOUCHED; SLOTS as usize];
            let (at, counter) = (first as usize, machine.counter);
            let is_exit = point.kind == Kind::Exit;
            let mut options = usize::from(point.barrier) + usize::from(point.prefetch.is_some());
            let mut next = RING + (first + 1) % SLOTS * SLOT_BYTES as u32;
            let runs = match point.form {
                Form::Hubble { stop_offset, .. } if stop_offset == common::STOP => {
                    next = 0;
                    options -= usize::from(point.barrier);
                    8
                }
                Form::Nanoscope => {
                    // The word beside the method's is not written.
                    let method = if is_exit { 0 } else { METHOD };
                    expected[at] = UNTOUCHED >> 32 << 32 | u64::from(method);
                    expected[at + 1] = counter;
                    next = RING + (first + 2) * SLOT_BYTES as u32;
                    7 + usize::from(is_exit)
                }
                form => {
                    let slot = if is_exit {
                        Slot::exit(counter)
                    } else {
                        Slot::entry(METHOD, counter)
                    };
                    expected[at] = slot.0;
                    let wraps = matches!(form, Form::Hubble { .. }) && first == SLOTS - 1;
                    let hot = match form {
                        Form::Masked { .. } => 7,
                        _ => 11,
                    };
                    hot + usize::from(is_exit) + usize::from(wraps)
                }
            };
            assert!(machine.ring == expected, "{point:?} at slot {first}");
            assert_eq!(machine.cursor, next, "{point:?} at slot {first}");
            assert_eq!(completed, runs + options, "{point:?} at slot {first}");
        }
    }
}
