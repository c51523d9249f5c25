// SPDX-License-Identifier: Apache-2.0
//! Perfetto's own trace processor reads exported traces without an error, and finds the calls that the
//! decoder found: the same names, times, depths and callers.
//!
//! Needs Node.js, and once the network (see `scripts/perfetto`). `HINDSIGHT_OFFLINE=1` leaves it out;
//! `HINDSIGHT_TRACES=a.hindsight:b.hindsight` checks these traces too.

use std::io::Read;

use hindsight_decoder::{Damage, DamagedPart, Extension, Flags, Trace};
use hindsight_export::{write_file, Format, Written, PERFETTO_MAX_DEPTH};
use hindsight_testkit::{Perfetto, Script};
use serde_json::Value;

/// A call: thread, start, duration (-1 while it runs), depth on its track, name, the caller's start and name.
type Call = (u64, i64, i64, u64, String, Option<(i64, String)>);

fn decoded(trace: &Trace) -> Vec<Call> {
    let mut calls = Vec::new();
    let (mut seen, mut repeated) = (std::collections::HashSet::new(), 0);
    for thread in &trace.threads {
        // A second recording of a thread id has a free one: Perfetto would merge the two.
        let tid = if seen.insert(thread.tid) {
            thread.tid
        } else {
            repeated += 1;
            (1 << 22) + repeated
        };
        for call in thread.calls.iter() {
            let runs = call.flags.contains(Flags::OPEN_END) && call.end_ns == thread.end_ns;
            let depth = call.depth % PERFETTO_MAX_DEPTH;
            // Each track of a deep thread begins without a caller.
            let caller = (depth > 0).then(|| {
                let caller = thread.calls.get(call.parent as usize);
                (
                    caller.start_ns as i64,
                    trace.methods.name(caller.method).into_owned(),
                )
            });
            calls.push((
                u64::from(tid),
                call.start_ns as i64,
                if runs { -1 } else { call.duration_ns() as i64 },
                u64::from(depth),
                trace.methods.name(call.method).into_owned(),
                caller,
            ));
        }
    }
    calls.sort();
    calls
}

fn found(perfetto: &mut Perfetto) -> Vec<Call> {
    // Deep calls are on tracks below the thread's, which aren't thread tracks themselves.
    let rows = perfetto.query(
        "select coalesce(own.tid, above.tid) as tid, s.ts, s.dur, s.depth, s.name,
                caller.ts as caller_ts, caller.name as caller_name
         from slice s
         join track t on s.track_id = t.id
         left join thread_track on thread_track.id = t.id
         left join thread own on own.utid = thread_track.utid
         left join thread_track parent on parent.id = t.parent_id
         left join thread above on above.utid = parent.utid
         left join slice caller on caller.id = s.parent_id
         where coalesce(own.tid, above.tid) is not null and coalesce(s.category, '') != 'hindsight'",
    );
    let mut calls: Vec<Call> = rows
        .iter()
        .map(|row| {
            let integer = |name: &str| {
                row[name]
                    .as_i64()
                    .unwrap_or_else(|| panic!("{name}: {row}"))
            };
            let caller = row["caller_ts"].as_i64();
            (
                integer("tid") as u64,
                integer("ts"),
                integer("dur"),
                integer("depth") as u64,
                row["name"].as_str().unwrap().to_owned(),
                caller.map(|ts| (ts, row["caller_name"].as_str().unwrap().to_owned())),
            )
        })
        .collect();
    calls.sort();
    calls
}

/// Exports the trace and compares. Returns the trace processor for more questions.
fn check(trace: &Trace) -> (Perfetto, Written) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.pftrace");
    let written = write_file(trace, Format::Perfetto, &file).unwrap();
    let mut perfetto = Perfetto::open(&file);
    let errors = perfetto.query(
        "select name, idx, value from stats where severity in ('error', 'data_loss') and value > 0",
    );
    assert_eq!(errors, Vec::<Value>::new());

    let (expected, got) = (decoded(trace), found(&mut perfetto));
    for (expected, got) in expected.iter().zip(&got) {
        assert_eq!(expected, got);
    }
    assert_eq!(expected.len(), got.len());
    assert_eq!(expected.len() as u64, written.calls);
    (perfetto, written)
}

fn decode(script: &Script) -> Trace {
    Trace::decode("script".as_ref(), &script.encode()).unwrap()
}

#[test]
fn a_stall_of_two_threads() {
    if Perfetto::is_left_out() {
        return;
    }
    let trace = decode(&hindsight_testkit::stall());
    let (mut perfetto, _) = check(&trace);
    let process = perfetto.query("select pid, name from process where pid != 0");
    assert_eq!(
        process,
        [serde_json::json!({"pid": 4200, "name": "com.example.notes"})]
    );
    let threads = perfetto.query("select tid, name from thread where tid != 0 order by tid");
    assert_eq!(
        threads,
        [
            serde_json::json!({"tid": 4200, "name": "main"}),
            serde_json::json!({"tid": 4217, "name": "notes-sync"})
        ]
    );
    let realtime = perfetto.query(
        "select cast(clock_value - ts as text) as offset from clock_snapshot where clock_name = 'REALTIME'",
    );
    assert_eq!(
        realtime[0]["offset"],
        hindsight_testkit::REALTIME_OFFSET.to_string()
    );
    let taken = perfetto.query(
        "select ts, extract_arg(arg_set_id, 'debug.reason') as reason from slice where name = 'Hindsight trace taken'",
    );
    assert_eq!(taken[0]["ts"], trace.end_ns());
    assert_eq!(taken[0]["reason"].as_str().unwrap(), trace.process.reason);
}

#[test]
fn open_ends_exceptions_wide_and_unnamed_methods() {
    if Perfetto::is_left_out() {
        return;
    }
    let mut s = Script::new("odd");
    let (f, g) = (s.method("a.C.f", "()V"), s.method("a.C.<init>", "()V"));
    let wide = 0x7f12_3456_7890;
    let main = s.thread(50, "main");
    let mut r = s.at(main, 0);
    r.exit().after(10).exit().after(10);
    r.enter(f)
        .enter(wide)
        .after(5)
        .enter(g)
        .after(5)
        .unwind(2)
        .after(10)
        .exit();
    // Equal times, and a call that takes none.
    r.enter(f).call(g, 0).call(g, 0).exit();
    // Tracing goes off in the middle of calls, and on again.
    r.after(10)
        .enter(f)
        .after(1)
        .enter(g)
        .after(20)
        .extension(Extension::Stopped, &[]);
    r.after(1_000)
        .extension(Extension::Started, &[1])
        .after(10)
        .exit()
        .after(5)
        .call(f, 5);
    r.enter(f).after(1).enter(g).after(1);
    let trace = decode(&s);
    let (mut perfetto, _) = check(&trace);

    let mut with = |annotation: &str| {
        let sql = format!(
            "select s.name as name, a.display_value as value from slice s join args a using (arg_set_id)
             where a.flat_key = 'debug.{annotation}' order by s.id"
        );
        let rows = perfetto.query(&sql);
        let pair = |r: &Value| {
            format!(
                "{}={}",
                r["name"].as_str().unwrap(),
                r["value"].as_str().unwrap()
            )
        };
        rows.iter().map(pair).collect::<Vec<_>>()
    };
    let unseen = "<entered before the trace>=before the trace";
    assert_eq!(with("start"), [unseen, unseen, unseen]);
    assert_eq!(
        with("left by"),
        ["<method 0x7f1234567890>=exception", "a.C.<init>=exception"]
    );
    assert_eq!(
        with("end"),
        [
            "a.C.f=not seen",
            "a.C.<init>=not seen",
            "a.C.f=not seen",
            "a.C.<init>=not seen"
        ]
    );
    assert_eq!(
        with("ArtMethod"),
        ["<method 0x7f1234567890>=0x7f1234567890"]
    );
}

#[test]
fn calls_deeper_than_perfetto_shows_on_one_track() {
    if Perfetto::is_left_out() {
        return;
    }
    let mut s = Script::new("deep");
    let f = s.method("a.C.recurse", "(I)V");
    let main = s.thread(60, "main");
    let mut r = s.at(main, 0);
    for _ in 0..2 {
        for _ in 0..1_300 {
            r.enter(f).after(1);
        }
        for _ in 0..1_300 {
            r.after(1).exit();
        }
    }
    let trace = decode(&s);
    let (mut perfetto, written) = check(&trace);
    assert_eq!(written.deep_calls, 2 * (1_300 - 512));
    let tracks = perfetto.query(
        "select t.name, count(*) as calls, max(depth) as deepest from slice join track t on track_id = t.id
         where coalesce(category, '') != 'hindsight' group by track_id order by track_id",
    );
    assert_eq!(tracks.len(), 3);
    assert!(tracks
        .iter()
        .any(|t| t["name"] == "main, from call depth 1024 on" && t["calls"] == 2 * 276));
}

#[test]
fn a_ring_that_has_wrapped_around() {
    if Perfetto::is_left_out() {
        return;
    }
    let trace = decode(&hindsight_testkit::busy(18, 3, 500, 40));
    let (mut perfetto, _) = check(&trace);
    let overwritten = trace.threads[0].stats.overwritten_slots;
    assert!(overwritten > 0);
    let told = perfetto.query(
        "select s.name, ts, a.int_value as slots from slice s join args a using (arg_set_id)
         where category = 'hindsight' and a.flat_key in ('debug.slots', 'debug.lost: slots overwritten by newer ones')
         order by ts",
    );
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0]["name"], "older calls were overwritten");
    assert_eq!(told[0]["ts"], trace.threads[0].start_ns);
    assert!(told.iter().all(|row| row["slots"] == overwritten));
}

#[test]
fn recordings_of_one_thread_id_are_tracks_of_their_own() {
    if Perfetto::is_left_out() {
        return;
    }
    let mut s = Script::new("again");
    let (f, g) = (s.method("a.C.f", "()V"), s.method("a.C.g", "()V"));
    let recordings = [(70, "main"), (70, "Shutdown thread"), (70, "main")]
        .map(|(tid, name)| s.thread(tid, name));
    // All at the same time, and crosswise: on one track they could not be nested.
    s.at(recordings[0], 0).enter(f).after(100).exit();
    s.at(recordings[1], 50)
        .enter(g)
        .after(100)
        .call(f, 0)
        .exit();
    s.at(recordings[2], 60).call(g, 5).after(1).call(g, 5);
    let trace = decode(&s);
    let (mut perfetto, _) = check(&trace);
    let tracks = perfetto.query(
        "select thread.name, tid, group_concat(slice.name, ' ') as calls from slice
         join thread_track t on t.id = slice.track_id join thread using (utid) group by utid order by utid",
    );
    let track = |name: &str, tid: u32, calls: &str| serde_json::json!({"name": name, "tid": tid, "calls": calls});
    assert_eq!(
        tracks,
        [
            track("main", 70, "a.C.f"),
            track("Shutdown thread (70)", (1 << 22) + 1, "a.C.g a.C.f"),
            track("main (70) #2", (1 << 22) + 2, "a.C.g a.C.g"),
        ]
    );
}

#[test]
fn damaged_rings_are_named_and_the_others_are_there() {
    if Perfetto::is_left_out() {
        return;
    }
    let trace = damaged_stall();
    let (mut perfetto, _) = check(&trace);
    let reasons = perfetto.query(
        "select a.key, a.string_value as reason from slice join args a using (arg_set_id)
         where name = 'Hindsight trace taken' and a.key glob 'debug.damaged*'",
    );
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0]["key"].as_str().unwrap().contains("notes-sync"));
    assert_eq!(reasons[0]["reason"], "its checksum is wrong");
}

/// The stall, as it is decoded when the ring of "notes-sync" cannot be read.
fn damaged_stall() -> Trace {
    let mut trace = decode(&hindsight_testkit::stall());
    let lost = trace.threads.remove(1);
    let ring = DamagedPart::Ring {
        thread: lost.key,
        tid: Some(lost.tid),
        name: Some(lost.name),
        kept_slots: 0,
        slots: Some(lost.stats.slots),
    };
    trace.damaged.push(Damage {
        part: ring,
        reason: "its checksum is wrong".into(),
    });
    trace
}

#[test]
fn formats_with_a_place_for_it_name_the_data_that_is_missing() {
    let trace = damaged_stall();
    let folder = tempfile::tempdir().unwrap();
    let missing = "damaged: thread \"notes-sync\" (tid 4217): its checksum is wrong; nothing of it is in the trace";
    for format in Format::ALL {
        let path = folder.path().join(format.extension());
        write_file(&trace, format, &path).unwrap();
        let contents = match format {
            Format::Firefox | Format::Pprof => {
                let mut unpacked = Vec::new();
                let packed = std::fs::read(&path).unwrap();
                flate2::read::MultiGzDecoder::new(&packed[..])
                    .read_to_end(&mut unpacked)
                    .unwrap();
                unpacked
            }
            Format::Parquet => std::fs::read(path.join("missing.parquet")).unwrap(),
            _ => std::fs::read(&path).unwrap(),
        };
        // In JSON the quotes are escaped.
        let contents = String::from_utf8_lossy(&contents).replace("\\\"", "\"");
        let has_no_place = matches!(
            format,
            Format::Speedscope | Format::Folded | Format::Nanoscope
        );
        let found = match format {
            // Perfetto has the label and the value in two fields.
            Format::Perfetto => contents.contains("damaged: thread \"notes-sync\" (tid 4217)"),
            _ => contents.contains(missing),
        };
        assert_eq!(found, !has_no_place, "{format:?}");
    }
}

/// Two threads that send messages to each other, wake each other, and count.
fn conversation(pid: u32, tids: [u32; 2]) -> Script {
    let mut s = Script::new("talk");
    s.process.pid = pid;
    s.losses.counts.push(("threads without a ring".into(), 3));
    let f = s.method("a.C.send", "()V");
    let g = s.method("a.C.receive", "()V");
    let (a, b) = (s.thread(tids[0], "sender"), s.thread(tids[1], "receiver"));
    let mut r = s.at(a, 100);
    r.enter(f)
        .after(10)
        .extension(
            Extension::MessageEnqueued,
            &[0xdead_beef, u64::from(tids[1])],
        )
        .after(500)
        .exit();
    r.extension(Extension::ThreadCpuTime, &[400])
        .after(10)
        .extension(Extension::ResourceUse, &[5, 1, 2, 3])
        .extension(Extension::Allocations, &[10, 320])
        .after(10)
        .extension(Extension::ThreadCpuTime, &[700]);
    let mut r = s.at(b, 200);
    r.enter(g)
        .after(10)
        .extension(Extension::WokenBy, &[u64::from(tids[0])])
        .after(20)
        .event(Extension::MessageDispatched, &[("message", 0xdead_beef)])
        .after(20)
        .extension(Extension::LockWait, &[u64::from(tids[0]), 0x1234])
        .after(100)
        .event(Extension::MessageDone, &[("message", 0xdead_beef)])
        .exit();
    s
}

#[test]
fn what_leads_to_what_and_counters() {
    if Perfetto::is_left_out() {
        return;
    }
    let trace = decode(&conversation(70, [70, 71]));
    let (mut perfetto, _) = check(&trace);
    let flows = perfetto.query(
        // The slices of a thread with calls are on a track below the thread's.
        "select o.name as cause, i.name as effect, o.ts as from_ts, i.ts as to_ts,
                ot.tid as from_tid, it.tid as to_tid
         from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id
         join track op on op.id = o.track_id join track ip on ip.id = i.track_id
         join thread_track ott on ott.id in (op.id, op.parent_id) join thread ot on ot.utid = ott.utid
         join thread_track itt on itt.id in (ip.id, ip.parent_id) join thread it on it.utid = itt.utid
         order by i.ts",
    );
    let at = |ns: u64| hindsight_testkit::EPOCH + ns;
    assert_eq!(
        flows,
        [
            serde_json::json!({"cause": "wakes", "effect": "woken", "from_ts": at(209), "to_ts": at(210),
                "from_tid": 70, "to_tid": 71}),
            serde_json::json!({"cause": "message enqueued", "effect": "message", "from_ts": at(110),
                "to_ts": at(230), "from_tid": 70, "to_tid": 71}),
        ]
    );
    let message = perfetto.query(
        "select s.dur, extract_arg(s.arg_set_id, 'debug.message') as message, t.name as track
         from slice s join track t on s.track_id = t.id where s.name = 'message'",
    );
    assert_eq!(
        message,
        [serde_json::json!({"dur": 120, "message": 0xdead_beef_u32, "track": "receiver, events"})]
    );
    let lock = perfetto.query(
        "select s.ts, extract_arg(s.arg_set_id, 'debug.held by') as holder, p.name as inside
         from slice s join slice p on s.parent_id = p.id where s.name = 'waits for a lock'",
    );
    assert_eq!(
        lock,
        [serde_json::json!({"ts": at(250), "holder": "sender (70)", "inside": "a.C.receive"})]
    );
    let counters = perfetto.query(
        "select t.name, thread.tid, c.ts, c.value, t.unit from counter c
         join thread_counter_track t on c.track_id = t.id join thread using (utid) order by t.name, c.ts",
    );
    let told: Vec<String> = counters
        .iter()
        .map(|c| {
            format!(
                "{} {} {}",
                c["name"].as_str().unwrap(),
                c["tid"],
                c["value"]
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "CPU time 70 400",
            "CPU time 70 700",
            "allocated bytes 70 320",
            "allocated objects 70 10",
            "involuntary context switches 70 3",
            "major page faults 70 1",
            "minor page faults 70 5",
            "voluntary context switches 70 2",
        ]
    );
    let lost = perfetto.query(
        "select extract_arg(arg_set_id, 'debug.lost: threads without a ring') as n from slice
         where name = 'Hindsight trace taken'",
    );
    assert_eq!(lost, [serde_json::json!({"n": 3})]);
}

/// A process that records events only: what begins and ends is a slice of the thread's own track.
#[test]
fn events_of_threads_without_calls_are_slices() {
    if Perfetto::is_left_out() {
        return;
    }
    let trace = decode(&hindsight_testkit::events_only());
    let (mut perfetto, _) = check(&trace);
    let slices = perfetto.query(
        "select s.name, s.depth, s.dur from slice s join thread_track t on t.id = s.track_id
         join thread using (utid) where tid = 4200 and s.dur > 100000000 order by s.ts",
    );
    assert_eq!(
        slices,
        [
            serde_json::json!({"name": "message: com.example.notes.NoteListScreen", "depth": 0, "dur": 702_708_000}),
            serde_json::json!({"name": "wait: lock", "depth": 1, "dur": 702_000_000}),
        ]
    );
    let flows = perfetto.query(
        "select o.name as cause, i.name as effect from flow f
         join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id order by o.ts",
    );
    let flow = |cause: &str, effect: &str| serde_json::json!({"cause": cause, "effect": effect});
    assert_eq!(
        flows,
        [
            flow("task submitted", "task: com.example.notes.SaveTask"),
            flow("wakes", "wait ends"),
            flow(
                "message enqueued",
                "message: com.example.notes.NoteListScreen"
            ),
            flow("wakes", "wait ends"),
            flow("releases a lock", "wait ends"),
        ]
    );
}

/// What calls and messages cost are arguments of their slices.
#[test]
fn costs_are_arguments_of_slices() {
    if Perfetto::is_left_out() {
        return;
    }
    const MS: u64 = 1_000_000;
    let mut s = Script::new("p");
    let f = s.method("a.C.f", "()V");
    let (main, other) = (s.thread(1, "main"), s.events_thread(2, "other", 2));
    let counters = |r: &mut hindsight_testkit::Recorder<'_>, n: u64| {
        r.extension(Extension::ThreadCpuTime, &[n * MS])
            .extension(Extension::Allocations, &[n, 100 * n])
            .extension(Extension::ResourceUse, &[n, 2 * n, 3 * n, 4 * n]);
    };
    let wait = [("kind", 3), ("number", 1)];
    let mut r = s.at(main, 0);
    counters(&mut r, 0);
    r.enter(f).event(Extension::WaitBegin, &wait).at(60 * MS);
    r.extension(Extension::WokenBy, &[2])
        .event(Extension::WaitEnd, &wait)
        .call(f, 100)
        .at(100 * MS)
        .exit();
    counters(&mut r, 10);
    let mut r = s.at(other, 0);
    counters(&mut r, 0);
    let message = [("message", 7)];
    r.event(Extension::MessageDispatched, &message)
        .at(50 * MS)
        .event(Extension::MessageDone, &message);
    counters(&mut r, 5);
    let trace = decode(&s);
    let (mut perfetto, _) = check(&trace);
    let mut costs = |name: &str| {
        let rows = perfetto.query(&format!(
            "select substr(key, 7) as key, coalesce(string_value, int_value) as value
             from slice join args using (arg_set_id)
             where slice.dur > 1000000 and slice.name = '{name}' and key like 'debug.%'
             and key not like '%.message' order by args.id"
        ));
        let of = |row: &Value| format!("{} {}", row["key"].as_str().unwrap(), row["value"]);
        rows.iter().map(of).collect::<Vec<String>>()
    };
    let used = |n: u64, own: &[&str]| {
        let mut used = vec![format!("CPU time, ns {}", n * MS)];
        used.extend(own.iter().map(|&o| o.to_owned()));
        used.push(format!("allocated objects {n}"));
        used.push(format!("allocated bytes {}", 100 * n));
        for (i, name) in [
            "minor faults",
            "major faults",
            "voluntary switches",
            "involuntary switches",
        ]
        .into_iter()
        .enumerate()
        {
            used.push(format!("{name} {}", (i as u64 + 1) * n));
        }
        used
    };
    let mut of_call = vec![
        "woken by \"other (2)\"".to_owned(),
        "block time, ns 60000000".to_owned(),
    ];
    let own = [
        "calls made 1",
        "self time, ns 99999900",
        "self CPU time, ns 10000000",
    ];
    of_call.extend(used(10, &own));
    assert_eq!(costs("a.C.f"), of_call);
    let of_message = costs("message");
    assert!(of_message.ends_with(&used(5, &[])), "{of_message:?}");
}

#[test]
fn traces_that_are_concatenated_are_read_as_one() {
    if Perfetto::is_left_out() {
        return;
    }
    // A system trace knows the same process and clock, and its sequences are numbered from 1 on.
    let system = {
        let mut packet = vec![0x50, 1, 0x68, 1];
        // clock_snapshot { clocks { 6, at } clocks { 3, at } primary 6 }
        let mut varint = vec![];
        let mut at = hindsight_testkit::EPOCH;
        while at >= 0x80 {
            varint.push(at as u8 | 0x80);
            at >>= 7;
        }
        varint.push(at as u8);
        let clock = |id: u8| {
            let mut clock = vec![0x0a, varint.len() as u8 + 3, 0x08, id, 0x10];
            clock.extend(&varint);
            clock
        };
        let snapshot = [clock(6), clock(3), vec![0x10, 6]].concat();
        packet.extend([0x32, snapshot.len() as u8]);
        packet.extend(snapshot);
        [vec![0x0a, packet.len() as u8], packet].concat()
    };
    let folder = tempfile::tempdir().unwrap();
    let mut merged = system;
    let mut expected = Vec::new();
    // The oldest first: clocks don't go back.
    for trace in [
        decode(&conversation(70, [70, 71])),
        decode(&conversation(80, [80, 81])),
        decode(&hindsight_testkit::busy(14, 3, 50, 40)),
    ] {
        expected.extend(decoded(&trace));
        let file = folder.path().join("one.pftrace");
        write_file(&trace, Format::Perfetto, &file).unwrap();
        merged.extend(std::fs::read(&file).unwrap());
    }
    expected.sort();
    let file = folder.path().join("all.pftrace");
    std::fs::write(&file, merged).unwrap();
    let mut perfetto = Perfetto::open(&file);
    let errors = perfetto.query(
        "select name, idx, value from stats where severity in ('error', 'data_loss') and value > 0",
    );
    assert_eq!(errors, Vec::<Value>::new());
    assert_eq!(found(&mut perfetto), expected);
    let processes = perfetto.query("select pid from process where pid != 0 order by pid");
    assert_eq!(processes.len(), 3);
    let flows = perfetto.query("select count(*) as n from flow");
    assert_eq!(flows, [serde_json::json!({"n": 4})]);
}

#[test]
fn traces_that_were_given() {
    let Some(traces) = std::env::var_os("HINDSIGHT_TRACES").filter(|_| !Perfetto::is_left_out())
    else {
        return;
    };
    for path in std::env::split_paths(&traces) {
        let trace = Trace::open(&path).unwrap();
        let (_, written) = check(&trace);
        eprintln!("{}: {written:?}: the same in Perfetto", path.display());
    }
}
