// SPDX-License-Identifier: Apache-2.0
//! One thread: its ring, read backwards.

use hindsight_trace_format::container::{Anchor, Ring, SymbolTable};
use hindsight_trace_format::slot::{Event, Extension};

use crate::clock::Clock;
use crate::methods::{MethodId, Resolver};
use crate::slices::{Builder, Flags, Slices};
use crate::timeline::Timeline;

/// How many frames an exception may have left beyond those whose entries can still be in the ring.
/// A writer's error must not make us allocate without bounds.
const MAX_UNSEEN_FRAMES: u64 = 1 << 16;

/// A traced thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// The kernel's thread id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its calls.
    pub slices: Slices,
    /// What else it recorded, oldest first.
    pub events: Vec<ThreadEvent>,
    /// CLOCK_BOOTTIME of the oldest event in the ring, ns; `end_ns` if there is none.
    pub start_ns: u64,
    /// CLOCK_BOOTTIME when the ring was taken, ns. No event is newer.
    pub end_ns: u64,
    /// Size of the ring, bytes.
    pub ring_bytes: u64,
    /// What was read, and what could not be.
    pub stats: Stats,
}

/// An event that is neither entry nor exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadEvent {
    /// CLOCK_BOOTTIME, ns.
    pub at_ns: u64,
    /// What happened.
    pub kind: Extension,
    /// The payload slots, as [`Extension`] describes them; those it doesn't have are 0.
    pub payload: [u64; 4],
}

/// What was read from a ring, and what could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Slots in the ring.
    pub slots: u64,
    /// Slots that were recorded, but overwritten since.
    pub overwritten_slots: u64,
    /// Trace points: entries and exits.
    pub points: u64,
    /// Exits whose entries are not in the ring.
    pub open_starts: u64,
    /// Entries whose exits are not in the ring.
    pub open_ends: u64,
    /// Calls that exceptions left.
    pub left_by_exception: u64,
    /// Slots of the oldest event, which was cut by the wrap-around.
    pub cut_slots: u64,
    /// Extension events of a newer writer, skipped.
    pub unknown_extensions: u64,
    /// Entries of methods without a symbol.
    pub unnamed_entries: u64,
    /// Slots in stretches without anchors, longer than the time in which the counter's low half wraps:
    /// earlier times may be too late by whole wraps.
    pub unbounded_slots: u64,
    /// Slots whose time contradicted the anchors; they were given that of the event after them.
    pub contradicting_times: u64,
    /// Anchors that contradicted the others, ignored.
    pub anchors_ignored: u64,
    /// Frames that an exception is said to have left, beyond any credible number; ignored.
    pub incredible_frames: u64,
}

/// Calls that have ended, but whose entries haven't been read yet.
struct Ended {
    end_ns: u64,
    /// How many of them there are.
    count: u32,
    flags: Flags,
}

/// The calls that end later than the event that is being read.
#[derive(Default)]
struct Pending {
    stack: Vec<Ended>,
    /// Sum of the counts.
    height: u32,
}

impl Pending {
    #[inline]
    fn push(&mut self, end_ns: u64, count: u32, flags: Flags) {
        self.stack.push(Ended {
            end_ns,
            count,
            flags,
        });
        self.height += count;
    }

    #[inline]
    fn pop(&mut self) -> Option<(u64, Flags)> {
        let last = self.stack.last_mut()?;
        let (end_ns, flags) = (last.end_ns, last.flags);
        last.count -= 1;
        if last.count == 0 {
            self.stack.pop();
        }
        self.height -= 1;
        Some((end_ns, flags))
    }
}

/// A thread whose methods are still numbered on their own.
pub(crate) struct Decoded {
    pub(crate) thread: Thread,
    pub(crate) methods: Vec<(u64, Option<u32>)>,
    builder: Builder,
}

impl Decoded {
    /// Numbers the methods as the file does.
    pub(crate) fn finish(self, ids: &[MethodId]) -> Thread {
        Thread {
            slices: self.builder.finish(&|id| {
                ids.get(id.0 as usize)
                    .copied()
                    .unwrap_or(MethodId::NOT_RECORDED)
            }),
            ..self.thread
        }
    }
}

pub(crate) fn decode(
    ring: &Ring<'_>,
    anchors: &[Anchor],
    clock: &Clock,
    symbols: Option<&SymbolTable<'_>>,
) -> Decoded {
    let header = &ring.header;
    let slots = ring.slots();
    let written = header.position.slots_written(header.geometry);
    // Number, since the start of the ring, of the oldest slot.
    let first = written.saturating_sub(slots.len() as u64);
    let mut stats = Stats {
        slots: slots.len() as u64,
        overwritten_slots: first,
        ..Stats::default()
    };
    let mut timeline = Timeline::new(header, anchors);
    let mut time = clock.converter();
    let mut methods = Resolver::new(symbols);
    let mut builder = Builder::new(slots.len() / 2 + 1);
    let mut pending = Pending::default();
    let mut events = Vec::new();
    let end_ns = time.ns_at(header.stopped_counter);
    // The time up to which calls without an exit are known to have run.
    let mut stretch_end_ns = end_ns;
    let mut oldest_ns = end_ns;

    let mut reverse = slots.events();
    let mut stretch_is_new = false;
    for event in reverse.by_ref() {
        let counter = timeline.extend(first + event.index as u64, event.counter());
        let at_ns = time.ns_at(counter);
        oldest_ns = at_ns;
        if stretch_is_new {
            stretch_end_ns = at_ns;
            stretch_is_new = false;
        }
        let mut enter = |address: u64, flags: Flags, pending: &mut Pending| {
            let (id, named) = methods.resolve(address, counter);
            stats.unnamed_entries += u64::from(!named);
            stats.points += 1;
            match pending.pop() {
                Some((end_ns, how)) => {
                    builder.push(at_ns, end_ns, MethodId(id), pending.height, flags.with(how));
                }
                None => {
                    stats.open_ends += 1;
                    let flags = flags.with(Flags::OPEN_END);
                    builder.push(at_ns, stretch_end_ns, MethodId(id), 0, flags);
                }
            }
        };
        match event.event() {
            Event::Exit => {
                stats.points += 1;
                pending.push(at_ns, 1, Flags::default());
            }
            Event::Entry { method } => enter(u64::from(method), Flags::default(), &mut pending),
            Event::WideEntry => {
                let address = event.payload(0).unwrap_or_default();
                enter(address, Flags::default(), &mut pending);
            }
            Event::Extension { number } => match Extension::from_number(number) {
                Some(Extension::NativeEntered) => {
                    let address = event.payload(0).unwrap_or_default();
                    enter(address, Flags::NATIVE, &mut pending);
                }
                Some(Extension::NativeLeft) => {
                    stats.points += 1;
                    pending.push(at_ns, 1, Flags::default());
                }
                Some(Extension::Unwound) => {
                    let claimed = event.payload(0).unwrap_or_default();
                    let credible = event.index as u64 + MAX_UNSEEN_FRAMES;
                    let frames = claimed.min(credible.saturating_sub(u64::from(pending.height)));
                    stats.incredible_frames =
                        stats.incredible_frames.saturating_add(claimed - frames);
                    if frames > 0 {
                        stats.left_by_exception += frames;
                        pending.push(at_ns, frames as u32, Flags::BY_EXCEPTION);
                    }
                }
                Some(kind) => {
                    let mut payload = [0; 4];
                    for (to, from) in payload.iter_mut().zip(event.payloads()) {
                        *to = from;
                    }
                    events.push(ThreadEvent {
                        at_ns,
                        kind,
                        payload,
                    });
                    if kind == Extension::Started {
                        // What was running before is not known to be what ran afterwards.
                        end_stretch(&mut builder, &mut pending, at_ns, &mut stats);
                        stretch_is_new = true;
                    }
                }
                None => stats.unknown_extensions += 1,
            },
        }
    }
    end_stretch(&mut builder, &mut pending, oldest_ns, &mut stats);
    events.reverse();

    stats.cut_slots = reverse.cut_slots() as u64;
    stats.unbounded_slots = timeline.unbounded_slots;
    stats.contradicting_times = timeline.contradictions;
    stats.anchors_ignored = timeline.anchors_ignored;
    Decoded {
        thread: Thread {
            tid: header.tid,
            name: header.name.clone(),
            slices: Slices::default(),
            events,
            start_ns: oldest_ns,
            end_ns,
            ring_bytes: header.geometry.bytes() as u64,
            stats,
        },
        methods: methods.into_keys(),
        builder,
    }
}

/// The calls that have ended, but never began, began before `start_ns`.
fn end_stretch(builder: &mut Builder, pending: &mut Pending, start_ns: u64, stats: &mut Stats) {
    while let Some((end_ns, flags)) = pending.pop() {
        stats.open_starts += 1;
        let flags = flags.with(Flags::OPEN_START);
        builder.push(
            start_ns,
            end_ns,
            MethodId::NOT_RECORDED,
            pending.height,
            flags,
        );
    }
    builder.end_stretch();
}
