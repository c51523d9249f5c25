// SPDX-License-Identifier: Apache-2.0
//! The scenes that are not ideal really lack what their descriptions say.

use hindsight_decoder::{Extension, Flags, Thread, Trace};
use hindsight_testkit as scenes;
use hindsight_testkit::Script;

fn decoded(script: &Script) -> Trace {
    Trace::decode("scene".as_ref(), &script.encode()).expect("a sound file")
}

fn names(trace: &Trace) -> Vec<(u32, &str)> {
    trace
        .threads
        .iter()
        .map(|t| (t.tid, t.name.as_str()))
        .collect()
}

/// The longest call of this method.
fn longest_ns(trace: &Trace, thread: &Thread, method: &str) -> u64 {
    let named = |id| trace.methods.name(id) == method;
    let calls = thread.calls.iter().filter(|c| named(c.method));
    calls.map(|c| c.duration_ns()).max().unwrap_or(0)
}

#[test]
fn wrapped_rings_lack_the_outermost_entries_but_have_the_stall() {
    let trace = decoded(&scenes::wrapped());
    for thread in &trace.threads {
        assert!(thread.stats.overwritten_slots > 0, "{}", thread.name);
    }
    let main = trace.main_thread().unwrap();
    // The looper's entry is overwritten and it never returns, so the ring has no trace of it.
    assert!(main
        .calls
        .iter()
        .all(|c| trace.methods.name(c.method) != "android.os.Looper.loop"));
    let find = longest_ns(&trace, main, "com.example.notes.NoteStore.find");
    assert!(find > scenes::STALL_NS);
}

#[test]
fn an_untraced_owner_is_named_by_the_ring_only() {
    let trace = decoded(&scenes::untraced_owner());
    assert_eq!(names(&trace), [(4200, "main")]);
    let waits: Vec<_> = trace.threads[0]
        .events
        .iter()
        .filter(|e| e.kind == Extension::LockWait)
        .collect();
    assert_eq!(waits.len(), 1);
    assert_eq!(waits[0].payload[0], 4217);
    assert_eq!(trace.thread_at(4217, waits[0].at_ns).map(|t| t.key), None);
}

#[test]
fn repeated_ids_are_told_apart_by_key_and_time() {
    let trace = decoded(&scenes::repeated_tid());
    assert_eq!(
        names(&trace),
        [
            (4200, "main"),
            (4217, "notes-sync"),
            (4200, "Shutdown thread"),
            (4231, "http-1"),
            (4231, "http-2")
        ]
    );
    assert_eq!(trace.main_thread().unwrap().name, "main");
    for thread in &trace.threads {
        let own = trace.thread(thread.key).unwrap();
        assert_eq!((own.tid, &own.name), (thread.tid, &thread.name));
    }
    let at = |ns| trace.thread_at(4231, ns).map(|t| t.name.as_str());
    let (first, second) = (&trace.threads[3], &trace.threads[4]);
    for thread in [first, second] {
        for ns in [thread.start_ns, thread.end_ns] {
            assert_eq!(at(ns), Some(thread.name.as_str()));
        }
    }
    assert_eq!(at(first.end_ns + 1), Some("http-1"));
    assert_eq!(at(second.start_ns - 1), Some("http-2"));
    assert_eq!(at(0), Some("http-1"));
    assert_eq!(at(u64::MAX), Some("http-2"));
}

#[test]
fn without_a_stall_no_message_takes_long() {
    let trace = decoded(&scenes::no_stall());
    let main = trace.main_thread().unwrap();
    let dispatch = longest_ns(&trace, main, "android.os.Handler.dispatchMessage");
    assert!((1_000_000..2_000_000).contains(&dispatch), "{dispatch}");
    let daemon = &trace.threads[1];
    assert!(daemon
        .calls
        .iter()
        .all(|c| c.flags.contains(Flags::OPEN_END)));
}

#[test]
fn a_busy_thread_has_no_long_gap() {
    let trace = decoded(&scenes::cpu_bound());
    let main = trace.main_thread().unwrap();
    let load = longest_ns(&trace, main, "com.example.reader.ArticleScreen.load");
    assert!((600_000_000..700_000_000).contains(&load), "{load}");
    let own = main.calls.self_ns();
    let in_load = main.calls.iter().zip(own).filter(|(c, _)| {
        let name = trace.methods.name(c.method);
        c.depth > 2 && !name.starts_with("android")
    });
    let longest_own = in_load.map(|(_, ns)| ns).max();
    // The parser's loop has the largest own time, summed over all passes.
    assert!(longest_own < Some(20_000_000), "{longest_own:?}");
}

#[test]
fn many_short_messages_are_outermost_and_fill_the_wait() {
    let trace = decoded(&scenes::many_short_messages());
    let owner = &trace.threads[1];
    assert!(owner.stats.overwritten_slots > 0);
    let wait = &trace.threads[0].events;
    let (from, to) = (wait[0].at_ns, wait[1].at_ns);
    let messages: Vec<_> = owner
        .calls
        .iter()
        .filter(|c| c.depth == 0 && c.start_ns < to && c.end_ns > from)
        .collect();
    assert!(messages.len() > 100, "{}", messages.len());
    let busy: u64 = messages
        .iter()
        .map(|c| c.end_ns.min(to) - c.start_ns.max(from))
        .sum();
    assert!(busy as f64 > 0.9 * (to - from) as f64);
    let longest = messages.iter().map(|c| c.duration_ns()).max().unwrap();
    assert!((longest as f64) < 0.01 * (to - from) as f64);
}

#[test]
fn a_lock_chain_names_each_owner() {
    let trace = decoded(&scenes::lock_chain());
    let owner_of = |tid: u32| {
        let thread = trace.threads.iter().find(|t| t.tid == tid).unwrap();
        let wait = thread.events.iter().find(|e| e.kind == Extension::LockWait);
        wait.map(|w| w.payload[0] as u32)
    };
    assert_eq!(owner_of(4200), Some(4217));
    assert_eq!(owner_of(4217), Some(4219));
    assert_eq!(owner_of(4219), None);
}

#[test]
fn every_scene_is_the_same_each_time() {
    for (name, scene) in scenes::SCENES {
        assert!(scene() == scene(), "{name}");
    }
}
