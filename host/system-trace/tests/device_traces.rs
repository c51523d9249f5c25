// SPDX-License-Identifier: Apache-2.0
//! Traces of devices, in both layouts, as a writer that knows nothing of the reader makes them.

use hindsight_system_trace::{Error, State, SystemTrace, Waker};
use hindsight_testkit::device::{By, DeviceTrace, Layout, ENDS, PREEMPTED, SLEEPS, WAITS_FOR_DISK};
use hindsight_testkit::EPOCH;

const APP: u32 = 100;
const WORKER: u32 = 101;
const SERVER: u32 = 501;

/// The app's main thread waits for a lock, is woken by its worker, waits for a processor, and for a disk.
fn scene(layout: Layout) -> DeviceTrace {
    let mut d = DeviceTrace::new(layout);
    d.process(APP, "com.example.app")
        .thread(APP, APP, "example.app")
        .thread(APP, WORKER, "worker")
        .process(500, "system_server")
        .thread(500, SERVER, "Binder:500_1");
    d.switch(0, 1_000, 0, 0, APP)
        .switch(0, 5_000, APP, SLEEPS, 0)
        .switch(1, 2_000, 0, 0, WORKER)
        .waking(1, 20_000, By::Thread(WORKER), APP)
        .switch(0, 26_000, 0, 0, APP)
        .switch(0, 30_000, APP, PREEMPTED, SERVER)
        .switch(0, 33_000, SERVER, SLEEPS, APP)
        .switch(0, 40_000, APP, WAITS_FOR_DISK, 0)
        .waking(0, 50_000, By::Interrupt(0), APP)
        .blocked(0, 50_001, APP, true)
        .switch(0, 52_000, 0, 0, APP)
        .switch(0, 60_000, APP, SLEEPS, 0)
        .switch(1, 70_000, WORKER, SLEEPS, 0);
    d
}

fn read(device: &DeviceTrace) -> SystemTrace {
    SystemTrace::read(&device.encode()[..]).expect("a trace with events")
}

fn number(trace: &SystemTrace, tid: u32) -> u32 {
    let [one] = *trace.with_tid(tid) else {
        panic!("{tid}: {:?}", trace.with_tid(tid));
    };
    one
}

/// What a thread did: begin, end, state, without the scripts' beginning.
fn did(trace: &SystemTrace, tid: u32, from: u64, to: u64) -> Vec<(u64, u64, State)> {
    trace
        .slices(number(trace, tid), EPOCH + from, EPOCH + to)
        .map(|s| (s.from_ns - EPOCH, s.to_ns - EPOCH, s.state))
        .collect()
}

#[test]
fn threads_run_wait_and_are_kept_waiting() {
    for layout in [Layout::Events, Layout::Compact] {
        let trace = read(&scene(layout));
        assert_eq!(
            did(&trace, APP, 0, 80_000),
            [
                (0, 1_000, State::Unknown),
                (1_000, 5_000, State::Running),
                (5_000, 20_000, State::Sleeping),
                (20_000, 26_000, State::Runnable),
                (26_000, 30_000, State::Running),
                (30_000, 33_000, State::Runnable),
                (33_000, 40_000, State::Running),
                (40_000, 50_000, State::Io),
                (50_000, 52_000, State::Runnable),
                (52_000, 60_000, State::Running),
                (60_000, 70_000, State::Sleeping),
                (70_000, 80_000, State::Unknown),
            ],
            "{layout:?}"
        );
        let times = trace.times(number(&trace, APP), EPOCH + 4_000, EPOCH + 31_000);
        assert_eq!(
            (times.running_ns, times.sleeping_ns, times.runnable_ns),
            (5_000, 15_000, 7_000)
        );
        assert_eq!(times.total_ns(), 27_000);
        assert!(trace.missing().gaps.is_empty());
    }
}

#[test]
fn wakers_are_threads_or_interrupts_and_never_who_was_interrupted() {
    let wakers = |layout| {
        let mut device = scene(layout);
        device.waking(1, 61_000, By::Interrupt(WORKER), APP);
        let trace = read(&device);
        let app = number(&trace, APP);
        let worker = number(&trace, WORKER);
        let slices = trace.slices(app, EPOCH, EPOCH + 70_000);
        let waits = slices.filter(|s| s.state.is_wait());
        (worker, waits.map(|s| s.ended_by).collect::<Vec<_>>())
    };
    let (worker, compact) = wakers(Layout::Compact);
    assert_eq!(
        compact,
        [Waker::Thread(worker), Waker::Interrupt, Waker::Interrupt]
    );
    // Without flags, an interrupt and the thread that it interrupted look the same.
    let (worker, events) = wakers(Layout::Events);
    assert_eq!(
        events,
        [
            Waker::Perhaps(worker),
            Waker::Interrupt,
            Waker::Perhaps(worker)
        ]
    );
}

#[test]
fn threads_have_the_names_and_processes_of_their_time() {
    let mut device = scene(Layout::Compact);
    device
        .rename(1, 3_000, WORKER, "io-worker")
        .new_thread(1, 4_000, WORKER, 102, "child")
        .switch(2, 4_500, 0, 0, 102)
        .switch(2, 6_000, 102, ENDS, 0)
        // The kernel gives the id to another thread.
        .new_thread(1, 9_000, WORKER, 102, "other")
        .switch(2, 9_500, 0, 0, 102);
    let trace = read(&device);
    let about = |tid: u32| {
        let threads = trace.with_tid(tid).iter();
        let about = threads.map(|&t| trace.thread(t).expect("it is listed"));
        about
            .map(|t| (t.name.as_str(), t.process.as_str(), t.pid))
            .collect::<Vec<_>>()
    };
    let app = ("com.example.app", Some(APP));
    assert_eq!(about(WORKER), [("io-worker", app.0, app.1)]);
    assert_eq!(
        about(SERVER),
        [("Binder:500_1", "system_server", Some(500))]
    );
    assert_eq!(
        about(102),
        [("child", app.0, app.1), ("other", app.0, app.1)]
    );
    let [child, other] = *trace.with_tid(102) else {
        panic!("{:?}", trace.with_tid(102));
    };
    assert_eq!(trace.thread_at(102, EPOCH + 5_000), Some(child));
    assert_eq!(trace.thread_at(102, EPOCH + 9_100), Some(other));
    let of_child = trace.slices(child, EPOCH + 4_000, EPOCH + 9_000);
    let of_child: Vec<_> = of_child.map(|s| (s.from_ns - EPOCH, s.state)).collect();
    assert_eq!(
        of_child,
        [
            (4_000, State::Runnable),
            (4_500, State::Running),
            (6_000, State::Ended)
        ]
    );
}

#[test]
fn transactions_have_their_servers_and_replies() {
    let mut device = scene(Layout::Compact);
    device
        .transaction(0, 2_000, APP, 7_000, SERVER)
        // Serving it, the server asks another one.
        .transaction(0, 8_000, SERVER, 9_000, 600)
        .reply(0, 11_000, 600, 12_000, SERVER)
        .reply(0, 19_000, SERVER, 21_000, APP)
        .transaction(0, 31_000, APP, 32_000, SERVER);
    let trace = read(&device);
    let sent = trace.transactions(APP, EPOCH, EPOCH + 80_000);
    let sent: Vec<_> = sent
        .map(|t| (t.sent_ns - EPOCH, t.by, t.received_ns - EPOCH))
        .collect();
    assert_eq!(
        sent,
        [(2_000, Some(SERVER), 7_000), (31_000, Some(SERVER), 32_000)]
    );
    let replied = |from: u32| {
        let sent = trace.transactions(from, EPOCH, EPOCH + 80_000);
        sent.map(|t| t.replied_ns).collect::<Vec<_>>()
    };
    assert_eq!(replied(APP), [EPOCH + 19_000, u64::MAX]);
    assert_eq!(replied(SERVER), [EPOCH + 11_000]);
    // Those count that are under way, and not those whose reply has been sent.
    let under_way = |from: u64, to: u64| trace.transactions(APP, EPOCH + from, EPOCH + to).count();
    assert_eq!((under_way(3_000, 4_000), under_way(20_000, 21_000)), (1, 0));
}

#[test]
fn what_happened_while_events_of_a_processor_were_missing_is_not_known() {
    let mut device = scene(Layout::Compact);
    // Processor 2 loses events from 10 to 30 µs; other threads may have run there.
    device
        .switch(2, 10_000, 0, 0, 77)
        .lost(2, 20_000)
        .switch(2, 30_000, 78, SLEEPS, 0);
    let trace = read(&device);
    assert_eq!(
        did(&trace, APP, 5_000, 30_000),
        [
            (5_000, 10_000, State::Sleeping),
            (10_000, 20_000, State::Unknown),
            (20_000, 26_000, State::Unknown),
            (26_000, 30_000, State::Running)
        ]
    );
    assert_eq!(
        did(&trace, 77, 10_000, 30_000)[..1],
        [(10_000, 30_000, State::Unknown)]
    );
    let missing = trace.missing();
    assert_eq!(missing.gaps.len(), 1);
    assert_eq!(trace.missing_ns(EPOCH, EPOCH + 25_000), 15_000);
    assert!(
        missing.words()[0].contains("missing 1 times"),
        "{:?}",
        missing.words()
    );
}

#[test]
fn traces_that_cannot_be_used_are_refused_with_the_remedy() {
    let error = |change: fn(&mut DeviceTrace)| {
        let mut device = scene(Layout::Events);
        change(&mut device);
        SystemTrace::read(&device.encode()[..]).expect_err("it must be refused")
    };
    let other = error(|d| d.ftrace_clock = 3);
    assert!(
        matches!(other, Error::OtherClock { clock: "local" }),
        "{other}"
    );
    assert!(
        other.to_string().contains("preserve_ftrace_buffer"),
        "{other}"
    );
    let clocks = error(|d| d.without_clocks = true);
    assert!(matches!(clocks, Error::NoSnapshot), "{clocks}");
    let empty = error(|d| *d = DeviceTrace::new(Layout::Events));
    assert!(matches!(empty, Error::NoEvents), "{empty}");
    assert!(SystemTrace::read(&b""[..]).is_err());
}

#[test]
fn a_trace_that_is_cut_off_says_where() {
    let bytes = scene(Layout::Events).encode();
    let cut = SystemTrace::read(&bytes[..bytes.len() - 3]).expect("its first packets are sound");
    assert!(cut.missing().cut_at.is_some());
    assert!(cut.missing().words().iter().any(|w| w.contains("cut off")));
    let mut zeros = bytes.clone();
    zeros.extend([0; 100]);
    let damaged = SystemTrace::read(&zeros[..]).expect("its packets are sound");
    assert_eq!(damaged.missing().cut_at, Some(bytes.len() as u64 + 1));
}

#[test]
fn any_bytes_make_an_answer_or_an_error() {
    let sound = scene(Layout::Compact).encode();
    for place in 0..sound.len() {
        for bit in [0, 3, 7] {
            let mut bytes = sound.clone();
            bytes[place] ^= 1 << bit;
            let Ok(trace) = SystemTrace::read(&bytes[..]) else {
                continue;
            };
            for (number, _) in trace.threads() {
                let (from, to) = (EPOCH, EPOCH + 90_000);
                assert_eq!(trace.times(number, from, to).total_ns(), to - from);
            }
        }
    }
}
