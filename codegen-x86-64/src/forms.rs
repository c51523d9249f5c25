// SPDX-License-Identifier: Apache-2.0
//! The code of each form.

use dynasmrt::x64::X64Relocation;
use dynasmrt::{dynasm, DynasmApi, DynasmLabelApi, VecAssembler};
#[cfg(feature = "comparison")]
use hindsight_codegen_core::Form;
use hindsight_codegen_core::{Code, EncodeError, Isa, Kind, TracePoint};
use hindsight_trace_format::slot::{COUNTER_OFFSET, SLOT_BYTES, TAG_EXIT, TAG_WIDE_ENTRY};

use crate::isa::{CURSOR_REGISTER, X86_64};
use crate::regs::{Reg, RegSet};

/// How a register that the trace point needs keeps its value.
#[derive(Clone, Copy)]
enum Saved {
    Free,
    In(Reg),
    OnStack,
}

/// The jumps to the end that have their long form. The short one reaches 127 bytes.
#[derive(Clone, Copy)]
struct Far {
    off: bool,
    #[cfg(feature = "comparison")]
    stopped: bool,
}

struct Sequence {
    ops: VecAssembler<X64Relocation>,
    cursor: i32,
    #[cfg(feature = "comparison")]
    form: Form,
    #[cfg(feature = "comparison")]
    barrier: bool,
}

pub(crate) fn emit(point: &TracePoint<X86_64>) -> Result<Code<X86_64>, EncodeError<X86_64>> {
    if point.free.contains(Reg::Rsp) {
        return Err(EncodeError::ReservedFree(Reg::Rsp));
    }
    if !X86_64::reaches_word(point.cursor_offset) {
        return Err(EncodeError::CursorOffset(point.cursor_offset));
    }
    let method = match point.kind {
        Kind::Entry { method } if matches!(method, Reg::Rsp | CURSOR_REGISTER) => {
            return Err(EncodeError::MethodRegister(method));
        }
        Kind::Entry { method } => Some(method),
        Kind::Exit => None,
    };
    #[cfg(feature = "comparison")]
    check(point.form)?;
    let (saved, clobbers) = save(method, point.free);

    let mut why = String::new();
    for far in FAR {
        match assemble(point, method, saved, *far) {
            Ok(bytes) => return Ok(Code { bytes, clobbers }),
            Err(e) => why = e,
        }
    }
    Err(EncodeError::Assembler {
        what: format!("{point:?}"),
        why,
    })
}

/// The lengths of jumps to try, in this order. The short jump always reaches the end of the inline form.
#[cfg(not(feature = "comparison"))]
const FAR: &[Far] = &[Far { off: false }];
#[cfg(feature = "comparison")]
const FAR: &[Far] = &[
    Far {
        off: false,
        stopped: false,
    },
    Far {
        off: true,
        stopped: false,
    },
    Far {
        off: true,
        stopped: true,
    },
];

/// Whether instructions can encode the form's numbers.
#[cfg(feature = "comparison")]
fn check(form: Form) -> Result<(), EncodeError<X86_64>> {
    let word = |offset: i32, alignment: i32| {
        if offset >= 0 && offset % alignment == 0 {
            return Ok(());
        }
        Err(EncodeError::FormOffset {
            form,
            offset,
            alignment,
        })
    };
    match form {
        Form::Inline | Form::Nanoscope => Ok(()),
        Form::Masked { ring_bytes } => match Form::ring_bits(ring_bytes) {
            Some(_) => Ok(()),
            None => Err(EncodeError::RingBytes(ring_bytes)),
        },
        Form::Hubble {
            stop_offset,
            start_offset,
            end_offset,
        } => {
            word(stop_offset, 4)?;
            word(start_offset, 8)?;
            word(end_offset, 8)
        }
    }
}

/// How rdx and rax, which rdtsc writes, keep their values; and all registers that may change.
fn save(method: Option<Reg>, free: RegSet) -> ([(Reg, Saved); 2], RegSet) {
    let mut clobbers = RegSet::of(&[CURSOR_REGISTER]);
    let mut spare = free
        .without(Reg::Rax)
        .without(Reg::Rdx)
        .without(CURSOR_REGISTER);
    if let Some(method) = method {
        // The method is still needed after the others were saved.
        spare = spare.without(method);
    }
    let mut save = |register: Reg| {
        if free.contains(register) {
            clobbers = clobbers.with(register);
            return Saved::Free;
        }
        // The following code is the least likely to use the registers with the highest numbers.
        match spare.iter().next_back() {
            Some(place) => {
                spare = spare.without(place);
                clobbers = clobbers.with(place);
                Saved::In(place)
            }
            None => Saved::OnStack,
        }
    };
    let saved = [(Reg::Rdx, save(Reg::Rdx)), (Reg::Rax, save(Reg::Rax))];
    (saved, clobbers)
}

fn assemble(
    point: &TracePoint<X86_64>,
    method: Option<Reg>,
    saved: [(Reg, Saved); 2],
    far: Far,
) -> Result<Vec<u8>, String> {
    let mut sequence = Sequence {
        ops: VecAssembler::new(0),
        cursor: point.cursor_offset,
        #[cfg(feature = "comparison")]
        form: point.form,
        #[cfg(feature = "comparison")]
        barrier: point.barrier,
    };
    sequence.start(far);
    #[cfg(feature = "comparison")]
    sequence.prefetch_and_stop(point.prefetch, far);
    sequence.save(saved);
    match method {
        #[cfg(feature = "comparison")]
        _ if point.form == Form::Nanoscope => sequence.long_event(method),
        Some(method) => {
            if point.wide_pointers {
                sequence.wide(method);
            }
            sequence.entry(method);
        }
        None => sequence.exit(),
    }
    sequence.publish();
    sequence.restore(saved);
    let ops = &mut sequence.ops;
    dynasm!(ops; .arch x64; done:);
    sequence.ops.finalize().map_err(|e| e.to_string())
}

#[expect(
    clippy::useless_conversion,
    reason = "the assembler macro converts every register number"
)]
impl Sequence {
    /// Loads the cursor, and leaves if tracing is off.
    fn start(&mut self, far: Far) {
        let (ops, cursor) = (&mut self.ops, self.cursor);
        dynasm!(ops; .arch x64; gs mov r11, QWORD [cursor]; test r11, r11);
        if far.off {
            dynasm!(ops; .arch x64; je >done);
        } else {
            dynasm!(ops; .arch x64; je BYTE >done);
        }
    }

    /// Prefetches, and leaves if tracing is to be stopped.
    #[cfg(feature = "comparison")]
    fn prefetch_and_stop(&mut self, prefetch: Option<i32>, far: Far) {
        let (ops, cursor) = (&mut self.ops, self.cursor);
        match prefetch.map(|distance| (i8::try_from(distance), distance)) {
            None => {}
            Some((Ok(0), _)) => dynasm!(ops; .arch x64; prefetchw [r11]),
            Some((Ok(near), _)) => dynasm!(ops; .arch x64; prefetchw [BYTE r11 + near]),
            Some((Err(_), distance)) => dynasm!(ops; .arch x64; prefetchw [DWORD r11 + distance]),
        }
        if let Form::Hubble { stop_offset, .. } = self.form {
            // cmp dword gs:[stop_offset], 0; the assembler macro encodes the 0 in 32 bits only.
            dynasm!(ops
                ; .arch x64
                ; .bytes [0x65, 0x83, 0x3c, 0x25]
                ; .bytes stop_offset.to_le_bytes()
                ; .bytes [0]
                ; je BYTE >go
                ; gs mov QWORD [cursor], 0
            );
            if far.stopped {
                dynasm!(ops; .arch x64; jmp >done; go:);
            } else {
                dynasm!(ops; .arch x64; jmp BYTE >done; go:);
            }
        }
    }

    fn save(&mut self, saved: [(Reg, Saved); 2]) {
        let ops = &mut self.ops;
        for (register, how) in saved {
            match how {
                Saved::Free => {}
                Saved::In(place) => {
                    dynasm!(ops; .arch x64; mov Rq(place.number()), Rq(register.number()))
                }
                // (A register known only at run time would get a needless prefix.)
                Saved::OnStack if register == Reg::Rax => dynasm!(ops; .arch x64; push rax),
                Saved::OnStack => dynasm!(ops; .arch x64; push rdx),
            }
        }
    }

    fn restore(&mut self, saved: [(Reg, Saved); 2]) {
        let ops = &mut self.ops;
        for (register, how) in saved.into_iter().rev() {
            match how {
                Saved::Free => {}
                Saved::In(place) => {
                    dynasm!(ops; .arch x64; mov Rq(register.number()), Rq(place.number()))
                }
                Saved::OnStack if register == Reg::Rax => dynasm!(ops; .arch x64; pop rax),
                Saved::OnStack => dynasm!(ops; .arch x64; pop rdx),
            }
        }
    }

    /// If the method is not below 4 GiB: the slot with the whole pointer, and half of the next one.
    fn wide(&mut self, method: Reg) {
        let upper = match method {
            Reg::Rax => Reg::Rdx,
            _ => Reg::Rax,
        };
        let ops = &mut self.ops;
        dynasm!(ops
            ; .arch x64
            ; mov Rq(upper.number()), Rq(method.number())
            ; shr Rq(upper.number()), 32
            ; je BYTE >narrow
            ; mov [r11], Rq(method.number())
        );
        self.advance(upper);
        let ops = &mut self.ops;
        dynasm!(ops
            ; .arch x64
            ; mov DWORD [r11], TAG_WIDE_ENTRY as i32
            ; jmp BYTE >read
            ; narrow:
        );
    }

    fn entry(&mut self, method: Reg) {
        let ops = &mut self.ops;
        dynasm!(ops; .arch x64; mov [r11], Rd(method.number()); read:);
        self.counter();
    }

    fn exit(&mut self) {
        let ops = &mut self.ops;
        dynasm!(ops; .arch x64; mov DWORD [r11], TAG_EXIT as i32);
        self.counter();
    }

    /// The second half of a slot, and the step to the next one.
    fn counter(&mut self) {
        self.read_counter();
        let ops = &mut self.ops;
        dynasm!(ops; .arch x64; mov [BYTE r11 + COUNTER_OFFSET as i8], eax);
        self.advance(Reg::Rax);
    }

    /// Two words, the second of them the counter.
    #[cfg(feature = "comparison")]
    fn long_event(&mut self, method: Option<Reg>) {
        let ops = &mut self.ops;
        match method {
            Some(method) => dynasm!(ops; .arch x64; mov [r11], Rq(method.number())),
            None => dynasm!(ops; .arch x64; mov QWORD [r11], 0),
        }
        self.read_counter();
        let ops = &mut self.ops;
        dynasm!(ops
            ; .arch x64
            ; shl rdx, 32
            ; or rax, rdx
            ; mov [BYTE r11 + 8], rax
            ; add r11, BYTE 16
        );
    }

    fn read_counter(&mut self) {
        let ops = &mut self.ops;
        dynasm!(ops; .arch x64; rdtsc);
        #[cfg(feature = "comparison")]
        if self.barrier {
            dynasm!(ops; .arch x64; lfence);
        }
    }

    /// Moves the cursor to the next slot.
    #[cfg(not(feature = "comparison"))]
    fn advance(&mut self, _scratch: Reg) {
        let ops = &mut self.ops;
        dynasm!(ops; .arch x64; add r11, BYTE SLOT_BYTES as i8);
    }

    /// Moves the cursor to the next slot; `scratch` is rax or rdx.
    #[cfg(feature = "comparison")]
    fn advance(&mut self, scratch: Reg) {
        let ops = &mut self.ops;
        let scratch = scratch.number();
        match self.form {
            Form::Masked { ring_bytes } => {
                let mask = (ring_bytes - 1) as i32;
                // (A register known only at run time would get needless prefixes.)
                if scratch == Reg::Rax.number() {
                    dynasm!(ops
                        ; .arch x64
                        ; lea eax, [BYTE r11 + SLOT_BYTES as i8]
                        ; xor eax, r11d
                        ; and eax, mask
                    );
                } else {
                    dynasm!(ops
                        ; .arch x64
                        ; lea edx, [BYTE r11 + SLOT_BYTES as i8]
                        ; xor edx, r11d
                        ; and edx, mask
                    );
                }
                // This changes only the bits of the offset in the ring.
                dynasm!(ops; .arch x64; xor r11, Rq(scratch));
            }
            Form::Hubble {
                start_offset,
                end_offset,
                ..
            } => dynasm!(ops
                ; .arch x64
                ; add r11, BYTE SLOT_BYTES as i8
                ; gs cmp r11, QWORD [end_offset]
                ; jne BYTE >inside
                ; gs mov r11, QWORD [start_offset]
                ; inside:
            ),
            _ => dynasm!(ops; .arch x64; add r11, BYTE SLOT_BYTES as i8),
        }
    }

    /// Stores the cursor, which makes the slots before it part of the ring.
    fn publish(&mut self) {
        let (ops, cursor) = (&mut self.ops, self.cursor);
        dynasm!(ops; .arch x64; gs mov QWORD [cursor], r11);
    }
}
