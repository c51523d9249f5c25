// SPDX-License-Identifier: Apache-2.0
//! The code of each form.

use hindsight_trace_format::slot::{COUNTER_OFFSET, LOW_OFFSET, SLOT_BYTES, TAG_EXIT};

use crate::encode::Assembler;
use crate::{
    Code, EncodeError, Form, Kind, Reg, RegSet, TracePoint, MAX_CURSOR_OFFSET, PREFETCH_DISTANCES,
    RESERVED, THREAD_REGISTER,
};

// A slot is stored as a pair: what happened, then the counter's low half. An exit's first is a zero.
const _: () = assert!(LOW_OFFSET == 0 && COUNTER_OFFSET == 4 && SLOT_BYTES == 8 && TAG_EXIT == 0);

/// A form whose numbers instructions can hold.
#[derive(Clone, Copy)]
enum Checked {
    Inline,
    Masked { bits: u16 },
    Hubble { stop: u16, start: u16, end: u16 },
    Nanoscope,
}

impl Checked {
    fn new(form: Form) -> Result<Self, EncodeError> {
        let word = |offset| thread_word(offset).ok_or(EncodeError::FormOffset { form, offset });
        Ok(match form {
            Form::Inline => Checked::Inline,
            Form::Masked { ring_bytes } => {
                let bits = Form::ring_bits(ring_bytes).ok_or(EncodeError::RingBytes(ring_bytes))?;
                Checked::Masked { bits: bits as u16 }
            }
            Form::Hubble {
                stop_offset,
                start_offset,
                end_offset,
            } => Checked::Hubble {
                stop: word(stop_offset)?,
                start: word(start_offset)?,
                end: word(end_offset)?,
            },
            Form::Nanoscope => Checked::Nanoscope,
        })
    }
}

/// The offset of a word in the thread that a load reaches.
fn thread_word(offset: i32) -> Option<u16> {
    let reached = u16::try_from(offset).ok()?;
    (reached <= MAX_CURSOR_OFFSET && reached % 4 == 0).then_some(reached)
}

/// What each register is used for. `happened` differs from the others but for `upper`.
struct Registers {
    cursor: Reg,
    ticks: Reg,
    upper: Reg,
    /// The method; `None` at an exit, whose zero is put into `upper`.
    method: Option<Reg>,
}

impl Registers {
    fn choose(kind: Kind, free: RegSet) -> Result<Self, EncodeError> {
        if let Some(reserved) = RESERVED.iter().find(|r| free.contains(*r)) {
            return Err(EncodeError::ReservedFree(reserved));
        }
        let (method, usable) = match kind {
            Kind::Entry { method } if RESERVED.contains(method) => {
                return Err(EncodeError::MethodRegister(method));
            }
            // It is still needed when the other registers have been written to.
            Kind::Entry { method } => (Some(method), free.without(method)),
            Kind::Exit => (None, free),
        };
        // In the order of their numbers, so the first is a low one if any is.
        let mut registers = usable.iter();
        let (Some(cursor), Some(ticks), Some(upper)) =
            (registers.next(), registers.next(), registers.next())
        else {
            return Err(EncodeError::TooFewFree(usable));
        };
        if !cursor.is_low() {
            return Err(EncodeError::NoCursorRegister(usable));
        }
        Ok(Registers {
            cursor,
            ticks,
            upper,
            method,
        })
    }

    /// The register with what happened. At an exit, `upper` is not needed any more.
    fn happened(&self, ops: &mut Assembler) -> Reg {
        self.method.unwrap_or_else(|| {
            ops.zero(self.upper);
            self.upper
        })
    }
}

pub(crate) fn emit(point: &TracePoint) -> Result<Code, EncodeError> {
    let TracePoint {
        kind,
        cursor_offset,
        counter,
        barrier,
        prefetch,
        form,
        free,
    } = *point;
    let registers = Registers::choose(kind, free)?;
    let Registers {
        cursor,
        ticks,
        upper,
        ..
    } = registers;
    let offset = thread_word(cursor_offset).ok_or(EncodeError::CursorOffset(cursor_offset))?;
    let distance = match prefetch {
        Some(distance) if PREFETCH_DISTANCES.contains(&distance) => Some(distance as i16),
        Some(distance) => return Err(EncodeError::PrefetchDistance(distance)),
        None => None,
    };
    let form = Checked::new(form)?;

    let mut ops = Assembler::new();
    ops.ldr(cursor, THREAD_REGISTER, offset);
    let done = ops.cbz(cursor);
    if let Some(distance) = distance {
        ops.pldw(cursor, distance);
    }
    let mut stopped = None;
    if let Checked::Hubble { stop, .. } = form {
        ops.ldr(ticks, THREAD_REGISTER, stop);
        ops.compare_zero(ticks);
        let go = ops.beq();
        ops.zero(ticks);
        ops.str(ticks, THREAD_REGISTER, offset);
        stopped = Some(ops.b());
        ops.land(go);
    }
    ops.mrrc_timer(counter.opc1(), ticks, upper);
    if barrier {
        ops.isb();
    }
    match form {
        Checked::Inline => {
            let happened = registers.happened(&mut ops);
            ops.strd_post(happened, ticks, cursor, SLOT_BYTES as u16);
        }
        Checked::Masked { bits } => {
            let happened = registers.happened(&mut ops);
            ops.strd(happened, ticks, cursor, 0);
            ops.add(upper, cursor, SLOT_BYTES as u8);
            ops.bfi(cursor, upper, bits);
        }
        Checked::Hubble { start, end, .. } => {
            let happened = registers.happened(&mut ops);
            ops.strd_post(happened, ticks, cursor, SLOT_BYTES as u16);
            ops.ldr(ticks, THREAD_REGISTER, end);
            ops.compare(cursor, ticks);
            let inside = ops.bne();
            ops.ldr(cursor, THREAD_REGISTER, start);
            ops.land(inside);
        }
        Checked::Nanoscope => {
            ops.strd(ticks, upper, cursor, 8);
            let happened = registers.happened(&mut ops);
            ops.str_bare(happened, cursor);
            ops.add(cursor, cursor, 16);
        }
    }
    ops.str(cursor, THREAD_REGISTER, offset);
    ops.land(done);
    if let Some(stopped) = stopped {
        ops.land(stopped);
    }
    Ok(Code {
        bytes: ops.finish(),
        clobbers: RegSet::of(&[cursor, ticks, upper]),
    })
}
