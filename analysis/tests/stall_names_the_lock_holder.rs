// SPDX-License-Identifier: Apache-2.0
//! The stall of a looper thread is found in a made-up trace, and the thread that caused it, too.

use std::io::Cursor;
use std::path::Path;

use hindsight_analysis::stall;
use hindsight_decoder::Trace;
use hindsight_trace_format::container::{
    ClockSample, Clocks, ProcessFacts, RingHeader, SectionKind, Symbol, Symbols, Writer,
};
use hindsight_trace_format::ring::{Geometry, Position};
use hindsight_trace_format::slot::Slot;

const NAMES: [(&str, &str); 8] = [
    ("android.os.Looper", "loop"),
    ("android.os.MessageQueue", "next"),
    ("app.Screen", "open"),
    ("app.Store", "find"),
    ("app.Worker", "run"),
    ("app.Store", "save"),
    ("app.File", "sync"),
    ("app.Screen", "draw"),
];

/// What a thread does: milliseconds, and the method that is entered, or an exit.
enum Do {
    Enter(u64, &'static str),
    Leave(u64),
}
use Do::{Enter, Leave};

fn address(name: &str) -> u32 {
    let index = NAMES.iter().position(|(_, method)| *method == name).unwrap();
    0x7000_0000 + 0x20 * index as u32
}

/// A trace with one tick per microsecond; the first thread is the main thread.
fn trace(threads: &[(&str, &[Do])]) -> Trace {
    let ticks = |ms: u64| ms * 1000 + 1_000_000;
    let end = ticks(5000);
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let process = ProcessFacts {
        pid: 100,
        reason: "a message took too long".to_owned(),
        ..ProcessFacts::default()
    };
    writer.section(SectionKind::Process, 0, &[&process.encode()]).unwrap();
    let sample = |counter: u64| ClockSample {
        counter,
        monotonic_ns: counter * 1000,
        boottime_ns: counter * 1000,
        realtime_ns: counter * 1000,
    };
    let clocks = Clocks {
        ticks_per_second: 1_000_000,
        source: "test".to_owned(),
        read_traps: false,
        samples: vec![sample(ticks(0)), sample(end)],
    };
    writer.section(SectionKind::Clocks, 0, &[&clocks.encode()]).unwrap();
    let symbols = Symbols {
        symbols: NAMES
            .iter()
            .map(|(class, name)| Symbol {
                address: address(name).into(),
                class: (*class).to_owned(),
                name: (*name).to_owned(),
                ..Symbol::default()
            })
            .collect(),
    };
    writer.section(SectionKind::Symbols, 0, &[&symbols.encode()]).unwrap();
    for (i, (name, actions)) in threads.iter().enumerate() {
        let raw: Vec<u8> = actions
            .iter()
            .map(|action| match action {
                Enter(ms, method) => Slot::entry(address(method), ticks(*ms)),
                Leave(ms) => Slot::exit(ticks(*ms)),
            })
            .flat_map(|slot| slot.0.to_le_bytes())
            .collect();
        let header = RingHeader {
            tid: 100 + i as u32,
            name: (*name).to_owned(),
            geometry: Geometry::new(16).unwrap(),
            position: Position {
                laps: 0,
                offset: raw.len() as u64,
            },
            started_counter: ticks(0),
            stopped_counter: end,
        };
        writer.section(SectionKind::Ring, i as u32, &[&header.encode(), &raw]).unwrap();
    }
    let bytes = writer.finish().unwrap().into_inner();
    Trace::decode(Path::new("test.hindsight"), &bytes).unwrap()
}

fn names(chain: &[stall::Call]) -> Vec<&str> {
    chain.iter().map(|call| call.name.as_str()).collect()
}

/// Idle for a second, a short message, then one that waits for `saver` until 2700.
fn main_thread() -> Vec<Do> {
    vec![
        Enter(0, "loop"),
        Enter(1, "next"),
        Leave(1000),
        Enter(1001, "draw"),
        Leave(1003),
        Enter(1004, "next"),
        Leave(2100),
        Enter(2101, "open"),
        Enter(2102, "find"),
        Leave(2700),
        Leave(2702),
        Enter(2703, "next"),
    ]
}

fn saver() -> Vec<Do> {
    vec![
        Enter(0, "run"),
        Enter(2050, "save"),
        Enter(2060, "sync"),
        Leave(2698),
        Leave(2699),
    ]
}

/// Waits without a message all the time; woken by the main thread after the stall.
fn bystander() -> Vec<Do> {
    vec![Enter(0, "next"), Leave(2701), Enter(2702, "draw"), Leave(2703)]
}

#[test]
fn the_longest_message_is_followed_to_the_call_that_took_the_time() {
    let stall = stall::find(&trace(&[("main", &main_thread())])).unwrap();
    assert_eq!(names(&stall.chain), ["app.Screen.open", "app.Store.find"]);
    assert_eq!(stall.chain[0].duration_ns, 601_000_000);
    assert_eq!(stall.chain[1].self_ns, 598_000_000);
    assert_eq!(stall.blocker, None);
}

#[test]
fn the_thread_whose_calls_end_with_the_stall_is_its_blocker() {
    let stall = stall::find(&trace(&[
        ("main", &main_thread()),
        ("bystander", &bystander()),
        ("saver", &saver()),
    ]))
    .unwrap();
    let blocker = stall.blocker.as_ref().unwrap();
    assert_eq!(blocker.thread, "saver");
    // The worker's outer call goes on, so it is not part of what the stall waited for.
    assert_eq!(names(&blocker.chain), ["app.Store.save", "app.File.sync"]);
    assert!(blocker.same_class);
    assert_eq!(blocker.released, 0);
    assert_eq!(blocker.gap_ns, 1_000_000);
    let text = stall.to_string();
    assert!(
        text.ends_with(
            "app.Store.save ended 1.0 ms before app.Store.find did.\n\
             Most likely app.Store.find waited for a lock that app.Store.save held for 649.0 ms, \
             638.0 ms of them in app.File.sync, which app.Store.save called."
        ),
        "{text}"
    );
    assert!(text.contains("\"main\" was held up for 601.0 ms"), "{text}");
}

#[test]
fn a_call_that_ends_after_the_stall_did_not_cause_it() {
    let late = [Enter(0, "run"), Enter(2050, "save"), Leave(2701)];
    let stall = stall::find(&trace(&[("main", &main_thread()), ("late", &late)])).unwrap();
    assert_eq!(stall.blocker, None);
}

#[test]
fn slow_work_after_the_sleep_does_not_hide_the_lock_holder() {
    // The file is closed for 40 ms after it has been synced, with the lock still held.
    let mut saver = saver();
    saver[3] = Leave(2659);
    let stall = stall::find(&trace(&[("main", &main_thread()), ("saver", &saver)])).unwrap();
    assert!(stall.blocker.unwrap().same_class);
}

#[test]
fn a_call_that_ended_long_before_did_not_cause_it() {
    let early = [Enter(0, "run"), Enter(2050, "sync"), Leave(2670)];
    let stall = stall::find(&trace(&[("main", &main_thread()), ("early", &early)])).unwrap();
    assert_eq!(stall.blocker, None);
}

#[test]
fn a_ring_that_has_lost_the_looper_still_tells() {
    // As if the ring had wrapped just after the looper's entry.
    let main: Vec<Do> = main_thread().into_iter().skip(3).collect();
    let stall = stall::find(&trace(&[("main", &main), ("saver", &saver())])).unwrap();
    assert_eq!(names(&stall.chain), ["app.Screen.open", "app.Store.find"]);
    assert_eq!(stall.blocker.unwrap().thread, "saver");
}

#[test]
fn a_message_that_has_not_ended_is_at_least_so_long() {
    let main: Vec<Do> = main_thread().into_iter().take(9).collect();
    let stall = stall::find(&trace(&[("main", &main)])).unwrap();
    assert_eq!(names(&stall.chain), ["app.Screen.open", "app.Store.find"]);
    assert!(!stall.chain[0].ended);
    assert!(stall.to_string().contains("at least 2899.0 ms"), "{stall}");
}

#[test]
fn a_trace_without_calls_has_no_stall() {
    assert_eq!(stall::find(&trace(&[("main", &[])])), None);
}
