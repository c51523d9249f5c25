// SPDX-License-Identifier: Apache-2.0
//! From the low 32 bits of the counter, which a slot holds, to the whole counter.

use hindsight_trace_format::container::{Anchor, RingHeader, RingMode};

/// Ticks after which the counter's low half wraps.
const WRAP: u64 = 1 << 32;
/// An event that was being recorded while another thread took an anchor may be older than the anchor, by the time for which
/// the thread was preempted in it. Readers allow for half a wrap.
const IN_PROGRESS: u64 = WRAP / 2;
/// The counters of two processors may differ by some ticks: a thread that is moved may read an older time.
const SKEW: u64 = 1 << 10;

/// Bounds by the anchors at one position of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    /// Number of the slot, counted since the start of the ring.
    slot: u64,
    /// Slots before it are no newer.
    before: u64,
    /// This slot and later ones are no older.
    after: u64,
}

/// Whole counter values for the slots of a ring, from the newest to the oldest.
///
/// A low half greater than the next slot's means at least one wrap in between. Only the anchors show how many: they
/// bound each stretch of slots.
pub(crate) struct Timeline {
    /// The bounds at or before the current slot, oldest first.
    bounds: Vec<Bound>,
    /// The current slot is no newer than this: the time of the slot after it, or of an anchor.
    upper: u64,
    /// The current stretch is no older.
    lower: u64,
    /// The stretch starts with this slot.
    stretch: u64,
    /// Slots before the stretch are no newer.
    before: u64,
    /// Whether the stretch is so long that the low half may have wrapped unseen.
    unbounded: bool,
    /// The thread marks changes of the counter's upper half, or longer pauses, itself, so that from an anchor on backwards all times are exact.
    marks_pauses: bool,
    /// An event may be older than the bound before it by this many ticks.
    may_be_older: u64,
    /// Slots in such stretches.
    pub(crate) unbounded_slots: u64,
    /// Slots whose time contradicted the anchors; they get the time of the next event.
    pub(crate) contradictions: u64,
    /// Anchors that contradicted the others.
    pub(crate) anchors_ignored: u64,
}

impl Timeline {
    /// For a ring and its anchors. The next slot to ask for is its newest one.
    pub(crate) fn new(header: &RingHeader, anchors: &[Anchor]) -> Self {
        let end = header.position.slots_written(header.geometry);
        let stopped = header.stopped_counter;
        let mut sorted: Vec<Anchor> = anchors.to_vec();
        sorted.sort_by_key(|a| (a.counter, a.slots_written));
        let mut anchors_ignored = 0;
        let mut bounds: Vec<Bound> = vec![Bound {
            slot: 0,
            before: 0,
            after: if header.started_counter <= stopped {
                header.started_counter
            } else {
                0
            },
        }];
        for anchor in sorted {
            let last = bounds.last_mut().filter(|b| b.slot <= anchor.slots_written);
            match last {
                Some(last) if anchor.slots_written <= end && anchor.counter <= stopped => {
                    if last.slot == anchor.slots_written {
                        last.after = last.after.max(anchor.counter);
                    } else if anchor.counter >= last.after {
                        bounds.push(Bound {
                            slot: anchor.slots_written,
                            before: anchor.counter,
                            after: anchor.counter,
                        });
                    } else {
                        anchors_ignored += 1;
                    }
                }
                _ => anchors_ignored += 1,
            }
        }
        let mut timeline = Timeline {
            bounds,
            upper: newest(header),
            lower: 0,
            stretch: u64::MAX,
            before: u64::MAX,
            unbounded: false,
            marks_pauses: header.mode == RingMode::Events || header.epochs.is_some(),
            may_be_older: if header.epochs.is_some() {
                SKEW
            } else {
                IN_PROGRESS
            },
            unbounded_slots: 0,
            contradictions: 0,
            anchors_ignored,
        };
        timeline.enter_stretch(end.saturating_sub(1));
        timeline
    }

    /// Goes back to the stretch that slot `number` is in.
    #[cold]
    fn enter_stretch(&mut self, number: u64) {
        let mut is_anchored = self.before != u64::MAX;
        self.upper = self.upper.min(self.before);
        while let Some(bound) = self.bounds.pop() {
            if bound.slot <= number {
                self.lower = bound.after;
                self.stretch = bound.slot;
                self.before = bound.before;
                let is_long = self.upper.saturating_sub(self.lower) >= WRAP;
                self.unbounded = is_long && !(self.marks_pauses && is_anchored);
                return;
            }
            self.upper = self.upper.min(bound.before);
            is_anchored = true;
        }
    }

    /// The number of the oldest slot whose time has the same bounds as slot `number`'s. From call to call,
    /// `number` must decrease.
    pub(crate) fn stretch(&mut self, number: u64) -> u64 {
        if number < self.stretch {
            self.enter_stretch(number);
        }
        self.stretch
    }

    /// The whole counter of the oldest of `slots` slots of one stretch. `newest` is the low half of the newest, and
    /// `span` is the sum of the differences from slot to slot, wraps included. `None`, without any effect, if a time
    /// would contradict the anchors: [`Timeline::extend`] finds which.
    pub(crate) fn extend_block(&mut self, newest: u32, span: u64, slots: u64) -> Option<u64> {
        let back = u64::from((self.upper as u32).wrapping_sub(newest));
        // Times only decrease: if the oldest is within the bounds, all are.
        let oldest = self.upper.checked_sub(back)?.checked_sub(span)?;
        if oldest.saturating_add(self.may_be_older) < self.lower {
            return None;
        }
        if self.unbounded {
            self.unbounded_slots += slots;
        }
        self.upper = oldest;
        Some(oldest)
    }

    /// As [`Timeline::extend`]. Whether the time is within the anchors: here no event may be older than the anchor
    /// before it.
    pub(crate) fn extend_strictly(&mut self, number: u64, low: u32) -> bool {
        let before = self.contradictions;
        let value = self.extend(number, low);
        self.contradictions == before && value >= self.lower
    }

    /// The whole counter of slot `number`, whose low half is `low`. Numbers must decrease.
    #[inline]
    pub(crate) fn extend(&mut self, number: u64, low: u32) -> u64 {
        if number < self.stretch {
            self.enter_stretch(number);
        }
        let same_wrap = (self.upper & !(WRAP - 1)) | u64::from(low);
        let value = if same_wrap <= self.upper {
            same_wrap
        } else {
            same_wrap.wrapping_sub(WRAP)
        };
        self.unbounded_slots += u64::from(self.unbounded);
        if value > self.upper || value.saturating_add(self.may_be_older) < self.lower {
            self.contradictions += 1;
            return self.upper;
        }
        self.upper = value;
        value
    }
}

/// No slot is newer than this counter: the end of the newest slot's epoch, or when the ring was taken. An epoch that
/// ended before the recording began is damaged, or was never written, and says nothing.
fn newest(header: &RingHeader) -> u64 {
    let epochs = header.epochs.map(|epochs| epochs.end());
    let end = epochs.filter(|&end| end >= header.started_counter);
    end.map_or(header.stopped_counter, |end| {
        end.min(header.stopped_counter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_trace_format::container::Epochs;
    use hindsight_trace_format::ring::{Geometry, Position};

    fn header(slots: u64, started: u64, stopped: u64) -> RingHeader {
        RingHeader {
            geometry: Geometry::new(12).unwrap(),
            position: Position {
                laps: 0,
                offset: slots * 8,
            },
            started_counter: started,
            stopped_counter: stopped,
            ..RingHeader::default()
        }
    }

    fn anchor(counter: u64, slots_written: u64) -> Anchor {
        Anchor {
            counter,
            slots_written,
        }
    }

    /// The extended times of slots with these times, oldest first, and the timeline after that.
    fn extend(times: &[u64], header: &RingHeader, anchors: &[Anchor]) -> (Vec<u64>, Timeline) {
        let mut timeline = Timeline::new(header, anchors);
        let mut out: Vec<u64> = (times.iter().enumerate().rev())
            .map(|(i, &t)| timeline.extend(i as u64, t as u32))
            .collect();
        out.reverse();
        (out, timeline)
    }

    #[test]
    fn a_value_above_its_successors_is_one_wrap_older() {
        let times = [
            0x1_ffff_fff0,
            0x1_ffff_ffff,
            0x2_0000_0000,
            0x2_0000_0000,
            0x2_8000_0001,
        ];
        let (got, timeline) = extend(&times, &header(5, 0x1_0000_0000, 0x3_8000_0000), &[]);
        assert_eq!(got, times);
        assert_eq!(timeline.contradictions, 0);
        // Without anchors the number of wraps is unknown.
        assert_eq!(timeline.unbounded_slots, 5);
    }

    #[test]
    fn anchors_make_a_gap_of_several_wraps_exact() {
        let times = [0x1_0000_0010, 0x1_0000_0020, 0x9_0000_0005, 0x9_0000_0030];
        let header = header(4, 0x1_0000_0000, 0x20_0000_0000);
        let anchors = [
            anchor(0x1_0000_0040, 2),
            anchor(0x8_ffff_0000, 2),
            anchor(0x9_0000_0031, 4),
        ];
        let (got, timeline) = extend(&times, &header, &anchors);
        assert_eq!(got, times);
        assert_eq!(
            (
                timeline.unbounded_slots,
                timeline.contradictions,
                timeline.anchors_ignored
            ),
            (0, 0, 0)
        );
        // The test can fail: without them it is not exact.
        assert_ne!(extend(&times, &header, &[]).0, times);
    }

    #[test]
    fn a_slot_that_contradicts_its_anchors_takes_the_time_of_the_next_one() {
        // The counter of another core is 5 ticks ahead.
        let (got, timeline) = extend(&[100, 205, 200], &header(3, 90, 1000), &[anchor(95, 0)]);
        assert_eq!(got, [100, 200, 200]);
        assert_eq!(timeline.contradictions, 1);
    }

    #[test]
    fn an_event_in_progress_at_an_anchor_keeps_its_own_time() {
        // The thread was preempted between reading the counter (2_000) and publishing the slot.
        let times = [1_000, 2_000, 5_000_000];
        let (got, timeline) = extend(&times, &header(3, 0, 6_000_000), &[anchor(4_000_000, 1)]);
        assert_eq!(got, times);
        assert_eq!(timeline.contradictions, 0);
    }

    #[test]
    fn anchors_that_contradict_each_other_are_left_out() {
        let times = [10, 20, 30];
        let anchors = [
            anchor(25, 2),
            anchor(26, 1),
            anchor(5000, 3),
            anchor(28, 900),
        ];
        let (got, timeline) = extend(&times, &header(3, 0, 100), &anchors);
        assert_eq!(got, times);
        assert_eq!(timeline.anchors_ignored, 3);
    }

    #[test]
    fn the_epoch_of_the_newest_slot_bounds_a_pause_up_to_the_end() {
        let times = [0x1_0000_0010, 0x1_0000_0020];
        let mut header = header(2, 0x1_0000_0000, 0x9_0000_0000);
        let epochs = Epochs {
            epoch: 1,
            ..Epochs::default()
        };
        header.epochs = Some(epochs);
        let (got, timeline) = extend(&times, &header, &[anchor(epochs.end(), 2)]);
        assert_eq!(got, times);
        // Also if the anchors are damaged.
        assert_eq!(extend(&times, &header, &[]).0, times);
        assert_eq!(timeline.contradictions, 0);
        header.epochs = None;
        assert_ne!(extend(&times, &header, &[]).0, times, "the test can fail");
    }

    #[test]
    fn an_epoch_before_the_recording_is_not_used() {
        let times = [0x5_0000_0010, 0x5_0000_0020];
        let mut header = header(2, 0x5_0000_0000, 0x5_0000_0100);
        header.epochs = Some(Epochs::default());
        let (got, timeline) = extend(&times, &header, &[]);
        assert_eq!(got, times);
        assert_eq!(timeline.contradictions, 0);
    }

    #[test]
    fn a_step_back_of_some_ticks_does_not_move_an_epoch() {
        // The thread was moved to a processor whose counter is 5 ticks behind, in the second half of an epoch.
        let start = 0x1_c000_0000;
        let times = [start + 50, start + 105, start + 100, start + 200];
        let mut header = header(4, 0x1_0000_0000, start + 300);
        header.epochs = Some(Epochs {
            epoch: 1,
            ..Epochs::default()
        });
        let (got, timeline) = extend(&times, &header, &[anchor(start + 300, 4)]);
        assert_eq!(got, [start + 50, start + 100, start + 100, start + 200]);
        assert_eq!(timeline.contradictions, 1);
    }
}
