// SPDX-License-Identifier: Apache-2.0
//! When anchors are taken, and which are kept. Anchors make the time of every slot exact.
//!
//! A slot has the low 32 bits of the counter. Readers can extend them if each slot lies between two anchors that
//! are less than half a wrap of those 32 bits apart. Anchors without a slot between them may be any time apart.

use std::time::Duration;

use hindsight_trace_format::container::Anchor;

/// Faster than any counter, in ticks per second; assumed until the rate is known.
const FASTEST_TICKS_PER_SECOND: u64 = 8_000_000_000;
/// Maximum number of anchors kept for a ring (1 MiB). At 2.7 GHz they cover 11 hours of a thread that records in
/// every interval between two anchors.
const MAX_ANCHORS: usize = 1 << 16;

/// Time between two anchors, for a counter with this rate (0: unknown): 80 % of half a wrap of its low 32 bits, so
/// that an anchor may be late; at most 60 s.
pub fn interval(ticks_per_second: u64) -> Duration {
    let rate = match ticks_per_second {
        0 => FASTEST_TICKS_PER_SECOND,
        known => known.min(FASTEST_TICKS_PER_SECOND),
    };
    let half_a_wrap = (1_u64 << 31) as f64 / rate as f64;
    Duration::from_secs_f64((half_a_wrap * 0.8).min(60.0))
}

/// Time to the next attempt where a thread was too busy for an anchor.
pub fn retry_after(interval: Duration) -> Duration {
    interval / 16
}

/// The anchors of one ring.
#[derive(Clone, Debug, Default)]
pub struct AnchorLog {
    anchors: Vec<Anchor>,
}

impl AnchorLog {
    /// Adds an anchor of a ring with `ring_slots` slots. It must be newer than all anchors in the log.
    ///
    /// Of the anchors between two slots, only the first and the last are kept.
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

    /// Drops the anchors that only bound overwritten slots; if these are few, the oldest quarter. `oldest` is the
    /// number of the ring's oldest slot.
    fn thin_out(&mut self, oldest: u64) {
        let overwritten = self.anchors.partition_point(|a| a.slots_written <= oldest);
        // The last of these bounds the oldest slot.
        let mut drop = overwritten.saturating_sub(1);
        if drop < MAX_ANCHORS / 4 {
            drop = MAX_ANCHORS / 4;
        }
        self.anchors.drain(..drop);
    }

    /// The number of anchors.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn len(&self) -> usize {
        self.anchors.len()
    }

    /// Takes all anchors, oldest first.
    pub fn take(&mut self) -> Vec<Anchor> {
        std::mem::take(&mut self.anchors)
    }

    /// Drops all anchors.
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

        // If the ring still has all slots, the oldest quarter of the anchors goes.
        for i in 0..=last {
            log.note(anchor(i, slots(i)), u64::MAX);
        }
        let kept = log.take();
        assert_eq!(kept.len(), MAX_ANCHORS / 4 * 3 + 1);
        assert_eq!(kept[0], anchor(last / 4, slots(last / 4)));
    }
}
