// SPDX-License-Identifier: Apache-2.0
//! When anchors are taken, and which are kept: what makes the time of every slot exact.
//!
//! A slot has the low 32 bits of the counter. Readers can extend them as long as each slot lies between
//! two anchors less than half a wrap apart, or as far apart as they like if no slot lies between them.

use std::time::Duration;

use hindsight_trace_format::container::Anchor;

/// No counter is faster; assumed until the rate is known.
const FASTEST_TICKS_PER_SECOND: u64 = 8_000_000_000;
/// Anchors kept for a ring, 1 MiB of them. At 2.7 GHz that is 11 hours of a thread that never rests for
/// as long as it takes to the next anchor.
const MAX_ANCHORS: usize = 1 << 16;

/// How often anchors have to be taken of a counter with this rate (0: unknown): four fifths of half a
/// wrap, so that one may be late.
pub fn interval(ticks_per_second: u64) -> Duration {
    let rate = match ticks_per_second {
        0 => FASTEST_TICKS_PER_SECOND,
        known => known.min(FASTEST_TICKS_PER_SECOND),
    };
    let half_a_wrap = (1_u64 << 31) as f64 / rate as f64;
    Duration::from_secs_f64((half_a_wrap * 0.8).min(60.0))
}

/// How long to wait where a thread was too busy for an anchor.
pub fn retry_after(interval: Duration) -> Duration {
    interval / 16
}

/// The anchors of one ring.
#[derive(Clone, Debug, Default)]
pub struct AnchorLog {
    anchors: Vec<Anchor>,
}

impl AnchorLog {
    /// Keeps an anchor, newer than those before it, of a ring with this many slots.
    ///
    /// Of those taken while the thread stood still, the first and the last are kept.
    pub fn note(&mut self, anchor: Anchor, ring_slots: u64) {
        if let [.., before, last] = self.anchors.as_mut_slice() {
            if before.slots_written == anchor.slots_written
                && last.slots_written == anchor.slots_written
            {
                last.counter = anchor.counter;
                return;
            }
        }
        if self.anchors.len() == MAX_ANCHORS {
            self.thin_out(anchor.slots_written.saturating_sub(ring_slots));
        }
        self.anchors.push(anchor);
    }

    /// Drops the anchors that only say something about slots that were overwritten since, or else the
    /// oldest quarter. `oldest` is the number of the ring's oldest slot.
    fn thin_out(&mut self, oldest: u64) {
        let overwritten = self.anchors.partition_point(|a| a.slots_written <= oldest);
        // The last of them bounds the oldest slot.
        let mut drop = overwritten.saturating_sub(1);
        if drop < MAX_ANCHORS / 4 {
            drop = MAX_ANCHORS / 4;
        }
        self.anchors.drain(..drop);
    }

    /// How many there are.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn len(&self) -> usize {
        self.anchors.len()
    }

    /// All, oldest first; none are left.
    pub fn take(&mut self) -> Vec<Anchor> {
        std::mem::take(&mut self.anchors)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.anchors.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(counter: u64, slots_written: u64) -> Anchor {
        Anchor {
            counter,
            slots_written,
        }
    }

    #[test]
    fn anchors_are_less_than_half_a_wrap_apart() {
        for rate in [
            1_000_000,
            19_200_000,
            62_500_000,
            1_000_000_000,
            2_712_345_678,
            5_000_000_000,
            0,
        ] {
            let ticks = interval(rate).as_secs_f64() * rate as f64;
            assert!(ticks < (1_u64 << 31) as f64 * 0.81, "{rate}");
            assert!(interval(rate) > retry_after(interval(rate)) * 15);
        }
        assert!(interval(0) <= interval(5_000_000_000));
    }

    #[test]
    fn a_thread_that_stands_still_has_two_anchors() {
        let mut log = AnchorLog::default();
        for counter in 0..5 {
            log.note(anchor(counter, 7), 512);
        }
        log.note(anchor(9, 8), 512);
        assert_eq!(log.take(), [anchor(0, 7), anchor(4, 7), anchor(9, 8)]);
    }

    #[test]
    fn anchors_of_overwritten_slots_go_first() {
        let mut log = AnchorLog::default();
        let slots = |i: u64| i * 10;
        let last = MAX_ANCHORS as u64;
        for i in 0..=last {
            log.note(anchor(i, slots(i)), 4096);
        }
        let kept = log.take();
        assert!(kept.len() <= MAX_ANCHORS);
        let oldest = slots(last) - 4096;
        assert!(kept[0].slots_written <= oldest && kept[1].slots_written > oldest);

        // Where the ring has room for all, the oldest quarter goes.
        for i in 0..=last {
            log.note(anchor(i, slots(i)), u64::MAX);
        }
        let kept = log.take();
        assert_eq!(kept.len(), MAX_ANCHORS / 4 * 3 + 1);
        assert_eq!(kept[0], anchor(last / 4, slots(last / 4)));
    }
}
