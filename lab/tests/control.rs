// SPDX-License-Identifier: Apache-2.0
//! Starts and stops tracing threads of a real ART and takes snapshots of them, in all their states. Run with
//! `--ignored` after `cargo xtask lab build`.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use common::{native_library, open, traces, until, Program, Socket};
use hindsight_trace_format::container::Reader;
use hindsight_trace_format::reverse::EventRef;
use hindsight_trace_format::slot::{Event, Extension};

/// Compiles methods at their first call and inlines nothing, so that every call of `step` is recorded.
fn compiled(command: &mut Command, _: &Path) {
    command.args(["-Xjitthreshold:0", "-Xusejit:true"]);
    command.args(["-Xcompiler-option", "--inline-max-code-units=0"]);
}

fn interpreted(command: &mut Command, _: &Path) {
    command.arg("-Xint");
}

fn control(configuration: &str, change: fn(&mut Command, &Path)) -> (Program, Socket, u64) {
    let mut program = Program::start("control", "Control", "", configuration, change);
    let ready = program.line();
    let main = ready.strip_prefix("ready ").unwrap().parse().unwrap();
    let socket = program.socket();
    (program, socket, main)
}

/// The events of one thread in one file.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    steps: u64,
    entries: u64,
    exits: u64,
    starts: u64,
    stops: u64,
    overwritten: bool,
}

/// The events of each thread, by name.
fn count(file: &Path) -> BTreeMap<String, Count> {
    let bytes = std::fs::read(file).unwrap();
    let reader = Reader::new(&bytes).unwrap();
    let symbols = reader.symbol_table().unwrap().unwrap();
    let steps: Vec<u64> = symbols
        .iter()
        .filter(|symbol| symbol.name == "step")
        .map(|symbol| symbol.address)
        .collect();
    let mut counts = BTreeMap::new();
    for index in reader.ring_indices() {
        let ring = reader.ring(index).unwrap().unwrap();
        let mut count = Count {
            overwritten: ring.header.position.laps != 0,
            ..Count::default()
        };
        // What was under way when the thread got the ring, before the last of these marks, is in the file before, too.
        let is_own = |event: &EventRef<'_>| event.slot.low() != Extension::PartBegins.number();
        for event in ring.slots().events().take_while(is_own) {
            if let Some(method) = event.entered_method() {
                count.entries += 1;
                count.steps += u64::from(steps.contains(&method));
            }
            match event.event() {
                Event::Exit => count.exits += 1,
                Event::Extension { number } if number == Extension::Started.number() => {
                    count.starts += 1;
                }
                Event::Extension { number } if number == Extension::Stopped.number() => {
                    count.stops += 1;
                }
                _ => {}
            }
        }
        assert!(
            counts.insert(ring.header.name.clone(), count).is_none(),
            "{} has two rings",
            ring.header.name
        );
    }
    counts
}

/// Rings are exchanged while threads call a method and count their calls: all files together contain exactly these
/// calls.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_swap_loses_no_call_and_adds_none() {
    const NAMES: [&str; 2] = ["one", "two"];
    for (change, swaps, protocol) in [
        (compiled as fn(&mut Command, &Path), 12, "checkpoint"),
        (interpreted, 4, "checkpoint"),
        (compiled, 12, "lock-free"),
        (interpreted, 4, "lock-free"),
    ] {
        let configuration = format!("trace=all,ring=27,snapshot-at-exit=yes,protocol={protocol}");
        let (mut program, mut socket, _) = control(&configuration, change);
        for name in NAMES {
            program.number(&format!("thread busy {name}"));
        }
        for i in 0..swaps {
            socket.ok(&format!("snapshot {i}"));
        }
        assert_eq!(socket.status()["protocol"], protocol);
        let called = NAMES.map(|name| program.number(&format!("join {name}")));
        let folder = program.finish();
        let files = traces(folder.path());
        assert_eq!(files.len(), swaps + 1);
        let counts: Vec<_> = files.iter().map(|file| count(file)).collect();
        for (name, called) in NAMES.iter().zip(called) {
            let of: Vec<Count> = counts
                .iter()
                .filter_map(|c| c.get(*name).copied())
                .collect();
            assert!(of.iter().all(|c| !c.overwritten), "{name}: {of:?}");
            // At least one exchange took place while the thread ran: more depends on the machine's load.
            let busy_files = of.iter().filter(|c| c.steps != 0).count();
            assert!(
                busy_files >= 2,
                "{name} was never exchanged while it ran: {of:?}"
            );
            let sum = |what: fn(&Count) -> u64| of.iter().map(what).sum::<u64>();
            assert_eq!(sum(|c| c.steps), called, "{name}: {of:?}");
            assert_eq!(sum(|c| c.entries), sum(|c| c.exits), "{name}: {of:?}");
            assert_eq!((sum(|c| c.starts), sum(|c| c.stops)), (1, 1), "{name}");
        }
    }
}

/// The counter's low 32 bits wrap several times while a thread sleeps; its times still agree with the clock.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_sleep_across_wraps_of_the_counter_has_its_length() {
    let (mut program, _, _) = control("trace=all", compiled);
    // Three sleeps of about two wraps each, at 2.7 GHz; their number is asserted.
    program.send("thread marks sleeper 3500");
    // The answer to the command comes before or after the first mark.
    let lines: Vec<String> = (0..5).map(|_| program.line()).collect();
    let marks: Vec<(u64, u64)> = lines
        .iter()
        .filter_map(|line| {
            let mut words = line.strip_prefix("mark ")?.split(' ');
            let mut next = || words.next().unwrap().parse().unwrap();
            Some((next(), next()))
        })
        .collect();
    program.socket().ok("snapshot slept");
    let folder = program.finish();
    let trace = open(&traces(folder.path())[0]);
    let sleeper = trace.threads.iter().find(|t| t.name == "sleeper").unwrap();
    let seen: Vec<(u64, u64)> = sleeper
        .calls
        .iter()
        .filter(|call| {
            trace
                .methods
                .get(call.method)
                .is_some_and(|m| m.name == "mark")
        })
        .map(|call| (call.start_ns, call.end_ns))
        .collect();
    assert_eq!(seen.len(), marks.len());
    assert_eq!(sleeper.stats.unbounded_slots, 0);

    // Java's nanoTime is CLOCK_MONOTONIC, and traces have CLOCK_BOOTTIME: they differ by the machine's suspend time.
    let reference = trace.clock.reference();
    let apart = reference.boottime_ns - reference.monotonic_ns;
    let slept = seen[3].0 - seen[0].0;
    let wraps = slept as f64 * 1e-9 * trace.clock.ticks_per_second() as f64 / (1_u64 << 32) as f64;
    // The kernel adjusts the clock by up to 500 ppm, and clock and counter are read a few instructions apart.
    let drift = slept / 2000 + 1_000_000;
    let mut worst = 0;
    for ((start, end), (before, after)) in seen.iter().zip(&marks) {
        let early = (before + apart).saturating_sub(*start);
        let late = end.saturating_sub(after + apart);
        worst = worst.max(early).max(late);
    }
    println!("{wraps:.1} wraps in {slept} ns; times are off by at most {worst} ns");
    assert!(worst <= drift, "off by {worst} ns in {slept} ns");
    assert!(wraps > 4.0, "only {wraps} wraps in {slept} ns");
}

/// The resident memory in KiB of each mapping of exactly this size, the size of a ring.
fn ring_kib(pid: u32, ring_kib: u64) -> Vec<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let (mut rings, mut is_ring) = (Vec::new(), false);
    for line in maps.lines() {
        let value = |prefix: &str| -> Option<u64> {
            let rest = line.strip_prefix(prefix)?.trim();
            rest.strip_suffix(" kB")?.parse().ok()
        };
        if let Some(size) = value("Size:") {
            is_ring = size == ring_kib;
        } else if let (true, Some(rss)) = (is_ring, value("Rss:")) {
            rings.push(rss);
        }
    }
    rings
}

fn resident_kib(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4
}

/// Six threads fill a ring each, one after the other, where two rings are allowed: the memory of two is in use.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn memory_of_reclaimed_rings_is_returned() {
    const RING_KIB: u64 = 8 * 1024;
    let (mut program, mut socket, _) = control("trace=off,max-rings=2,ring=23", compiled);
    let tids: Vec<u64> = (0..6)
        // More than a ring's 1 Mi slots.
        .map(|i| program.number(&format!("thread fill t{i} 600000")))
        .collect();
    let mut resident = Vec::new();
    for (i, tid) in tids.iter().enumerate() {
        socket.ok(&format!("start {tid}"));
        program.number(&format!("poke t{i}"));
        // After the ring has wrapped, the thread waits to be poked again, and writes to the ring no more.
        let full = |rings: &[u64]| rings.iter().filter(|kib| **kib == RING_KIB).count();
        let wanted = (i + 1).min(2);
        until("the ring is full", || {
            full(&ring_kib(program.pid(), RING_KIB)) >= wanted
                && program.ask(&format!("calls t{i}")) == "600000"
        });
        let rings = ring_kib(program.pid(), RING_KIB);
        assert_eq!(full(&rings), wanted, "{rings:?} after {}", i + 1);
        let used: u64 = rings.iter().sum();
        assert!(used <= 2 * RING_KIB + 8, "{rings:?} after {}", i + 1);
        resident.push(resident_kib(program.pid()));
        let holders = socket.status()["holders"].as_array().unwrap().len();
        assert_eq!(holders, wanted);
    }
    // Also in the memory of the whole process: four more rings would be 32 MiB.
    let grown = resident[5].saturating_sub(resident[1]);
    println!("KiB resident: {resident:?}");
    assert!(grown < RING_KIB, "{resident:?}");
    // Without any ring, their memory is returned.
    let with_two = resident_kib(program.pid());
    for tid in &tids[4..] {
        socket.ok(&format!("stop {tid}"));
    }
    let without = resident_kib(program.pid());
    assert!(
        with_two.saturating_sub(without) > RING_KIB * 19 / 10,
        "{with_two} KiB with two rings, {without} KiB without"
    );
    program.finish();
}

/// Threads in every state are started, put into snapshots and stopped, over and over, in any order.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn threads_in_every_state_are_started_and_stopped() {
    for (change, protocol) in [
        (compiled as fn(&mut Command, &Path), "checkpoint"),
        (interpreted, "checkpoint"),
        (compiled, "lock-free"),
        (interpreted, "lock-free"),
    ] {
        let configuration = format!("trace=off,max-rings=4,ring=16,protocol={protocol}");
        let (mut program, mut socket, main) = control(&configuration, change);
        let fifo = program.folder().join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let mut tids = vec![main];
        for kind in [
            "busy",
            "asleep",
            "parked",
            "waiting",
            "native",
            "gc",
            "allocating",
            "churn",
            "throwing",
        ] {
            let argument = if kind == "native" {
                fifo.to_str().unwrap()
            } else {
                ""
            };
            tids.push(program.number(&format!("thread {kind} {kind} {argument}")));
        }
        // Opened for reading and writing, so that the reader returns from open(2) and never sees an end of file.
        let _writer = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&fifo)
            .unwrap();
        let mut random = 1_u32;
        let (mut done, mut snapshots, mut others) = (0, 0, 0);
        while done < 400 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let any = (random >> 16) as usize;
            let mut tid = tids[any % tids.len()];
            if random >> 24 < 100 {
                // Any thread of the process, also short-lived ones, which may have ended by now.
                let all = std::fs::read_dir(format!("/proc/{}/task", program.pid())).unwrap();
                let all: Vec<u64> = all
                    .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
                    .collect();
                tid = all[any % all.len()];
                others += u32::from(!tids.contains(&tid));
            }
            let command = match (random >> 8) % 8 {
                0..=3 => format!("start {tid}"),
                4..=5 => format!("stop {tid}"),
                6 => format!("foreground {tid}"),
                _ => format!("snapshot {done}"),
            };
            let answer = socket.ask(&command);
            if let Some(path) = answer.strip_prefix("ok /") {
                open(Path::new(&format!("/{path}")));
                std::fs::remove_file(format!("/{path}")).unwrap();
                snapshots += 1;
            } else if let Some(error) = answer.strip_prefix("error ") {
                // An error is right too: the thread may be traced already, or not, or not be attached to ART, or have ended.
                let expected = ["traced", "registered", "has ended"];
                assert!(
                    expected.iter().any(|e| error.contains(e)),
                    "{command}: {answer}"
                );
            }
            done += 1;
            if done % 20 == 0 {
                program.number("poke parked");
                program.number("poke waiting");
            }
        }
        assert!(snapshots > 20 && others > 20, "{snapshots} {others}");
        let status = socket.status();
        assert_eq!(status["protocol"], protocol);
        println!("{protocol}: {status}");
        drop(_writer);
        for kind in ["busy", "gc", "allocating", "churn", "throwing"] {
            program.number(&format!("join {kind}"));
        }
        program.finish();
    }
}

/// A thread that waits and is notified, interrupted or unparked records its waker.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_thread_that_was_woken_says_by_whom() {
    let (mut program, mut socket, main) = control("trace=all,snapshot-at-exit=yes", compiled);
    for kind in ["waiting", "parked", "asleep"] {
        program.number(&format!("thread {kind} {kind}"));
    }
    for kind in ["waiting", "parked"] {
        for calls in 1..=3 {
            program.number(&format!("poke {kind}"));
            until(kind, || program.number(&format!("calls {kind}")) == calls);
        }
    }
    socket.ok("snapshot woken");
    let folder = program.finish();
    let files = traces(folder.path());
    let wakers = |file: &Path, name: &str| -> Vec<u64> {
        let trace = open(file);
        let thread = trace.threads.iter().find(|t| t.name == name).unwrap();
        let woken = thread
            .events
            .iter()
            .filter(|e| e.kind == Extension::WokenBy);
        woken.map(|e| e.payload[0]).collect()
    };
    // If it is poked before it waits or parks, no thread wakes it.
    for kind in ["waiting", "parked"] {
        let by = wakers(&files[0], kind);
        assert!(
            !by.is_empty() && by.iter().all(|tid| *tid == main),
            "{kind}: {by:?}"
        );
    }
    assert!(wakers(&files[0], "asleep").is_empty());
    assert_eq!(
        wakers(&files[1], "asleep"),
        [main],
        "interrupted at the end"
    );
}

/// The app that a property names, as set by `setprop`, is traced until the property is empty.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn nanoscopes_property_starts_and_stops() {
    use std::io::Write as _;

    let preload = |command: &mut Command, folder: &Path| {
        let fifo = folder.join("property");
        assert!(Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success());
        command.env("TEST_PROPERTY", fifo);
        command.env("LD_PRELOAD", native_library(folder, "properties"));
    };
    let mut program = Program::start("control", "Control", "", "nanoscope=yes", preload);
    let ready = program.line();
    let main = ready.strip_prefix("ready ").unwrap().to_owned();
    let mut socket = program.socket();
    let package = {
        socket.ok(&format!("start {main}"));
        let path = socket.ok("snapshot for the name");
        socket.ok(&format!("stop {main}"));
        open(Path::new(&path)).process.name
    };
    let mut property = std::fs::OpenOptions::new()
        .write(true)
        .open(program.folder().join("property"))
        .unwrap();
    let traced = |socket: &mut Socket| socket.status()["traced"].as_array().unwrap().len();
    for (name, is_ours) in [("first", true), ("another", false), ("second", true)] {
        let app = if is_ours {
            &package
        } else {
            "com.example.other"
        };
        writeln!(property, "{app}:{name}").unwrap();
        if is_ours {
            until(name, || traced(&mut socket) == 1);
        }
        // The main thread does something.
        program.number("thread parked p");
        writeln!(property).unwrap();
        let file = program.folder().join(name);
        if is_ours {
            until(name, || file.exists());
            let trace = open(&file);
            assert_eq!(trace.threads.len(), 1);
            assert_eq!(trace.threads[0].tid, program.pid());
            assert!(trace.threads[0].stats.trace_points > 0);
            assert_eq!(traced(&mut socket), 0);
        }
    }
    assert!(!program.folder().join("another").exists());
    program.finish();
}

/// A class loader's methods have their names in a trace taken after it was unloaded, also methods of proxies and copies
/// of default methods.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn methods_of_unloaded_loaders_have_names() {
    for change in [compiled as fn(&mut Command, &Path), interpreted] {
        let mut program = Program::start("unload", "Unload", "", "trace=main", change);
        assert_eq!(program.line(), "unloaded");
        let path = program.socket().ok("snapshot unloaded");
        let trace = open(Path::new(&path));
        let main = trace.main_thread().unwrap();
        let calls = |class: &dyn Fn(&str) -> bool, name: &str| {
            let calls = main.calls.iter().filter(|call| {
                let method = trace.methods.get(call.method);
                method.is_some_and(|m| m.name == name && class(&m.class))
            });
            calls.count()
        };
        assert_eq!(calls(&|c| c == "Unload$Greeter", "greet"), 3);
        assert_eq!(calls(&|c| c == "Unload$Polite", "leave"), 3);
        assert_eq!(calls(&|c| c.starts_with("$Proxy"), "leave"), 3);
        assert_eq!(main.stats.unnamed_entries, 0);
        assert!(trace.losses.counts.is_empty(), "{:?}", trace.losses);
        program.finish();
    }
}
