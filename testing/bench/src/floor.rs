// SPDX-License-Identifier: Apache-2.0
//! The floor of a trace point: reading the timer and storing 8 bytes only.

use std::time::Duration;

/// Bytes of memory that the stores cycle through: as large as a default ring, so that the floor has the same cache
/// misses as a trace point.
const BUFFER_BYTES: usize = 32 << 20;

/// Measures the floor on this machine.
pub(crate) struct Floor {
    buffer: Vec<u64>,
    next: usize,
}

impl Floor {
    pub(crate) fn new() -> Self {
        // Written once, so that no measurement pays for page faults.
        Floor {
            buffer: vec![1; BUFFER_BYTES / size_of::<u64>()],
            next: 0,
        }
    }

    /// Nanoseconds for one point, as the mean of `points`, which must be fewer than the buffer's slots.
    pub(crate) fn measure(&mut self, points: usize) -> f64 {
        if self.next + points > self.buffer.len() {
            self.next = 0;
        }
        let slots = &mut self.buffer[self.next..self.next + points];
        self.next += points;
        let start = cpu_time();
        for slot in slots.iter_mut() {
            // A volatile store, so that the compiler keeps each of them, in order.
            // SAFETY: `slot` is a valid, exclusive reference.
            unsafe { std::ptr::write_volatile(slot, read_timer()) };
        }
        (cpu_time() - start).as_nanos() as f64 / points as f64
    }
}

/// The CPU time of this thread, which other programs on the machine do not lengthen.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local variable. Every Linux has the clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// The low half of the counter that trace points read, which is the half that they store.
#[cfg(target_arch = "x86_64")]
fn read_timer() -> u64 {
    let low: u64;
    // SAFETY: every x86-64 processor has the instruction, and Linux permits it to programs by default.
    // It writes RDX:RAX, with zeros in their upper halves, which the outputs declare.
    unsafe {
        std::arch::asm!("rdtsc", out("rax") low, out("rdx") _, options(nostack, nomem, preserves_flags));
    }
    low
}

/// The counter that trace points read.
#[cfg(target_arch = "aarch64")]
fn read_timer() -> u64 {
    let count: u64;
    // SAFETY: reads a register that Linux permits programs to read, into the declared output.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nostack, nomem)) };
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_of_a_measurement_is_written() {
        let mut floor = Floor::new();
        floor.measure(1000);
        floor.measure(1000);
        assert!(floor.buffer[..2000].iter().all(|&slot| slot != 1));
        assert_eq!(floor.buffer[2000], 1);
        assert!(floor.buffer[..2000]
            .windows(2)
            .any(|pair| pair[0] != pair[1]));
    }
}
