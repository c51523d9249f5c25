// SPDX-License-Identifier: Apache-2.0
//! The stacks of one thread: when one is wanted, and what of it is new.

use super::arena::Pin;
use super::table::StackTable;

/// The most frames that are kept of a stack. Of a deeper one the outermost are left out.
pub const MAX_FRAMES: usize = 256;

/// A frame as the managed runtime found it: `HindsightFrame` in `hindsight/runtime/stack_sample_abi.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// Address of the `ArtMethod`.
    pub method: u64,
    /// Index of the instruction in the method's dex code; `u32::MAX` in a native method.
    pub dex_pc: u32,
    /// Not used.
    pub unused: u32,
}

/// A frame of the last stack, and its node.
#[derive(Clone, Copy, Debug)]
struct Known {
    method: u64,
    dex_pc: u32,
    node: u32,
}

/// A stack that is to be recorded, as the fields of the event `Stack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Number of the innermost frame's node.
    pub(crate) node: u32,
    pub(crate) generation: u32,
    /// Index in [`STACK_REASONS`](hindsight_trace_format::catalogue::STACK_REASONS).
    pub(crate) reason: u8,
    /// Whether the outermost frames are left out.
    pub(crate) cut: bool,
}

/// Equal stacks after the one that was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Again {
    pub(crate) times: u64,
    /// The counter at the last one.
    pub(crate) last: u64,
}

/// What a stack gives to record, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) again: Option<Again>,
    pub(crate) sample: Option<Sample>,
}

/// The last stack of one thread. Only that thread uses it.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// The counter when a stack was last taken; 0: never.
    taken: u64,
    /// Frames of the stack that is being taken, innermost first.
    frames: Vec<Frame>,
    /// Frames of the last stack, outermost first.
    known: Vec<Known>,
    /// The generation that the nodes in `known` are of.
    generation: u32,
    last: Option<Sample>,
    again: Again,
}

impl Sampler {
    /// Whether a stack is wanted at `now`, a reading of the counter, if they are to be `interval` ticks apart.
    #[inline]
    pub(crate) fn is_due(&self, now: u64, interval: u64) -> bool {
        now.wrapping_sub(self.taken) >= interval || self.taken == 0
    }

    /// The counter when a stack was last taken; 0: never.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Memory for [`MAX_FRAMES`] frames.
    pub(crate) fn begin(&mut self, now: u64) -> &mut [Frame] {
        self.taken = now.max(1);
        if self.frames.is_empty() {
            self.frames = vec![Frame::default(); MAX_FRAMES];
        }
        &mut self.frames
    }

    /// Takes the frames that the managed runtime wrote, `count` of them, innermost first. `undisturbed`: the thread has
    /// recorded nothing since the last stack. `None` if there is no memory in the table.
    pub(crate) fn finish(
        &mut self,
        table: &StackTable,
        count: usize,
        cut: bool,
        reason: u8,
        undisturbed: bool,
    ) -> Option<Record> {
        let count = count.min(self.frames.len());
        if count == 0 {
            return Some(Record::default());
        }
        let mut full = None;
        // A full generation is followed by another one, once.
        for _ in 0..2 {
            let pin = table.pin()?;
            if let Some(node) = self.intern(&pin, count) {
                let sample = Sample {
                    node,
                    generation: pin.generation(),
                    reason,
                    cut,
                };
                return Some(self.record(sample, undisturbed));
            }
            let generation = pin.generation();
            drop(pin);
            if full.replace(generation) == Some(generation) || !table.next_generation(generation) {
                break;
            }
        }
        None
    }

    /// The node of the innermost frame. Frames that are equal to the last stack's, from the outermost on, have its nodes.
    fn intern(&mut self, pin: &Pin<'_>, count: usize) -> Option<u32> {
        if self.generation != pin.generation() {
            self.generation = pin.generation();
            self.known.clear();
        }
        let outermost_first = || self.frames[..count].iter().rev();
        let is_known = |(frame, known): &(&Frame, &Known)| {
            frame.method == known.method && frame.dex_pc == known.dex_pc
        };
        let same = outermost_first()
            .zip(&self.known)
            .take_while(is_known)
            .count();
        self.known.truncate(same);
        let mut node = self.known.last().map_or(0, |known| known.node);
        for frame in outermost_first().skip(same) {
            node = pin.intern(node, frame.method, frame.dex_pc)?;
            self.known.push(Known {
                method: frame.method,
                dex_pc: frame.dex_pc,
                node,
            });
        }
        Some(node)
    }

    fn record(&mut self, sample: Sample, undisturbed: bool) -> Record {
        if undisturbed && self.last == Some(sample) {
            self.again.times += 1;
            self.again.last = self.taken;
            return Record::default();
        }
        self.last = Some(sample);
        Record {
            again: self.flush(),
            sample: Some(sample),
        }
    }

    /// The equal stacks that were found since the last one was recorded, to be recorded now.
    pub(crate) fn flush(&mut self) -> Option<Again> {
        Some(std::mem::take(&mut self.again)).filter(|again| again.times != 0)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn take(
        sampler: &mut Sampler,
        table: &StackTable,
        now: u64,
        methods: &[u64],
        undisturbed: bool,
    ) -> Option<Record> {
        let frames = sampler.begin(now);
        for (frame, method) in frames.iter_mut().zip(methods) {
            frame.method = *method;
        }
        sampler.finish(table, methods.len(), false, 2, undisturbed)
    }

    #[test]
    fn stacks_are_an_interval_apart() {
        let mut sampler = Sampler::default();
        assert!(sampler.is_due(5, 1000));
        sampler.begin(5);
        assert!(!sampler.is_due(1004, 1000));
        assert!(sampler.is_due(1005, 1000));
        // Changed while running.
        assert!(sampler.is_due(15, 10));
        assert!(sampler.is_due(5, 0));
    }

    #[test]
    fn adjacent_equal_stacks_are_merged() {
        let table = StackTable::new(1 << 16);
        let mut sampler = Sampler::default();
        let (a, b) = ([3, 2, 1], [4, 2, 1]);
        let first = take(&mut sampler, &table, 10, &a, true).unwrap();
        let node = first.sample.unwrap().node;
        assert_eq!(first.again, None);
        for now in [20, 30, 40] {
            let same = take(&mut sampler, &table, now, &a, true).unwrap();
            assert_eq!(same, Record::default());
        }
        // The first and the last one are kept.
        let other = take(&mut sampler, &table, 50, &b, true).unwrap();
        assert_eq!(other.again, Some(Again { times: 3, last: 40 }));
        assert_ne!(other.sample.unwrap().node, node);
        assert_eq!(sampler.flush(), None);
        // Something else was recorded in between.
        let first = take(&mut sampler, &table, 60, &b, false).unwrap();
        assert_eq!(first.sample, other.sample);
        assert_eq!(first.again, None);
    }

    #[test]
    fn equal_stacks_before_another_event_are_recorded_after_it() {
        let table = StackTable::new(1 << 16);
        let mut sampler = Sampler::default();
        take(&mut sampler, &table, 10, &[1], true).unwrap();
        take(&mut sampler, &table, 20, &[1], true).unwrap();
        let next = take(&mut sampler, &table, 30, &[1], false).unwrap();
        assert_eq!(next.again, Some(Again { times: 1, last: 20 }));
        assert!(next.sample.is_some());
        take(&mut sampler, &table, 40, &[1], true).unwrap();
        assert_eq!(sampler.flush(), Some(Again { times: 1, last: 40 }));
    }

    #[test]
    fn only_changed_frames_are_looked_up() {
        let table = StackTable::new(1 << 16);
        let mut sampler = Sampler::default();
        let deep: Vec<u64> = (1..=200).rev().collect();
        take(&mut sampler, &table, 1, &deep, false).unwrap();
        let mut changed = deep.clone();
        changed[0] = 777;
        let record = take(&mut sampler, &table, 2, &changed, false).unwrap();
        assert_eq!(record.sample.unwrap().node, 201);
        // A shorter stack is a known node.
        let record = take(&mut sampler, &table, 3, &deep[100..], false).unwrap();
        assert_eq!(record.sample.unwrap().node, 100);
    }

    #[test]
    fn a_stack_that_finds_its_generation_full_is_in_the_next_one() {
        let table = StackTable::new(4096);
        let mut sampler = Sampler::default();
        let mut generations = Vec::new();
        for method in 1..400 {
            let record = take(&mut sampler, &table, method, &[method, 9999], false).unwrap();
            generations.push(record.sample.unwrap().generation);
        }
        generations.dedup();
        assert!(generations.len() >= 3, "{generations:?}");
        assert_eq!(generations[..3], [1, 2, 3]);
        // A stack that no generation has room for.
        let deep: Vec<u64> = (1..=250).map(|m| 10_000 + m).collect();
        assert_eq!(take(&mut sampler, &table, 5, &deep, false), None);
        assert!(take(&mut sampler, &table, 6, &[1], false).is_some());
    }

    #[test]
    fn a_thread_without_frames_has_no_stack() {
        let table = StackTable::new(4096);
        let mut sampler = Sampler::default();
        sampler.begin(1);
        let record = sampler.finish(&table, 0, false, 2, false);
        assert_eq!(record, Some(Record::default()));
    }
}
