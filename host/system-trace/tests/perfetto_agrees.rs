// SPDX-License-Identifier: Apache-2.0
//! Perfetto's own trace processor finds the same states of threads, wakers, names and transactions in a trace.

use hindsight_system_trace::{State, SystemTrace, Waker};
use hindsight_testkit::device::{By, DeviceTrace, Layout, ENDS, PREEMPTED, SLEEPS, WAITS_FOR_DISK};
use hindsight_testkit::{Perfetto, EPOCH};
use serde_json::Value;

const PROCESS: u32 = 100;
const THREADS: u32 = 6;
const CPUS: usize = 3;

/// Threads of two processes on three processors, by a fixed row of numbers.
fn device(layout: Layout) -> DeviceTrace {
    let mut d = DeviceTrace::new(layout);
    d.process(PROCESS, "com.example.app");
    for tid in PROCESS..PROCESS + THREADS {
        d.thread(PROCESS, tid, &format!("t{tid}"));
    }
    let mut numbers = (0_u64..).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33);
    let mut next = |below: u64| numbers.next().unwrap_or_default() % below;
    let mut on_cpu = [0_u32; CPUS];
    let mut is_ready = [true; THREADS as usize];
    // Perfetto leaves out the first switch of a processor in columns, because that does not say who was there before.
    for cpu in 0..CPUS as u32 {
        d.switch(cpu, 100, 0, 0, 0);
    }
    let mut at = 0;
    for _ in 0..400 {
        at += 1_000 + next(50_000);
        let cpu = next(CPUS as u64) as usize;
        let tid = PROCESS + next(u64::from(THREADS)) as u32;
        let ready = &mut is_ready[(tid - PROCESS) as usize];
        if *ready && !on_cpu.contains(&tid) {
            let state = [SLEEPS, PREEMPTED, 0, WAITS_FOR_DISK][next(4) as usize];
            let prev = on_cpu[cpu];
            d.switch(cpu as u32, at, prev, if prev == 0 { 0 } else { state }, tid);
            on_cpu[cpu] = tid;
            if prev != 0 && matches!(state, SLEEPS | WAITS_FOR_DISK) {
                is_ready[(prev - PROCESS) as usize] = false;
            }
        } else if !*ready {
            *ready = true;
            let waker = on_cpu[cpu];
            let by = match next(3) {
                0 => By::Interrupt(waker),
                _ => By::Thread(waker),
            };
            d.waking(cpu as u32, at, by, tid);
        }
    }
    let last = on_cpu[0];
    d.switch(0, at + 1_000, last, ENDS, 0);
    d
}

/// What the trace processor has for a state.
fn name(state: State, is_preempted: bool) -> &'static str {
    match (state, is_preempted) {
        (State::Running, _) => "Running",
        (State::Runnable, true) => "R+",
        (State::Runnable, false) => "R",
        (State::Sleeping, _) => "S",
        (State::Uninterruptible, _) => "D",
        (State::Ended, _) => "X",
        (other, _) => panic!("{other:?}"),
    }
}

#[test]
fn states_and_wakers() {
    if Perfetto::is_left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for layout in [Layout::Events, Layout::Compact] {
        let bytes = device(layout).encode();
        let file = folder.path().join("device.pftrace");
        std::fs::write(&file, &bytes).expect("the trace is written");
        let mut perfetto = Perfetto::open(&file);
        let errors = perfetto.query(
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
        );
        assert_eq!(errors, Vec::<Value>::new());
        let rows = perfetto.query(
            "select t.tid, s.ts, iif(s.dur < 0, trace_end() - s.ts, s.dur) as dur, s.state, s.irq_context as irq, w.tid as waker, t.name, p.name as process
             from thread_state s join thread t using (utid) left join process p using (upid)
             left join thread w on s.waker_utid = w.utid
             where t.tid != 0 and s.dur != 0 and s.ts < trace_end() order by t.tid, s.ts",
        );
        let trace = SystemTrace::read(&bytes[..]).expect("a trace with events");
        let mut expected = Vec::new();
        for tid in PROCESS..PROCESS + THREADS {
            for &number in trace.with_tid(tid) {
                let about = trace.thread(number).expect("it is listed");
                assert_eq!(
                    (about.name.as_str(), about.process.as_str()),
                    (&*format!("t{tid}"), "com.example.app")
                );
                let slices = trace.slices(number, EPOCH, trace.end_ns());
                let slices: Vec<_> = slices.filter(|s| s.state != State::Unknown).collect();
                for (i, slice) in slices.iter().enumerate() {
                    let before = i.checked_sub(1).map(|b| slices[b]);
                    let woken =
                        before.filter(|b| b.state.is_wait() && slice.state == State::Runnable);
                    let waker = woken.map(|b| b.ended_by);
                    expected.push((
                        tid,
                        slice.from_ns,
                        slice.to_ns - slice.from_ns,
                        slice.state,
                        waker,
                    ));
                }
            }
        }
        assert_eq!(rows.len(), expected.len(), "{layout:?}");
        assert!(expected.len() > 300, "{}", expected.len());
        let (mut threads, mut interrupts) = (0, 0);
        for (row, (tid, at, ns, state, waker)) in rows.iter().zip(expected) {
            assert_eq!(
                (&row["tid"], &row["ts"], &row["dur"]),
                (&tid.into(), &at.into(), &ns.into()),
                "{row}"
            );
            let theirs = row["state"].as_str().expect("a state");
            assert_eq!(theirs, name(state, theirs == "R+"), "{row}");
            match waker {
                None => {}
                Some(Waker::Interrupt) => interrupts += 1,
                Some(Waker::Thread(by) | Waker::Perhaps(by)) => {
                    threads += 1;
                    let by = trace.thread(by).expect("it is listed").tid;
                    assert_eq!(row["waker"], by, "{row}");
                }
                Some(Waker::Unknown) => assert!(row["waker"].is_null(), "{row}"),
            }
            if let (Some(irq), Some(waker)) = (row["irq"].as_i64(), waker) {
                assert_eq!(irq == 1, waker == Waker::Interrupt, "{row}");
            }
        }
        // Without flags, only wakings while the idle task is on the processor are interrupts for certain.
        let least = if layout == Layout::Compact { 10 } else { 0 };
        assert!(
            threads > 20 && interrupts >= least,
            "{threads}, {interrupts}"
        );
    }
}
