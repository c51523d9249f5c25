// SPDX-License-Identifier: Apache-2.0
//! Calls that are made of stacks are told from recorded ones in every format that can say so.

use std::io::Read;

use hindsight_decoder::{Extension, Trace};
use hindsight_export::{write, Format};
use hindsight_testkit::Script;
use serde_json::Value;

/// One thread with a recorded call, and one with two stacks of the same method.
fn trace() -> Trace {
    let mut s = Script::new("p");
    let f = s.method("a.C.f", "()V");
    let calls = s.thread(1, "calls");
    s.at(calls, 0).call(f, 2_000);
    let stacks = s.events_thread(2, "stacks", 1);
    let stack = s.stack(&[(f, 1)]);
    s.at(stacks, 1_000).extension(Extension::Stack, &stack);
    s.at(stacks, 3_000).extension(Extension::Stack, &stack);
    s.stop_at(4_000);
    Trace::decode("t".as_ref(), &s.encode()).unwrap()
}

fn export(format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    write(&trace(), format, &mut out).unwrap();
    out
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn folded_stacks_have_a_name_of_their_own() {
    let text = String::from_utf8(export(Format::Folded)).unwrap();
    assert_eq!(
        text,
        "calls (1);a.C.f 2000\nstacks (2);a.C.f (sampled) 2010\n"
    );
}

#[test]
fn speedscope_has_frames_of_their_own() {
    let all = json(&export(Format::Speedscope));
    let frame = |profile: usize| {
        let frame = all["profiles"][profile]["events"][0]["frame"]
            .as_u64()
            .unwrap();
        let frame = &all["shared"]["frames"][frame as usize];
        (frame["name"].clone(), frame["file"].clone())
    };
    assert_eq!(frame(0), ("a.C.f".into(), "C.java".into()));
    assert_eq!(frame(1), ("a.C.f (sampled)".into(), "C.java".into()));
}

#[test]
fn the_firefox_profiler_has_functions_of_their_own() {
    let mut plain = Vec::new();
    let gzip = export(Format::Firefox);
    flate2::read::GzDecoder::new(&gzip[..])
        .read_to_end(&mut plain)
        .unwrap();
    let all = json(&plain);
    let shared = &all["shared"];
    let name = |thread: usize| {
        let stack = all["threads"][thread]["samples"]["stack"][0]
            .as_u64()
            .unwrap();
        let frame = shared["stackTable"]["frame"][stack as usize]
            .as_u64()
            .unwrap();
        let function = shared["frameTable"]["func"][frame as usize]
            .as_u64()
            .unwrap();
        let name = shared["funcTable"]["name"][function as usize]
            .as_u64()
            .unwrap();
        shared["stringArray"][name as usize].clone()
    };
    assert_eq!(
        (name(0), name(1)),
        ("a.C.f".into(), "a.C.f (sampled)".into())
    );
    let categories = shared["frameTable"]["category"].as_array().unwrap();
    assert_eq!(
        categories[0], categories[2],
        "a method and its sampled calls"
    );
}

#[test]
fn chrome_has_the_bounds() {
    let all = json(&export(Format::Chrome));
    let events = all["traceEvents"].as_array().unwrap().iter();
    let calls: Vec<&Value> = events.filter(|e| e["name"] == "a.C.f").collect();
    assert_eq!(calls[0]["args"], Value::Null);
    let args = &calls[1]["args"];
    assert_eq!(args["sampled"], true);
    // The thread was recorded from its first stack on.
    assert_eq!(
        (&args["start_error_ns"], &args["end_error_ns"]),
        (&0.into(), &990.into())
    );
}
