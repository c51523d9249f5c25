// SPDX-License-Identifier: Apache-2.0
//! The code of each form.

use dynasmrt::aarch64::Aarch64Relocation;
use dynasmrt::{dynasm, DynasmApi, DynasmLabelApi, VecAssembler};
use hindsight_trace_format::slot::{SLOT_BYTES, TAG_EXIT, TAG_WIDE_ENTRY};

use crate::{
    Code, EncodeError, Form, Kind, Reg, RegSet, TracePoint, CURSOR_REGISTER, MAX_CURSOR_OFFSET,
    PREFETCH_DISTANCES, SCRATCH_REGISTER, THREAD_REGISTER,
};

/// CNTVCT_EL0 as `mrs` has it: op0 (without its upper bit), op1, CRn, CRm, op2.
const CNTVCT_EL0: u32 = 1 << 14 | 3 << 11 | 14 << 7 | 2;
/// Prefetch for a store, into the first-level cache, streaming: a ring is written once a lap.
const PSTL1STRM: u32 = 0b10001;
/// The number of the zero register.
const ZR: u8 = 31;

// The instructions below are what they are because of this.
const _: () = assert!(SLOT_BYTES == 8 && TAG_EXIT == 0 && TAG_WIDE_ENTRY == 1);

/// A form whose numbers instructions can hold.
#[derive(Clone, Copy)]
enum Checked {
    Inline,
    Masked { bits: u32 },
    Hubble { stop: u32, start: u32, end: u32 },
    Nanoscope,
}

impl Checked {
    fn new(form: Form) -> Result<Self, EncodeError> {
        // Loads have 12 bits for an offset, in units of what they load.
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
    barrier: bool,
}

pub(crate) fn emit(point: &TracePoint) -> Result<Code, EncodeError> {
    let TracePoint {
        kind,
        cursor_offset,
        wide_pointers,
        form,
        barrier,
        prefetch,
    } = *point;
    // All that the assembler would panic on is refused here.
    let cursor = match u32::try_from(cursor_offset) {
        Ok(cursor) if cursor % 8 == 0 && cursor_offset <= MAX_CURSOR_OFFSET => cursor,
        _ => return Err(EncodeError::CursorOffset(cursor_offset)),
    };
    if let Some(distance) = prefetch.filter(|d| !PREFETCH_DISTANCES.contains(d)) {
        return Err(EncodeError::PrefetchDistance(distance));
    }
    let method = match kind {
        Kind::Entry {
            method: method @ (CURSOR_REGISTER | SCRATCH_REGISTER | THREAD_REGISTER | Reg::Sp),
        } => return Err(EncodeError::MethodRegister(method)),
        Kind::Entry { method } => Some(method.number()),
        Kind::Exit => None,
    };
    let form = Checked::new(form)?;

    let ops = VecAssembler::new(0);
    let mut sequence = Sequence { ops, form, barrier };
    sequence.start(cursor, prefetch);
    match (form, method) {
        (Checked::Nanoscope, _) => sequence.long_event(method.unwrap_or(ZR)),
        (_, Some(method)) if wide_pointers => {
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
    /// Loads the cursor, and leaves if tracing is off or to be stopped.
    fn start(&mut self, cursor: u32, prefetch: Option<i32>) {
        let ops = &mut self.ops;
        dynasm!(ops
            ; .arch aarch64
            ; ldr x16, [x19, cursor]
            ; cbz x16, >done
        );
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

    /// For a method that is not below 4 GiB: two slots, the first with the whole pointer.
    fn wide(&mut self, method: u8) {
        let ops = &mut self.ops;
        dynasm!(ops; .arch aarch64; lsr x17, X(method), 32; cbz x17, >narrow);
        self.store(method);
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
            Checked::Masked { .. } => dynasm!(ops; .arch aarch64; stp W(low), w17, [x16]),
            _ => dynasm!(ops; .arch aarch64; stp W(low), w17, [x16], 8),
        }
    }

    /// Two words, the second of them the counter.
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
            Checked::Masked { .. } => dynasm!(ops; .arch aarch64; str X(register), [x16]),
            _ => dynasm!(ops; .arch aarch64; str X(register), [x16], 8),
        }
    }

    /// What is left to do of going on to the next slot.
    fn advance(&mut self) {
        let ops = &mut self.ops;
        match self.form {
            Checked::Inline | Checked::Nanoscope => {}
            Checked::Masked { bits } => dynasm!(ops
                ; .arch aarch64
                ; add x17, x16, 8
                ; bfi x16, x17, 0, bits
            ),
            // (Not a comparison: the flags are kept.)
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

    /// Only now is what was stored part of the ring.
    fn publish(&mut self, cursor: u32) {
        let ops = &mut self.ops;
        dynasm!(ops; .arch aarch64; publish:);
        self.advance();
        let ops = &mut self.ops;
        dynasm!(ops; .arch aarch64; str x16, [x19, cursor]; done:);
    }

    /// Reads the counter into x17.
    fn read_counter(&mut self) {
        let ops = &mut self.ops;
        dynasm!(ops; .arch aarch64; mrs x17, CNTVCT_EL0);
        if self.barrier {
            dynasm!(ops; .arch aarch64; isb);
        }
    }
}
