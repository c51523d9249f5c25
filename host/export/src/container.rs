// SPDX-License-Identifier: Apache-2.0
//! Hindsight's own format: for parts of traces, and for traces of other tools.
//!
//! A tick of the counter is a nanosecond of CLOCK_BOOTTIME. Calls whose entry or exit is not in the trace are written
//! as [`Extension::EnteredBefore`] and [`Extension::LeftAfter`]: they keep their names, and stay open.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use hashbrown::{HashMap, HashSet};
use hindsight_decoder::catalogue::FieldKind;
use hindsight_decoder::{
    losses_of, Call, Extension, Flags, Frame, Method, Mode, Thread, ThreadEvent, Trace,
};
use hindsight_trace_format::container::{
    Anchor, ClockSample, Clocks, Epochs, ProcessFacts, RingHeader, RingMode, SectionKind,
    StackGeneration, StackNode, Stacks, Symbol, Symbols, Writer,
};
use hindsight_trace_format::ring::{Geometry, Position};
use hindsight_trace_format::slot::{payload_slots, Slot, FIRST_METHOD, TAG_EXIT, TAG_WIDE_ENTRY};

use crate::pieces::pieces;
use crate::walk::{walk_closed, CallEvent};
use crate::written::Written;

const TICKS_PER_SECOND: u64 = 1_000_000_000;
/// Distance between anchors, ticks: less than a wrap of the 32 bits of the counter that slots have.
const ANCHOR_DISTANCE: u64 = 1 << 31;
/// Rings are `2^k` bytes.
const RING_LOG2: std::ops::RangeInclusive<u32> = 12..=30;
/// The least distance between two `ArtMethod`s, bytes.
const METHOD_BYTES: u64 = 8;

/// Writes a file, from the beginning of `out` on.
pub(crate) fn write(trace: &Trace, out: &mut File) -> io::Result<Written> {
    let mut writer = Writer::new(BufWriter::with_capacity(1 << 20, out))?;
    sections(trace, &mut writer)?;
    let out = writer.finish()?.into_inner()?;
    Ok(Written {
        bytes: out.metadata()?.len(),
        ..Written::of(&trace.threads)
    })
}

fn sections<W: Write + Seek>(trace: &Trace, writer: &mut Writer<W>) -> io::Result<()> {
    let addresses = addresses(trace);
    let facts = &trace.process;
    let mut extra = facts.extra.clone();
    extra.push((
        "converted.by".to_owned(),
        concat!("hindsight ", env!("CARGO_PKG_VERSION")).to_owned(),
    ));
    let process = ProcessFacts {
        extra,
        ..facts.clone()
    };
    writer.section(SectionKind::Process, 0, &[&process.encode()])?;
    let taken = trace.clock.reference();
    let clocks = Clocks {
        ticks_per_second: TICKS_PER_SECOND,
        source: "clock_boottime".to_owned(),
        read_traps: false,
        samples: vec![ClockSample {
            counter: taken.boottime_ns,
            ..taken
        }],
    };
    writer.section(SectionKind::Clocks, 0, &[&clocks.encode()])?;
    let threads = (1..).zip(&trace.threads);
    let rings = threads.flat_map(|(number, thread)| {
        let pieces = pieces(thread).into_iter();
        pieces.map(move |piece| (number, piece))
    });
    for (i, (number, piece)) in rings.enumerate() {
        let thread = &*piece.thread;
        let (slots, anchors, newest_ns) = slots(thread, &addresses);
        let geometry = geometry(slots.len(), thread)?;
        let header = RingHeader {
            tid: thread.tid,
            name: thread.name.clone(),
            geometry,
            position: Position {
                laps: 0,
                offset: (slots.len() * 8) as u64,
            },
            started_counter: thread.start_ns.min(thread.end_ns),
            stopped_counter: thread.end_ns,
            mode: match thread.mode {
                Mode::Events => RingMode::Events,
                Mode::Calls | Mode::Both => RingMode::Calls,
            },
            epochs: epochs(thread, newest_ns),
            thread: number,
            part: piece.number,
        };
        let raw: Vec<u8> = slots.iter().flat_map(|slot| slot.0.to_le_bytes()).collect();
        writer.ring(i as u32, &header, &raw)?;
        if !anchors.is_empty() {
            let anchors = Anchor::encode_all(&anchors);
            writer.section(SectionKind::Anchors, i as u32, &[&anchors])?;
        }
    }
    let mut symbols: Vec<Symbol> = trace
        .methods
        .iter()
        .zip(&addresses)
        .filter(|((_, method), _)| method.is_named())
        .map(|((_, method), &address)| symbol(method, address))
        .collect();
    symbols.sort();
    writer.section(SectionKind::Symbols, 0, &[&Symbols { symbols }.encode()])?;
    if !trace.strings.strings.is_empty() {
        writer.section(SectionKind::Strings, 0, &[&trace.strings.encode()])?;
    }
    if !trace.stacks.is_empty() {
        writer.section(
            SectionKind::Stacks,
            0,
            &[&stacks(trace, &addresses).encode()],
        )?;
    }
    // Parts that are damaged in the original are losses of the new file.
    let mut losses = trace.losses.clone();
    losses.counts.extend(losses_of(&trace.damaged));
    writer.section(SectionKind::Losses, 0, &[&losses.encode()])
}

fn stacks(trace: &Trace, addresses: &[u64]) -> Stacks {
    let node = |(frame, parent): (Frame, u32)| StackNode {
        // No event names a node without a method.
        method: addresses.get(frame.method.0 as usize).copied().unwrap_or(0),
        parent,
        dex_pc: frame.dex_pc,
    };
    let generation = |(number, nodes): (u32, Vec<(Frame, u32)>)| StackGeneration {
        number,
        nodes: nodes.into_iter().map(node).collect(),
    };
    Stacks {
        generations: trace.stacks.generations().map(generation).collect(),
    }
}

fn symbol(method: &Method, address: u64) -> Symbol {
    Symbol {
        address,
        class: method.class.clone(),
        name: method.name.clone(),
        signature: method.signature.clone(),
        source_file: method.source_file.clone(),
        ..Symbol::default()
    }
}

/// A unique address for each method: its own, if that is possible for a method and no other method has it.
fn addresses(trace: &Trace) -> Vec<u64> {
    let mut uses: HashMap<u64, u32> = HashMap::new();
    for (_, method) in trace.methods.iter() {
        *uses.entry(method.address).or_default() += 1;
    }
    let is_own = |address: u64| address >= u64::from(FIRST_METHOD) && uses[&address] == 1;
    let mut taken: HashSet<u64> = uses.keys().copied().collect();
    let mut next = u64::from(FIRST_METHOD);
    let methods = trace.methods.iter();
    methods
        .map(|(_, method)| {
            if is_own(method.address) {
                return method.address;
            }
            while !taken.insert(next) {
                next += METHOD_BYTES;
            }
            next
        })
        .collect()
}

fn geometry(slots: usize, thread: &Thread) -> io::Result<Geometry> {
    RING_LOG2
        .filter(|k| slots <= 1 << (k - 3))
        .find_map(Geometry::new)
        .ok_or_else(|| {
            io::Error::other(format!(
                "thread {} ({}) has {slots} slots of events, more than a ring can hold: choose a shorter part of the trace",
                thread.tid, thread.name
            ))
        })
}

/// Which calls the thread took back, and the epoch of the newest slot; a tick is a nanosecond.
fn epochs(thread: &Thread, newest_ns: u64) -> Option<Epochs> {
    let stats = &thread.stats;
    let takes_back = stats.rewind_below_ns != 0 || stats.taken_back != 0;
    takes_back.then(|| Epochs {
        rewind_below: u32::try_from(stats.rewind_below_ns).unwrap_or(u32::MAX),
        taken_back: stats.taken_back,
        epoch: (newest_ns >> 32) as u32,
    })
}

/// The ring's slots and anchors, and the time of the newest slot, ns.
fn slots(thread: &Thread, addresses: &[u64]) -> (Vec<Slot>, Vec<Anchor>, u64) {
    // Sampled calls follow from the events.
    let calls = &*thread.calls.exact();
    let mut recording = Recording {
        slots: Vec::with_capacity(2 * calls.len()),
        anchors: Vec::new(),
        now: thread.start_ns,
        anchored: thread.start_ns,
        marks_pauses: thread.mode == Mode::Events,
    };
    let mut events = thread
        .events
        .iter()
        .filter(|e| !is_part_of_calls(e.kind))
        .peekable();
    let first_call = calls.start_ns.first().copied();
    let first_event = events.peek().map(|e| e.at_ns);
    let first = first_call.into_iter().chain(first_event).min();
    if first.unwrap_or(thread.end_ns) > thread.start_ns {
        recording.extension(Extension::PartBegins, &[], thread.start_ns);
    }
    let done: Result<(), std::convert::Infallible> = walk_closed(calls, |call_event| {
        match call_event {
            CallEvent::Begin(call) => {
                // Tracing cannot start again while a caller runs: at equal times, the call comes first.
                let is_before = |e: &ThreadEvent| {
                    let restarts = e.kind == Extension::Started && call.depth > 0;
                    e.at_ns < call.start_ns || (e.at_ns == call.start_ns && !restarts)
                };
                while let Some(e) = events.next_if(|e| is_before(e)) {
                    recording.event(e, addresses);
                }
                recording.begin(call, addresses);
            }
            CallEvent::End(call) => {
                // At equal times, the end comes first.
                while let Some(e) = events.next_if(|e| e.at_ns < call.end_ns) {
                    recording.event(e, addresses);
                }
                recording.end(call);
            }
        }
        Ok(())
    });
    let Ok(()) = done;
    for e in events {
        recording.event(e, addresses);
    }
    if recording.marks_pauses {
        recording.mark_pause(thread.end_ns);
    }
    let newest_ns = recording.now;
    recording.pause(thread.end_ns);
    (recording.slots, recording.anchors, newest_ns)
}

/// Whether events of this kind are written together with the calls.
fn is_part_of_calls(kind: Extension) -> bool {
    matches!(
        kind,
        Extension::NativeEntered
            | Extension::NativeLeft
            | Extension::Unwound
            | Extension::EnteredBefore
            | Extension::LeftAfter
            | Extension::PartBegins
    )
}

/// The ring of one thread while it is written.
struct Recording {
    slots: Vec<Slot>,
    anchors: Vec<Anchor>,
    /// Time of the newest slot, ns.
    now: u64,
    /// Time of the newest anchor, ns.
    anchored: u64,
    /// As on a device, a thread that records events only marks the pauses between them.
    marks_pauses: bool,
}

impl Recording {
    /// Advances the time to `at`, ns, and adds the anchors that are due: however long the pause is, the slot before it
    /// needs one soon after itself, and the slot after it one shortly before itself.
    fn pause(&mut self, at: u64) {
        let steps = at.saturating_sub(self.anchored) / ANCHOR_DISTANCE;
        let from = self.anchored;
        let due = [1, steps].into_iter().take(steps.min(2) as usize);
        for step in due {
            self.anchored = from + step * ANCHOR_DISTANCE;
            self.anchors.push(Anchor {
                counter: self.anchored,
                slots_written: self.slots.len() as u64,
            });
        }
        self.now = self.now.max(at);
    }

    /// Adds the event that holds the whole counter, if the pause up to `at` is longer than the counter's low half shows.
    fn mark_pause(&mut self, at: u64) {
        let before = self.now;
        if at.saturating_sub(before) <= u64::from(u32::MAX) || self.slots.is_empty() {
            return;
        }
        self.pause(at);
        self.slots.extend([
            Slot(before),
            Slot(at),
            Slot::new(Extension::FullTime.number(), at),
        ]);
    }

    /// Adds an event: its payload slots and its closing slot.
    fn add(&mut self, low: u32, payload: &[u64], at: u64) {
        if self.marks_pauses {
            self.mark_pause(at);
        }
        self.pause(at);
        self.slots.extend(payload.iter().map(|&p| Slot(p)));
        self.slots.push(Slot::new(low, self.now));
    }

    /// Adds an extension event with as many payload slots as its number says.
    fn extension(&mut self, kind: Extension, payload: &[u64], at: u64) {
        let number = kind.number();
        let count = payload_slots(number).min(payload.len());
        self.add(number, &payload[..count], at);
    }

    /// Adds an event of the trace. A method that it names has its address in the new file.
    fn event(&mut self, event: &ThreadEvent, addresses: &[u64]) {
        let mut payload = event.payload;
        if let Some(&address) = addresses.get(event.method.0 as usize) {
            let mut fields = event.spec().fields.iter();
            if let Some(field) =
                fields.find(|f| matches!(f.kind, FieldKind::Class | FieldKind::Method))
            {
                field.set(&mut payload, address);
            }
        }
        self.extension(event.kind, &payload, event.at_ns);
    }

    fn begin(&mut self, call: Call, addresses: &[u64]) {
        let address = addresses.get(call.method.0 as usize).copied();
        let native = call.flags.contains(Flags::NATIVE);
        let at = call.start_ns;
        match address {
            Some(address) if !call.flags.contains(Flags::OPEN_START) => {
                if native {
                    self.extension(Extension::NativeEntered, &[address], at);
                } else if let Ok(narrow) = u32::try_from(address) {
                    self.add(narrow, &[], at);
                } else {
                    self.add(TAG_WIDE_ENTRY, &[address], at);
                }
            }
            _ => {
                let payload = [address.unwrap_or(0), u64::from(native)];
                self.extension(Extension::EnteredBefore, &payload, at);
            }
        }
    }

    fn end(&mut self, call: Call) {
        let at = call.end_ns;
        if call.flags.contains(Flags::OPEN_END) {
            self.extension(Extension::LeftAfter, &[], at);
        } else if call.flags.contains(Flags::BY_EXCEPTION) {
            self.extension(Extension::Unwound, &[1], at);
        } else if call.flags.contains(Flags::NATIVE) {
            self.extension(Extension::NativeLeft, &[], at);
        } else {
            self.add(TAG_EXIT, &[], at);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{write_file, Format};
    use hindsight_decoder::{Extension, RingMode, Thread, Trace};
    use hindsight_testkit::{busy, stall, Script};

    #[test]
    fn stacks_are_kept_and_sampled_calls_do_not_become_exact() {
        let mut script = Script::new("test");
        let [a, b] = ["A.a", "A.b"].map(|name| script.method(name, "()V"));
        let thread = script.events_thread(100, "main", 1);
        for (at, pc) in [(0, 1), (5_000, 2), (9_000, 2)] {
            let payload = script.stack(&[(a, pc), (b, 7)]);
            script.at(thread, at).extension(Extension::Stack, &payload);
        }
        let trace = Trace::decode("script".as_ref(), &script.encode()).unwrap();
        assert_eq!(trace.threads[0].calls.len(), 3);
        let again = again(&trace);
        let (old, new) = (&trace.threads[0], &again.threads[0]);
        assert_eq!(new.calls.flags, old.calls.flags);
        assert_eq!(new.calls.start_ns, old.calls.start_ns);
        assert_eq!(new.calls.end_ns, old.calls.end_ns);
        let names = |trace: &Trace| {
            let methods = trace.threads[0].calls.method.iter();
            methods.map(|&m| trace.methods.name(m)).collect::<Vec<_>>()
        };
        assert_eq!(names(&again), names(&trace));
    }

    #[test]
    fn removed_levels_of_sampled_calls_do_not_come_back() {
        let mut script = Script::new("test");
        let [a, b] = ["A.a", "A.b"].map(|name| script.method(name, "()V"));
        let thread = script.events_thread(100, "main", 1);
        let payload = script.stack(&[(a, 1), (b, 7)]);
        script.at(thread, 10).extension(Extension::Stack, &payload);
        let mut trace = Trace::decode("script".as_ref(), &script.encode()).unwrap();
        assert_eq!(trace.threads[0].calls.depth, [0, 1]);
        let depth = (hindsight_decoder::DEPTH_FACT.to_owned(), "1".to_owned());
        trace.process.extra.push(depth);
        assert_eq!(again(&trace).threads[0].calls.depth, [0]);
    }

    #[test]
    fn gaps_between_rings_stay_gaps() {
        for mode in [RingMode::Events, RingMode::Calls] {
            let mut script = Script::new("test");
            let f = script.method("A.a", "()V");
            let first = script.events_thread(100, "main", 7);
            script.header(first).mode = mode;
            script
                .at(first, 10)
                .event(Extension::MessageDispatched, &[("message", 1)]);
            let third = script.next_part(first, mode, 500);
            let header = script.header(third);
            (header.part, header.started_counter) = (2, header.started_counter + 5_000);
            let mut r = script.at(third, 6_000);
            if mode == RingMode::Calls {
                r.enter(f).after(5).call(f, 20).exit();
            }
            r.event(Extension::MessageDispatched, &[("message", 2)]);
            let other = script.thread(101, "other");
            script.at(other, 7_000).call(f, 10);
            script.stop_at(9_000);
            let trace = Trace::decode("script".as_ref(), &script.encode()).unwrap();
            let again_of = again;
            let again = again(&trace);
            assert_eq!(again.threads.len(), 2);
            let (old, new) = (&trace.threads[0], &again.threads[0]);
            let gaps = |thread: &Thread| -> Vec<_> {
                let gaps = thread.gaps();
                gaps.map(|gap| (gap.from_ns, gap.to_ns, gap.next_event))
                    .collect()
            };
            assert_eq!(gaps(new), gaps(old));
            assert_eq!(gaps(new).len(), 1);
            assert_eq!((new.start_ns, new.end_ns), (old.start_ns, old.end_ns));
            assert_eq!((&new.events, new.mode), (&old.events, old.mode));
            assert_eq!(new.calls.start_ns, old.calls.start_ns);
            assert_eq!(new.calls.end_ns, old.calls.end_ns);
            assert_eq!(new.calls.parent, old.calls.parent);
            // Only what is behind the gap is selected.
            let mut part = trace.clone();
            let thread = &mut part.threads[0];
            thread.start_ns = thread.parts[1].start_ns;
            thread.events.remove(0);
            assert_eq!(again_of(&part).threads[0].parts.len(), 1);
        }
    }

    #[test]
    fn a_thread_without_calls_has_its_times_without_anchors() {
        let mut script = Script::new("test");
        let thread = script.events_thread(100, "main", 1);
        let mut at = 0;
        for pause in [5, 20_000_000_000, 7, 9_000_000_000] {
            at += pause;
            script
                .at(thread, at)
                .extension(Extension::UserMark, &[0])
                .anchor();
        }
        script.stop_at(at + 40_000_000_000);
        // Anchors make up for what a script's events do not say.
        let trace = Trace::decode("script".as_ref(), &script.encode()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (file, ring) = (folder.path().join("t.hindsight"), folder.path().join("t"));
        write_file(&trace, Format::Hindsight, &file).unwrap();
        hindsight_decoder::hubble::write(&file, None, &ring).unwrap();
        let again = hindsight_decoder::hubble::read(&ring).unwrap();
        let times = |trace: &Trace| -> Vec<u64> {
            let events = trace.threads[0].events.iter();
            events.map(|e| e.at_ns).collect()
        };
        assert_eq!(times(&again), times(&trace));
        assert_eq!(again.threads[0].stats.unbounded_slots, 0);
    }

    #[test]
    fn calls_taken_back_are_kept_and_the_epoch_is_the_newest_slots() {
        let mut script = Script::new("test");
        let f = script.method("A.a", "()V");
        let thread = script.thread(100, "main");
        script.at(thread, 5).call(f, 10).anchor();
        script.stop_at(20_000_000_000);
        let mut trace = Trace::decode("script".as_ref(), &script.encode()).unwrap();
        trace.threads[0].stats.taken_back = 7;
        trace.threads[0].stats.rewind_below_ns = 50_000;
        let main = &trace.threads[0];
        let (.., newest_ns) = super::slots(main, &super::addresses(&trace));
        let epochs = super::epochs(main, newest_ns).unwrap();
        assert_eq!(epochs.epoch, (hindsight_testkit::EPOCH >> 32) as u32);
        let again = again(&trace);
        let stats = again.threads[0].stats;
        assert_eq!((stats.taken_back, stats.rewind_below_ns), (7, 50_000));
        assert_eq!(again.threads[0].calls.end_ns, main.calls.end_ns);
    }

    fn again(trace: &Trace) -> Trace {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("again.hindsight");
        write_file(trace, Format::Hindsight, &file).unwrap();
        Trace::open(&file).unwrap()
    }

    fn same(script: &Script) {
        let trace = Trace::decode("script".as_ref(), &script.encode()).unwrap();
        let again = again(&trace);
        assert_eq!(again.threads.len(), trace.threads.len());
        for (a, b) in again.threads.iter().zip(&trace.threads) {
            assert_eq!((a.tid, &a.name), (b.tid, &b.name));
            let calls = |trace: &Trace, thread: &hindsight_decoder::Thread| -> Vec<_> {
                let of = |m| (trace.methods.name(m), trace.methods.get(m).cloned());
                let calls = thread.calls.iter();
                calls
                    .map(|s| {
                        (
                            s.start_ns,
                            s.end_ns,
                            s.depth,
                            s.parent,
                            s.flags,
                            of(s.method),
                        )
                    })
                    .collect()
            };
            assert_eq!(calls(&again, a), calls(&trace, b));
            let events = |trace: &Trace, thread: &hindsight_decoder::Thread| -> Vec<_> {
                let of = |m| trace.methods.get(m).cloned();
                let events = thread.events.iter();
                events
                    .map(|e| (e.at_ns, e.kind, e.payload, of(e.method)))
                    .collect()
            };
            assert_eq!(events(&again, a), events(&trace, b));
            assert_eq!(a.mode, b.mode);
            assert_eq!(a.stats.unbounded_slots, 0);
        }
        assert_eq!(
            again.clock.reference().realtime_ns,
            trace.clock.reference().realtime_ns
        );
        assert_eq!(again.process.reason, trace.process.reason);
        assert_eq!(again.losses, trace.losses);
        assert_eq!(again.strings, trace.strings);
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        same(&stall());
        same(&busy(14, 3, 50, 40));
        let mut s = Script::new("odd");
        let (f, g) = (s.method("a.C.f", "()V"), s.method("a.C.<init>", "()V"));
        let main = s.thread(50, "main");
        let mut r = s.at(main, 0);
        r.exit().after(10).exit().after(10);
        r.enter(f).enter(0x7f12_3456_7890).after(5).enter(g);
        r.after(5).unwind(2).after(10).exit();
        r.enter(f).call(g, 0).call(g, 0).exit().anchor();
        // Longer than the slots' 32 bits of the counter take to wrap, several times.
        r.after(50_000_000_000).anchor().enter(f).after(1).enter(g);
        r.after(20).extension(Extension::Stopped, &[]).anchor();
        r.after(7_000_000_000)
            .anchor()
            .extension(Extension::Started, &[1]);
        r.after(10).exit().after(5).call(f, 5);
        r.extension(Extension::LockWait, &[7, 8])
            .enter(f)
            .after(1)
            .enter(g);
        s.thread(51, "idle");
        s.string("a mark");
        let events = s.events_thread(52, "events", 1);
        let mut r = s.at(events, 5);
        r.every_event(10);
        let before = r.now();
        // A name that the old address does not have in the new file.
        r.after(50_000_000_000)
            .full_time(before - 10)
            .event(Extension::Uncaught, &[("class", 0x7f12_3456_7890)])
            .anchor();
        same(&s);
    }

    /// With an anchor for each half wrap in the pause, this would not end.
    #[test]
    fn a_pause_of_centuries_is_written_with_few_anchors() {
        let text = b"1:+a.B.c\n5:+a.B.d\n18446744073709551000:POP\n18446744073709551615:POP\n";
        let trace = Trace::decode("huge.txt".as_ref(), text).unwrap();
        let again = again(&trace);
        assert!(again.file_bytes < 8_192, "{}", again.file_bytes);
        let (a, b) = (&again.threads[0].calls, &trace.threads[0].calls);
        assert_eq!(
            (&a.start_ns, &a.end_ns, &a.flags),
            (&b.start_ns, &b.end_ns, &b.flags)
        );
        assert_eq!(again.threads[0].stats.unbounded_slots, 0);
    }

    #[test]
    fn an_address_that_had_two_names_is_two_methods() {
        let mut s = Script::new("p");
        let f = s.method("a.C.f", "()V");
        s.symbols.push(hindsight_trace_format::container::Symbol {
            valid_from: hindsight_testkit::EPOCH + 50,
            class: "b.D".into(),
            ..s.symbols[0].clone()
        });
        let main = s.thread(1, "main");
        s.at(main, 0).call(f, 10).after(100).call(f, 10).anchor();
        same_names(&s, &["a.C.f", "b.D.f"]);
    }

    fn same_names(script: &Script, expected: &[&str]) {
        let trace = Trace::decode("script".as_ref(), &script.encode()).unwrap();
        let again = again(&trace);
        let names: Vec<_> = again.threads[0]
            .calls
            .iter()
            .map(|s| again.methods.name(s.method))
            .collect();
        assert_eq!(names, expected);
    }
}
