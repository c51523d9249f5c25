// SPDX-License-Identifier: Apache-2.0
//! A changed byte or a missing end costs the part of the trace that it hit, and nothing else.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use hindsight_decoder::{DamagedPart, Error, Extension, Flags, Mode, OpenOptions, Thread, Trace};
use hindsight_testkit::{damaged_ring, repeated_tid, stall, Script, EPOCH};
use hindsight_trace_format::container::{Reader, SectionKind, HEADER_BYTES, MAGIC};

/// Mutations of each kind.
const ROUNDS: u64 = 600;

/// As the demo's trace: a busy ring that has wrapped, a stalled main thread, a worker, and daemons with short rings.
fn demo_like() -> Script {
    let mut s = repeated_tid();
    let wait = s.method("java.lang.Object.wait", "(JI)V");
    let get = s.method("java.util.HashMap.get", "()V");
    for (tid, name) in [(4_301, "FinalizerDaemon"), (4_302, "ReferenceQueueD")] {
        let daemon = s.thread(tid, name);
        let mut r = s.at(daemon, 1_000);
        for _ in 0..5 {
            r.call(wait, 100_000_000).anchor().after(5_000);
        }
        r.enter(wait);
    }
    s.ring_log2_bytes(14);
    let busy = s.thread(4_303, "busy");
    let mut r = s.at(busy, 2_000);
    for i in 0..1_200 {
        r.enter(get)
            .after(40)
            .call(get, 50 + i % 7)
            .after(60)
            .exit();
        r.after(100_000);
        if i % 200 == 0 {
            r.anchor();
        }
    }
    add_events_only(&mut s, wait, get);
    s
}

/// A thread that records events only: messages, waits with their stacks, and pauses.
fn add_events_only(s: &mut Script, wait: u64, get: u64) {
    let name = s.string("notes loaded");
    let stacks = [s.stack(&[(get, 1), (wait, 2)]), s.stack(&[(get, 5)])];
    let thread = s.events_thread(4_304, "events", 9);
    let mut r = s.at(thread, 3_000);
    for i in 0..60 {
        let wait = [("kind", i % 5), ("number", i), ("object", 0x1a2b + i)];
        r.event(
            Extension::MessageDispatched,
            &[("message", i), ("class", get), ("what", i)],
        )
        .after(700)
        .event(
            Extension::LockWait,
            &[("held by", 4_200), ("lock", 0x70a0_1000)],
        )
        .event(Extension::WaitBegin, &wait)
        .extension(Extension::Stack, &stacks[i as usize % 2])
        .after(9_000 + 170_000_000 * u64::from(i % 20 == 0))
        .event(Extension::WaitEnd, &wait[..2])
        .event(Extension::UserMark, &[("name", name)])
        .after(60)
        .event(Extension::MessageDone, &[("message", i)])
        .after(30_000);
        if i % 20 == 0 {
            r.anchor();
        }
    }
}

/// The events of a thread, without their times and methods, which may be lost with the anchors and the names.
fn records(thread: &Thread) -> Vec<(Extension, [u64; 4])> {
    let events = thread.events.iter();
    events.map(|e| (e.kind, e.payload)).collect()
}

fn open(bytes: &[u8]) -> Result<Trace, Error> {
    Trace::decode(Path::new("trace"), bytes)
}

/// The contents of a thread's ring, with methods by address: ids and names depend on other sections, and so do the calls
/// that are made of stacks.
fn contents(trace: &Trace, thread: &Thread) -> impl PartialEq + std::fmt::Debug {
    let address = |id| trace.methods.get(id).map(|m| m.address);
    let exact = thread.calls.exact();
    let calls: Vec<_> = exact
        .iter()
        .map(|c| {
            (
                c.start_ns,
                c.end_ns,
                address(c.method),
                c.depth,
                c.parent,
                c.flags.0,
            )
        })
        .collect();
    let identity = (thread.tid, thread.name.clone(), thread.key);
    let mut stats = thread.stats;
    stats.unnamed_entries = 0;
    (stats.stacks, stats.lost_stacks) = (0, 0);
    let times: Vec<u64> = thread.events.iter().map(|e| e.at_ns).collect();
    let events = (times, records(thread));
    (identity, calls, events, stats, thread.end_ns)
}

struct Sound {
    bytes: Vec<u8>,
    trace: Trace,
    /// For each ring, the bytes of its section and of its anchors.
    rings: Vec<Vec<Range<usize>>>,
    /// Sections, with their kinds.
    sections: Vec<(u32, Range<usize>)>,
}

impl Sound {
    fn new(bytes: Vec<u8>) -> Self {
        let trace = open(&bytes).expect("a sound file");
        assert!(trace.damaged.is_empty());
        let reader = Reader::new(&bytes).expect("a sound file");
        let range = |offset: u64, length: u64| offset as usize..(offset + length) as usize;
        let sections: Vec<_> = reader
            .sections()
            .iter()
            .map(|s| (s.kind, range(s.offset, s.length)))
            .collect();
        let kinds = [SectionKind::Ring as u32, SectionKind::Anchors as u32];
        let rings = (0..trace.threads.len() as u32)
            .map(|ring| {
                let own = reader.sections().iter();
                own.filter(|s| s.index == ring && kinds.contains(&s.kind))
                    .map(|s| range(s.offset, s.length))
                    .collect()
            })
            .collect();
        Sound {
            bytes,
            trace,
            rings,
            sections,
        }
    }

    fn section(&self, kind: SectionKind) -> Range<usize> {
        let mut sections = self.sections.iter();
        let found = sections.find(|(k, _)| *k == kind as u32);
        found.expect("the section is there").1.clone()
    }

    /// Checks that all rings for which `is_untouched` are as they were.
    fn check(&self, mutated: &Trace, what: &str, is_untouched: impl Fn(&Range<usize>) -> bool) {
        for (thread, ranges) in self.trace.threads.iter().zip(&self.rings) {
            if !ranges.iter().all(&is_untouched) {
                continue;
            }
            let own = mutated.thread(thread.key);
            let own = own.unwrap_or_else(|| panic!("{what}: {} is missing", thread.name));
            assert!(
                contents(mutated, own) == contents(&self.trace, thread),
                "{what}: {} is not as it was",
                thread.name
            );
        }
    }
}

/// xorshift64: the same mutations each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}

#[test]
fn a_changed_byte_costs_one_section() {
    let sound = Sound::new(demo_like().encode());
    let clocks = sound.section(SectionKind::Clocks);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut refused, mut kept, mut lost) = (0, 0, 0);
    for round in 0..ROUNDS {
        let mut bytes = sound.bytes.clone();
        // Most of them in small parts of the file.
        let at = match round % 4 {
            0 => random.below(bytes.len()),
            1 => bytes.len() - 1 - random.below(bytes.len().min(600)),
            2 => random.below(700),
            _ => {
                let section = &sound.sections[random.below(sound.sections.len())].1;
                section.start + random.below(section.len())
            }
        };
        bytes[at] ^= 1 + random.below(255) as u8;
        let what = format!("byte {at}");
        let trace = match open(&bytes) {
            Ok(trace) => trace,
            Err(e) => {
                assert!(at < MAGIC.len() || clocks.contains(&at), "{what}: {e}");
                refused += 1;
                continue;
            }
        };
        let is_padding = at >= HEADER_BYTES
            && !sound.sections.iter().any(|(_, s)| s.contains(&at))
            && at < sound.sections.last().unwrap().1.end.next_multiple_of(8);
        assert_eq!(
            trace.damaged.is_empty(),
            is_padding,
            "{what}: {:?}",
            trace.damaged
        );
        if clocks.contains(&at) {
            assert_eq!(trace.damaged[0].part, DamagedPart::Clocks);
            continue;
        }
        sound.check(&trace, &what, |range| !range.contains(&at));
        for damage in &trace.damaged {
            if let DamagedPart::Ring {
                kept_slots, slots, ..
            } = damage.part
            {
                kept += kept_slots;
                lost += slots.unwrap_or(kept_slots) - kept_slots;
            }
        }
        let strict = OpenOptions { strict: true }.decode(Path::new("trace"), &bytes);
        assert_eq!(strict.is_ok(), is_padding, "{what}");
    }
    println!("{ROUNDS} changed bytes: {refused} refused; of damaged rings, {kept} slots kept, {lost} not");
    assert!(refused < ROUNDS / 10, "{refused}");
    assert!(kept > lost, "{kept} {lost}");
}

/// Counts and sizes stand at two places; everywhere else a byte is part of one entry or of one string.
#[test]
fn a_changed_byte_of_the_symbols_costs_few_names() {
    let sound = Sound::new(demo_like().encode());
    let named = |trace: &Trace| -> Vec<(u64, String)> {
        let methods = trace.methods.iter();
        let mut names: Vec<_> = methods.map(|(_, m)| (m.address, m.full_name())).collect();
        names.sort();
        names
    };
    let before = named(&sound.trace);
    let section = sound.section(SectionKind::Symbols);
    let mut all_lost = 0;
    for at in section.clone().step_by(7) {
        let mut bytes = sound.bytes.clone();
        bytes[at] ^= 0x80;
        let trace = open(&bytes).unwrap_or_else(|e| panic!("byte {at}: {e}"));
        assert_eq!(trace.damaged[0].part, DamagedPart::Symbols, "byte {at}");
        let after = named(&trace);
        let changed = before.iter().filter(|name| !after.contains(name)).count();
        // A class may name several methods.
        let of_one_class = 8;
        if changed > of_one_class {
            all_lost += 1;
        }
        sound.check(&trace, &format!("byte {at}"), |_| true);
    }
    assert!(all_lost <= 4, "{all_lost} of {}", section.len());
}

/// All starts and ends of a thread's calls, and the times of its events.
fn times(thread: &Thread) -> BTreeSet<u64> {
    let calls = &thread.calls;
    let events = thread.events.iter().map(|e| e.at_ns);
    let calls = calls.start_ns.iter().chain(&calls.end_ns).copied();
    calls.chain(events).collect()
}

/// The changed event may have any time between its neighbours; no other time changes.
#[test]
fn a_changed_byte_of_a_ring_invents_no_time() {
    let (mut kept, mut changed) = (0, 0);
    for script in [stall(), demo_like()] {
        let sound = Sound::new(script.encode());
        for (thread, ranges) in sound.trace.threads.iter().zip(&sound.rings) {
            let before = times(thread);
            let range = ranges[0].start..ranges[0].end;
            // The upper half of a slot is its time.
            let step = (range.len() / 60).max(1);
            for at in range.clone().skip(64).step_by(step) {
                for bit in [0x10, 0x80] {
                    let at = at | 7;
                    if at >= range.end {
                        continue;
                    }
                    for at in [at, at - 1, at - 4] {
                        let mut bytes = sound.bytes.clone();
                        bytes[at] ^= bit;
                        let what = format!("{} byte {at}^{bit:#x}", thread.name);
                        let trace = open(&bytes).unwrap();
                        let Some(after) = trace.thread(thread.key) else {
                            continue;
                        };
                        let after = times(after);
                        let new: Vec<u64> = after.difference(&before).copied().collect();
                        assert!(new.len() <= 1, "{what}: {new:?}");
                        for &new in &new {
                            // Since the ring's start, until it was taken.
                            let times = EPOCH..=thread.end_ns;
                            assert!(times.contains(&new), "{what}: {new}");
                            changed += 1;
                        }
                        kept += after.len();
                    }
                }
            }
        }
    }
    println!("{kept} times kept, {changed} changed");
    assert!(kept > 10_000, "{kept}");
}

#[test]
fn a_missing_end_costs_what_was_there() {
    let sound = Sound::new(demo_like().encode());
    let clocks = sound.section(SectionKind::Clocks);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut refused = 0;
    for round in 0..ROUNDS {
        let length = match round % 3 {
            0 => sound.bytes.len() - 1 - random.below(2_000),
            _ => random.below(sound.bytes.len()),
        };
        let what = format!("{length} bytes");
        let trace = match open(&sound.bytes[..length]) {
            Ok(trace) => trace,
            Err(e) => {
                assert!(length < clocks.end, "{what}: {e}");
                assert!(e.to_string().contains("cut off") || length == 0, "{e}");
                refused += 1;
                continue;
            }
        };
        assert!(!trace.damaged.is_empty(), "{what}");
        sound.check(&trace, &what, |range| range.end <= length);
        // Nothing is made up: no thread has more than it had.
        for thread in &trace.threads {
            let before = sound.trace.thread(thread.key).unwrap();
            assert!(thread.stats.trace_points <= before.stats.trace_points);
            assert!(
                thread.mode != Mode::Events || thread.stats.trace_points == 0,
                "{what}"
            );
            // The oldest events, or the newest.
            let (kept, all) = (records(thread), records(before));
            assert!(
                all.starts_with(&kept) || all.ends_with(&kept),
                "{what}: {} has other events",
                thread.name
            );
        }
        let strict =
            OpenOptions { strict: true }.decode(Path::new("trace"), &sound.bytes[..length]);
        assert!(strict.is_err(), "{what}");
    }
    println!("{ROUNDS} missing ends: {refused} refused");
    assert!(refused < ROUNDS / 10, "{refused}");
}

/// Any single byte of a small file: an error or an answer, no panic; a strict answer is the right one.
#[test]
fn any_byte_may_be_damaged() {
    let mut s = Script::new("p");
    s.ring_log2_bytes(12);
    let m = s.method("C.f", "()V");
    let t = s.thread(1, "main");
    s.at(t, 0).call(m, 10).enter(m).anchor();
    let bytes = s.encode();
    for i in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[i] ^= change;
            let _ = open(&damaged);
            let strict = OpenOptions { strict: true }.decode(Path::new("trace"), &damaged);
            // Padding is covered by no checksum.
            if let Ok(trace) = strict {
                assert_eq!(trace.threads[0].stats.trace_points, 3, "byte {i}");
            }
        }
        let _ = open(&bytes[..i]);
    }
}

/// Several of both at once: no panic, and sound rings stay as they are unless the clocks were hit.
#[test]
fn several_damages_add_up_to_no_more() {
    let sound = Sound::new(demo_like().encode());
    let clocks = sound.section(SectionKind::Clocks);
    let mut random = Random(77);
    let mut refused = 0;
    for _ in 0..ROUNDS {
        let mut bytes = sound.bytes.clone();
        let hits: Vec<usize> = (0..1 + random.below(6))
            .map(|_| random.below(bytes.len()))
            .collect();
        for &at in &hits {
            bytes[at] ^= 1 + random.below(255) as u8;
        }
        let length = bytes.len() - random.below(bytes.len() / 2);
        let Ok(trace) = open(&bytes[..length]) else {
            refused += 1;
            continue;
        };
        if hits.iter().any(|&at| at < clocks.end) {
            continue;
        }
        let is_untouched = |range: &Range<usize>| {
            // Without a table, a ring is only found if the sections before it tell their lengths.
            let end = range.end;
            end <= length && hits.iter().all(|&at| at > end)
        };
        sound.check(&trace, &format!("{hits:?} {length}"), is_untouched);
    }
    println!("{ROUNDS} times several: {refused} refused");
    assert!(refused < ROUNDS / 10, "{refused}");
}

#[test]
fn the_sound_part_of_a_damaged_ring_is_shown_and_the_damage_is_said() {
    let trace = open(&damaged_ring()).unwrap();
    let whole = open(&stall().encode()).unwrap();
    let [damage] = &trace.damaged[..] else {
        panic!("{:?}", trace.damaged)
    };
    let said = damage.to_string();
    for part in [
        "thread \"notes-sync\" (tid 4217): section Ring 1",
        "checksum",
        "slots are in the trace",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let (before, after) = (&whole.threads[1], &trace.threads[1]);
    assert_eq!(before.end_ns, after.end_ns);
    assert!(after.calls.len() > before.calls.len() / 3);
    assert!(after.calls.len() < before.calls.len());
    // The end of the ring is as it was.
    let last = |t: &Trace| {
        let calls = &t.threads[1].calls;
        let call = calls.get(calls.len() - 1);
        (
            t.methods.name(call.method).into_owned(),
            call.start_ns,
            call.end_ns,
        )
    };
    assert_eq!(last(&trace), last(&whole));
}

#[test]
fn what_a_cut_ring_still_has_begins_as_before() {
    let trace = open(&hindsight_testkit::cut_file()).unwrap();
    let whole = open(&stall().encode()).unwrap();
    let (before, after) = (&whole.threads[1].calls, &trace.threads[1].calls);
    let kept = after.len();
    assert!(kept > before.len() / 3 && kept < before.len(), "{kept}");
    let missing: Vec<bool> = trace.threads.iter().map(|t| t.end_is_missing).collect();
    assert_eq!(missing, [false, true]);
    // It ends at its newest event, not when the trace was taken.
    let ended = after.iter().filter(|c| !c.flags.contains(Flags::OPEN_END));
    let newest = ended
        .map(|c| c.end_ns)
        .chain(after.start_ns.iter().copied());
    assert_eq!(Some(trace.threads[1].end_ns), newest.max());
}
