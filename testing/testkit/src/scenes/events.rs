// SPDX-License-Identifier: Apache-2.0
//! Processes that record events only: no thread has calls.

use hindsight_trace_format::slot::Extension::{
    Allocations, FrameBegin, FrameCallbacks, FrameEnd, LockWait, MessageDispatched, MessageDone,
    MessageEnqueued, Released, ResourceUse, TaskBegin, TaskEnd, TaskSubmitted, ThreadCpuTime,
    UserMark, WaitBegin, WaitEnd, Wakes, WokenBy,
};

use super::notes::{MAIN, MS, REASON, STALL_NS, US, WATCHDOG, WORKER};
use crate::{Recorder, Script, EPOCH};

/// The kinds of waits, as in the catalogue.
const LOCK: u64 = 0;
const SLEEP: u64 = 2;
const PARK: u64 = 3;
const POLL: u64 = 5;
/// How a wait ended.
const TIMED_OUT: u64 = 1;
/// Identity of the notes' lock.
const STORE: u64 = 0x5564_0010;

/// CPU time, allocated objects and context switches of a thread so far.
#[derive(Clone, Copy)]
struct Used {
    cpu_ns: u64,
    objects: u64,
    switches: u64,
}

impl Used {
    fn record(&self, r: &mut Recorder<'_>) {
        r.extension(ThreadCpuTime, &[self.cpu_ns])
            .extension(Allocations, &[self.objects, 48 * self.objects])
            .extension(ResourceUse, &[3, 0, self.switches, 1]);
    }
}

/// The looper waits `ns` for the next message; the wait has this number.
fn idle(r: &mut Recorder<'_>, number: u64, ns: u64) {
    r.event(WaitBegin, &[("kind", POLL), ("number", number)])
        .after(ns)
        .event(WaitEnd, &[("kind", POLL), ("number", number)])
        .after(2 * US);
}

/// As [`stall`](super::stall), with events instead of calls: the main thread dispatches a message that a network thread
/// sent, and waits for a lock that a task of a thread pool holds while it sleeps.
pub fn events_only() -> Script {
    let mut s = Script::new("com.example.notes");
    let handler = s.method("com.example.notes.NoteListScreen.handleMessage", "()V");
    let frame = s.method(
        "android.view.Choreographer$FrameHandler.handleMessage",
        "()V",
    );
    let task = s.method("com.example.notes.SaveTask.run", "()V");
    let mark = s.string("notes loaded");
    s.process.reason = REASON.to_owned();
    s.process.raised_by = WATCHDOG;
    let main = s.events_thread(MAIN, "main", 1);
    let worker = s.events_thread(WORKER, "pool-1-thread-1", 2);
    let net = s.events_thread(4_222, "net", 3);
    let mut used = Used {
        cpu_ns: 80 * MS,
        objects: 1_200,
        switches: 40,
    };

    let mut r = s.at(main, MS);
    let mut number = 0;
    for i in 0..4 {
        number += 1;
        idle(&mut r, number, 15 * MS);
        let message = [("message", 100 + i), ("class", frame), ("what", 0)];
        r.event(MessageDispatched, &message).after(5 * US);
        // CLOCK_MONOTONIC, which is CLOCK_BOOTTIME in scripts.
        let vsync = EPOCH + r.now();
        r.event(FrameBegin, &[("vsync", vsync)])
            .event(FrameCallbacks, &[("type", 1)])
            .after(200 * US)
            .event(FrameCallbacks, &[("type", 3)])
            .after(800 * US)
            .event(FrameEnd, &[("vsync", vsync)])
            .after(5 * US)
            .event(MessageDone, &message[..1])
            .after(3 * US);
        used.cpu_ns += MS;
        used.objects += 30;
    }
    // Waits for the tap, which comes from the network.
    number += 1;
    r.event(WaitBegin, &[("kind", POLL), ("number", number)]);
    let (poll, tap) = (number, r.now() + 10 * MS);
    r.at(tap)
        .event(WokenBy, &[("by", 4_222)])
        .event(WaitEnd, &[("kind", POLL), ("number", poll)])
        .after(3 * US);
    let message = [("message", 200), ("class", handler), ("what", 2)];
    r.event(MessageDispatched, &message).after(US);
    used.record(&mut r);
    number += 1;
    let lock = [("kind", LOCK), ("number", number), ("object", STORE)];
    r.after(6 * US)
        .event(LockWait, &[("held by", u64::from(WORKER)), ("lock", STORE)])
        .event(WaitBegin, &lock)
        .after(STALL_NS)
        .event(WaitEnd, &lock[..2])
        .after(US);
    used.cpu_ns += 20 * US;
    used.switches += 1;
    used.record(&mut r);
    r.after(600 * US)
        .event(UserMark, &[("name", mark)])
        .after(100 * US)
        .event(MessageDone, &message[..1])
        .after(US);
    used.cpu_ns += 700 * US;
    used.objects += 25;
    used.record(&mut r);
    let end = r.now();
    r.event(WaitBegin, &[("kind", POLL), ("number", number + 1)])
        .anchor();

    // The network thread submits the task, and later sends the tap.
    let work = [("task", 7), ("class", task), ("kind", 0)];
    let mut r = s.at(net, tap - 62 * MS);
    r.event(TaskSubmitted, &work)
        .after(2 * US)
        .event(Wakes, &[("thread", u64::from(WORKER)), ("wait", 1)])
        .at(tap - 20 * US)
        .event(
            MessageEnqueued,
            &[("message", 200), ("for thread", u64::from(MAIN))],
        )
        .after(2 * US)
        .event(Wakes, &[("thread", u64::from(MAIN)), ("wait", poll)])
        .anchor();

    // The worker takes the task, and sleeps while it holds the lock.
    let mut used = Used {
        cpu_ns: 5 * MS,
        objects: 100,
        switches: 9,
    };
    let mut r = s.at(worker, MS);
    r.event(WaitBegin, &[("kind", PARK), ("number", 1)])
        .at(tap - 61 * MS)
        .event(WokenBy, &[("by", 4_222)])
        .event(WaitEnd, &[("kind", PARK), ("number", 1)])
        .after(4 * US)
        .event(TaskBegin, &work);
    used.record(&mut r);
    let released = tap + 10 * US + STALL_NS - 20 * US;
    let sleep = released - r.now() - 2 * MS;
    r.after(MS)
        .event(
            WaitBegin,
            &[("kind", SLEEP), ("number", 2), ("timeout", sleep)],
        )
        .after(sleep)
        .event(
            WaitEnd,
            &[("kind", SLEEP), ("number", 2), ("result", TIMED_OUT)],
        )
        .at(released)
        .event(Released, &[("lock", STORE), ("waiters", 1)])
        .after(40 * US)
        .event(TaskEnd, &work[..1]);
    used.cpu_ns += 2 * MS;
    used.switches += 2;
    used.record(&mut r);
    r.after(3 * US)
        .event(WaitBegin, &[("kind", PARK), ("number", 3)])
        .anchor();
    s.stop_at(end + 2 * MS);
    s
}
