// SPDX-License-Identifier: Apache-2.0
//! A question about a part of a trace has the same answer as the question about that part, written as a file with
//! `convert`.

use std::path::Path;

use assert_cmd::Command;
use hindsight_analysis::{parse_signatures, stalls, top, By, Question, Selection, Summary, Window};
use hindsight_decoder::{Extension, Trace};
use hindsight_export::{write_file, Format};
use hindsight_testkit::{events_only, stall, Script, SCENES};
use proptest::prelude::*;
use serde_json::{json, Value};

const METHODS: [&str; 8] = [
    "a.Store.find",
    "a.Store.save",
    "b.Row.bind",
    "android.os.Looper.loop",
    "android.os.MessageQueue.next",
    "android.os.Handler.dispatchMessage",
    "java.lang.Object.wait",
    "java.lang.Thread.sleep",
];

/// The next event of a thread, and its delay, ns.
#[derive(Clone, Debug)]
enum Step {
    Enter(usize, u64),
    Exit(u64),
    Unwind(u64),
    LockWait(u64),
    WokenBy(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ns = || prop_oneof![3 => 0u64..50, 1 => 0u64..40_000_000];
    let step = prop_oneof![
        10 => (0..METHODS.len(), ns()).prop_map(|(m, ns)| Step::Enter(m, ns)),
        9 => ns().prop_map(Step::Exit),
        1 => (0u64..3).prop_map(Step::Unwind),
        1 => (1u64..5).prop_map(Step::LockWait),
        1 => (1u64..5).prop_map(Step::WokenBy),
    ];
    prop::collection::vec(step, 0..80)
}

fn record(threads: Vec<Vec<Step>>) -> Vec<u8> {
    let mut script = Script::new("p");
    let methods = METHODS.map(|m| script.method(m, "()V"));
    for (i, steps) in threads.into_iter().enumerate() {
        // The last thread has the same id as the first one.
        let thread = script.thread([1, 2, 1][i % 3], &format!("thread-{i}"));
        let mut r = script.at(thread, 0);
        for step in steps {
            match step {
                Step::Enter(m, ns) => r.after(ns).enter(methods[m]),
                Step::Exit(ns) => r.after(ns).exit(),
                Step::Unwind(frames) => r.unwind(frames),
                Step::LockWait(owner) => r.extension(Extension::LockWait, &[owner, 0xabc]),
                Step::WokenBy(waker) => r.extension(Extension::WokenBy, &[waker]),
            };
        }
    }
    script.encode()
}

fn decode(bytes: &[u8]) -> Trace {
    Trace::decode(Path::new("whole"), bytes).unwrap()
}

const SIGNATURES: &str = r#"
[[signature]]
name = "waits in a store"
stack = ["a.Store.*", "...", "java.lang.Object.wait"]
when = { calls = ">= 1", share = ">= 1 %" }

[[signature]]
name = "any"
stack = ["*"]
when = { max = "> 1 ms" }
"#;

/// The answers to all questions about a trace.
fn answers(trace: &Trace) -> Value {
    let ranked = |by| {
        let mut totals = top(&trace.methods, &trace.threads, by);
        totals.sort_by(|a, b| (&a.name, &a.signature).cmp(&(&b.name, &b.signature)));
        json!(totals)
    };
    let question = Question {
        limit: 3,
        stall_ns: 1_000_000,
    };
    let threads = trace.threads.iter();
    let mut why: Vec<_> = threads.map(|t| stalls(trace, t, &question)).collect();
    // Only the written file says that it was converted, which may be why a thread is missing.
    for chain in why.iter_mut().flat_map(|s| &mut s.chains) {
        let of_evidence = chain.evidence.iter_mut().map(|e| &mut e.lock_owner);
        for owner in of_evidence.chain([&mut chain.lock_owner]).flatten() {
            owner.missing = None;
        }
        let of_evidence = chain.evidence.iter_mut().map(|e| &mut e.waker);
        for waker in of_evidence.chain([&mut chain.waker]).flatten() {
            waker.missing = None;
        }
    }
    let signatures = parse_signatures("s.toml", SIGNATURES).unwrap();
    let found: Vec<_> = signatures.iter().map(|s| s.find(trace)).collect();
    json!({
        "top": [ranked(By::Method), ranked(By::Class), ranked(By::Package)],
        "why": why,
        "match": found,
        "summary": Summary::of(trace, 5),
        "calls": trace.threads.iter().map(|t| t.calls.len()).collect::<Vec<_>>(),
    })
}

/// Writes a trace, and reads it again.
fn convert(trace: &Trace) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("part.hindsight");
    write_file(trace, Format::Hindsight, &file).unwrap();
    Trace::open(&file).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_part_answers_as_the_window_does(
        threads in prop::collection::vec(steps(), 1..4),
        from in 0.0f64..1.0,
        length in 0.0f64..1.0,
    ) {
        let whole = decode(&record(threads));
        let span = (whole.end_ns() - whole.start_ns()) as f64;
        let from_ns = whole.start_ns() + (span * from) as u64;
        let to_ns = from_ns + (span * length) as u64 + 1;
        let selection = Selection {
            window: Some(Window { from_ns, to_ns }),
            ..Selection::default()
        };
        let part = selection.apply(whole);
        prop_assert_eq!(answers(&convert(&part)), answers(&part));
    }

    #[test]
    fn a_damaged_file_answers_as_its_conversion_does(
        threads in prop::collection::vec(steps(), 1..4),
        at in 0.0f64..1.0,
        bit in prop::option::of(0u32..8),
    ) {
        let mut bytes = record(threads);
        damage(&mut bytes, at, bit);
        if let Ok(trace) = Trace::decode(Path::new("damaged"), &bytes) {
            prop_assert_eq!(answers_of_part(&convert(&trace)), answers_of_part(&trace));
        }
    }
}

/// Changes a bit of a file, or cuts it off, at this part of its length.
fn damage(bytes: &mut Vec<u8>, at: f64, bit: Option<u32>) {
    let at = ((bytes.len() - 1) as f64 * at) as usize;
    match bit {
        Some(bit) => bytes[at] ^= 1 << bit,
        None => bytes.truncate(at),
    }
}

/// The answers to all questions, without the numbers of rings, as a converted file has only the rings that could be read.
fn answers_of_part(trace: &Trace) -> Value {
    let mut answers = answers(trace);
    forget(&mut answers, "ring");
    answers
}

/// The same of each scene with calls and of one with events only, damaged all over.
#[test]
fn damaged_scenes_answer_as_their_conversions_do() {
    for (name, script) in [("stall", stall()), ("events-only", events_only())] {
        let sound = script.encode();
        let mut told = 0;
        for i in 0..48 {
            let mut bytes = sound.clone();
            let at = f64::from(i) / 48.0 + 0.001;
            damage(&mut bytes, at, (i % 3 == 0).then_some(i as u32 % 8));
            let Ok(trace) = Trace::decode(Path::new(name), &bytes) else {
                continue;
            };
            let converted = convert(&trace);
            assert_eq!(converted.damaged.len(), trace.damaged.len(), "{name} {at}");
            assert_eq!(
                answers_of_part(&converted),
                answers_of_part(&trace),
                "{name} {at}"
            );
            told += 1;
        }
        assert!(told > 30, "{told}");
    }
}

/// Leaves all fields of this name out.
fn forget(json: &mut Value, field: &str) {
    match json {
        Value::Object(object) => {
            object.remove(field);
            object.values_mut().for_each(|v| forget(v, field));
        }
        Value::Array(array) => array.iter_mut().for_each(|v| forget(v, field)),
        _ => {}
    }
}

/// The same of the program, for each scene and a few windows.
#[test]
fn the_commands_answer_alike_about_a_window_and_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let hindsight = |arguments: &[&str]| -> Vec<u8> {
        let mut command = Command::cargo_bin("hindsight").unwrap();
        let command = command.current_dir(folder.path()).args(arguments);
        command.assert().success().get_output().stdout.clone()
    };
    let windows: [&[&str]; 3] = [
        &["--from=-600ms"],
        &["--from=-500ms", "--to=-100ms"],
        &["--to=-300ms"],
    ];
    // The others are shorter than the windows, or damaged, which their parts are not.
    let scenes = SCENES
        .into_iter()
        .filter(|(name, _)| !["busy", "damaged-ring", "cut-file"].contains(name));
    for (name, scene) in scenes {
        let file = format!("{name}.hindsight");
        std::fs::write(folder.path().join(&file), scene()).unwrap();
        for window in windows {
            hindsight(&[&["convert", &file, "part.hindsight"], window].concat());
            let ask = |command: &[&str], file: &str, window: &[&str]| -> Value {
                let arguments = [command, &[file, "--json"], window].concat();
                serde_json::from_slice(&hindsight(&arguments)).unwrap()
            };
            let commands: [&[&str]; 3] = [&["top"], &["why", "-n", "3"], &["summary"]];
            for command in commands {
                let mut expected = ask(command, &file, window);
                let mut got = ask(command, "part.hindsight", &[]);
                // Only the written file says that it was converted, which may be why a thread is missing.
                // The graph's answers name the files.
                for field in ["missing", "files"] {
                    forget(&mut expected, field);
                    forget(&mut got, field);
                }
                assert_eq!(got, expected, "{command:?} of {name} {window:?}");
            }
            // info describes whole rings, and the part has rings of its own; the calls are the same.
            let calls = |info: Value| -> Vec<Value> {
                let threads = info["threads"].as_array().unwrap().iter();
                let facts = threads.map(|t| json!([t["tid"], t["name"], t["calls"], t["levels"]]));
                facts.collect()
            };
            let expected = calls(ask(&["info"], &file, window));
            assert_eq!(calls(ask(&["info"], "part.hindsight", &[])), expected);
        }
    }
}
