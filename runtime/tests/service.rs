// SPDX-License-Identifier: Apache-2.0
//! What the system service asks of a process, and what it is told.

mod common;

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::service::{until, FakeService, Peer};
use common::workers::{numbers, waits, Process, Task, Worker, METHOD, PATIENCE};
use common::{snapshots, World};
use hindsight_runtime::{clock, SnapshotOutcome};
use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::container::{Consent, Reader, RingMode, Symbol};
use hindsight_trace_format::protocol::{
    Configuration, FromProcess, FromService, TakeOutcome, Trigger, TriggerSeverity,
};
use hindsight_trace_format::shared::{has_left, EndedRing, Loss, UnderWay};

#[test]
fn rings_are_granted_taken_read_and_released() {
    let (process, service) = Process::start("trace=all,ring=16", FakeService::at);
    std::thread::scope(|scope| {
        let (mut peer, hello) = service.accept();
        assert_eq!(
            (hello.name.as_str(), hello.held, hello.taken),
            ("test", 0, 0)
        );
        assert_eq!((hello.ring_bytes, hello.is_foreground), (1 << 16, false));
        let worker = Worker::start(scope, &process);
        worker.record(1);
        assert!(!worker.is_traced(), "the service has not answered yet");
        peer.send(&FromService::Welcome { version: 1 });
        assert_eq!(peer.configure(2, waits()), 1);
        assert_eq!(
            worker.ask(Task::Look),
            (true, waits() | Category::Recording.bit())
        );

        worker.record(500);
        assert_eq!(peer.take(7), TakeOutcome::Taken);
        worker.record(100);
        let first = peer.read();
        let taken = || first.rings.iter().filter(|ring| ring.header.part == 0);
        assert_eq!(numbers(taken()), (2..=501).collect::<Vec<_>>());
        assert_eq!(numbers(&first.rings), (2..=601).collect::<Vec<_>>());
        assert_eq!(first.rings[0].header.tid, worker.tid);
        worker.record(10_000);
        let second = peer.read();
        let again = second.rings.iter().filter(|ring| ring.header.part == 0);
        assert!(again.eq(taken()), "taken rings do not change");
        assert_eq!(peer.take(8), TakeOutcome::Refused, "one is held");

        peer.release(8);
        assert_eq!(peer.configure(2, waits()), 2, "it is another report's");
        peer.release(7);
        assert_eq!(peer.configure(2, waits()), 1);
        worker.record(10);
        let third = peer.read();
        assert!(third.rings.iter().all(|ring| ring.header.part == 1));
        assert_eq!(numbers(&third.rings).last(), Some(&10_611));
    });
    process.recorder.shutdown();
}

/// It may wait, and is then in the wait until its ring is taken.
#[test]
fn a_thread_is_recorded_until_its_ring_is_taken_not_only_until_its_newest_event() {
    let (process, service) = Process::start("trace=all,ring=16", FakeService::at);
    for rings in [0, 1] {
        let report = rings + 1;
        std::thread::scope(|scope| {
            let worker = Worker::start(scope, &process);
            let (mut peer, ..) = service.welcome(rings as u32, waits());
            worker.record(5);
            let recorded = clock::counter_in_order();
            assert_eq!(peer.take(report), TakeOutcome::Taken);
            let ended = peer.read();
            let ring = ended.rings.iter().find(|r| r.header.tid == worker.tid);
            let ring = ring.unwrap();
            let is_of_calls = ring.header.mode == RingMode::Calls;
            assert_eq!((is_of_calls, numbers([ring]).len()), (rings == 1, 5));
            assert!(ring.header.stopped_counter >= recorded, "{rings} rings");
            // The newest event of a ring of events, which binds the times of all.
            assert!(is_of_calls || ring.anchor.counter <= recorded);
            peer.release(report);
        });
    }
    process.recorder.shutdown();
}

/// A thread that stands still records nothing, so that only the first of its rings has its calls.
#[test]
fn each_report_knows_the_calls_of_a_thread_that_stands_still() {
    let world = World::default();
    world.linked.lock().unwrap().extend(methods());
    let (process, service) = Process::start_in(world, "trace=all,ring=16", FakeService::at);
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        let (mut peer, ..) = service.welcome(1, waits());
        worker.ask(Task::Enter(METHOD));
        worker.record(1);
        worker.ask(Task::Enter(METHOD + 8));
        let ring = |peer: &Peer| {
            let ended = peer.read();
            let rings = ended.rings.into_iter();
            let mut rings: Vec<EndedRing> = rings.filter(|r| r.header.tid == worker.tid).collect();
            rings.sort_by_key(|ring| ring.header.part);
            rings
        };
        assert_eq!(peer.take(1), TakeOutcome::Taken);
        let first = ring(&peer);
        assert_eq!(first.len(), 2, "the one that was taken, and the next one");
        let noted = |ring: &EndedRing| ring.under_way.clone();
        assert!(noted(&first[0]).is_none(), "it has all");
        let calls = noted(&first[1]).unwrap();
        assert_eq!(calls, calls.beside_ring_before());
        peer.release(1);
        for report in [2, 3] {
            assert_eq!(peer.take(report), TakeOutcome::Taken);
            let taken = &ring(&peer)[0];
            assert!(taken.slots().is_empty());
            let all = noted(taken).unwrap();
            assert_ne!(all, calls, "the other ring has gone");
            let count = |under_way: UnderWay| under_way.slots().len();
            assert_eq!(count(all.beside_ring_before()), count(calls.clone()));
            let names = peer.read().symbols;
            let names: Vec<&str> = names.iter().map(|s| s.name.as_str()).collect();
            assert_eq!(names, ["m0", "m1"]);
            peer.release(report);
        }
    });
    process.recorder.shutdown();
}

/// Those that workers call first.
fn methods() -> impl Iterator<Item = Symbol> {
    (0..100).map(|n| Symbol {
        address: METHOD + 8 * n,
        class: "Class".into(),
        name: format!("m{n}"),
        ..Symbol::default()
    })
}

#[test]
fn rings_do_not_wait_for_the_names_of_all_classes() {
    let world = World::default();
    let (begins, has_begun) = channel();
    let (go, goes_on) = channel::<()>();
    *world.before_names.lock().unwrap() = Some(Box::new(move || {
        begins.send(()).unwrap();
        let _ = goes_on.recv();
    }));
    let (process, service) = Process::start_in(world, "trace=all,ring=16", FakeService::at);
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        let (mut peer, _) = service.accept();
        peer.send(&FromService::Welcome { version: 1 });
        peer.send(&FromService::Configure(Configuration {
            call_rings: 1,
            ..Configuration::default()
        }));
        // On a machine on which this took ten seconds, it has given up waiting for the service.
        has_begun.recv_timeout(PATIENCE).unwrap();
        let is_in_time = process.started.elapsed() < Duration::from_secs(10);
        assert!(worker.is_traced() || !is_in_time);
        go.send(()).unwrap();
        assert_eq!(peer.next(), Some(FromProcess::Held { rings: 1 }));
        until("names are written", || peer.read().are_named);
    });
    process.recorder.shutdown();
}

#[test]
fn classes_outside_the_boot_image_have_names_before_it() {
    let world = World::default();
    world.linked_others.lock().unwrap().extend(methods());
    let (begins, has_begun) = channel();
    let (go, goes_on) = channel::<()>();
    *world.before_names.lock().unwrap() = Some(Box::new(move || {
        begins.send(()).unwrap();
        let _ = goes_on.recv();
    }));
    let (process, service) = Process::start_in(world, "trace=all,ring=16", FakeService::at);
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        let (peer, _) = service.accept();
        peer.send(&FromService::Welcome { version: 1 });
        peer.send(&FromService::Configure(Configuration {
            call_rings: 1,
            ..Configuration::default()
        }));
        has_begun.recv_timeout(PATIENCE).unwrap();
        until("the thread records", || worker.is_traced());
        worker.record(50);
        let ended = peer.read();
        assert_eq!((ended.symbols.len(), ended.are_named), (50, false));
        assert!(ended.losses.is_empty(), "{:?}", ended.losses);
        go.send(()).unwrap();
        until("names are written", || peer.read().are_named);
    });
    process.recorder.shutdown();
}

/// Memory that the file takes, bytes.
fn taken_memory(peer: &Peer) -> u64 {
    peer.memory().metadata().unwrap().blocks() * 512
}

#[test]
fn rings_that_are_taken_away_give_their_memory_back() {
    const RING: u64 = 1 << 20;
    let (process, service) = Process::start(
        "trace=all,ring=20,max-rings=3,socket=DIR/control",
        FakeService::at,
    );
    std::thread::scope(|scope| {
        let start = |_| Worker::start(scope, &process);
        let workers: Vec<Worker> = (0..4).map(start).collect();
        let traced = || workers.iter().filter(|worker| worker.is_traced()).count();
        // The service may grant more than the process is configured for.
        let (mut peer, hello, held) = service.welcome(10, 0);
        assert_eq!((hello.held, held, traced()), (0, 3, 3));
        let nothing = taken_memory(&peer);
        let fill = || {
            for worker in &workers {
                worker.record(RING / 8);
            }
        };
        fill();
        let three = taken_memory(&peer) - nothing;
        assert!((3 * RING..4 * RING).contains(&three), "{three}");
        assert_eq!((peer.configure(1, 0), traced()), (1, 1));
        let one = taken_memory(&peer).saturating_sub(nothing);
        assert!((RING * 9 / 10..2 * RING).contains(&one), "{one}");

        // A taken ring is in use, too.
        assert_eq!(peer.take(1), TakeOutcome::Taken);
        assert_eq!((peer.configure(0, 0), traced()), (1, 0));
        assert_eq!(peer.take(2), TakeOutcome::Refused);
        let one = taken_memory(&peer).saturating_sub(nothing);
        assert!((RING * 9 / 10..2 * RING).contains(&one), "{one}");
        peer.release(1);
        assert_eq!(peer.configure(0, 0), 0);
        assert_eq!(peer.take(3), TakeOutcome::Nothing);
        let none = taken_memory(&peer).saturating_sub(nothing);
        assert!(none < RING / 4, "{none}");

        assert_eq!((peer.configure(2, 0), traced()), (2, 2));
        fill();
        // Threads that end keep their rings, which go first.
        let mut rest = workers;
        let ends = rest.iter().position(Worker::is_traced).unwrap();
        drop(rest.remove(ends));
        until("the ended thread keeps its ring", || {
            process.command("status").contains(r#""retired_rings":1"#)
        });
        let traced = || rest.iter().filter(|worker| worker.is_traced()).count();
        assert_eq!((peer.configure(2, 0), traced()), (2, 1));
        assert_eq!((peer.configure(1, 0), traced()), (1, 1));
    });
    process.recorder.shutdown();
}

#[test]
fn events_and_stacks_and_names_are_in_the_memory() {
    let world = World::default();
    world.linked.lock().unwrap().extend(methods());
    let options = "trace=off,event-ring=12,event-spool=16";
    let (process, service) = Process::start_in(world, options, FakeService::at);
    // A zygote's child gets its name after its start.
    *process.world.name.lock().unwrap() = Some("com.example.app".into());
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        let categories = waits() | Category::Stacks.bit();
        let (mut peer, hello, held) = service.welcome(5, categories);
        assert_eq!(hello.name, "test");
        assert_eq!(held, 0, "no thread is selected");
        // More than the ring has, so that some are in the spool.
        worker.record(600);
        worker.ask(Task::Stack);
        assert_eq!(peer.take(1), TakeOutcome::Taken);
        let ended = peer.read();
        assert_eq!(numbers(&ended.rings), (1..=600).collect::<Vec<_>>());
        let is_events = |ring: &EndedRing| ring.header.mode == RingMode::Events;
        assert!(ended.rings.iter().all(is_events));
        assert!(ended.rings.len() > 3, "{}", ended.rings.len());
        assert_eq!(ended.name, "com.example.app");
        let name = "com.example.app".into();
        assert!(peer.notes.contains(&FromProcess::Name { name }));
        let nodes = &ended.stacks.generations[0].nodes;
        let methods: Vec<_> = nodes.iter().map(|node| node.method).collect();
        assert_eq!(methods, [METHOD, METHOD + 8]);
        assert!(
            ended.are_named && ended.losses.is_empty(),
            "{:?}",
            ended.losses
        );
        let names: Vec<_> = ended.symbols.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["m0", "m1"]);
        // More than the ring and the spool have.
        peer.release(1);
        worker.record(10_000);
        assert_eq!(peer.take(2), TakeOutcome::Taken);
        let losses = peer.read().losses;
        let [(what, dropped)] = &losses[..] else {
            panic!("{losses:?}");
        };
        assert!(what == Loss::OldEvents.text() && *dropped > 1, "{losses:?}");
        peer.release(2);
        // Off: nothing is kept.
        assert_eq!(peer.configure(0, 0), 0);
        assert_eq!(peer.read().rings, []);
        worker.record(100);
        assert_eq!(peer.take(3), TakeOutcome::Nothing);
    });
    process.recorder.shutdown();
}

#[test]
fn a_process_stays_within_its_room_and_asks_for_more() {
    const RING: u64 = 1 << 16;
    let options = "trace=off,event-ring=16,event-rings=100,event-spool=off,socket=DIR/control";
    let (process, service) = Process::start(options, FakeService::at);
    std::thread::scope(|scope| {
        let (mut peer, hello, _) = service.welcome(0, waits());
        let room = hello.other_bytes;
        assert!((1 << 20..4 << 20).contains(&room), "{room}");
        let before = taken_memory(&peer);
        let workers: Vec<Worker> = (0..60).map(|_| Worker::start(scope, &process)).collect();
        let fill = || {
            workers
                .iter()
                .for_each(|worker| worker.record(2 * RING / 8))
        };
        fill();
        let used = taken_memory(&peer) - before;
        assert!(used <= room && used > 10 * RING, "{used} of {room}");
        assert_eq!(peer.configure(0, waits()), 0);
        let asked = |peer: &Peer| {
            peer.notes
                .iter()
                .filter_map(|note| match note {
                    FromProcess::Needs { bytes } => Some(*bytes),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        let first = asked(&peer);
        assert!(first.windows(2).all(|two| two[0] < two[1]), "{first:?}");
        let wanted = *first.last().unwrap();
        assert!(wanted > room && wanted < 64 << 20, "{wanted}");
        // Threads without a ring get one when there is room.
        peer.send(&FromService::Room { bytes: wanted });
        assert_eq!(peer.configure(0, waits()), 0);
        fill();
        let used = taken_memory(&peer) - before;
        assert!(used <= wanted && used > room, "{used}");
        // Until nothing more is needed.
        let mut given = wanted;
        loop {
            assert_eq!(peer.configure(0, waits()), 0);
            let bytes = *asked(&peer).last().unwrap();
            if bytes == given {
                break;
            }
            given = bytes;
            peer.send(&FromService::Room { bytes });
            assert_eq!(peer.configure(0, waits()), 0);
            fill();
        }
        fill();
        let used = taken_memory(&peer) - before;
        assert!(used >= 60 * RING, "all threads have a ring: {used}");
        // For a report there is room for a second ring of each.
        assert_eq!(peer.take(1), TakeOutcome::Taken);
        fill();
        let used = taken_memory(&peer) - before;
        assert!(used >= 120 * RING, "{used}");
        let room = *asked(&peer).last().unwrap();
        assert!(used <= room, "{used} of {room}");
        let losses = peer.read().losses;
        let refused = losses
            .iter()
            .any(|(what, _)| what == Loss::ThreadsWithoutEvents.text());
        assert!(refused, "{losses:?}");
        // Without a service it has only its own limits.
        drop(peer);
        drop(service);
        std::fs::remove_file(process.socket()).unwrap();
        process.recorder.thread_in_foreground(workers[0].tid);
        until("there is no limit", || {
            process.command("status").contains(r#""room_bytes":null"#)
        });
    });
    process.recorder.shutdown();
}

#[test]
fn names_wait_for_room_and_are_not_lost() {
    const METHODS: u64 = 100_000;
    let world = World::default();
    let linked = (0..METHODS).map(|n| Symbol {
        address: METHOD + 8 * n,
        class: format!("com.example.a.long.name.of.a.package.Class{}", n / 10),
        name: format!("aMethodWithALongName{n}"),
        ..Symbol::default()
    });
    world.linked.lock().unwrap().extend(linked);
    let (process, service) = Process::start_in(world, "trace=all,ring=16", FakeService::at);
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        let (mut peer, hello, _) = service.welcome(1, 0);
        let mut room = hello.other_bytes;
        let before = std::mem::take(&mut peer.notes);
        let mut before = before.into_iter();
        loop {
            match before.next().or_else(|| peer.next_of_all()) {
                Some(FromProcess::Needs { bytes }) => {
                    room = bytes;
                    peer.send(&FromService::Room { bytes });
                }
                Some(FromProcess::Named) => break,
                other => panic!("{other:?}"),
            }
        }
        worker.record(100);
        let ended = peer.read();
        assert!(
            ended.are_named && ended.losses.is_empty(),
            "{:?}",
            ended.losses
        );
        assert_eq!(ended.symbols.len(), 100);
        let used = taken_memory(&peer);
        assert!(
            room > hello.other_bytes && used < room + (1 << 17),
            "{used}"
        );
    });
    process.recorder.shutdown();
}

#[test]
fn a_process_without_a_service_has_its_own_limits_and_one_that_is_refused_takes_no_memory() {
    let options = "trace=off,events=waits,event-ring=16,event-rings=100,socket=DIR/control";
    for is_refused in [false, true] {
        let (process, service) = Process::start(options, FakeService::at);
        std::thread::scope(|scope| {
            let (peer, hello) = service.accept();
            if is_refused {
                peer.send(&FromService::Refused {
                    reason: "no room".into(),
                });
                until("nothing is recorded", || {
                    process.command("status").contains(r#""categories":[]"#)
                });
            } else {
                std::fs::remove_file(process.socket()).unwrap();
                // Nonsense: the process looks for another service.
                peer.send_raw(&[1], None);
                until("there is no limit", || {
                    process.command("status").contains(r#""room_bytes":null"#)
                });
            }
            let before = taken_memory(&peer);
            let start = |_| Worker::start(scope, &process);
            let workers: Vec<Worker> = (0..60).map(start).collect();
            for worker in &workers {
                worker.record(1 << 14);
            }
            let used = taken_memory(&peer).saturating_sub(before);
            match is_refused {
                true => assert!(used < hello.other_bytes / 16, "{used}"),
                false => assert!(used > hello.other_bytes, "{used}"),
            }
        });
        process.recorder.shutdown();
    }
}

#[test]
fn a_process_that_a_later_service_refuses_records_nothing() {
    let options = "trace=all,events=waits,event-ring=12,socket=DIR/control";
    let (process, service) = Process::start(options, FakeService::at);
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        let (mut peer, _, held) = service.welcome(1, waits());
        assert_eq!((held, worker.is_traced()), (1, true));
        assert_eq!(peer.take(1), TakeOutcome::Taken);
        drop(peer);
        let (peer, hello) = service.accept();
        assert_eq!((hello.held, hello.taken), (2, 1));
        peer.send(&FromService::Refused {
            reason: "no room".into(),
        });
        until("the rings are given back", || !worker.is_traced());
        until("no events are recorded", || {
            process.command("status").contains(r#""categories":[]"#)
        });
    });
    process.recorder.shutdown();
}

#[test]
fn the_service_is_told_of_triggers_and_the_foreground_and_the_end() {
    let options = "trace=all,ring=16,snapshot-interval=60,socket=DIR/control";
    let (process, service) = Process::start(options, FakeService::at);
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        let (mut peer, ..) = service.welcome(2, 0);
        process.recorder.thread_in_foreground(worker.tid);
        let foreground = FromProcess::Foreground {
            is_foreground: true,
            tid: worker.tid,
        };
        assert_eq!(peer.next(), Some(foreground));
        for is_foreground in [false, true] {
            match is_foreground {
                true => process.recorder.thread_in_foreground(worker.tid),
                // Only a change is told.
                false => (0..2).for_each(|_| process.recorder.process_in_background()),
            }
            let tid = if is_foreground { worker.tid } else { 0 };
            let told = FromProcess::Foreground { is_foreground, tid };
            assert_eq!(peer.next(), Some(told));
        }
        for are_started in [true, false] {
            process.recorder.activities(are_started);
            let told = FromProcess::Activities { are_started };
            assert_eq!(peer.next(), Some(told));
        }
        let mut last = 0;
        let mut trigger = |severity, detector: &str, reason: &str| {
            let Some(FromProcess::Trigger(trigger)) = peer.next() else {
                panic!("no trigger comes");
            };
            assert!(trigger.at_boottime_ns > last);
            last = trigger.at_boottime_ns;
            let expected = Trigger {
                severity,
                detector: detector.into(),
                reason: reason.into(),
                tid: worker.tid,
                at_boottime_ns: last,
            };
            assert_eq!(trigger, expected);
        };
        // More often than the process may write.
        for _ in 0..20 {
            let outcome = process
                .recorder
                .snapshot("odd".into(), worker.tid, PATIENCE);
            assert_eq!(outcome, SnapshotOutcome::Reported);
            trigger(TriggerSeverity::Requested, "program", "odd");
        }
        let slow = "a message on main took 700 ms, over 500 ms: H";
        process.recorder.snapshot(slow.into(), worker.tid, PATIENCE);
        trigger(TriggerSeverity::Slow, "slow-message", slow);
        process.recorder.crashed("E", worker.tid, PATIENCE);
        trigger(TriggerSeverity::Fatal, "uncaught-exception", "crash: E");
        process.recorder.crashed("F", worker.tid, PATIENCE);
        assert_eq!(snapshots(process.folder.path()), [] as [PathBuf; 0]);
        let status = process.command("status");
        assert!(
            status.contains(r#""service":{"connected":true,"accepted":true,"taken":0,"room_bytes":2097152,"used_bytes":"#),
            "{status}"
        );
        // A user's wish is still the process's own.
        assert!(process.command("snapshot mine").starts_with("ok /"));
        assert!(!has_left(peer.memory()));
        process.recorder.shutdown();
        assert_eq!(peer.next(), Some(FromProcess::Farewell));
        assert!(peer.ends());
        // For a service that gave the connection up before it read that.
        assert!(has_left(peer.memory()));
    });
}

#[test]
fn rings_stay_for_a_service_when_the_process_ends_by_itself() {
    for (options, rings) in [
        ("trace=all,ring=16", 1),
        ("trace=off,event-ring=12,event-spool=16", 0),
    ] {
        let (process, service) = Process::start(options, FakeService::at);
        std::thread::scope(|scope| {
            let worker = Worker::start(scope, &process);
            let (peer, ..) = service.welcome(rings, waits());
            // More than a ring of events has, so that some are in the spool.
            worker.record(600);
            process.recorder.shutdown();
            let ended = peer.read();
            assert_eq!(numbers(&ended.rings), (1..=600).collect::<Vec<_>>());
        });
    }
}

#[test]
fn consent_is_what_both_sides_agree_to() {
    let options = "trace=all,ring=16,consent=names,socket=DIR/control";
    let (process, service) = Process::start(options, FakeService::at);
    std::thread::scope(|scope| {
        let worker = Worker::start(scope, &process);
        let (mut peer, ..) = service.welcome(2, 0);
        for (consent, written) in [
            (Consent::Content, Consent::Names),
            (Consent::Structure, Consent::Structure),
            (Consent::Names, Consent::Names),
        ] {
            peer.send(&FromService::Configure(Configuration {
                call_rings: 2,
                consent,
                ..Configuration::default()
            }));
            assert!(peer.next().is_some());
            worker.record(5);
            let answer = process.command("snapshot mine");
            let file = std::fs::read(answer.trim().strip_prefix("ok ").unwrap()).unwrap();
            let reader = Reader::new(&file).unwrap();
            let losses = reader.losses().unwrap().counts;
            assert_eq!(losses, [], "waiting for the service is no loss");
            let facts = reader.process().unwrap().extra;
            let found = facts.iter().find(|(key, _)| key == "consent");
            assert_eq!(found.map(|(_, level)| level.as_str()), Some(written.name()));
        }
    });
    process.recorder.shutdown();
}
