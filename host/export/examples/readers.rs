// SPDX-License-Identifier: Apache-2.0
//! The input of `scripts/readers/check`: for each trace a folder with all its exports, and the decoder's own results in
//! `expected.json`.
//!
//!     cargo run -p hindsight-export --example readers FOLDER [FILE.hindsight…]
//!
//! Besides the given files, these are traces that are difficult for readers: a stall, calls without begins and ends,
//! exceptions, methods without names, calls more than 1000 deep, a ring that has wrapped around, threads that wake each
//! other, a second ring with a thread id that was there before, and a part of a trace.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use hindsight_analysis::{Selection, Window};
use hindsight_decoder::{Extension, Flags, Trace};
use hindsight_export::{write_file, Format};
use hindsight_testkit::{busy, events_only, repeated_tid, stall, Script};
use serde_json::{json, Value};

fn odd() -> Script {
    let mut s = Script::new("odd \"process\"\n");
    let (f, g) = (s.method("a.C.f", "()V"), s.method("a.C.<init>", "()V"));
    let semicolon = s.method("a.C.semi;colon", "(I[Ljava/lang/String;)V");
    let unicode = s.method("a.Größe.ändern", "()V");
    let main = s.thread(50, "main");
    let mut r = s.at(main, 0);
    r.exit().after(10).exit().after(10);
    r.enter(f).enter(0x7f12_3456_7890).after(5).enter(g);
    r.after(5).unwind(2).after(10).exit();
    // Equal times, and calls that take none.
    r.enter(f)
        .call(g, 0)
        .call(unicode, 0)
        .call(semicolon, 7)
        .exit();
    r.after(10).enter(f).after(1).enter(g).after(20);
    r.extension(Extension::Stopped, &[]).after(1_000);
    r.extension(Extension::Started, &[1])
        .after(10)
        .exit()
        .after(5);
    r.call(f, 5).enter(unicode).after(1).enter(g).after(1);
    s.thread(51, "idle; thread");
    s
}

fn deep() -> Script {
    let mut s = Script::new("deep");
    let f = s.method("a.C.recurse", "(I)V");
    let main = s.thread(60, "main");
    let mut r = s.at(main, 0);
    for _ in 0..1_300 {
        r.enter(f).after(1);
    }
    for _ in 0..1_300 {
        r.after(1).exit();
    }
    s
}

fn conversation() -> Script {
    let mut s = Script::new("talk");
    let (send, receive) = (
        s.method("a.C.send", "()V"),
        s.method("java.lang.Object.wait", "()V"),
    );
    let (a, b) = (s.thread(70, "sender"), s.thread(71, "receiver"));
    let mut r = s.at(a, 100);
    r.enter(send).after(10);
    r.extension(Extension::MessageEnqueued, &[0xdead_beef, 71])
        .after(500)
        .exit();
    r.extension(Extension::ThreadCpuTime, &[400]).after(20);
    r.extension(Extension::ThreadCpuTime, &[700]);
    let mut r = s.at(b, 200);
    r.enter(receive)
        .after(10)
        .extension(Extension::WokenBy, &[70])
        .after(20);
    r.event(Extension::MessageDispatched, &[("message", 0xdead_beef)])
        .after(20);
    r.extension(Extension::LockWait, &[70, 0x1234])
        .after(100)
        .event(Extension::MessageDone, &[("message", 0xdead_beef)])
        .exit();
    s
}

/// Threads that record events only, and one with a call: some formats have nothing else.
fn events() -> Script {
    let mut s = events_only();
    let f = s.method("a.C.f", "()V");
    let t = s.thread(4_240, "caller");
    s.at(t, 1_000).call(f, 500);
    s
}

/// Three recordings of one thread id at the same time, two of them with the same name.
fn again() -> Script {
    let mut s = Script::new("again");
    let (f, g) = (s.method("a.C.f", "()V"), s.method("a.C.g", "()V"));
    let [a, b, c] = ["main", "helper", "main"].map(|name| s.thread(80, name));
    // Crosswise: on one track they could not be nested.
    s.at(a, 0).enter(f).after(100).call(g, 10).after(1).exit();
    s.at(b, 50).enter(g).after(100).call(f, 20).after(1).exit();
    s.at(c, 60).call(g, 5).after(1).call(g, 5);
    s
}

/// Part of a stall, in which all calls are open at both ends.
fn part() -> Result<Trace, Box<dyn Error>> {
    let trace = Trace::decode(Path::new("part"), &stall().encode())?;
    let window = Window {
        from_ns: trace.end_ns() - 500_000_000,
        to_ns: trace.end_ns() - 100_000_000,
    };
    let selection = Selection {
        window: Some(window),
        ..Selection::default()
    };
    Ok(selection.apply(trace))
}

/// For each thread its name with its id, and a number if both were there before.
fn labels(trace: &Trace) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for thread in &trace.threads {
        let first = format!("{} ({})", thread.name, thread.tid);
        let mut label = first.clone();
        let mut number = 1;
        while labels.contains(&label) {
            number += 1;
            label = format!("{first} #{number}");
        }
        labels.push(label);
    }
    labels
}

fn expected(trace: &Trace) -> Value {
    let labels = labels(trace);
    let threads: Vec<Value> = trace
        .threads
        .iter()
        .zip(&labels)
        .map(|(thread, label)| {
            let calls: Vec<Value> = thread
                .calls
                .iter()
                .enumerate()
                .map(|(i, s)| {
                    let runs = s.flags.contains(Flags::OPEN_END) && s.end_ns == thread.end_ns;
                    json!({
                        "start": s.start_ns, "end": s.end_ns, "depth": s.depth,
                        "parent": thread.calls.parent_of(i),
                        "name": trace.methods.name(s.method),
                        "open_start": s.flags.contains(Flags::OPEN_START),
                        "open_end": s.flags.contains(Flags::OPEN_END),
                        "by_exception": s.flags.contains(Flags::BY_EXCEPTION),
                        "runs": runs,
                    })
                })
                .collect();
            json!({
                "tid": thread.tid, "name": thread.name, "label": label, "calls": calls,
                "start": thread.start_ns, "end": thread.end_ns,
                "events": thread.events.len(),
            })
        })
        .collect();
    let taken = trace.clock.reference();
    json!({
        "process": trace.process.name, "pid": trace.process.pid, "reason": trace.process.reason,
        "taken_boottime": taken.boottime_ns, "taken_realtime": taken.realtime_ns.to_string(),
        "methods": trace.methods.len(), "threads": threads,
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments
        .next()
        .ok_or("usage: readers FOLDER [FILE.hindsight…]")?;
    let mut traces: Vec<(String, Trace)> = Vec::new();
    for (name, script) in [
        ("stall", stall()),
        ("odd", odd()),
        ("deep", deep()),
        ("wrapped", busy(16, 3, 300, 40)),
        ("talk", conversation()),
        ("again", again()),
        ("repeated", repeated_tid()),
        ("events", events()),
    ] {
        let trace = Trace::decode(Path::new(name), &script.encode())?;
        traces.push((name.to_owned(), trace));
    }
    traces.push(("part".to_owned(), part()?));
    for (i, file) in arguments.enumerate() {
        traces.push((format!("given-{i}"), Trace::open(&file)?));
    }
    for (name, trace) in &traces {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        fs::write(
            folder.join("expected.json"),
            serde_json::to_vec(&expected(trace))?,
        )?;
        for format in Format::ALL {
            let path = folder.join(format!("t.{}", format.extension()));
            write_file(trace, format, &path)?;
        }
        println!("{}", folder.display());
    }
    Ok(())
}
