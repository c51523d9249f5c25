// SPDX-License-Identifier: Apache-2.0
//! Dex instructions: their lengths, where they go, which register they write, and what they read.

/// What an instruction does, as far as it matters for a loop's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Goes elsewhere in any case, by this distance.
    Goto(i32),
    /// Compares these registers, or one with 0, and goes elsewhere, by this distance.
    If {
        compare: Compare,
        registers: (u16, Option<u16>),
        offset: i32,
    },
    /// Goes to one of several places, by this register. The table is at this distance.
    Switch { register: u16, table: i32 },
    /// Ends the method, or throws.
    Leaves,
    /// Writes the field with this index into a register.
    ReadField { to: u16, field: u32 },
    /// Writes the result of the call before into a register.
    Result { to: u16 },
    /// Calls the method with this index.
    Call { method: u32 },
    /// Writes a constant into a register.
    Constant { to: u16, value: i64 },
    /// Writes something computed from these registers into one.
    Compute { to: u16, from: [Option<u16>; 2] },
    /// Writes something else into a register.
    Writes { to: u16 },
    /// None of these.
    Other,
}

/// How an `if` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Ge,
    Gt,
    Le,
}

impl Compare {
    const ALL: [Compare; 6] = [
        Compare::Eq,
        Compare::Ne,
        Compare::Lt,
        Compare::Ge,
        Compare::Gt,
        Compare::Le,
    ];

    /// The opposite.
    pub(crate) fn negated(self) -> Self {
        match self {
            Compare::Eq => Compare::Ne,
            Compare::Ne => Compare::Eq,
            Compare::Lt => Compare::Ge,
            Compare::Ge => Compare::Lt,
            Compare::Gt => Compare::Le,
            Compare::Le => Compare::Gt,
        }
    }

    /// As Java writes it.
    pub(crate) const fn symbol(self) -> &'static str {
        match self {
            Compare::Eq => "==",
            Compare::Ne => "!=",
            Compare::Lt => "<",
            Compare::Ge => ">=",
            Compare::Gt => ">",
            Compare::Le => "<=",
        }
    }
}

/// The instruction at `at`, and its length in units; `None` at the end, and where it is cut.
pub(crate) fn decode(units: &[u16], at: usize) -> Option<(Kind, usize)> {
    let first = *units.get(at)?;
    let opcode = first as u8;
    let length = match first {
        0x0100 | 0x0200 | 0x0300 => payload_length(units, at)?,
        _ => usize::from(length_of(opcode)),
    };
    let unit = |i: usize| units.get(at + i).copied();
    // Only what is whole is decoded.
    unit(length - 1)?;
    let high = first >> 8;
    let (a, b) = (high & 0xf, first >> 12);
    let kind = match opcode {
        0x01 | 0x04 | 0x07 | 0x7b..=0x8f | 0x21 => compute(a, [Some(b), None]),
        0x02 | 0x05 | 0x08 => compute(high, [unit(1), None]),
        0x03 | 0x06 | 0x09 => compute(unit(1)?, [unit(2), None]),
        0x0a..=0x0c => Kind::Result { to: high },
        0x0d => Kind::Writes { to: high },
        0x0e..=0x11 | 0x27 | 0x73 => Kind::Leaves,
        0x12 => constant(a, i64::from((first as i16) >> 12)),
        0x13 | 0x16 => constant(high, i64::from(unit(1)? as i16)),
        0x14 | 0x17 => constant(high, i64::from(i32_at(units, at + 1)?)),
        0x15 | 0x18..=0x1c | 0x22 | 0xfe | 0xff => Kind::Writes { to: high },
        0x20 | 0x23 => compute(a, [Some(b), None]),
        0x28 => Kind::Goto(i32::from(high as u8 as i8)),
        0x29 => Kind::Goto(i32::from(unit(1)? as i16)),
        0x2a => Kind::Goto(i32_at(units, at + 1)?),
        0x2b | 0x2c => Kind::Switch {
            register: high,
            table: i32_at(units, at + 1)?,
        },
        0x32..=0x37 => Kind::If {
            compare: Compare::ALL[usize::from(opcode - 0x32)],
            registers: (a, Some(b)),
            offset: i32::from(unit(1)? as i16),
        },
        0x38..=0x3d => Kind::If {
            compare: Compare::ALL[usize::from(opcode - 0x38)],
            registers: (high, None),
            offset: i32::from(unit(1)? as i16),
        },
        0x2d..=0x31 | 0x44..=0x4a | 0x90..=0xaf => {
            let from = unit(1)?;
            compute(high, [Some(from & 0xff), Some(from >> 8)])
        }
        0x52..=0x58 => Kind::ReadField {
            to: a,
            field: unit(1)?.into(),
        },
        0x60..=0x66 => Kind::ReadField {
            to: high,
            field: unit(1)?.into(),
        },
        0x6e..=0x72 | 0x74..=0x78 | 0xfa | 0xfb => Kind::Call {
            method: unit(1)?.into(),
        },
        0xb0..=0xcf => compute(a, [Some(a), Some(b)]),
        0xd0..=0xd7 => compute(a, [Some(b), None]),
        0xd8..=0xe2 => compute(high, [Some(unit(1)? & 0xff), None]),
        _ => Kind::Other,
    };
    Some((kind, length))
}

fn compute(to: u16, from: [Option<u16>; 2]) -> Kind {
    Kind::Compute { to, from }
}

fn constant(to: u16, value: i64) -> Kind {
    Kind::Constant { to, value }
}

fn i32_at(units: &[u16], at: usize) -> Option<i32> {
    let (low, high) = (*units.get(at)?, *units.get(at + 1)?);
    Some((u32::from(low) | u32::from(high) << 16) as i32)
}

/// Length of an instruction, units.
fn length_of(opcode: u8) -> u8 {
    match opcode {
        0x18 => 5,
        0xfa | 0xfb => 4,
        0x03 | 0x06 | 0x09 | 0x14 | 0x17 | 0x1b | 0x24..=0x26 | 0x2a..=0x2c => 3,
        0x6e..=0x72 | 0x74..=0x78 | 0xe9 | 0xea | 0xfc | 0xfd => 3,
        0x02 | 0x05 | 0x08 | 0x13 | 0x15 | 0x16 | 0x19 | 0x1a | 0x1c | 0x1f | 0x20 | 0x22
        | 0x23 => 2,
        0x29 | 0x2d..=0x3d | 0x44..=0x6d | 0x90..=0xaf | 0xd0..=0xe8 | 0xeb..=0xf2 => 2,
        0xfe | 0xff => 2,
        _ => 1,
    }
}

/// Length of the table of a switch or of an array, units.
fn payload_length(units: &[u16], at: usize) -> Option<usize> {
    let count = usize::from(*units.get(at + 1)?);
    Some(match units[at] {
        0x0100 => 4 + 2 * count,
        0x0200 => 2 + 4 * count,
        _ => {
            // The width of an element, and their number.
            let elements = usize::try_from(i32_at(units, at + 2)?).ok()?;
            4 + elements.checked_mul(count)?.div_ceil(2)
        }
    })
}

/// The distances of the targets in the table of a switch at `table`.
pub(crate) fn switch_targets(units: &[u16], table: usize) -> Option<Vec<i32>> {
    let count = usize::from(*units.get(table + 1)?);
    let first = match units.get(table)? {
        0x0100 => table + 4,
        0x0200 => table + 2 + 2 * count,
        _ => return None,
    };
    (0..count).map(|i| i32_at(units, first + 2 * i)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_read_by_their_formats() {
        let one = |units: &[u16]| decode(units, 0);
        // if-nez v2, +5; goto -3; iget-boolean v1, v4, field 7; sget v3, field 9
        let compare = Compare::Ne;
        let expected = Kind::If {
            compare,
            registers: (2, None),
            offset: 5,
        };
        assert_eq!(one(&[0x0239, 5]), Some((expected, 2)));
        assert_eq!(one(&[0xfd28]), Some((Kind::Goto(-3), 1)));
        let read = |to, field| Kind::ReadField { to, field };
        assert_eq!(one(&[0x4155, 7]), Some((read(1, 7), 2)));
        assert_eq!(one(&[0x0360, 9]), Some((read(3, 9), 2)));
        // const/4 v1, -2; const/16 v1, -2; cmp-long v0, v2, v4; add-int/2addr v1, v2
        assert_eq!(one(&[0xe112]), Some((constant(1, -2), 1)));
        assert_eq!(one(&[0x0113, 0xfffe]), Some((constant(1, -2), 2)));
        let computed = |to, a, b| compute(to, [Some(a), Some(b)]);
        assert_eq!(one(&[0x0031, 0x0402]), Some((computed(0, 2, 4), 2)));
        assert_eq!(one(&[0x21b0]), Some((computed(1, 1, 2), 1)));
        // Cut off.
        assert_eq!(one(&[0x0239]), None);
        assert_eq!(one(&[]), None);
    }

    #[test]
    fn tables_are_skipped_and_their_targets_read() {
        let packed = [0x0100, 2, 0, 0, 5, 0, 0xffff, 0xffff];
        assert_eq!(decode(&packed, 0), Some((Kind::Other, 8)));
        assert_eq!(switch_targets(&packed, 0), Some(vec![5, -1]));
        let sparse = [0x0200, 1, 9, 0, 6, 0];
        assert_eq!(decode(&sparse, 0), Some((Kind::Other, 6)));
        assert_eq!(switch_targets(&sparse, 0), Some(vec![6]));
        // Three bytes.
        assert_eq!(
            decode(&[0x0300, 1, 3, 0, 0x0201, 3], 0),
            Some((Kind::Other, 6))
        );
    }
}
