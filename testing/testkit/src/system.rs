// SPDX-License-Identifier: Apache-2.0
//! The events of many processes that send each other work, for benchmarks of the graph of causes and effects.
//!
//! Again and again, a thread of one of the processes wakes from its sleep and sends a message to the main thread. That
//! submits a task, for which it wakes a thread of a pool, and asks another process by a transaction. The task takes a lock
//! that the thread of the network holds at times, and sends two messages to the main thread.

use hindsight_trace_format::ring::Geometry;
use hindsight_trace_format::slot::Extension::{
    BinderReply, BinderSend, BinderServe, BinderServed, ItemPut, ItemTaken, LockWait,
    MessageDispatched, MessageDone, MessageEnqueued, Released, TaskBegin, TaskEnd, TaskSubmitted,
    WaitBegin, WaitEnd, Wakes,
};

use crate::random::Random;
use crate::{Script, ThreadIndex, EPOCH};

/// Kinds of waits, as in the catalogue.
const LOCK: u64 = 0;
const SLEEP: u64 = 2;
const PARK: u64 = 3;
const POLL: u64 = 5;
/// How a wait ended, as in the catalogue.
const TIMED_OUT: u64 = 1;
/// The counter's low half wraps after this time, ns.
const WRAP_NS: u64 = 1 << 32;
/// No round takes longer, ns.
const ROUND_NS: u64 = 1_000_000;
/// The lock of each process, and the object on which its pool's threads wait.
const THE_LOCK: u64 = 0x5000;
const QUEUE: u64 = 0x6000;

/// Parameters of the processes.
#[derive(Clone, Copy, Debug)]
pub struct System {
    /// Same seed, same traces.
    pub seed: u64,
    /// Processes.
    pub processes: u32,
    /// The pid of the first one.
    pub first_pid: u32,
    /// How often a thread of some process wakes up.
    pub rounds: u32,
    /// Rounds of a hundred in which the main thread asks another process.
    pub transactions_percent: u64,
    /// Rounds of a hundred in which the task waits for the lock.
    pub locks_percent: u64,
}

/// A thread that waits between its work.
struct Worker {
    thread: ThreadIndex,
    tid: u32,
    /// The kind of its waits for work.
    kind: u64,
    /// The number of its wait.
    wait: u64,
    /// When its last work ended, ns.
    free_ns: u64,
}

/// The upper half of the counter.
fn epoch(at_ns: u64) -> u64 {
    (EPOCH + at_ns) / WRAP_NS
}

/// This time, or a later one from which on a round does not reach the next epoch.
fn in_one_epoch(at_ns: u64) -> u64 {
    match epoch(at_ns) == epoch(at_ns + ROUND_NS) {
        true => at_ns,
        false => at_ns + ROUND_NS,
    }
}

struct Process {
    script: Script,
    pid: u32,
    main: Worker,
    net: Worker,
    pool: [Worker; 2],
    binder: [Worker; 2],
    class: u64,
    task_class: u64,
    ids: u64,
}

impl Worker {
    /// A thread that waits, from time 0 on.
    fn new(
        script: &mut Script,
        (tid, name): (u32, &str),
        number: u64,
        kind: u64,
        ring: Geometry,
    ) -> Self {
        let thread = script.events_thread(tid, name, number);
        script.header(thread).geometry = ring;
        let mut worker = Worker {
            thread,
            tid,
            kind,
            wait: 0,
            free_ns: 0,
        };
        worker.rest(script, 1_000);
        worker
    }

    /// Begins to wait.
    fn rest(&mut self, script: &mut Script, at_ns: u64) {
        self.wait += 1;
        self.free_ns = at_ns;
        let object = if self.kind == PARK { QUEUE } else { 0 };
        let fields = [
            ("kind", self.kind),
            ("number", self.wait),
            ("object", object),
        ];
        script.at(self.thread, at_ns).event(WaitBegin, &fields);
    }

    /// Ends its wait.
    fn wake(&mut self, script: &mut Script, at_ns: u64, result: u64) {
        let fields = [
            ("kind", self.kind),
            ("number", self.wait),
            ("result", result),
        ];
        let mut recorder = script.at(self.thread, at_ns);
        // As the runtime does when the upper half of the counter has changed.
        if epoch(self.free_ns) != epoch(at_ns) {
            recorder.full_time(self.free_ns);
        }
        recorder.event(WaitEnd, &fields);
    }
}

impl Process {
    fn new(pid: u32, ring: Geometry) -> Self {
        let mut script = Script::new(&format!("com.example.app{pid}"));
        script.compressed = true;
        script.process.pid = pid;
        let class = script.method("com.example.Screen.handleMessage", "()V");
        let task_class = script.method("com.example.Load.run", "()V");
        let s = &mut script;
        let main = Worker::new(s, (pid, "main"), 1, POLL, ring);
        let net = Worker::new(s, (pid + 1, "net"), 2, SLEEP, ring);
        let mut waits = |n: u32, name| Worker::new(s, (pid + n - 1, name), n.into(), PARK, ring);
        let pool = [3, 4].map(|n| waits(n, "pool"));
        let binder = [5, 6].map(|n| waits(n, "binder"));
        Process {
            script,
            pid,
            main,
            net,
            pool,
            binder,
            class,
            task_class,
            ids: 0,
        }
    }

    /// All threads wake once more, so that their last events are in the epoch of the end.
    fn rest(&mut self, at_ns: u64) {
        let Process {
            script,
            main,
            net,
            pool,
            binder,
            ..
        } = self;
        for worker in [main, net].into_iter().chain(pool).chain(binder) {
            worker.wake(script, at_ns, TIMED_OUT);
            worker.rest(script, at_ns + 500);
        }
    }

    fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Sends a message to the main thread. Returns its number.
    fn send(&mut self, from: ThreadIndex, at_ns: u64) -> u64 {
        let message = self.id();
        let fields = [("message", message), ("for thread", self.pid.into())];
        self.script.at(from, at_ns).event(MessageEnqueued, &fields);
        message
    }

    fn dispatch(&mut self, message: u64, at_ns: u64) {
        let fields = [("message", message), ("class", self.class)];
        let mut recorder = self.script.at(self.main.thread, at_ns);
        recorder.event(MessageDispatched, &fields);
    }

    fn done(&mut self, message: u64, at_ns: u64) {
        let mut recorder = self.script.at(self.main.thread, at_ns);
        recorder.event(MessageDone, &[("message", message)]);
    }

    /// The network's thread sends a message, and holds the lock until `held_ns`. Returns the message.
    fn trigger(&mut self, at_ns: u64, held_ns: u64, waits: bool) -> u64 {
        self.net.wake(&mut self.script, at_ns, TIMED_OUT);
        let message = self.send(self.net.thread, at_ns + 500);
        if waits {
            let fields = [("lock", THE_LOCK), ("waiters", 1)];
            let mut recorder = self.script.at(self.net.thread, held_ns);
            recorder.event(Released, &fields);
        }
        self.net.rest(&mut self.script, held_ns + 500);
        message
    }

    /// The main thread submits a task to a thread of the pool. Returns the task.
    fn submit(&mut self, worker: usize, at_ns: u64) -> u64 {
        let task = self.id();
        let (tid, wait) = (self.pool[worker].tid, self.pool[worker].wait);
        let mut recorder = self.script.at(self.main.thread, at_ns);
        recorder
            .event(TaskSubmitted, &[("task", task), ("class", self.task_class)])
            .after(200)
            .event(ItemPut, &[("item", task)])
            .after(200)
            .event(Wakes, &[("thread", tid.into()), ("wait", wait)]);
        task
    }

    /// A thread of the pool runs the task, which waits for the lock until `locked_ns`, and sends two messages, at `end_ns`.
    fn run(
        &mut self,
        worker: usize,
        task: u64,
        (at_ns, end_ns): (u64, u64),
        locked_ns: Option<u64>,
    ) -> [u64; 2] {
        let thread = self.pool[worker].thread;
        self.pool[worker].wake(&mut self.script, at_ns, 0);
        let fields = [("task", task), ("class", self.task_class)];
        let mut recorder = self.script.at(thread, at_ns + 300);
        recorder
            .event(ItemTaken, &[("item", task)])
            .after(300)
            .event(TaskBegin, &fields);
        if let Some(locked_ns) = locked_ns {
            self.pool[worker].wait += 1;
            let number = ("number", self.pool[worker].wait);
            let owner = [("held by", self.net.tid.into()), ("lock", THE_LOCK)];
            let begin = [("kind", LOCK), number, ("object", THE_LOCK)];
            recorder
                .after(300)
                .event(LockWait, &owner)
                .event(WaitBegin, &begin)
                .at(locked_ns + 300)
                .event(WaitEnd, &[("kind", LOCK), number]);
        }
        let messages = [0, 200].map(|after| self.send(thread, end_ns + after));
        let mut recorder = self.script.at(thread, end_ns + 400);
        recorder.event(TaskEnd, &[("task", task)]);
        self.pool[worker].rest(&mut self.script, end_ns + 600);
        messages
    }
}

impl System {
    /// Lets them run, and returns the scripts of their traces, in the order of their pids.
    ///
    /// # Panics
    /// If there is no process, or more rounds than a ring of a thread holds.
    pub fn scripts(&self) -> Vec<Script> {
        let mut random = Random::new(self.seed);
        // The main thread records most, about 70 slots a round.
        let slots = 100 * u64::from(self.rounds / self.processes.max(1) + 100);
        let log2_bytes = (slots * 8).next_power_of_two().ilog2().clamp(14, 28);
        let ring = Geometry::new(log2_bytes).expect("a ring size within the bounds");
        let pids = (0..self.processes).map(|i| self.first_pid + 100 * i);
        let mut all: Vec<Process> = pids.map(|pid| Process::new(pid, ring)).collect();
        let mut now_ns = 10_000;
        for _ in 0..self.rounds {
            now_ns += 20_000 + random.below(60_000);
            let client = random.below(all.len() as u64) as usize;
            let server = random.below(all.len() as u64) as usize;
            let asks = client != server && random.below(100) < self.transactions_percent;
            let waits = random.below(100) < self.locks_percent;
            let worker = random.below(2) as usize;
            let binder = random.below(2) as usize;
            // All threads of the round must have finished their last ones.
            let of = &all[client];
            // A round takes less than `ROUND_NS`.
            let mut at_ns = now_ns.max(of.main.free_ns).max(of.net.free_ns);
            at_ns = at_ns.max(of.pool[worker].free_ns) + 1_000;
            if asks {
                at_ns = at_ns.max(all[server].binder[binder].free_ns + 1_000);
            }
            let at_ns = in_one_epoch(at_ns);
            round(
                &mut all,
                (client, worker),
                asks.then_some((server, binder)),
                at_ns,
                waits,
            );
        }
        let end_ns = all.iter().map(|p| p.script.stopped_ns()).max().unwrap_or(0);
        let end_ns = in_one_epoch(end_ns + 1_000);
        let script = |mut process: Process| {
            process.rest(end_ns);
            process.script.stop_at(end_ns + 1_000);
            process.script
        };
        all.into_iter().map(script).collect()
    }
}

/// What one message of the network's thread causes.
fn round(
    all: &mut [Process],
    (client, worker): (usize, usize),
    server: Option<(usize, usize)>,
    at_ns: u64,
    waits: bool,
) {
    let locked_ns = at_ns + 9_000;
    let process = &mut all[client];
    let message = process.trigger(at_ns, locked_ns, waits);
    process.main.wake(&mut process.script, at_ns + 1_000, 0);
    process.dispatch(message, at_ns + 1_200);
    let task = process.submit(worker, at_ns + 2_000);
    let mut main_ns = at_ns + 4_000;
    if let Some(server) = server {
        let id = u64::from(process.pid) << 32 | process.id();
        ask(all, client, server, id, main_ns);
        main_ns += 10_000;
    }
    let process = &mut all[client];
    process.done(message, main_ns);
    process.main.rest(&mut process.script, main_ns + 200);
    let task_ns = (at_ns + 3_000, main_ns.max(locked_ns) + 5_000);
    let locked_ns = waits.then_some(locked_ns);
    let messages = process.run(worker, task, task_ns, locked_ns);
    let mut main_ns = task_ns.1 + 1_000;
    process.main.wake(&mut process.script, main_ns, 0);
    for message in messages {
        process.dispatch(message, main_ns + 200);
        process.done(message, main_ns + 2_000);
        main_ns += 2_000;
    }
    process.main.rest(&mut process.script, main_ns + 200);
}

/// The main thread of a process asks another one.
fn ask(all: &mut [Process], client: usize, (server, binder): (usize, usize), id: u64, at_ns: u64) {
    let process = &mut all[client];
    let id = [("transaction", id), ("code", 3)];
    let mut recorder = process.script.at(process.main.thread, at_ns);
    recorder
        .event(BinderSend, &id)
        .after(8_000)
        .event(BinderReply, &id[..1]);
    let pid = process.pid;
    let serves = [id[0], id[1], ("from process", pid.into())];
    let process = &mut all[server];
    process.binder[binder].wake(&mut process.script, at_ns + 1_000, 0);
    let mut recorder = process
        .script
        .at(process.binder[binder].thread, at_ns + 2_000);
    recorder
        .event(BinderServe, &serves)
        .after(4_000)
        .event(BinderServed, &id[..1]);
    process.binder[binder].rest(&mut process.script, at_ns + 7_000);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_traces() {
        let system = System {
            seed: 1,
            processes: 3,
            first_pid: 100,
            rounds: 50,
            transactions_percent: 60,
            locks_percent: 20,
        };
        let encode = |system: System| -> Vec<Vec<u8>> {
            system.scripts().iter().map(Script::encode).collect()
        };
        let other = System { seed: 2, ..system };
        assert_eq!(encode(system), encode(system));
        assert!(encode(system) != encode(other));
    }
}
