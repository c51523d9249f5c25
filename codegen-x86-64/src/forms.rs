// SPDX-License-Identifier: Apache-2.0
//! The code of each form.

use dynasmrt::x64::X64Relocation;
use dynasmrt::{dynasm, DynasmApi, DynasmLabelApi, VecAssembler};
use hindsight_trace_format::slot::{COUNTER_OFFSET, SLOT_BYTES, TAG_EXIT, TAG_WIDE_ENTRY};

use crate::{Code, EncodeError, Form, Kind, Reg, RegSet, TracePoint, CURSOR_REGISTER};

/// How a register that the trace point needs is brought through it.
#[derive(Clone, Copy)]
enum Saved {
    Free,
    In(Reg),
    OnStack,
}

/// Which of the jumps to the end are in their long form. The short one reaches 127 bytes.
#[derive(Clone, Copy)]
struct Far {
    off: bool,
    stopped: bool,
}

struct Sequence {
    ops: VecAssembler<X64Relocation>,
    form: Form,
    cursor: i32,
    barrier: bool,
}

pub(crate) fn emit(point: &TracePoint) -> Result<Code, EncodeError> {
    let TracePoint {
        kind,
        cursor_offset: cursor,
        form,
        free,
        ..
    } = *point;
    if free.contains(Reg::Rsp) {
        return Err(EncodeError::StackPointerFree);
    }
    if cursor < 0 || cursor % 8 != 0 {
        return Err(EncodeError::CursorOffset(cursor));
    }
    let method = match kind {
        Kind::Entry { method } if matches!(method, Reg::Rsp | CURSOR_REGISTER) => {
            return Err(EncodeError::MethodRegister(method));
        }
        Kind::Entry { method } => Some(method),
        Kind::Exit => None,
    };
    check(form)?;
    let (saved, clobbers) = save(method, free);

    // Only the forms for comparison are ever too long for the short jumps.
    let mut why = String::new();
    for (off, stopped) in [(false, false), (true, false), (true, true)] {
        match assemble(point, method, saved, Far { off, stopped }) {
            Ok(bytes) => return Ok(Code { bytes, clobbers }),
            Err(e) => why = e,
        }
    }
    Err(EncodeError::Assembler {
        what: format!("{point:?}"),
        why,
    })
}

/// Whether instructions can hold the form's numbers.
fn check(form: Form) -> Result<(), EncodeError> {
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

/// What becomes of rdx and rax, which rdtsc writes; and all registers that may change.
fn save(method: Option<Reg>, free: RegSet) -> ([(Reg, Saved); 2], RegSet) {
    let mut clobbers = RegSet::of(&[CURSOR_REGISTER]);
    let mut spare = free
        .without(Reg::Rax)
        .without(Reg::Rdx)
        .without(CURSOR_REGISTER);
    if let Some(method) = method {
        // It is still needed after the others were saved.
        spare = spare.without(method);
    }
    let mut save = |register: Reg| {
        if free.contains(register) {
            clobbers = clobbers.with(register);
            return Saved::Free;
        }
        // The highest-numbered ones are the least likely to be wanted next.
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
    point: &TracePoint,
    method: Option<Reg>,
    saved: [(Reg, Saved); 2],
    far: Far,
) -> Result<Vec<u8>, String> {
    let mut sequence = Sequence {
        ops: VecAssembler::new(0),
        form: point.form,
        cursor: point.cursor_offset,
        barrier: point.barrier,
    };
    sequence.start(point.prefetch, far);
    sequence.save(saved);
    match method {
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
    /// Loads the cursor, and leaves if tracing is off or to be stopped.
    fn start(&mut self, prefetch: Option<i32>, far: Far) {
        let (ops, cursor) = (&mut self.ops, self.cursor);
        dynasm!(ops; .arch x64; gs mov r11, QWORD [cursor]; test r11, r11);
        if far.off {
            dynasm!(ops; .arch x64; je >done);
        } else {
            dynasm!(ops; .arch x64; je BYTE >done);
        }
        match prefetch.map(|distance| (i8::try_from(distance), distance)) {
            None => {}
            Some((Ok(0), _)) => dynasm!(ops; .arch x64; prefetchw [r11]),
            Some((Ok(near), _)) => dynasm!(ops; .arch x64; prefetchw [BYTE r11 + near]),
            Some((Err(_), distance)) => dynasm!(ops; .arch x64; prefetchw [DWORD r11 + distance]),
        }
        if let Form::Hubble { stop_offset, .. } = self.form {
            // cmp dword gs:[stop_offset], 0; the assembler macro has it with 32 bits for the 0 only.
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

    /// For a method that is not below 4 GiB: the slot with the whole pointer, and half of the next one.
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

    /// The other half of a slot.
    fn counter(&mut self) {
        self.read_counter();
        let ops = &mut self.ops;
        dynasm!(ops; .arch x64; mov [BYTE r11 + COUNTER_OFFSET as i8], eax);
        self.advance(Reg::Rax);
    }

    /// Two words, the second of them the counter.
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
        if self.barrier {
            dynasm!(ops; .arch x64; lfence);
        }
    }

    /// Goes on to the next slot; `scratch` is rax or rdx.
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
                // Only the bits that tell where in the ring it is have changed.
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

    /// Only now is what was stored part of the ring.
    fn publish(&mut self) {
        let (ops, cursor) = (&mut self.ops, self.cursor);
        dynasm!(ops; .arch x64; gs mov QWORD [cursor], r11);
    }
}
