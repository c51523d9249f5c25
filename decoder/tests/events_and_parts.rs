// SPDX-License-Identifier: Apache-2.0
//! Threads that record events only: their times, their rings, their strings.

use hindsight_decoder::catalogue::CATALOGUE;
use hindsight_decoder::{Extension, Flags, Mode, RingMode, Trace};
use hindsight_testkit::{Script, EPOCH};

const SECOND: u64 = 1_000_000_000;
/// Longer than the low 32 bits of the scripts' counter take to wrap, many times.
const PAUSE: u64 = 600 * SECOND;

fn decode(script: &Script) -> Trace {
    Trace::decode("script".as_ref(), &script.encode()).unwrap()
}

fn times(trace: &Trace, thread: usize) -> Vec<u64> {
    let events = trace.threads[thread].events.iter();
    events.map(|e| e.at_ns - EPOCH).collect()
}

#[test]
fn a_pause_that_the_thread_marked_is_exact() {
    let mut s = Script::new("p");
    let t = s.events_thread(7, "quiet", 1);
    let mut r = s.at(t, 10);
    let mark = |r: &mut hindsight_testkit::Recorder<'_>| {
        r.extension(Extension::UserMark, &[0]);
    };
    mark(&mut r);
    mark(r.after(5));
    let before = r.now();
    r.after(PAUSE).full_time(before);
    mark(&mut r);
    mark(r.after(3 * SECOND));
    let before = r.now();
    r.after(2 * PAUSE).full_time(before);
    mark(&mut r);
    r.anchor();
    s.stop_at(5 * PAUSE);
    let trace = decode(&s);
    let end = 15 + PAUSE + 3 * SECOND;
    assert_eq!(times(&trace, 0), [10, 15, 15 + PAUSE, end, end + 2 * PAUSE]);
    let thread = &trace.threads[0];
    assert_eq!(thread.stats.unbounded_slots, 0);
    assert_eq!(thread.stats.contradicting_times, 0);
    assert_eq!(thread.mode, Mode::Events);
}

#[test]
fn a_whole_counter_that_contradicts_the_rest_is_ignored() {
    for (before, now) in [
        (u64::MAX, u64::MAX),
        (0, u64::MAX),
        (EPOCH + 100, EPOCH + 20),
        (EPOCH, EPOCH + PAUSE),
        (0, 0),
    ] {
        let mut s = Script::new("p");
        let t = s.events_thread(7, "quiet", 1);
        let mut r = s.at(t, 10);
        r.extension(Extension::UserMark, &[0])
            .after(10)
            .extension(Extension::FullTime, &[before, now])
            .after(10)
            .extension(Extension::UserMark, &[0]);
        r.anchor();
        let trace = decode(&s);
        assert_eq!(times(&trace, 0), [10, 30], "{before} {now}");
    }
}

#[test]
fn rings_of_one_thread_are_one_recording() {
    let mut s = Script::new("p");
    let f = s.method("a.C.f", "()V");
    let first = s.events_thread(7, "worker", 3);
    let other = s.thread(8, "other");
    s.at(first, 10).extension(Extension::UserMark, &[0]);
    s.at(other, 10).call(f, 10);
    let second = s.next_part(first, RingMode::Calls, 100);
    s.at(second, 110)
        .enter(f)
        .after(5)
        .extension(Extension::UserMark, &[0])
        .after(5)
        .exit()
        .enter(f);
    // Ring 4 of the thread is not in the file.
    let third = s.next_part(second, RingMode::Calls, 200);
    s.header(third).part += 1;
    s.at(third, 210)
        .enter(f)
        .after(5)
        .call(f, 10)
        .after(1)
        .exit();
    s.stop_at(300);
    // Each ring has its own count, and the limit of its time.
    s.taken_back(second, 50_000, 20).taken_back(third, 1_000, 3);
    let trace = decode(&s);
    assert_eq!(trace.threads.len(), 2);
    let thread = &trace.threads[0];
    assert_eq!(
        (thread.stats.taken_back, thread.stats.rewind_below_ns),
        (23, 50_000)
    );
    assert!(thread.takes_calls_back() && !trace.threads[1].takes_calls_back());
    assert_eq!((thread.tid, thread.mode), (7, Mode::Both));
    assert_eq!(times(&trace, 0), [10, 115]);
    assert_eq!(thread.stats.gaps, 1);
    assert_eq!(thread.parts.len(), 3);
    let calls: Vec<_> = thread
        .calls
        .iter()
        .map(|c| (c.start_ns - EPOCH, c.end_ns - EPOCH, c.depth))
        .collect();
    assert_eq!(
        calls,
        [(110, 120, 0), (120, 200, 0), (210, 226, 0), (215, 225, 1)]
    );
    assert_eq!(thread.calls.parent_of(3), Some(2));
    // Either ring's number finds the thread.
    let key = |ring| hindsight_decoder::ThreadKey { process: 0, ring };
    assert_eq!(trace.thread(key(2)).unwrap().tid, 7);
    assert_eq!(trace.thread(key(1)).unwrap().tid, 8);
}

#[test]
fn rings_that_overlap_in_time_stay_apart() {
    let mut s = Script::new("p");
    let f = s.method("a.C.f", "()V");
    for i in 0..50 {
        let t = s.thread(7, "same");
        s.header(t).thread = 9;
        s.header(t).part = i % 3;
        s.at(t, u64::from(i)).call(f, 100);
    }
    let trace = decode(&s);
    assert_eq!(trace.threads.len(), 50);
    let calls: usize = trace.threads.iter().map(|t| t.calls.len()).sum();
    assert_eq!(calls, 50);
}

#[test]
fn every_event_of_the_catalogue_is_read_with_its_fields() {
    let mut s = Script::new("p");
    s.method("a.Task.run", "()V");
    s.string("a mark");
    let t = s.events_thread(100, "main", 1);
    s.at(t, 10).every_event(10).anchor();
    let trace = decode(&s);
    assert_eq!(trace.strings.get(1), Some("a mark"));
    let thread = &trace.threads[0];
    assert_eq!(thread.stats.unknown_extensions, 0);
    for spec in CATALOGUE {
        let is_of_calls = matches!(
            spec.extension,
            Extension::NativeEntered
                | Extension::NativeLeft
                | Extension::Unwound
                | Extension::EnteredBefore
                | Extension::LeftAfter
                | Extension::PartBegins
                | Extension::FullTime
        );
        let (shown, _) = spec.extension.unpacked([0; 4]);
        // Of two forms, the later one has all fields.
        let found = thread.events.iter().rfind(|e| e.kind == shown);
        assert_eq!(found.is_some(), !is_of_calls, "{spec:?}");
        let Some(event) = found else { continue };
        let all_set = spec.fields.iter().all(|f| {
            let first_choice = matches!(f.kind, hindsight_decoder::catalogue::FieldKind::Choice(_));
            first_choice || event.get(f.name) != 0
        });
        assert!(all_set, "{event:?}");
        if shown == Extension::Stack {
            let both = thread.events.iter().filter(|e| e.kind == shown);
            let both: Vec<_> = both
                .map(|e| (e.stack(), e.get("reason"), e.get("cut")))
                .collect();
            assert_eq!(both.len(), 2, "a stack, and a packed one");
            assert_eq!(both[0], both[1]);
        }
        if spec.field("class").is_some() {
            assert_eq!(trace.methods.get(event.method).unwrap().class, "a.Task");
        }
    }
}

#[test]
fn a_damaged_table_of_strings_is_listed() {
    let mut s = Script::new("p");
    s.string("one of a kind");
    let t = s.events_thread(100, "main", 1);
    s.at(t, 10).extension(Extension::UserMark, &[1]);
    let mut bytes = s.encode();
    let at = bytes.windows(6).position(|w| w == b"a kind").unwrap();
    bytes[at] = b'e';
    let trace = Trace::decode("damaged".as_ref(), &bytes).unwrap();
    assert_eq!(
        trace.damaged[0].part,
        hindsight_decoder::DamagedPart::Strings
    );
    // A changed letter does not hide the string.
    assert_eq!(trace.strings.get(1), Some("one of e kind"));
    // Found by their contents if the table of sections is damaged.
    let mut bytes = s.encode();
    let end = bytes.len();
    bytes[end - 20..].fill(0xff);
    let trace = Trace::decode("damaged".as_ref(), &bytes).unwrap();
    assert_eq!(trace.strings.get(1), Some("one of a kind"));
}

/// xorshift64: the same numbers in each run.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn any_events_in_any_parts_are_read_in_the_order_of_time() {
    let mut seed = 0x1234_5678_9abc_def1;
    for _ in 0..600 {
        let mut s = Script::new("p");
        let f = s.method("a.C.f", "()V");
        s.string("name");
        for _ in 0..1 + random(&mut seed) % 6 {
            let t = s.events_thread(7, "t", random(&mut seed) % 3);
            let start = random(&mut seed) % 1_000;
            let header = s.header(t);
            header.part = random(&mut seed) as u32 % 4;
            header.started_counter = EPOCH + start;
            if random(&mut seed).is_multiple_of(2) {
                header.mode = RingMode::Calls;
            }
            let mut r = s.at(t, start);
            for _ in 0..random(&mut seed) % 40 {
                r.after(random(&mut seed) % 100);
                match random(&mut seed) % 8 {
                    // Often at the ring's beginning, where they count.
                    6 => r.extension(Extension::PartBegins, &[]),
                    7 => r.extension(Extension::EnteredBefore, &[f, 0]),
                    0 => r.enter(f),
                    1 => r.exit(),
                    2 => r.unwind(random(&mut seed) % 5),
                    3 => {
                        let any = [random(&mut seed), EPOCH + random(&mut seed) % 2_000];
                        let before = any[random(&mut seed) as usize % 2];
                        let now = [r.now() + EPOCH, random(&mut seed)];
                        let now = now[random(&mut seed) as usize % 2];
                        r.extension(Extension::FullTime, &[before, now])
                    }
                    4 => r.anchor(),
                    _ => {
                        let at = random(&mut seed) as usize % CATALOGUE.len();
                        let number = CATALOGUE[at].extension.number();
                        let payload: Vec<u64> =
                            (0..number & 7).map(|_| random(&mut seed)).collect();
                        r.raw_extension(number, &payload)
                    }
                };
            }
        }
        s.stop_at(random(&mut seed) % 8_000);
        let trace = decode(&s);
        for thread in &trace.threads {
            assert!(thread.parts.iter().all(|p| p.start_ns <= p.end_ns));
            let parts = thread.parts.windows(2);
            assert!(parts.into_iter().all(|p| p[0].end_ns <= p[1].start_ns));
            assert!(thread.events.windows(2).all(|e| e[0].at_ns <= e[1].at_ns));
            let calls = &thread.calls;
            assert!(calls.start_ns.windows(2).all(|c| c[0] <= c[1]));
            for (i, call) in calls.iter().enumerate() {
                assert!(call.start_ns <= call.end_ns);
                if let Some(caller) = calls.parent_of(i) {
                    let caller = calls.get(caller);
                    assert!(caller.start_ns <= call.start_ns && call.end_ns <= caller.end_ns);
                    assert_eq!(caller.depth + 1, call.depth);
                }
            }
        }
    }
}

/// Depth, method, start, end, and whether the ends are open.
type Told = (u32, String, u64, u64, (bool, bool));

/// The calls of the trace's first thread.
fn calls(trace: &Trace) -> Vec<Told> {
    let calls = trace.threads[0].calls.iter();
    let call = |c: hindsight_decoder::Call| {
        let is = |flag| c.flags.contains(flag);
        (
            c.depth,
            trace.methods.name(c.method).into_owned(),
            c.start_ns - EPOCH,
            c.end_ns - EPOCH,
            (is(Flags::OPEN_START), is(Flags::OPEN_END)),
        )
    };
    calls.map(call).collect()
}

#[test]
fn a_ring_that_follows_another_one_covers_the_time_in_which_its_thread_stood_still() {
    let script = |part: u32, mode: RingMode| {
        let mut s = Script::new("p");
        let f = s.method("a.C.f", "()V");
        let t = s.events_thread(7, "stuck", 1);
        let header = s.header(t);
        (header.part, header.started_counter, header.mode) = (part, EPOCH + 50, mode);
        s.stop_at(900);
        (s, t, f)
    };
    let covers = |s: &Script| {
        let trace = decode(s);
        let thread = &trace.threads[0];
        assert_eq!(thread.parts[0].start_ns, thread.start_ns);
        (thread.start_ns - EPOCH, thread.end_ns - EPOCH)
    };
    for mode in [RingMode::Calls, RingMode::Events] {
        assert_eq!(covers(&script(3, mode).0), (50, 900));
        let (mut s, t, _) = script(3, mode);
        s.at(t, 700).extension(Extension::UserMark, &[0]);
        assert_eq!(covers(&s), (50, 900));
        // A first ring begins with an event.
        let (mut s, t, _) = script(0, mode);
        s.at(t, 700).extension(Extension::UserMark, &[0]);
        assert_eq!(covers(&s), (700, 900));
    }
    // What a call was in that was under way is not known: it may have waited for work.
    let (mut s, t, f) = script(3, RingMode::Calls);
    s.at(t, 700).exit().after(10).call(f, 5);
    let found = calls(&decode(&s));
    let times: Vec<_> = found.iter().map(|c| (c.2, c.3, c.4)).collect();
    assert_eq!(
        times,
        [(700, 700, (true, false)), (710, 715, (false, false))]
    );
}

#[test]
fn an_empty_ring_belongs_to_its_thread_s_recording_whatever_its_beginning() {
    let mut s = Script::new("p");
    let first = s.events_thread(7, "t", 1);
    s.at(first, 10)
        .extension(Extension::UserMark, &[0])
        .after(200)
        .extension(Extension::UserMark, &[0]);
    let second = s.next_part(first, RingMode::Events, 300);
    s.header(second).started_counter = EPOCH + 100;
    s.stop_at(900);
    let trace = decode(&s);
    assert_eq!(trace.threads.len(), 1);
    let parts = trace.threads[0].parts.iter();
    let times: Vec<_> = parts
        .map(|p| (p.start_ns - EPOCH, p.end_ns - EPOCH))
        .collect();
    assert_eq!(times, [(10, 210), (210, 900)]);
}
