// SPDX-License-Identifier: Apache-2.0
//! The code of each form.

use dynasmrt::aarch64::Aarch64Relocation;
use dynasmrt::{dynasm, DynasmApi, DynasmLabelApi, VecAssembler};
use hindsight_trace_format::slot::{SLOT_BYTES, TAG_EXIT, TAG_WIDE_ENTRY};

#[cfg(feature = "comparison")]
use hindsight_codegen_core::Form;
use hindsight_codegen_core::{Code, EncodeError, Isa, Kind, TracePoint};

use crate::isa::{Aarch64, CURSOR_REGISTER, SCRATCH_REGISTER, THREAD_REGISTER};
use crate::regs::{Reg, RegSet};

/// CNTVCT_EL0 as `mrs` encodes it: op0 (without its upper bit), op1, CRn, CRm, op2.
const CNTVCT_EL0: u32 = 1 << 14 | 3 << 11 | 14 << 7 | 2;
/// `prfum` for a store, into the first-level cache, streaming: each byte of a ring is written once in a pass over it.
#[cfg(feature = "comparison")]
const PSTL1STRM: u32 = 0b10001;
/// The number of the zero register.
const ZR: u8 = 31;

// The instructions below assume these values.
const _: () = assert!(SLOT_BYTES == 8 && TAG_EXIT == 0 && TAG_WIDE_ENTRY == 1);

/// A form, with its numbers in the ranges of the instructions.
#[derive(Clone, Copy)]
enum Checked {
    Inline,
    #[cfg(feature = "comparison")]
    Masked {
        bits: u32,
    },
    #[cfg(feature = "comparison")]
    Hubble {
        stop: u32,
        start: u32,
        end: u32,
    },
    #[cfg(feature = "comparison")]
    Nanoscope,
}

#[cfg(feature = "comparison")]
impl Checked {
    fn new(form: Form) -> Result<Self, EncodeError<Aarch64>> {
        // Loads have 12 bits for an offset, in units of the size that they load.
        let word = |offset: i32, alignment: i32| match u32::try_from(offset) {
            Ok(word) if offset % alignment == 0 && offset <= 4095 * alignment => Ok(word),
            _ => Err(EncodeError::FormOffset {
                form,
                offset,
                alignment,
            }),
        };
        Ok(match form {
            Form::Inline => Checked::Inline,
            Form::Masked { ring_bytes } => Checked::Masked {
                bits: Form::ring_bits(ring_bytes).ok_or(EncodeError::RingBytes(ring_bytes))?,
            },
            Form::Hubble {
                stop_offset,
                start_offset,
                end_offset,
            } => Checked::Hubble {
                stop: word(stop_offset, 4)?,
                start: word(start_offset, 8)?,
                end: word(end_offset, 8)?,
            },
            Form::Nanoscope => Checked::Nanoscope,
        })
    }
}

struct Sequence {
    ops: VecAssembler<Aarch64Relocation>,
    form: Checked,
    #[cfg(feature = "comparison")]
    barrier: bool,
}

pub(crate) fn emit(point: &TracePoint<Aarch64>) -> Result<Code<Aarch64>, EncodeError<Aarch64>> {
    // The assembler panics on a value out of range: all of them are refused here.
    let cursor = match u32::try_from(point.cursor_offset) {
        Ok(cursor) if Aarch64::reaches_word(point.cursor_offset) => cursor,
        _ => return Err(EncodeError::CursorOffset(point.cursor_offset)),
    };
    #[cfg(feature = "comparison")]
    if let Some(distance) = point
        .prefetch
        .filter(|d| !Aarch64::PREFETCH_DISTANCES.contains(d))
    {
        return Err(EncodeError::PrefetchDistance(distance));
    }
    let method = match point.kind {
        Kind::Entry {
            method: method @ (CURSOR_REGISTER | SCRATCH_REGISTER | THREAD_REGISTER | Reg::Sp),
        } => return Err(EncodeError::MethodRegister(method)),
        Kind::Entry { method } => Some(method.number()),
        Kind::Exit => None,
    };

    let mut sequence = Sequence {
        ops: VecAssembler::new(0),
        #[cfg(feature = "comparison")]
        form: Checked::new(point.form)?,
        #[cfg(not(feature = "comparison"))]
        form: Checked::Inline,
        #[cfg(feature = "comparison")]
        barrier: point.barrier,
    };
    sequence.start(cursor);
    #[cfg(feature = "comparison")]
    sequence.prefetch_and_stop(cursor, point.prefetch);
    match (sequence.form, method) {
        #[cfg(feature = "comparison")]
        (Checked::Nanoscope, _) => sequence.long_event(method.unwrap_or(ZR)),
        (_, Some(method)) if point.wide_pointers => {
            sequence.wide(method);
            sequence.slot(method);
        }
        _ => sequence.slot(method.unwrap_or(ZR)),
    }
    sequence.publish(cursor);

    match sequence.ops.finalize() {
        Ok(bytes) => Ok(Code {
            bytes,
            clobbers: RegSet::of(&[CURSOR_REGISTER, SCRATCH_REGISTER]),
        }),
        Err(e) => Err(EncodeError::Assembler {
            what: format!("{point:?}"),
            why: e.to_string(),
        }),
    }
}

#[expect(
    clippy::useless_conversion,
    reason = "the assembler macro converts every register number"
)]
impl Sequence {
    /// Loads the cursor, and leaves if tracing is off.
    fn start(&mut self, cursor: u32) {
        let ops = &mut self.ops;
        dynasm!(ops
            ; .arch aarch64
            ; ldr x16, [x19, cursor]
            ; cbz x16, >done
        );
    }

    /// Prefetches, and leaves if tracing is to be stopped.
    #[cfg(feature = "comparison")]
    fn prefetch_and_stop(&mut self, cursor: u32, prefetch: Option<i32>) {
        let ops = &mut self.ops;
        if let Some(distance) = prefetch {
            dynasm!(ops; .arch aarch64; prfum PSTL1STRM, [x16, distance]);
        }
        if let Checked::Hubble { stop, .. } = self.form {
            dynasm!(ops
                ; .arch aarch64
                ; ldr w17, [x19, stop]
                ; cbz w17, >go
                ; str xzr, [x19, cursor]
                ; b >done
                ; go:
            );
        }
    }

    /// If the method is not below 4 GiB: two slots, the first with the whole pointer.
    fn wide(&mut self, method: u8) {
        let ops = &mut self.ops;
        dynasm!(ops; .arch aarch64; lsr x17, X(method), 32; cbz x17, >narrow);
        self.store(method);
        #[cfg(feature = "comparison")]
        self.advance();
        self.read_counter();
        let ops = &mut self.ops;
        dynasm!(ops; .arch aarch64; lsl x17, x17, 32; orr x17, x17, 1);
        self.store(SCRATCH_REGISTER.number());
        let ops = &mut self.ops;
        dynasm!(ops; .arch aarch64; b >publish; narrow:);
    }

    /// One slot.
    fn slot(&mut self, low: u8) {
        self.read_counter();
        let ops = &mut self.ops;
        match self.form {
            #[cfg(feature = "comparison")]
            Checked::Masked { .. } => dynasm!(ops; .arch aarch64; stp W(low), w17, [x16]),
            _ => dynasm!(ops; .arch aarch64; stp W(low), w17, [x16], 8),
        }
    }

    /// Two words, the second of them the counter.
    #[cfg(feature = "comparison")]
    fn long_event(&mut self, first: u8) {
        self.read_counter();
        let ops = &mut self.ops;
        dynasm!(ops
            ; .arch aarch64
            ; str X(first), [x16]
            ; str x17, [x16, 8]
            ; add x16, x16, 16
        );
    }

    /// Stores a whole slot.
    fn store(&mut self, register: u8) {
        let ops = &mut self.ops;
        match self.form {
            #[cfg(feature = "comparison")]
            Checked::Masked { .. } => dynasm!(ops; .arch aarch64; str X(register), [x16]),
            _ => dynasm!(ops; .arch aarch64; str X(register), [x16], 8),
        }
    }

    /// Moves the cursor to the next slot, as far as the store has not done so.
    #[cfg(feature = "comparison")]
    fn advance(&mut self) {
        let ops = &mut self.ops;
        match self.form {
            Checked::Inline | Checked::Nanoscope => {}
            Checked::Masked { bits } => dynasm!(ops
                ; .arch aarch64
                ; add x17, x16, 8
                ; bfi x16, x17, 0, bits
            ),
            // (A subtraction in place of a comparison: it keeps the flags.)
            Checked::Hubble { start, end, .. } => dynasm!(ops
                ; .arch aarch64
                ; ldr x17, [x19, end]
                ; sub x17, x17, x16
                ; cbnz x17, >inside
                ; ldr x16, [x19, start]
                ; inside:
            ),
        }
    }

    /// Stores the cursor, which makes the slots before it part of the ring.
    fn publish(&mut self, cursor: u32) {
        let ops = &mut self.ops;
        dynasm!(ops; .arch aarch64; publish:);
        #[cfg(feature = "comparison")]
        self.advance();
        let ops = &mut self.ops;
        dynasm!(ops; .arch aarch64; str x16, [x19, cursor]; done:);
    }

    /// Reads the counter into x17.
    fn read_counter(&mut self) {
        let ops = &mut self.ops;
        dynasm!(ops; .arch aarch64; mrs x17, CNTVCT_EL0);
        #[cfg(feature = "comparison")]
        if self.barrier {
            dynasm!(ops; .arch aarch64; isb);
        }
    }
}
