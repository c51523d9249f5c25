// SPDX-License-Identifier: Apache-2.0
//! The forms of a trace point that records in place, for measurements and comparisons.

/// How a trace point is laid out, and how the cursor gets from the ring's end to its start. ART emits
/// [`Form::Inline`] only.
///
/// Every form records in place. Offsets are in bytes from the thread register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// The guard page after the ring wraps the cursor. The shortest and fastest.
    #[default]
    Inline,
    /// Arithmetic wraps the cursor, without a signal handler: the ring's size is a power of two, and its address a
    /// multiple of it.
    Masked {
        /// The ring's size: a power of two from [`MIN_RING_BYTES`] to [`MAX_RING_BYTES`].
        ring_bytes: u32,
    },
    /// The checks that Hubble's paper describes: each trace point compares the cursor with the ring's end, and reads
    /// a word that asks the thread to stop; a thread that is asked to stop clears its cursor.
    Hubble {
        /// A 32-bit word that is not 0 while the thread is asked to stop.
        stop_offset: i32,
        /// The word that holds the address of the ring's first slot.
        start_offset: i32,
        /// The word that holds the address behind the ring's last slot.
        end_offset: i32,
    },
    /// Nanoscope's events of 16 bytes: the method (0 at an exit), then the whole counter. Nothing wraps the cursor;
    /// `wide_pointers` has no effect.
    Nanoscope,
}

/// A counter of the Arm architecture's generic timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Counter {
    /// CNTVCT, which Linux lets programs read, and which the vDSO reads.
    #[default]
    Virtual,
    /// CNTPCT, which an unmodified Linux does not let programs read.
    Physical,
}

/// The smallest ring of [`Form::Masked`]: a page.
pub const MIN_RING_BYTES: u32 = 4096;
/// The largest ring of [`Form::Masked`].
pub const MAX_RING_BYTES: u32 = 1 << 31;

impl Form {
    /// The binary logarithm of a ring's size, or `None` if [`Form::Masked`] has no ring of that size.
    pub const fn ring_bits(ring_bytes: u32) -> Option<u32> {
        if ring_bytes.is_power_of_two() && ring_bytes >= MIN_RING_BYTES {
            Some(ring_bytes.trailing_zeros())
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_are_rings() {
        assert_eq!(Form::ring_bits(MIN_RING_BYTES), Some(12));
        assert_eq!(Form::ring_bits(MAX_RING_BYTES), Some(31));
        for bytes in [
            0,
            1,
            8,
            24,
            MAX_RING_BYTES - 1,
            MAX_RING_BYTES + 1,
            u32::MAX,
        ] {
            assert_eq!(Form::ring_bits(bytes), None, "{bytes}");
        }
    }
}
