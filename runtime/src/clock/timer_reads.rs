// SPDX-License-Identifier: Apache-2.0
//! Decodes and executes the instructions that read ARM's generic timer, for the handler of SIGILL in `emulated.rs`: pure
//! functions over instruction words and registers.

#![cfg_attr(
    not(test),
    allow(dead_code, reason = "each instruction set has a part of it")
)]

/// Rate of the emulated counter in ticks per second: a tick takes 16 ns.
pub(crate) const EMULATED_HZ: u64 = 62_500_000;

/// The emulated counter at this time of CLOCK_MONOTONIC.
pub(crate) const fn emulated_ticks(ns: u64) -> u64 {
    ns / (1_000_000_000 / EMULATED_HZ)
}

/// An instruction that reads the timer. All of them are 4 bytes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerRead {
    /// The virtual or the physical counter, into two 32-bit registers.
    CounterPair {
        /// Gets the low half.
        low: u8,
        /// Gets the high half.
        high: u8,
    },
    /// The virtual or the physical counter, into one 64-bit register; 31 is the zero register.
    Counter {
        /// Gets the counter.
        register: u8,
    },
    /// The counter's rate.
    Frequency {
        /// Gets the rate.
        register: u8,
    },
}

impl TimerRead {
    /// Executes the instruction, with the counter at `ticks`: calls `set` with each register and its new value.
    pub(crate) fn write_back(self, ticks: u64, mut set: impl FnMut(u8, u64)) {
        match self {
            TimerRead::CounterPair { low, high } => {
                set(low, ticks & u64::from(u32::MAX));
                set(high, ticks >> 32);
            }
            TimerRead::Counter { register } => set(register, ticks),
            TimerRead::Frequency { register } => set(register, EMULATED_HZ),
        }
    }
}

/// Decodes an A32 instruction. Only unconditional ones: trace points have no others, and whether a conditional one traps
/// whose condition is false is up to the processor.
pub(crate) fn decode_a32(word: u32) -> Option<TimerRead> {
    (word >> 28 == 0xe).then_some(())?;
    decode_coprocessor(word)
}

/// Decodes a T32 instruction, given as its two halves in memory order. `it_state` says whether it is in an IT block: then
/// it is conditional, and not recognized.
pub(crate) fn decode_t32(first: u16, second: u16, it_state: bool) -> Option<TimerRead> {
    (!it_state && first >> 12 == 0xe).then_some(())?;
    decode_coprocessor(u32::from(first) << 16 | u32::from(second))
}

/// Whether a T32 instruction with this first half has a second half.
pub(crate) fn is_wide_t32(first: u16) -> bool {
    first >> 11 >= 0b11101
}

/// `mrrc p15, {0,1}, Rt, Rt2, c14` and `mrc p15, 0, Rt, c14, c0, 0`, which look alike in A32 and T32.
fn decode_coprocessor(word: u32) -> Option<TimerRead> {
    /// The program counter cannot be a destination.
    const PC: u8 = 15;
    let field = |shift: u32| ((word >> shift) & 15) as u8;
    // The lowest bit of the first opcode tells the virtual from the physical counter.
    if word & 0x0ff0_0fef == 0x0c50_0f0e {
        let (low, high) = (field(12), field(16));
        return (low != PC && high != PC && low != high)
            .then_some(TimerRead::CounterPair { low, high });
    }
    if word & 0x0fff_0fff == 0x0e1e_0f10 {
        let register = field(12);
        return (register != PC).then_some(TimerRead::Frequency { register });
    }
    None
}

/// Decodes an A64 instruction: `mrs Xt, cntvct_el0`, `cntpct_el0` or `cntfrq_el0`.
pub(crate) fn decode_a64(word: u32) -> Option<TimerRead> {
    let register = (word & 31) as u8;
    match word & !31 {
        0xd53b_e040 | 0xd53b_e020 => Some(TimerRead::Counter { register }),
        0xd53b_e000 => Some(TimerRead::Frequency { register }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The instruction words come from GNU as.

    #[test]
    fn a32_and_t32_reads_of_the_counter_are_recognized() {
        let pair = |low, high| Some(TimerRead::CounterPair { low, high });
        // mrrc p15, 1, r0, r1, c14; p15, 1, ip, lr; p15, 0, r3, r2 (the physical counter)
        assert_eq!(decode_a32(0xec51_0f1e), pair(0, 1));
        assert_eq!(decode_a32(0xec5e_cf1e), pair(12, 14));
        assert_eq!(decode_a32(0xec52_3f0e), pair(3, 2));
        assert_eq!(decode_t32(0xec51, 0x0f1e, false), pair(0, 1));
        assert_eq!(decode_t32(0xec5e, 0xcf1e, false), pair(12, 14));
        // mrc p15, 0, r4, c14, c0, 0
        let rate = Some(TimerRead::Frequency { register: 4 });
        assert_eq!(decode_a32(0xee1e_4f10), rate);
        assert_eq!(decode_t32(0xee1e, 0x4f10, false), rate);
    }

    #[test]
    fn other_instructions_are_not() {
        for word in [
            0xe7f0_00f0_u32, // udf
            0xec51_0f2e,     // mrrc p15, 2, r0, r1, c14: the comparator
            0xec41_0f1e,     // mcrr
            0xec51_0f1d,     // c13
            0xec51_0e1e,     // p14
            0x1c51_0f1e,     // mrrcne
            0xec51_ff1e,     // low half to pc
            0xec5f_0f1e,     // high half to pc
            0xec50_0f1e,     // both to r0
            0xee1e_ff10,     // rate to the flags
            0xee1d_0f70,     // mrc p15, 0, r0, c13, c0, 3: the thread pointer
        ] {
            assert_eq!(decode_a32(word), None, "{word:#x}");
            let halves = ((word >> 16) as u16, word as u16);
            assert_eq!(decode_t32(halves.0, halves.1, false), None, "{word:#x}");
        }
        assert_eq!(decode_t32(0xec51, 0x0f1e, true), None, "in an IT block");
        assert_eq!(
            decode_a32(0xfc51_0f1e),
            None,
            "mrrc2 is another coprocessor"
        );
        assert!(is_wide_t32(0xec51) && is_wide_t32(0xf000) && !is_wide_t32(0xe7fe));
    }

    #[test]
    fn a64_reads_of_the_timer_are_recognized() {
        // mrs x9, cntvct_el0; mrs xzr, cntpct_el0; mrs x0, cntfrq_el0; mrs x0, tpidr_el0
        assert_eq!(
            decode_a64(0xd53b_e049),
            Some(TimerRead::Counter { register: 9 })
        );
        assert_eq!(
            decode_a64(0xd53b_e03f),
            Some(TimerRead::Counter { register: 31 })
        );
        assert_eq!(
            decode_a64(0xd53b_e000),
            Some(TimerRead::Frequency { register: 0 })
        );
        assert_eq!(decode_a64(0xd53b_d040), None);
    }

    #[test]
    fn registers_get_what_the_instruction_would_have_read() {
        let mut registers = [0_u64; 16];
        let read = decode_a32(0xec5e_cf1e).unwrap();
        read.write_back(0x1234_5678_9abc_def0, |register, value| {
            registers[usize::from(register)] = value;
        });
        assert_eq!((registers[12], registers[14]), (0x9abc_def0, 0x1234_5678));
        let others: u64 = [0, 1, 2, 3, 13, 15].iter().map(|&r| registers[r]).sum();
        assert_eq!(others, 0);
        let read = TimerRead::Frequency { register: 2 };
        read.write_back(7, |register, value| {
            assert_eq!((register, value), (2, 62_500_000));
        });
        assert_eq!(emulated_ticks(1_000_000_000), EMULATED_HZ);
    }
}
