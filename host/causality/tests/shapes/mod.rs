// SPDX-License-Identifier: Apache-2.0
//! Logs of the worst shapes: those that make simple algorithms take the square of their length. The tests have them in a size
//! that is quick, the benchmark in the size that counts.

use hindsight_causality::diagnosis::{beam, diagnose, slice};
use hindsight_causality::diagnosis::{BeamQuestion, SliceQuestion, StuckQuestion};
use hindsight_causality::transactions::{Paths, Transactions};
use hindsight_causality::{Graph, NodeId, Session};
use hindsight_decoder::{Extension, MethodId, ThreadEvent, Trace};
use hindsight_testkit::Script;

/// Kinds of waits, as in the catalogue.
const LOCK: u64 = 0;
const SLEEP: u64 = 2;
const PARK: u64 = 3;
/// How long the last thing takes, in which a thread is stuck, ns.
const STUCK_NS: u64 = 1_000_000_000;
/// The most transactions whose critical paths are asked for.
const MOST_PATHS: usize = 10_000;

/// A shape: its name, how many of what the benchmark makes, and what makes it.
pub(crate) type Shape = (&'static str, u64, fn(u64) -> Session);

/// All shapes.
pub(crate) const SHAPES: [Shape; 6] = [
    ("thread", 10_000_000, one_thread),
    ("lock", 1_000_000, one_lock),
    ("chain", 1_000_000, chain),
    ("waits", 10_000, chain_of_waits),
    ("circles", 1_000_000, circles),
    ("star", 1_000_000, star),
];

/// The log of one process. Its events do not go through a file: rings are smaller than the largest of these logs.
struct Log {
    trace: Trace,
    end_ns: u64,
}

impl Log {
    /// Of threads with the ids from 1 on; the first one is the main thread.
    fn new(threads: u32) -> Self {
        let mut script = Script::new("p");
        script.process.pid = 1;
        for tid in 1..=threads {
            script.events_thread(tid, &format!("t{tid}"), u64::from(tid));
        }
        script.stop_at(1);
        let trace = Trace::decode("t".as_ref(), &script.encode()).unwrap();
        let end_ns = trace.end_ns();
        Log { trace, end_ns }
    }

    /// Adds an event at the end of a thread's events. The time is that since the beginning, ns.
    fn at(&mut self, thread: usize, at_ns: u64, kind: Extension, fields: &[(&str, u64)]) {
        let mut event = ThreadEvent {
            at_ns: hindsight_testkit::EPOCH + at_ns,
            kind,
            payload: [0; 4],
            method: MethodId::NOT_RECORDED,
        };
        for &(name, number) in fields {
            event.set(name, number);
        }
        self.end_ns = self.end_ns.max(event.at_ns + 1_000);
        self.trace.threads[thread].events.push(event);
    }

    /// The main thread, at the end, waits for a lock that the last thread holds, which sleeps.
    fn finish(mut self) -> Session {
        let at_ns = self.end_ns - hindsight_testkit::EPOCH;
        let last = self.trace.threads.len() - 1;
        let number = ("number", u64::from(u32::MAX));
        self.at(
            0,
            at_ns,
            Extension::LockWait,
            &[("held by", last as u64 + 1), ("lock", 7)],
        );
        let kind = ("kind", LOCK);
        self.at(0, at_ns, Extension::WaitBegin, &[kind, number]);
        let sleep = ("kind", SLEEP);
        self.at(last, at_ns, Extension::WaitBegin, &[sleep, number]);
        self.at(last, at_ns + STUCK_NS, Extension::WaitEnd, &[sleep, number]);
        for thread in &mut self.trace.threads {
            let first = thread.events.first();
            thread.start_ns = first.map_or(self.end_ns, |e| e.at_ns);
            thread.end_ns = self.end_ns;
        }
        Session::of(vec![("p".into(), self.trace)])
    }
}

/// All nodes are of one thread.
fn one_thread(nodes: u64) -> Session {
    let mut log = Log::new(2);
    for i in 0..nodes / 2 {
        let (at_ns, number) = (1_000 * i, ("number", i + 1));
        let wait = [("kind", SLEEP), number, ("result", 1)];
        log.at(0, at_ns, Extension::WaitBegin, &wait[..2]);
        log.at(0, at_ns + 400, Extension::WaitEnd, &wait);
        let message = [("message", i + 1)];
        log.at(0, at_ns + 500, Extension::MessageDispatched, &message);
        log.at(0, at_ns + 900, Extension::MessageDone, &message);
    }
    log.finish()
}

/// Threads wait for one lock, each until the last one releases it.
fn one_lock(waits: u64) -> Session {
    const THREADS: u64 = 8;
    const THE_LOCK: u64 = 0x5000;
    let mut log = Log::new(THREADS as u32);
    for i in 0..waits {
        let (owner, waiter) = (i % THREADS, (i + 1) % THREADS);
        let at_ns = 1_000 * i;
        let owned = [("held by", owner + 1), ("lock", THE_LOCK)];
        let wait = [("kind", LOCK), ("number", i + 1), ("object", THE_LOCK)];
        let (owner, waiter) = (owner as usize, waiter as usize);
        log.at(waiter, at_ns, Extension::LockWait, &owned);
        log.at(waiter, at_ns + 1, Extension::WaitBegin, &wait);
        let released = [("lock", THE_LOCK), ("waiters", 1)];
        log.at(owner, at_ns + 500, Extension::Released, &released);
        log.at(waiter, at_ns + 510, Extension::WaitEnd, &wait[..2]);
    }
    log.finish()
}

/// The user's input leads to a task, which leads to another one, and so on.
fn chain(hops: u64) -> Session {
    let mut log = Log::new(2);
    log.at(0, 0, Extension::InputBegin, &[("sequence", 1)]);
    log.at(0, 100, Extension::TaskSubmitted, &[("task", 1)]);
    log.at(0, 200, Extension::InputEnd, &[("sequence", 1)]);
    for i in 1..=hops {
        let (thread, at_ns) = ((i % 2) as usize, 1_000 * i);
        log.at(thread, at_ns, Extension::TaskBegin, &[("task", i)]);
        log.at(
            thread,
            at_ns + 100,
            Extension::TaskSubmitted,
            &[("task", i + 1)],
        );
        log.at(thread, at_ns + 200, Extension::TaskEnd, &[("task", i)]);
    }
    log.finish()
}

/// Each thread waits for the next one, until the last one ends its wait, that of the one before it, and so on.
fn chain_of_waits(threads: u64) -> Session {
    let mut log = Log::new(threads as u32 + 1);
    let wait = [("kind", PARK), ("number", 1)];
    for i in 0..threads {
        log.at(i as usize, 1_000 + i, Extension::WaitBegin, &wait);
    }
    for i in (0..threads).rev() {
        let at_ns = STUCK_NS + 1_000 * (threads - i);
        let wakes = [("thread", i + 1), ("wait", 1)];
        log.at(i as usize + 1, at_ns, Extension::Wakes, &wakes);
        log.at(i as usize, at_ns + 100, Extension::WaitEnd, &wait);
    }
    log.finish()
}

/// At one time, two threads begin what the other one submits only afterwards.
fn circles(count: u64) -> Session {
    let mut log = Log::new(2);
    for i in 0..count {
        for (thread, own, other) in [(0, 2 * i + 1, 2 * i + 2), (1, 2 * i + 2, 2 * i + 1)] {
            log.at(thread, 10, Extension::TaskBegin, &[("task", own)]);
            log.at(thread, 10, Extension::TaskEnd, &[("task", own)]);
            log.at(thread, 10, Extension::TaskSubmitted, &[("task", other)]);
        }
    }
    log.finish()
}

/// A message submits very many tasks, and each of them wakes its thread.
fn star(tasks: u64) -> Session {
    const WORKERS: u64 = 64;
    let mut log = Log::new(WORKERS as u32 + 1);
    log.at(0, 0, Extension::MessageDispatched, &[("message", 1)]);
    for i in 1..=tasks {
        let (worker, at_ns) = ((1 + i % WORKERS) as usize, 1_000 * i);
        let (task, wait) = ([("task", i)], [("kind", PARK), ("number", i)]);
        log.at(0, at_ns, Extension::TaskSubmitted, &task);
        log.at(0, at_ns + 100, Extension::WaitBegin, &wait);
        log.at(worker, at_ns + 200, Extension::TaskBegin, &task);
        let wakes = [("thread", 1), ("wait", i)];
        log.at(worker, at_ns + 300, Extension::Wakes, &wakes);
        log.at(worker, at_ns + 400, Extension::TaskEnd, &task);
        log.at(0, at_ns + 500, Extension::WaitEnd, &wait);
    }
    log.finish()
}

/// Asks all that can be asked of a graph; calls `done` after each question with its name.
pub(crate) fn ask(session: &Session, graph: &Graph, mut done: impl FnMut(&'static str)) {
    for node in worst_nodes(graph) {
        let end_ns = graph.node(node).end_ns;
        let found = slice(graph, node, end_ns, &SliceQuestion::default());
        assert!(found.nodes.contains(&node));
    }
    done("slice");
    for node in worst_nodes(graph) {
        let end_ns = graph.node(node).end_ns;
        assert!(beam(graph, node, end_ns, BeamQuestion::of_width(10)).len() <= 10);
    }
    done("beam");
    let found = diagnose(session, graph, &StuckQuestion::default());
    assert!(found.is_some(), "a thread is stuck for a second");
    done("diagnose");
    let found = Transactions::find(session, graph);
    done("transactions");
    let paths = Paths::new(session, graph, &found);
    let every = found.len().div_ceil(MOST_PATHS).max(1);
    for (id, _) in found.iter().step_by(every) {
        let path = paths.path(id).unwrap();
        assert_eq!(path.shares().total(), path.duration_ns());
    }
    done("paths");
}

/// The last node, the last one of the main thread, and the ones with the most causes and the most effects.
fn worst_nodes(graph: &Graph) -> Vec<NodeId> {
    let last = graph.node_ids().next_back();
    let main = graph.nodes_of(Default::default()).next_back();
    let most_causes = graph.node_ids().max_by_key(|&n| graph.incoming(n).len());
    let most_effects = graph.node_ids().max_by_key(|&n| graph.outgoing(n).len());
    let all = [last, main, most_causes, most_effects];
    all.into_iter().flatten().collect()
}
