// SPDX-License-Identifier: Apache-2.0
//! A process whose user taps on notes, again and again: each tap loads a note by a thread pool, and shows it.

use hindsight_trace_format::slot::Extension::{
    self, FrameBegin, FrameCallbacks, FrameEnd, InputBegin, InputEnd, LockWait, MessageDispatched,
    MessageDone, MessageEnqueued, Released, TaskBegin, TaskEnd, TaskSubmitted, ThreadCpuTime,
    TraversalBegin, TraversalEnd, TraversalScheduled, Uncaught, UserBegin, UserEnd, WaitBegin,
    WaitEnd, Wakes,
};

use super::notes::{MAIN, MS, US, WORKER};
use crate::{Script, ThreadIndex, EPOCH};

const LOCK: u64 = 0;
const PARK: u64 = 3;
const POLL: u64 = 5;
/// Identity of the notes' lock, and of the window.
const STORE: u64 = 0x5564_0010;
const WINDOW: u64 = 9;
/// Number of taps.
const TAPS: u64 = 12;

/// The classes, threads and names of the scene.
struct Scene {
    s: Script,
    main: ThreadIndex,
    worker: ThreadIndex,
    saver: ThreadIndex,
    receiver: u64,
    click: u64,
    load: u64,
    screen: u64,
    frame: u64,
    clock: u64,
    network: u64,
    /// Numbers of the last waits of the main thread and of the worker.
    waits: [u64; 2],
    /// CPU time of both, ns.
    cpu_ns: [u64; 2],
    message: u64,
}

/// How long the parts of a tap take, ns.
struct Tap {
    number: u64,
    at: u64,
    network: u64,
    compute: u64,
    lock: u64,
}

impl Scene {
    fn new() -> Self {
        let mut s = Script::new("com.example.notes");
        let mut class = |name: &str| s.method(name, "()V");
        let receiver = class("android.view.ViewRootImpl$WindowInputEventReceiver.onInputEvent");
        let click = class("android.view.View$PerformClick.run");
        let load = class("com.example.notes.LoadNote.run");
        let screen = class("com.example.notes.NoteScreen.handleMessage");
        let frame = class("android.view.Choreographer$FrameHandler.handleMessage");
        let clock = class("com.example.notes.Clock.run");
        Scene {
            network: s.string("network.get"),
            main: s.events_thread(MAIN, "main", 1),
            worker: s.events_thread(WORKER, "pool-1-thread-1", 2),
            saver: s.events_thread(4_230, "notes-saver", 3),
            s,
            receiver,
            click,
            load,
            screen,
            frame,
            clock,
            waits: [0; 2],
            cpu_ns: [0; 2],
            message: 0,
        }
    }

    fn main(&mut self, at: u64, event: Extension, fields: &[(&str, u64)]) {
        self.s.at(self.main, at).event(event, fields);
    }

    fn worker(&mut self, at: u64, event: Extension, fields: &[(&str, u64)]) {
        self.s.at(self.worker, at).event(event, fields);
    }

    /// The main thread or the worker has computed for so long.
    fn computed(&mut self, on_main: bool, at: u64, ns: u64) {
        let (i, thread) = match on_main {
            true => (0, self.main),
            false => (1, self.worker),
        };
        self.cpu_ns[i] += ns;
        let cpu_ns = self.cpu_ns[i];
        self.s.at(thread, at).extension(ThreadCpuTime, &[cpu_ns]);
    }

    /// The main thread, or the worker, begins to wait for work.
    fn idle(&mut self, on_main: bool, at: u64) {
        let i = usize::from(!on_main);
        self.waits[i] += 1;
        let wait = [
            ("kind", if on_main { POLL } else { PARK }),
            ("number", self.waits[i]),
        ];
        match on_main {
            true => self.main(at, WaitBegin, &wait),
            false => self.worker(at, WaitBegin, &wait),
        }
    }

    fn busy(&mut self, on_main: bool, at: u64) {
        let i = usize::from(!on_main);
        let wait = [
            ("kind", if on_main { POLL } else { PARK }),
            ("number", self.waits[i]),
        ];
        match on_main {
            true => self.main(at, WaitEnd, &wait),
            false => self.worker(at, WaitEnd, &wait),
        }
    }

    fn next_message(&mut self) -> u64 {
        self.message += 1;
        self.message
    }

    /// An event of a touch, delivered 1 ms after it.
    fn touch(&mut self, at: u64, sequence: u64, action: u64) {
        let touch = [
            ("sequence", sequence),
            ("action", action),
            ("type", 2),
            ("at", EPOCH + at - MS),
            ("class", self.receiver),
        ];
        self.main(at, InputBegin, &touch);
    }

    /// From the touch to the screen. The main thread and the worker wait for work before and afterwards.
    fn tap(&mut self, tap: &Tap) -> u64 {
        let (at, task) = (tap.at, 1_000 + tap.number);
        let sequence = 2 * tap.number + 1;
        self.busy(true, at);
        self.touch(at + 10 * US, sequence, 0);
        self.main(at + 100 * US, InputEnd, &[("sequence", sequence)]);
        self.idle(true, at + 110 * US);
        let up = at + 60 * MS;
        self.busy(true, up);
        self.touch(up + 10 * US, sequence + 1, 1);
        let click = self.next_message();
        let main = [("message", click), ("for thread", u64::from(MAIN))];
        self.main(up + 80 * US, MessageEnqueued, &main);
        self.main(up + 100 * US, InputEnd, &[("sequence", sequence + 1)]);
        self.main(
            up + 120 * US,
            MessageDispatched,
            &[("message", click), ("class", self.click)],
        );
        let work = [("task", task), ("class", self.load), ("kind", 0)];
        self.main(up + 400 * US, TaskSubmitted, &work);
        let wakes = [("thread", u64::from(WORKER)), ("wait", self.waits[1])];
        self.main(up + 410 * US, Wakes, &wakes);
        self.main(up + 500 * US, MessageDone, &[("message", click)]);
        self.idle(true, up + 510 * US);
        let loaded = self.load(tap, &work, up + 500 * US);
        self.show(loaded)
    }

    /// The worker loads the note. Returns when it has sent it.
    fn load(&mut self, tap: &Tap, work: &[(&str, u64)], at: u64) -> u64 {
        self.busy(false, at);
        let begun = at + 20 * US;
        self.worker(begun, TaskBegin, work);
        self.computed(false, begun, 0);
        self.worker(begun + 50 * US, UserBegin, &[("name", self.network)]);
        let got = begun + 50 * US + tap.network;
        self.worker(got, UserEnd, &[("name", self.network)]);
        self.computed(false, got, 300 * US);
        let mut at = got + tap.compute;
        self.computed(false, at, tap.compute);
        if tap.lock > 0 {
            self.waits[1] += 1;
            let lock = [("kind", LOCK), ("number", self.waits[1]), ("object", STORE)];
            self.worker(at, LockWait, &[("held by", 4_230), ("lock", STORE)]);
            self.worker(at, WaitBegin, &lock);
            at += tap.lock;
            let released = [("lock", STORE), ("waiters", 1)];
            self.s
                .at(self.saver, at - 5 * US)
                .event(Released, &released);
            self.worker(at, WaitEnd, &lock[..2]);
        }
        let sent = at + 20 * US;
        let message = self.next_message();
        let main = [("message", message), ("for thread", u64::from(MAIN))];
        self.worker(sent, MessageEnqueued, &main);
        let wakes = [("thread", u64::from(MAIN)), ("wait", self.waits[0])];
        self.worker(sent + 5 * US, Wakes, &wakes);
        self.worker(sent + 10 * US, TaskEnd, &[("task", work[0].1)]);
        self.idle(false, sent + 15 * US);
        sent
    }

    /// The main thread shows the note. Returns when it is on the screen.
    fn show(&mut self, sent: u64) -> u64 {
        let at = sent + 50 * US;
        let message = self.message;
        self.busy(true, at);
        self.main(
            at,
            MessageDispatched,
            &[("message", message), ("class", self.screen)],
        );
        self.computed(true, at, 0);
        self.main(at + 2 * MS, TraversalScheduled, &[("window", WINDOW)]);
        self.computed(true, at + 3 * MS, 3 * MS);
        self.main(at + 3 * MS, MessageDone, &[("message", message)]);
        self.idle(true, at + 3 * MS + 10 * US);
        let frame = at + 8 * MS;
        self.busy(true, frame);
        let message = self.next_message();
        let vsync = [("vsync", EPOCH + frame)];
        self.main(
            frame,
            MessageDispatched,
            &[("message", message), ("class", self.frame)],
        );
        self.computed(true, frame, 0);
        self.main(frame, FrameBegin, &vsync);
        self.main(frame + 10 * US, FrameCallbacks, &[("type", 3)]);
        self.main(frame + 20 * US, TraversalBegin, &[("window", WINDOW)]);
        let drawn = frame + 5 * MS;
        self.main(drawn, TraversalEnd, &[("window", WINDOW)]);
        self.main(drawn + 10 * US, FrameEnd, &vsync);
        self.computed(true, drawn + 20 * US, 5 * MS);
        self.main(drawn + 20 * US, MessageDone, &[("message", message)]);
        self.idle(true, drawn + 30 * US);
        drawn
    }

    /// A run of a timer that arms itself, half a millisecond late. `pending` is the message of this run.
    fn tick(&mut self, at: u64, pending: u64) -> u64 {
        self.busy(true, at);
        let class = self.clock;
        self.main(
            at,
            MessageDispatched,
            &[("message", pending), ("class", class)],
        );
        let next = self.next_message();
        let armed = [
            ("message", next),
            ("for thread", u64::from(MAIN)),
            ("delay", 100),
        ];
        self.main(at + 300 * US, MessageEnqueued, &armed);
        self.main(at + 400 * US, MessageDone, &[("message", pending)]);
        self.idle(true, at + 410 * US);
        next
    }
}

/// Twelve taps of which the network makes one slow, and a lock another one; a timer that runs every 100 ms before the first
/// tap; and a tap whose task ends with an exception.
pub fn taps() -> Script {
    let mut scene = Scene::new();
    scene.idle(true, MS);
    scene.idle(false, MS);
    let mut pending = scene.next_message();
    for i in 0..4 {
        let at = 20 * MS + i * (100 * MS + 800 * US);
        pending = scene.tick(at, pending);
    }
    let mut at = 500 * MS;
    for number in 0..TAPS {
        let noise = |i: u64, scale: u64| (number * 7 + i * 5) % 11 * scale;
        let drawn = scene.tap(&Tap {
            number,
            at,
            network: match number {
                7 => 900 * MS,
                _ => 40 * MS + noise(1, 2 * MS),
            },
            compute: 10 * MS + noise(2, MS),
            lock: if number == 9 { 70 * MS } else { 0 },
        });
        at = drawn + 200 * MS;
    }
    crash(&mut scene, at);
    let Scene { mut s, main, .. } = scene;
    s.at(main, at + 300 * MS).anchor();
    s.stop_at(at + 300 * MS);
    s
}

/// A tap whose task ends with an exception, for which its thread ends.
fn crash(scene: &mut Scene, at: u64) {
    let class = scene
        .s
        .method("java.lang.IllegalStateException.<init>", "()V");
    scene.busy(true, at);
    scene.touch(at + 10 * US, 90, 1);
    let task = [("task", 2_000), ("class", scene.load), ("kind", 0)];
    scene.main(at + 50 * US, TaskSubmitted, &task);
    scene.main(at + 100 * US, InputEnd, &[("sequence", 90)]);
    scene.idle(true, at + 110 * US);
    scene.busy(false, at + 60 * US);
    scene.worker(at + 70 * US, TaskBegin, &task);
    scene.worker(at + 4 * MS, Uncaught, &[("class", class)]);
}
