// SPDX-License-Identifier: Apache-2.0
//! Threads of a real ART record their waits, and who ends them, without recording calls. Run with `--ignored` after
//! `cargo xtask lab build`.

mod common;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use common::{native_library, open, traces, until, Program, Socket};
use hindsight_decoder::{Thread, Trace};
use hindsight_trace_format::catalogue::{STACK_REASONS, WAIT_KINDS};
use hindsight_trace_format::container::Reader;
use hindsight_trace_format::slot::Extension;

fn control(configuration: &str) -> (Program, Socket, u64) {
    let mut program = Program::start("control", "Control", "", configuration, |_, _: &Path| {});
    let ready = program.line();
    let main = ready.strip_prefix("ready ").unwrap().parse().unwrap();
    let socket = program.socket();
    (program, socket, main)
}

fn thread<'t>(trace: &'t Trace, name: &str) -> &'t Thread {
    trace.threads.iter().find(|t| t.name == name).unwrap()
}

/// A field of each event of one kind.
fn fields(thread: &Thread, kind: Extension, field: &str) -> Vec<u64> {
    let field = kind.spec().field(field).unwrap();
    (thread.events.iter())
        .filter(|e| e.kind == kind)
        .map(|e| field.get(&e.payload))
        .collect()
}

fn kind(name: &str) -> u64 {
    WAIT_KINDS.iter().position(|k| *k == name).unwrap() as u64
}

/// Each wait of a thread has a begin and an end with its number, and the thread that ended it names that number, too.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn waits_have_two_ends_and_a_waker() {
    for configuration in [
        "events=all",
        "events=all,trace=main",
        "events=all,trace=all",
    ] {
        let (mut program, mut socket, _) = control(configuration);
        let mut tids = Vec::new();
        for kind in ["waiting", "parked", "asleep"] {
            tids.push(program.number(&format!("thread {kind} {kind}")));
        }
        for kind in ["waiting", "parked"] {
            for calls in 1..=5 {
                program.number(&format!("poke {kind}"));
                until(kind, || program.number(&format!("calls {kind}")) == calls);
            }
        }
        socket.ok("snapshot waits");
        let folder = program.finish();
        let trace = open(&traces(folder.path())[0]);
        let main = trace.main_thread().unwrap();
        for (name, waits, tid) in [("waiting", "object", tids[0]), ("parked", "park", tids[1])] {
            let waiting = thread(&trace, name);
            let kinds = fields(waiting, Extension::WaitBegin, "kind");
            assert!(
                kinds.contains(&kind(waits)),
                "{configuration} {name}: {kinds:?}"
            );
            let begun = fields(waiting, Extension::WaitBegin, "number");
            let ended = fields(waiting, Extension::WaitEnd, "number");
            // The last wait goes on.
            assert_eq!(begun[..ended.len()], ended[..], "{configuration} {name}");
            assert!(begun.len() <= ended.len() + 1, "{configuration} {name}");
            let woken: BTreeSet<u64> = fields(main, Extension::Wakes, "thread")
                .into_iter()
                .zip(fields(main, Extension::Wakes, "wait"))
                .filter(|(thread, _)| *thread == tid)
                .map(|(_, wait)| wait)
                .collect();
            assert!(
                !woken.is_empty() && woken.iter().all(|wait| ended.contains(wait)),
                "{configuration} {name}: {woken:?} {ended:?}"
            );
            let wakers = fields(waiting, Extension::WokenBy, "by");
            assert!(wakers.iter().all(|by| *by == u64::from(main.tid)), "{name}");
            assert!(wakers.len() >= woken.len(), "{name}: {wakers:?} {woken:?}");
        }
        let asleep = thread(&trace, "asleep");
        assert_eq!(
            fields(asleep, Extension::WaitBegin, "kind").last(),
            Some(&kind("sleep"))
        );
        assert_eq!(
            fields(asleep, Extension::WaitBegin, "timeout").last(),
            Some(&1_000_000_000_000)
        );
        let traced = configuration.ends_with("all,trace=all");
        assert_eq!(asleep.stats.trace_points != 0, traced, "{configuration}");
        assert_eq!(
            main.stats.trace_points != 0,
            configuration.contains("trace")
        );
        // The threads have used CPU time by then.
        assert!(fields(main, Extension::ThreadCpuTime, "CPU time")
            .iter()
            .all(|ns| *ns != 0));
    }
}

/// A thread that collects garbage says when it suspends all threads; another one, when it runs the collector's requests. What
/// a thread has allocated is counted.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn collections_and_allocations_are_recorded() {
    const ARRAYS: u64 = 50_000;
    let (mut program, mut socket, _) = control("events=all");
    program.number("thread busy busy");
    program.number(&format!("thread collect collector {ARRAYS}"));
    for calls in 1..=3 {
        program.number("poke collector");
        until("collected", || program.number("calls collector") == calls);
    }
    socket.ok("snapshot collections");
    let folder = program.finish();
    let trace = open(&traces(folder.path())[0]);
    let count =
        |thread: &Thread, kind: Extension| thread.events.iter().filter(|e| e.kind == kind).count();
    let collector = thread(&trace, "collector");
    let pauses = count(collector, Extension::GcPauseBegin);
    assert!(pauses >= 3, "{pauses}");
    assert_eq!(count(collector, Extension::GcPauseEnd), pauses);
    let busy = thread(&trace, "busy");
    let bounds: Vec<Extension> = (busy.events.iter())
        .map(|e| e.kind)
        .filter(|k| matches!(k, Extension::CheckpointBegin | Extension::CheckpointEnd))
        .collect();
    assert!(bounds.len() >= 2, "{bounds:?}");
    // The last one may be for the snapshot: it has no end.
    for pair in bounds.chunks(2) {
        let whole = [Extension::CheckpointBegin, Extension::CheckpointEnd];
        assert_eq!(pair, &whole[..pair.len()], "{bounds:?}");
    }

    let most = |field: &str| {
        let counted = fields(collector, Extension::Allocations, field);
        assert!(counted.windows(2).all(|w| w[0] <= w[1]), "{counted:?}");
        *counted.last().unwrap()
    };
    // An array has a header, and the thread makes some other objects.
    let (objects, bytes) = (most("objects"), most("bytes"));
    assert!(
        (3 * ARRAYS..=3 * ARRAYS + 1000).contains(&objects),
        "{objects}"
    );
    assert!((3000 * ARRAYS..=3100 * ARRAYS).contains(&bytes), "{bytes}");
}

/// Events are switched on and off from outside while threads wait.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn events_are_switched_while_the_program_runs() {
    let (mut program, mut socket, _) = control("trace=off");
    program.number("thread waiting waiting");
    let poke = |program: &mut Program, calls: u64| {
        program.number("poke waiting");
        until("poked", || program.number("calls waiting") >= calls);
    };
    poke(&mut program, 1);
    socket.ok("events waits");
    assert_eq!(socket.status()["events"]["categories"][0], "waits");
    poke(&mut program, 2);
    poke(&mut program, 3);
    socket.ok("events off");
    poke(&mut program, 4);
    socket.ok("snapshot switched");
    let folder = program.finish();
    let trace = open(&traces(folder.path())[0]);
    let waiting = thread(&trace, "waiting");
    let ends = fields(waiting, Extension::WaitEnd, "number");
    assert!((1..=3).contains(&ends.len()), "{ends:?}");
    assert_eq!(waiting.calls.len(), 0);
}

/// Times that the control thread of a process has given up the processor so far.
fn control_thread_sleeps(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let control = tasks.map(|task| task.unwrap().path()).find(|task| {
        let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        name.trim() == "hindsight"
    });
    let status = std::fs::read_to_string(control.unwrap().join("status")).unwrap();
    let switches = |line: &str| {
        let count = line.strip_prefix("voluntary_ctxt_switches:")?;
        count.trim().parse().ok()
    };
    status.lines().find_map(switches).unwrap()
}

/// The control thread sleeps while no thread of the process runs, and wakes up when one does.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn an_idle_process_stays_idle() {
    let (mut program, mut socket, _) = control("events=all");
    program.number("thread busy busy");
    let pid = program.pid();
    let sleeps = || control_thread_sleeps(pid);
    // With a thread that runs, it wakes up for each request.
    const REQUESTS: u64 = 20;
    let (before, since) = (sleeps(), Instant::now());
    until("requests", || sleeps() >= before + REQUESTS);
    let busy = since.elapsed();
    program.number("join busy");
    // At most a fifth as often. Other threads of the runtime may still compile.
    let quiet = || {
        let (before, since) = (sleeps(), Instant::now());
        until("five times as long", || since.elapsed() >= busy * 5);
        sleeps() - before <= REQUESTS
    };
    until("the process is quiet", quiet);
    socket.ok("status");
    program.finish();
}

/// The stacks in a file: the reason, and the names of the methods, innermost first.
fn stacks(file: &Path) -> Vec<(&'static str, Vec<String>)> {
    let bytes = std::fs::read(file).unwrap();
    let reader = Reader::new(&bytes).unwrap();
    let table = reader.stacks().unwrap();
    let symbols = reader.symbol_table().unwrap().unwrap();
    let names: HashMap<u64, String> = (symbols.iter())
        .map(|symbol| (symbol.address, format!("{}.{}", symbol.class, symbol.name)))
        .collect();
    let mut all = Vec::new();
    for index in reader.ring_indices() {
        let ring = reader.ring(index).unwrap().unwrap();
        for event in ring.slots().events() {
            if event.slot.low() != Extension::PackedStack.number() {
                continue;
            }
            let payload: Vec<u64> = event.payloads().collect();
            let field = |name| {
                Extension::PackedStack
                    .spec()
                    .field(name)
                    .unwrap()
                    .get(&payload)
            };
            let generation = table.generation(field("generation") as u32).unwrap();
            let frames = generation.frames(field("node") as u32);
            let frames = frames.map(|f| names.get(&f.method).cloned().unwrap_or_default());
            all.push((STACK_REASONS[field("reason") as usize], frames.collect()));
        }
    }
    all
}

/// How often these events are in a file, one directly after the other.
fn occurrences(file: &Path, events: &[Extension]) -> usize {
    let newest_first: Vec<u32> = events.iter().rev().map(|e| e.number()).collect();
    let bytes = std::fs::read(file).unwrap();
    let reader = Reader::new(&bytes).unwrap();
    let mut found = 0;
    for index in reader.ring_indices() {
        let ring = reader.ring(index).unwrap().unwrap();
        let all: Vec<u32> = ring.slots().events().map(|e| e.slot.low()).collect();
        let windows = all.windows(newest_first.len());
        found += windows.filter(|w| **w == newest_first).count();
    }
    found
}

/// Each kind of place has stacks, and they show the method that was there.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn stacks_are_taken_at_each_kind_of_place() {
    let folder = tempfile::tempdir().unwrap();
    let library = native_library(folder.path(), "paths");
    let configuration =
        "events=stacks+waits+runtime,stack-interval=0,stack-table=22,event-spool=26";
    let library = library.display().to_string();
    let small_heap = |command: &mut Command, _: &Path| {
        command.arg("-Xmx16m");
    };
    let mut program = Program::start("points", "Points", &library, configuration, small_heap);
    assert_eq!(program.line(), "done");
    let mut socket = program.socket();
    socket.ok("snapshot points");
    let file = &traces(program.folder())[0];
    // Of the collector's requests, not of those for a stack.
    use Extension::{CheckpointBegin, CheckpointEnd, PackedStack};
    assert_ne!(occurrences(file, &[CheckpointBegin]), 0);
    let of_stacks = [CheckpointBegin, PackedStack, CheckpointEnd];
    assert_eq!(occurrences(file, &of_stacks), 0);
    let points = stacks(file);
    for (reason, method) in [
        ("library load", "Points.load"),
        ("allocation", "Points.allocate"),
        ("gc wait", "Points.exhaust"),
        ("native call", "Points.collect"),
        ("wait begins", "Points.main"),
        ("wait ends", "Points.main"),
        ("wakes", "Points.wake"),
    ] {
        let is_in = |frames: &[String]| frames.iter().any(|name| name.ends_with(method));
        let of: Vec<_> = points.iter().filter(|(r, _)| *r == reason).collect();
        assert!(
            of.iter().any(|(_, frames)| is_in(frames)),
            "{reason} {method}: {of:#?}"
        );
    }
    until("a stack of a loop", || {
        let before = traces(program.folder());
        socket.ok("snapshot loop");
        let mut all = traces(program.folder());
        all.retain(|file| !before.contains(file));
        let is_in = |(reason, frames): &(&str, Vec<String>)| {
            *reason == "checkpoint" && frames.iter().any(|name| name.ends_with("Points.loop"))
        };
        stacks(&all[0]).iter().any(is_in)
    });
    program.finish();
}
