// SPDX-License-Identifier: Apache-2.0
//! The second pass over a ring: forwards, block by block, from events to calls.
//!
//! The sequence of entries and exits defeats branch prediction, so the inner loop has no branch between the two: each
//! event makes the writes of an entry and the writes of an exit, and the wrong ones are overwritten later. Each stage
//! processes a whole block before the next stage starts.

use hindsight_trace_format::catalogue::FieldKind;
use hindsight_trace_format::reverse::Slots;
use hindsight_trace_format::slot::{payload_slots, Extension, Slot, TAG_EXIT, TAG_WIDE_ENTRY};

use crate::calls::{Call, Calls, Flags, NO_PARENT};
use crate::clock::Converter;
use crate::marks::Marks;
use crate::methods::{MethodId, Resolver};
use crate::model::{Stats, ThreadEvent};
use crate::pages::prefetch;
use crate::scan::{is_special, words, Block, Scan, Times, BLOCK_EVENTS};

/// Scratch memory for the events of one block.
struct Scratch {
    /// Their closing slots.
    events: Vec<u64>,
    /// The counter at each event, ticks.
    ticks: Vec<u64>,
    ns: Vec<u64>,
    /// For each special event: its index among the events, and the index of its slot.
    specials: Vec<(u32, u32)>,
    entries: Box<Entries>,
}

/// The calls that a block's entries begin, as columns.
struct Entries {
    /// Index among the block's events.
    event: [u16; BLOCK_EVENTS],
    depth: [u32; BLOCK_EVENTS],
    parent: [u32; BLOCK_EVENTS],
}

/// An entry that is not narrow: index among the block's entries, address, flags.
type Odd = (usize, u64, Flags);

/// The address of the method that an event names: itself, or as one of a class's.
fn named_method(kind: Extension, payload: &[u64]) -> Option<u64> {
    let mut fields = kind.spec().fields.iter();
    let field = fields.find(|f| matches!(f.kind, FieldKind::Class | FieldKind::Method))?;
    Some(field.get(payload)).filter(|&address| address != 0)
}

/// Builds the calls of one thread.
pub(crate) struct Builder<'a, 'b> {
    slots: Slots<'a>,
    resolver: Resolver<'a, 'b>,
    time: Converter<'b>,
    scan: Scan,
    calls: Calls,
    /// The running calls, outermost first, after [`NO_PARENT`]. Elements above `height` are garbage.
    stack: Vec<u32>,
    height: usize,
    events: Vec<ThreadEvent>,
    stats: Stats,
    oldest_ns: Option<u64>,
    oldest: Option<u64>,
    /// The methods of the calls that are open at the oldest slot, outermost first; 0 where that is not known.
    outermost: Vec<u64>,
    latest_ns: u64,
    marks: Marks,
    /// How many calls that no slot names were open at the oldest slot.
    outer: usize,
}

/// The result of [`Builder::build`].
pub(crate) struct Built {
    pub(crate) calls: Calls,
    pub(crate) events: Vec<ThreadEvent>,
    pub(crate) methods: Vec<(u64, Option<u32>)>,
    pub(crate) oldest_ns: u64,
    /// The whole counter at the oldest event, ticks.
    pub(crate) oldest: Option<u64>,
    /// Time of the newest event, ns; 0 if there is none.
    pub(crate) newest_ns: u64,
    pub(crate) marks: Marks,
    pub(crate) stats: Stats,
}

impl<'a, 'b> Builder<'a, 'b> {
    pub(crate) fn new(
        slots: Slots<'a>,
        scan: Scan,
        resolver: Resolver<'a, 'b>,
        time: Converter<'b>,
        stats: Stats,
        outermost: Vec<u64>,
    ) -> Self {
        let before: usize = scan.open_starts.iter().map(|&n| n as usize).sum();
        let before = before + outermost.len();
        Builder {
            slots,
            resolver,
            time,
            // Columns hold up to one block of garbage while it is processed.
            calls: Calls::with_capacity(scan.entries + before + BLOCK_EVENTS),
            scan,
            stack: vec![NO_PARENT],
            height: 0,
            events: Vec::new(),
            stats,
            oldest_ns: None,
            oldest: None,
            outermost,
            latest_ns: 0,
            marks: Marks::default(),
            outer: 0,
        }
    }

    /// Builds all calls. A call without an exit ends at `end_ns` at the latest.
    pub(crate) fn build(mut self, end_ns: u64) -> Built {
        let mut scratch = Scratch {
            events: Vec::with_capacity(BLOCK_EVENTS),
            ticks: Vec::with_capacity(BLOCK_EVENTS),
            ns: Vec::with_capacity(BLOCK_EVENTS),
            specials: Vec::new(),
            entries: Box::new(Entries {
                event: [0; BLOCK_EVENTS],
                depth: [0; BLOCK_EVENTS],
                parent: [0; BLOCK_EVENTS],
            }),
        };
        while let Some(block) = self.scan.blocks.pop() {
            self.block(block, &mut scratch);
        }
        self.end_stretch(end_ns);
        Built {
            calls: self.calls,
            events: self.events,
            methods: self.resolver.into_keys(),
            oldest_ns: self.oldest_ns.unwrap_or(end_ns),
            oldest: self.oldest,
            newest_ns: self.latest_ns,
            marks: self.marks,
            stats: self.stats,
        }
    }

    fn block(&mut self, block: Block, scratch: &mut Scratch) {
        let next = block.end as usize;
        prefetch(self.slots.bytes(next, next + BLOCK_EVENTS));
        self.gather(block, scratch);
        let (Some(&first), Some(&last)) = self.convert_times(block, scratch) else {
            return;
        };
        if self.oldest_ns.is_none() {
            self.oldest_ns = Some(first);
            self.oldest = scratch.ticks.first().copied();
            self.begin_stretch(first);
            self.outer = self.calls.len();
        }
        if block.starts_stretch {
            self.end_stretch(self.latest_ns);
            self.begin_stretch(first);
        }
        self.latest_ns = last;
        self.calls(scratch);
    }

    /// Finds the events among the slots of a block.
    fn gather(&mut self, block: Block, scratch: &mut Scratch) {
        let events = &mut scratch.events;
        events.clear();
        scratch.specials.clear();
        let copy = |mut start: usize, end: usize, events: &mut Vec<u64>| {
            while start < end {
                let bytes = self.slots.bytes(start, end);
                if bytes.is_empty() {
                    return;
                }
                events.extend(words(bytes));
                start += words(bytes).len();
            }
        };
        let mut at = block.start as usize;
        for _ in 0..block.specials {
            let Some(special) = self.scan.specials.pop() else {
                break;
            };
            let index = special as usize;
            let slot = self.slots.get(index).unwrap_or_default();
            copy(at, index - payload_slots(slot.low()), events);
            scratch.specials.push((events.len() as u32, special));
            events.push(slot.0);
            at = index + 1;
        }
        copy(at, block.end as usize, events);
    }

    /// Finds the times of a block's events. Returns the first and the last.
    fn convert_times<'s>(
        &mut self,
        block: Block,
        scratch: &'s mut Scratch,
    ) -> (Option<&'s u64>, Option<&'s u64>) {
        let Scratch {
            events, ticks, ns, ..
        } = scratch;
        ticks.clear();
        match block.times {
            Times::From(first) => {
                let mut at = first;
                let mut before = events.first().map_or(0, |word| (word >> 32) as u32);
                ticks.extend(events.iter().map(|&word| {
                    let low = (word >> 32) as u32;
                    at += u64::from(low.wrapping_sub(before));
                    before = low;
                    at
                }));
            }
            Times::Listed(from) => {
                ticks.extend_from_slice(&self.scan.times[from..from + events.len()]);
            }
        }
        self.time.convert(ticks, ns);
        (ns.first(), ns.last())
    }

    /// Adds the calls whose exits follow but whose entries are missing: they began before `start_ns`. In the first stretch
    /// also the outermost ones that do not end.
    fn begin_stretch(&mut self, start_ns: u64) {
        self.height = 0;
        let before = self.scan.open_starts.pop().unwrap_or(0);
        let outermost = std::mem::take(&mut self.outermost);
        let before = before.max(outermost.len() as u32);
        self.stats.open_starts += u64::from(before);
        for depth in 0..before {
            let index = self.calls.len() as u32;
            let method = outermost.get(depth as usize).copied().unwrap_or(0);
            let method = match method {
                0 => MethodId::NOT_RECORDED,
                address => MethodId(self.resolver.resolve(address, self.oldest.unwrap_or(0)).0),
            };
            self.calls.push(Call {
                start_ns,
                end_ns: start_ns,
                method,
                depth,
                parent: self.stack[self.height],
                flags: Flags::OPEN_START,
            });
            self.height += 1;
            self.stack.truncate(self.height);
            self.stack.push(index);
        }
    }

    /// Ends the running calls, whose exits are missing: they ran until `end_ns` at least.
    fn end_stretch(&mut self, end_ns: u64) {
        for &index in &self.stack[1..=self.height] {
            let index = index as usize;
            self.calls.end_ns[index] = end_ns;
            self.calls.flags[index] = self.calls.flags[index].with(Flags::OPEN_END);
        }
        self.stats.open_ends += self.height as u64;
        self.height = 0;
    }

    fn calls(&mut self, scratch: &mut Scratch) {
        let count = scratch.events.len();
        let first = self.calls.len();
        self.calls.end_ns.resize(first + count, 0);
        self.calls.flags.resize(first + count, Flags::default());
        self.stack.resize(self.height + count + 2, 0);
        let mut odd: Vec<Odd> = Vec::new();
        let entries = if scratch.specials.is_empty() {
            self.stats.trace_points += count as u64;
            self.simple(0..count, 0, scratch)
        } else {
            self.with_specials(scratch, &mut odd)
        };
        self.columns(entries, scratch, &odd);
    }

    /// Processes events that are entries and exits only. `entry` is the number of the block's entries before them; returns
    /// the number after them.
    #[inline]
    fn simple(
        &mut self,
        events: std::ops::Range<usize>,
        mut entry: usize,
        scratch: &mut Scratch,
    ) -> usize {
        let first = self.calls.start_ns.len();
        let entries = &mut *scratch.entries;
        let stack = &mut self.stack[..];
        let ends = &mut self.calls.end_ns[..];
        let mut height = self.height;
        let both = scratch.events[events.clone()]
            .iter()
            .zip(&scratch.ns[events.clone()]);
        for (i, (&word, &ns)) in both.enumerate() {
            let enters = word as u32 != TAG_EXIT;
            let caller = stack[height];
            let index = (first + entry) as u32;
            // An entry begins a call. After an exit, the next entry overwrites this element.
            entries.event[entry % BLOCK_EVENTS] = (events.start + i) as u16;
            entries.depth[entry % BLOCK_EVENTS] = height as u32;
            entries.parent[entry % BLOCK_EVENTS] = caller;
            // An exit ends the innermost call. After an entry, the call's own exit overwrites this element.
            let ends_at = if enters { index } else { caller };
            ends[ends_at as usize] = ns;
            // After an exit, elements above the innermost call are free to be overwritten.
            stack[height + 1] = index;
            height = height + 2 * usize::from(enters) - 1;
            entry += usize::from(enters);
        }
        self.height = height;
        entry
    }

    #[cold]
    fn with_specials(&mut self, scratch: &mut Scratch, odd: &mut Vec<Odd>) -> usize {
        const NATIVE_ENTERED: u32 = Extension::NativeEntered.number();
        const NATIVE_LEFT: u32 = Extension::NativeLeft.number();
        const UNWOUND: u32 = Extension::Unwound.number();
        const ENTERED_BEFORE: u32 = Extension::EnteredBefore.number();
        const LEFT_AFTER: u32 = Extension::LeftAfter.number();
        const PART_BEGINS: u32 = Extension::PartBegins.number();
        const FULL_TIME: u32 = Extension::FullTime.number();
        let first = self.calls.start_ns.len();
        let (mut at, mut entry) = (0, 0);
        for special in 0..scratch.specials.len() {
            let (place, index) = scratch.specials[special];
            let place = place as usize;
            entry = self.simple(at..place, entry, scratch);
            self.stats.trace_points += (place - at) as u64;
            at = place + 1;
            let low = scratch.events[place] as u32;
            let at_ns = scratch.ns[place];
            let payload = |i: usize| {
                let count = payload_slots(low);
                let at = (index as usize + i)
                    .checked_sub(count)
                    .filter(|_| i < count);
                at.and_then(|at| self.slots.get(at)).unwrap_or(Slot(0)).0
            };
            match low {
                TAG_WIDE_ENTRY | NATIVE_ENTERED => {
                    let flags = if low == NATIVE_ENTERED {
                        Flags::NATIVE
                    } else {
                        Flags::default()
                    };
                    odd.push((entry, payload(0), flags));
                    entry = self.one(place, TAG_WIDE_ENTRY, entry, scratch);
                    self.stats.trace_points += 1;
                }
                NATIVE_LEFT => {
                    entry = self.one(place, TAG_EXIT, entry, scratch);
                    self.stats.trace_points += 1;
                }
                ENTERED_BEFORE => {
                    let native = payload(1) & 1 != 0;
                    let flags = if native {
                        Flags::NATIVE
                    } else {
                        Flags::default()
                    };
                    odd.push((entry, payload(0), flags.with(Flags::OPEN_START)));
                    entry = self.one(place, TAG_WIDE_ENTRY, entry, scratch);
                    self.stats.open_starts += 1;
                }
                LEFT_AFTER => {
                    // The scan counted the open starts, so a call is running.
                    let index = self.stack[self.height] as usize;
                    let flags = &mut self.calls.flags[index];
                    *flags = flags.with(Flags::OPEN_END);
                    entry = self.one(place, TAG_EXIT, entry, scratch);
                    self.stats.open_ends += 1;
                }
                PART_BEGINS => {
                    let calls = first + entry;
                    let (entered, all_run) = (calls > self.outer, calls == self.height);
                    self.marks.add(at_ns, self.events.len(), entered, all_run);
                }
                // Only its time matters.
                FULL_TIME => {}
                UNWOUND => {
                    let frames = self.scan.unwound.pop().unwrap_or(0) as usize;
                    for _ in 0..frames.min(self.height) {
                        let index = self.stack[self.height] as usize;
                        self.calls.end_ns[index] = at_ns;
                        self.calls.flags[index] = self.calls.flags[index].with(Flags::BY_EXCEPTION);
                        self.height -= 1;
                    }
                    self.stats.left_by_exception += frames as u64;
                }
                _ => match Extension::from_number(low) {
                    Some(kind) => {
                        let payload = [payload(0), payload(1), payload(2), payload(3)];
                        let (kind, payload) = kind.unpacked(payload);
                        let method = named_method(kind, &payload);
                        let method = method.map_or(MethodId::NOT_RECORDED, |address| {
                            MethodId(self.resolver.resolve(address, scratch.ticks[place]).0)
                        });
                        self.events.push(ThreadEvent {
                            at_ns,
                            kind,
                            payload,
                            method,
                        });
                    }
                    None => self.stats.unknown_extensions += 1,
                },
            }
        }
        debug_assert!(first == self.calls.start_ns.len());
        let count = scratch.events.len();
        self.stats.trace_points += (count - at) as u64;
        self.simple(at..count, entry, scratch)
    }

    /// Processes the event at `place` as if its low half were `low`.
    fn one(&mut self, place: usize, low: u32, entry: usize, scratch: &mut Scratch) -> usize {
        let word = std::mem::replace(&mut scratch.events[place], u64::from(low));
        let entry = self.simple(place..place + 1, entry, scratch);
        scratch.events[place] = word;
        entry
    }

    /// Appends the entries of a block to the columns.
    fn columns(&mut self, entries: usize, scratch: &Scratch, odd: &[Odd]) {
        let Scratch {
            events, ticks, ns, ..
        } = scratch;
        let Entries {
            event,
            depth,
            parent,
        } = &*scratch.entries;
        let event = &event[..entries];
        let calls = &mut self.calls;
        let first = calls.start_ns.len();
        calls.start_ns.extend(event.iter().map(|&i| ns[i as usize]));
        calls.depth.extend_from_slice(&depth[..entries]);
        calls.parent.extend_from_slice(&parent[..entries]);
        calls.end_ns.truncate(first + entries);
        calls.flags.truncate(first + entries);
        let mut unnamed = 0;
        let resolver = &mut self.resolver;
        calls.method.extend(event.iter().map(|&i| {
            let low = events[i as usize] as u32;
            if is_special(low) {
                // Below.
                return MethodId::NOT_RECORDED;
            }
            let (id, named) = resolver.resolve_narrow(low, ticks[i as usize]);
            unnamed += u64::from(!named);
            MethodId(id)
        }));
        for &(entry, address, flags) in odd {
            if address != 0 || !flags.contains(Flags::OPEN_START) {
                let (id, named) = resolver.resolve(address, ticks[usize::from(event[entry])]);
                unnamed += u64::from(!named);
                calls.method[first + entry] = MethodId(id);
            }
            let all = &mut calls.flags[first + entry];
            *all = all.with(flags);
        }
        self.stats.unnamed_entries += unnamed;
    }
}
