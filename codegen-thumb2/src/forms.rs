// SPDX-License-Identifier: Apache-2.0
//! The code of each form.

use hindsight_codegen_core::{Code, EncodeError, Isa, Kind, TracePoint};
#[cfg(feature = "comparison")]
use hindsight_codegen_core::{Counter, Form};
use hindsight_trace_format::slot::{COUNTER_OFFSET, LOW_OFFSET, SLOT_BYTES, TAG_EXIT};

use crate::encode::Assembler;
use crate::isa::{Thumb2, RESERVED, THREAD_REGISTER};
use crate::regs::{Reg, RegSet};

// A slot is stored as a pair: the method or, at an exit, a zero; then the counter's lower half.
const _: () = assert!(LOW_OFFSET == 0 && COUNTER_OFFSET == 4 && SLOT_BYTES == 8 && TAG_EXIT == 0);

/// The first opcode of the `mrrc` that reads CNTVCT.
const VIRTUAL_COUNTER: u16 = 1;
/// The first opcode of the `mrrc` that reads CNTPCT.
#[cfg(feature = "comparison")]
const PHYSICAL_COUNTER: u16 = 0;

/// A form, with its numbers in the ranges of the instructions.
#[derive(Clone, Copy)]
enum Checked {
    Inline,
    #[cfg(feature = "comparison")]
    Masked {
        bits: u16,
    },
    #[cfg(feature = "comparison")]
    Hubble {
        stop: u16,
        start: u16,
        end: u16,
    },
    #[cfg(feature = "comparison")]
    Nanoscope,
}

#[cfg(feature = "comparison")]
impl Checked {
    fn new(form: Form) -> Result<Self, EncodeError<Thumb2>> {
        let word = |offset| {
            word_offset(offset).ok_or(EncodeError::FormOffset {
                form,
                offset,
                alignment: Thumb2::WORD_BYTES,
            })
        };
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

/// The offset of a word in the thread, as instructions encode it, if they reach it.
pub(crate) fn word_offset(offset: i32) -> Option<u16> {
    u16::try_from(offset)
        .ok()
        .filter(|_| Thumb2::reaches_word(offset))
}

/// The use of each register.
struct Registers {
    cursor: Reg,
    ticks: Reg,
    upper: Reg,
    /// The method; `None` at an exit, which puts a zero into `upper`.
    method: Option<Reg>,
}

impl Registers {
    fn choose(kind: Kind<Reg>, free: RegSet) -> Result<Self, EncodeError<Thumb2>> {
        if let Some(reserved) = RESERVED.iter().find(|r| free.contains(*r)) {
            return Err(EncodeError::ReservedFree(reserved));
        }
        let (method, usable) = match kind {
            Kind::Entry { method } if RESERVED.contains(method) => {
                return Err(EncodeError::MethodRegister(method));
            }
            // The method is still needed after the other registers were written.
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

    /// The register with the slot's first half: the method, or a zero. An exit overwrites `upper`.
    fn first_half(&self, ops: &mut Assembler) -> Reg {
        self.method.unwrap_or_else(|| {
            ops.zero(self.upper);
            self.upper
        })
    }
}

pub(crate) fn emit(point: &TracePoint<Thumb2>) -> Result<Code<Thumb2>, EncodeError<Thumb2>> {
    let registers = Registers::choose(point.kind, point.free)?;
    let Registers {
        cursor,
        ticks,
        upper,
        ..
    } = registers;
    let offset =
        word_offset(point.cursor_offset).ok_or(EncodeError::CursorOffset(point.cursor_offset))?;
    #[cfg(feature = "comparison")]
    let (distance, form, counter) = options(point)?;
    #[cfg(not(feature = "comparison"))]
    let (form, counter) = (Checked::Inline, VIRTUAL_COUNTER);

    let mut ops = Assembler::new();
    ops.ldr(cursor, THREAD_REGISTER, offset);
    let done = ops.cbz(cursor);
    #[cfg(feature = "comparison")]
    if let Some(distance) = distance {
        ops.pldw(cursor, distance);
    }
    #[cfg(feature = "comparison")]
    let stopped = if let Checked::Hubble { stop, .. } = form {
        ops.ldr(ticks, THREAD_REGISTER, stop);
        ops.compare_zero(ticks);
        let go = ops.beq();
        ops.zero(ticks);
        ops.str(ticks, THREAD_REGISTER, offset);
        let stopped = ops.b();
        ops.land(go);
        Some(stopped)
    } else {
        None
    };
    ops.mrrc_timer(counter, ticks, upper);
    #[cfg(feature = "comparison")]
    if point.barrier {
        ops.isb();
    }
    match form {
        Checked::Inline => {
            let first = registers.first_half(&mut ops);
            ops.strd_post(first, ticks, cursor, SLOT_BYTES as u16);
        }
        #[cfg(feature = "comparison")]
        Checked::Masked { bits } => {
            let first = registers.first_half(&mut ops);
            ops.strd(first, ticks, cursor, 0);
            ops.add(upper, cursor, SLOT_BYTES as u8);
            ops.bfi(cursor, upper, bits);
        }
        #[cfg(feature = "comparison")]
        Checked::Hubble { start, end, .. } => {
            let first = registers.first_half(&mut ops);
            ops.strd_post(first, ticks, cursor, SLOT_BYTES as u16);
            ops.ldr(ticks, THREAD_REGISTER, end);
            ops.compare(cursor, ticks);
            let inside = ops.bne();
            ops.ldr(cursor, THREAD_REGISTER, start);
            ops.land(inside);
        }
        #[cfg(feature = "comparison")]
        Checked::Nanoscope => {
            ops.strd(ticks, upper, cursor, 8);
            let first = registers.first_half(&mut ops);
            ops.str_bare(first, cursor);
            ops.add(cursor, cursor, 16);
        }
    }
    ops.str(cursor, THREAD_REGISTER, offset);
    ops.land(done);
    #[cfg(feature = "comparison")]
    if let Some(stopped) = stopped {
        ops.land(stopped);
    }
    Ok(Code {
        bytes: ops.finish(),
        clobbers: RegSet::of(&[cursor, ticks, upper]),
    })
}

/// The prefetch, the form and the counter of `point`, as instructions encode them.
#[cfg(feature = "comparison")]
fn options(point: &TracePoint<Thumb2>) -> Result<(Option<i16>, Checked, u16), EncodeError<Thumb2>> {
    let distance = match point.prefetch {
        Some(distance) if Thumb2::PREFETCH_DISTANCES.contains(&distance) => Some(distance as i16),
        Some(distance) => return Err(EncodeError::PrefetchDistance(distance)),
        None => None,
    };
    let counter = match point.counter {
        Counter::Physical => PHYSICAL_COUNTER,
        _ => VIRTUAL_COUNTER,
    };
    Ok((distance, Checked::new(point.form)?, counter))
}
