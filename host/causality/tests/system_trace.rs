// SPDX-License-Identifier: Apache-2.0
//! A trace of the whole device beside the recordings of processes.

use hindsight_causality::diagnosis::{diagnose, Kind, StuckQuestion};
use hindsight_causality::story::{report, text, Report};
use hindsight_causality::transactions::{Component, Paths, Transactions};
use hindsight_causality::{Graph, Session, SystemError};
use hindsight_decoder::{Extension, Trace};
use hindsight_system_trace::SystemTrace;
use hindsight_testkit::device::{By, DeviceTrace, Layout, PREEMPTED, SLEEPS, WAITS_FOR_DISK};
use hindsight_testkit::{server, Script};

mod common;
use common::MS;

const MAIN: u32 = 100;

fn session(scripts: &[&Script]) -> Session {
    let trace = |script: &&Script| {
        let name = format!("{}.hindsight", script.process.name);
        let trace = Trace::decode(name.as_ref(), &script.encode()).unwrap();
        (name.into(), trace)
    };
    Session::of(scripts.iter().map(trace).collect())
}

fn with_device(scripts: &[&Script], device: &DeviceTrace) -> Result<Session, SystemError> {
    let system = SystemTrace::read(&device.encode()[..]).unwrap();
    let session = session(scripts);
    match session.refuses_system(&system) {
        Some(why) => Err(why),
        None => Ok(session.with_system("device.pftrace".into(), system)),
    }
}

/// The main thread works on a message from 10 to 60 ms, in which it waits for a lock from 58 ms on.
fn app() -> Script {
    let mut s = Script::new("com.example.app");
    let main = s.events_thread(MAIN, "main", 1);
    let class = s.method("com.example.Screen.handle", "()V");
    let message = [("message", 7), ("class", class)];
    let lock = [("kind", 0), ("number", 1)];
    s.at(main, 10 * MS)
        .event(Extension::MessageDispatched, &message)
        .at(58 * MS)
        .event(Extension::WaitBegin, &lock)
        .at(64 * MS)
        .event(Extension::WaitEnd, &lock)
        .at(65 * MS)
        .event(Extension::MessageDone, &message[..1]);
    s.stop_at(100 * MS);
    s
}

fn device() -> DeviceTrace {
    let mut d = DeviceTrace::new(Layout::Compact);
    d.process(MAIN, "com.example.app")
        .thread(MAIN, MAIN, "example.app")
        .process(500, "system_server");
    d.switch(0, 0, 0, 0, MAIN)
        .switch(0, 20 * MS, MAIN, PREEMPTED, 501)
        .switch(0, 30 * MS, 501, SLEEPS, MAIN)
        .switch(0, 35 * MS, MAIN, WAITS_FOR_DISK, 0)
        .waking(0, 45 * MS, By::Interrupt(0), MAIN)
        .blocked(0, 45 * MS, MAIN, true)
        .switch(0, 46 * MS, 0, 0, MAIN)
        // A read of a socket: no event of the process.
        .switch(0, 47 * MS, MAIN, SLEEPS, 0)
        .switch(1, 40 * MS, 0, 0, 501)
        .waking(1, 54 * MS, By::Thread(501), MAIN)
        .switch(0, 56 * MS, 0, 0, MAIN)
        .switch(0, 59 * MS, MAIN, SLEEPS, 0)
        .waking(1, 62 * MS, By::Thread(501), MAIN)
        .switch(0, 63 * MS, 0, 0, MAIN)
        .switch(1, 90 * MS, 501, SLEEPS, 0);
    d
}

fn parts(session: &Session) -> Vec<(Component, u64)> {
    let graph = Graph::build(session).unwrap();
    let found = Transactions::find(session, &graph);
    let (id, _) = found.iter().next().expect("one transaction");
    let path = Paths::new(session, &graph, &found).path(id).unwrap();
    let shares = path.shares();
    assert_eq!(shares.total(), path.duration_ns());
    shares.parts().collect()
}

#[test]
fn components_are_what_the_scheduler_did() {
    use Component::{Io, Lock, Runnable, Running, Unknown};
    let alone = session(&[&app()]);
    assert_eq!(parts(&alone), [(Lock, 6 * MS), (Unknown, 49 * MS)]);
    let session = with_device(&[&app()], &device()).unwrap();
    assert_eq!(
        parts(&session),
        [
            // 10 to 20, 30 to 35, 46 to 47, 56 to 58, 64 to 65.
            (Running, 19 * MS),
            // 20 to 30, 45 to 46, 54 to 56, 62 to 63.
            (Runnable, 14 * MS),
            // 58 to 62, 63 to 64.
            (Lock, 5 * MS),
            (Io, 10 * MS),
            // 47 to 54.
            (Unknown, 7 * MS),
        ]
    );
}

#[test]
fn threads_without_a_recording_have_names_and_no_nodes() {
    let session = with_device(&[&app()], &device()).unwrap();
    assert_eq!((session.traces().len(), session.threads().len()), (1, 1));
    let graph = Graph::build(&session).unwrap();
    graph.check(&session).unwrap();
    let main = session.thread_ids().next().unwrap();
    let waits = hindsight_causality::by_waker(&session, main, &[(0, u64::MAX)]);
    let server = waits[0].by.expect("a thread");
    assert!(session.is_outside(server) && !session.is_outside(main));
    assert_eq!(session.about(server).tid, 501);
    assert_eq!(graph.nodes_of(server).len(), 0);
    assert!(session.thread(server).events.is_empty());
}

#[test]
fn a_trace_of_another_boot_or_time_is_refused() {
    let mut other = device();
    other.realtime_shift = 3_600_000_000_000;
    let error = with_device(&[&app()], &other).unwrap_err();
    assert!(matches!(error, SystemError::OtherBoot { .. }), "{error}");
    let mut later = DeviceTrace::new(Layout::Compact);
    later.switch(0, 5_000 * MS, 0, 0, MAIN);
    later.switch(0, 5_001 * MS, MAIN, SLEEPS, 0);
    let error = with_device(&[&app()], &later).unwrap_err();
    let apart_ns = 4_900 * MS;
    assert_eq!(error, SystemError::OtherTime { apart_ns });
    assert!(error.to_string().contains("4.900 s"), "{error}");
}

/// The main thread of an app does not go on for 300 ms in a message; of that, no event tells anything. `woken_by` wakes it.
fn stuck(layout: Layout, woken_by: By) -> (Script, DeviceTrace) {
    let mut s = Script::new("com.example.app");
    let main = s.events_thread(MAIN, "main", 1);
    let class = s.method("com.example.Screen.handle", "()V");
    let message = [("message", 7), ("class", class)];
    s.at(main, 10 * MS)
        .event(Extension::MessageDispatched, &message)
        .at(310 * MS)
        .event(Extension::MessageDone, &message[..1]);
    s.stop_at(400 * MS);
    let mut d = DeviceTrace::new(layout);
    d.process(MAIN, "com.example.app")
        .thread(MAIN, MAIN, "example.app")
        .process(500, "netd")
        .thread(500, 501, "resolver");
    d.switch(0, 0, 0, 0, MAIN)
        .switch(0, 12 * MS, MAIN, SLEEPS, 0)
        .switch(1, 5 * MS, 0, 0, 501)
        .waking(1, 305 * MS, woken_by, MAIN)
        .switch(0, 306 * MS, 0, 0, MAIN)
        .switch(1, 307 * MS, 501, SLEEPS, 0)
        .switch(0, 390 * MS, MAIN, SLEEPS, 0);
    (s, d)
}

fn ask(script: &Script, device: &DeviceTrace) -> (Report, String) {
    let session = with_device(&[script], device).unwrap();
    let graph = Graph::build(&session).unwrap();
    let found = diagnose(&session, &graph, &StuckQuestion::default());
    let report = report(&session, &graph, found.as_ref(), 100 * MS);
    let text = text(&report);
    (report, format!("{text:?}"))
}

#[test]
fn a_thread_of_a_process_without_a_file_is_a_culprit_if_it_ended_the_wait() {
    let (script, device) = stuck(Layout::Compact, By::Thread(501));
    let (report, text) = ask(&script, &device);
    let culprit = report.culprit.expect("a recorded fact");
    let who = &culprit.threads[0].thread;
    assert_eq!((&*who.process, &*who.thread), ("netd", "resolver"));
    assert!(who.system_only && who.pid == 500 && who.tid == 501);
    assert_eq!(report.chain.len(), 1);
    assert_eq!(report.chain[0].waited_for, "kernel");
    assert_eq!(report.chain[0].waited_ns, 293 * MS);
    let scheduled = report.scheduled.expect("it is in the system trace");
    assert_eq!(scheduled.sleeping_ns, 293 * MS);
    for words in [
        "waited 293 ms in the kernel, without an event that tells what for, which thread \\\"resolver\\\" (tid 501) of netd ended",
        "By the system trace, it was 6.00 ms on a processor, 1.00 ms ready to run without one, 293 ms asleep.",
        "It is in the system trace only",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn whoever_an_interrupt_interrupted_is_no_culprit() {
    let (script, device) = stuck(Layout::Compact, By::Interrupt(501));
    let (report, text) = ask(&script, &device);
    assert!(report.chain.is_empty(), "{text}");
    assert!(!text.contains("resolver"), "{text}");
    // The layout without flags cannot tell, so that it is a suspect at most.
    let (script, device) = stuck(Layout::Events, By::Thread(501));
    let (report, text) = ask(&script, &device);
    assert!(report.culprit.is_none(), "{text}");
    let suspect = report.suspect.expect("most likely");
    assert_eq!(suspect.threads[0].thread.tid, 501);
    assert!(text.contains("compact_sched"), "{text}");
}

#[test]
fn a_thread_without_a_processor_is_busy() {
    let (script, _) = stuck(Layout::Compact, By::Thread(501));
    let mut device = DeviceTrace::new(Layout::Compact);
    device
        .switch(0, 0, 0, 0, MAIN)
        .switch(0, 12 * MS, MAIN, PREEMPTED, 900)
        .switch(0, 300 * MS, 900, SLEEPS, MAIN)
        .switch(0, 390 * MS, MAIN, SLEEPS, 0);
    let (report, text) = ask(&script, &device);
    assert_eq!(report.kind, Some(Kind::Busy), "{text}");
    assert!(text.contains("288 ms ready to run without one"), "{text}");
}

#[test]
fn the_server_of_a_transaction_is_known_without_its_file() {
    let (s, d) = server();
    let (report, text) = ask(&s, &d);
    let hops: Vec<_> = (report.chain.iter())
        .map(|h| (h.waited_for, h.to.process.as_str(), h.to.thread.as_str()))
        .collect();
    assert_eq!(
        hops,
        [
            ("transaction", "system_server", "Binder:500_1"),
            (
                "transaction",
                "/system/bin/surfaceflinger",
                "surfaceflinger"
            )
        ],
        "{text}"
    );
    let culprit = report.culprit.expect("recorded facts only");
    assert_eq!(culprit.threads[0].thread.thread, "surfaceflinger");
    assert!(text.contains("computed for 280 ms of 280 ms"), "{text}");
}

#[test]
fn what_events_record_comes_before_what_the_kernel_does() {
    // The lock's owner sleeps; another thread happens to wake the one that waits.
    let mut s = Script::new("com.example.app");
    let main = s.events_thread(MAIN, "main", 1);
    let worker = s.events_thread(101, "worker", 2);
    let class = s.method("com.example.Screen.handle", "()V");
    let message = [("message", 7), ("class", class)];
    let lock = [("kind", 0), ("number", 1), ("object", 5)];
    let sleep = [("kind", 2), ("number", 1)];
    s.at(worker, 5 * MS)
        .event(Extension::WaitBegin, &sleep)
        .at(300 * MS)
        .event(Extension::WaitEnd, &sleep)
        .at(305 * MS)
        .event(
            Extension::Wakes,
            &[("thread", u64::from(MAIN)), ("wait", 1)],
        );
    s.at(main, 10 * MS)
        .event(Extension::MessageDispatched, &message)
        .at(12 * MS)
        .event(Extension::LockWait, &[("held by", 101)])
        .event(Extension::WaitBegin, &lock)
        .at(306 * MS)
        .event(Extension::WaitEnd, &lock[..2])
        .at(310 * MS)
        .event(Extension::MessageDone, &message[..1]);
    s.stop_at(400 * MS);
    let (_, device) = stuck(Layout::Compact, By::Thread(501));
    let (report, text) = ask(&s, &device);
    assert_eq!(report.chain[0].to.thread, "worker", "{text}");
    assert_eq!(report.chain[0].waited_for, "lock", "{text}");
}

#[test]
fn the_kernel_tells_who_ended_a_wait_if_it_knows_the_last_end() {
    let mut s = Script::new("com.example.app");
    let main = s.events_thread(MAIN, "main", 1);
    let class = s.method("com.example.Screen.handle", "()V");
    let message = [("message", 7), ("class", class)];
    let wait = [("kind", 1), ("number", 1)];
    s.at(main, 10 * MS)
        .event(Extension::MessageDispatched, &message)
        .at(12 * MS - 1)
        .event(Extension::WaitBegin, &wait)
        .at(306 * MS + 1)
        .event(Extension::WaitEnd, &wait)
        .at(310 * MS)
        .event(Extension::MessageDone, &message[..1]);
    s.stop_at(400 * MS);
    let (_, mut device) = stuck(Layout::Compact, By::Thread(501));
    let (report, text) = ask(&s, &device);
    assert!(!report.chain.is_empty(), "{text}");
    assert_eq!(report.chain[0].waited_for, "object", "{text}");
    assert_eq!(report.chain[0].to.tid, 501, "{text}");
    // The same, but then the thread sleeps once more, and nobody knows who ended that.
    device
        .switch(0, 306 * MS, MAIN, SLEEPS, 0)
        .switch(0, 306 * MS + 1, 0, 0, MAIN);
    let (report, text) = ask(&s, &device);
    assert!(
        report.chain.is_empty() && report.culprit.is_none(),
        "{text}"
    );
}

#[test]
fn paths_name_servers_without_a_file() {
    let (app, device) = server();
    let session = with_device(&[&app], &device).unwrap();
    let graph = Graph::build(&session).unwrap();
    let found = Transactions::find(&session, &graph);
    let (id, _) = found.iter().next().expect("one transaction");
    let path = Paths::new(&session, &graph, &found).path(id).unwrap();
    let by = path.steps.iter().find_map(|s| s.by).expect("a server");
    assert_eq!(session.thread_name(by.thread), "Binder:500_1");
    let did = Vec::from_iter(by.did.parts());
    // From 12 ms and 5 ns on it runs, to 20 ms and 5 ns, and from 300 ms and 5 ns to 305 ms.
    assert_eq!(did[0], (Component::Running, 13 * MS - 5));
    assert_eq!(by.did.total(), 293 * MS);
}
