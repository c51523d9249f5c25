// SPDX-License-Identifier: Apache-2.0
//! Answers about generated traces.

use hindsight_testkit::{Script, ThreadIndex};
use hindsight_trace_format::slot::Extension;
use hindsight_trace_query::{
    Answer, Cause, Condition, Other, Signature, MAX_CAUSES, MAX_DEPTH, MAX_METHODS,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn signature(name: &str, stack: &[&str], longest_ns: u64) -> Signature {
    let stack: Vec<String> = stack.iter().map(|s| (*s).to_owned()).collect();
    let condition = Condition {
        longest_ns,
        ..Condition::default()
    };
    Signature::new(name, &stack, condition).unwrap()
}

/// A stall of 600 ms inside one of three messages, on the main thread.
fn stall() -> Script {
    let mut script = Script::new("com.example");
    script.process.pid = 7;
    let run = script.method("android.os.Looper.loop", "()V");
    let message = script.method("android.os.Handler.dispatchMessage", "()V");
    let find = script.method("com.example.Store.find", "()V");
    let sync = script.method("com.example.File.sync", "()V");
    let main = script.thread(7, "main");
    script.at(main, 0).enter(run);
    for n in 0..3 {
        let ns = if n == 1 { 600 * MS } else { 2 * MS };
        let mut at = script.at(main, 1000 * MS * (n + 1));
        at.enter(message)
            .after(MS)
            .enter(find)
            .after(MS)
            .call(sync, ns);
        at.after(MS).exit().after(MS).exit();
    }
    let other = script.thread(8, "pool-1");
    script.at(other, 0).call(sync, 2500 * MS);
    script.stop_at(4_000 * MS);
    script
}

#[test]
fn the_longest_call_of_the_main_thread_is_told_with_what_it_called() {
    let signatures = [
        signature(
            "slow",
            &["*.dispatchMessage", "...", "com.example.File.*"],
            100 * MS,
        ),
        signature("direct", &["*.dispatchMessage", "com.example.File.*"], 0),
        signature("never as long", &["com.example.Store.find"], 700 * MS),
    ];
    let answer = Answer::of(&stall().encode(), &signatures, 10).unwrap();
    let chain: Vec<_> = answer
        .chain
        .iter()
        .map(|l| (l.name.as_str(), l.ns / MS))
        .collect();
    assert_eq!(
        chain,
        [
            ("android.os.Looper.loop", 4_000),
            ("android.os.Handler.dispatchMessage", 604),
            ("com.example.Store.find", 602),
            ("com.example.File.sync", 600)
        ]
    );
    let of = |name: &str| answer.methods.iter().find(|m| m.name == name).unwrap();
    assert_eq!(
        (
            of("com.example.File.sync").calls,
            of("com.example.File.sync").self_ns / MS
        ),
        (4, 3104)
    );
    assert_eq!(of("com.example.Store.find").self_ns / MS, 6);
    assert_eq!(
        of("android.os.Handler.dispatchMessage").longest_ns / MS,
        604
    );
    let found: Vec<_> = answer
        .signatures
        .iter()
        .map(|s| (s.calls, s.is_matched))
        .collect();
    assert_eq!(found, [(3, true), (0, false), (3, false)]);
    let text = answer.to_string();
    assert!(
        text.contains("  yes  3  604.000 ms  600.000 ms  slow\n"),
        "{text}"
    );
    assert!(!text.contains("pool-1") && !text.contains("main"), "{text}");
    // Fewer methods one by one: the sums stay.
    let short = Answer::of(&stall().encode(), &[], 1).unwrap();
    let sum = |a: &Answer| a.others.self_ns + a.methods.iter().map(|m| m.self_ns).sum::<u64>();
    assert_eq!(short.methods.len(), 1);
    assert_eq!(sum(&short), sum(&answer));
}

#[test]
fn depth_and_number_of_methods_are_bounded() {
    let mut script = Script::new("x");
    let main = script.thread(1, "main");
    let methods: Vec<u64> = (0..MAX_METHODS + 10)
        .map(|n| script.method(&format!("a.B.m{n}"), "()V"))
        .collect();
    let mut at = script.at(main, 0);
    for method in &methods {
        at.enter(*method).after(1000);
    }
    for _ in &methods {
        at.exit();
    }
    for method in &methods {
        at.call(*method, 1000);
    }
    let answer = Answer::of(&script.encode(), &[], usize::MAX).unwrap();
    assert_eq!(answer.threads.too_deep, (methods.len() - MAX_DEPTH) as u64);
    assert_eq!(answer.methods.len(), MAX_METHODS);
    let calls: u64 = answer.methods.iter().map(|m| m.calls).sum();
    assert_eq!(
        calls + answer.others.calls,
        (methods.len() + MAX_DEPTH) as u64
    );
    assert_eq!(answer.others.calls, 10);
}

#[test]
fn an_exception_that_leaves_more_methods_than_there_are_costs_no_time() {
    let mut script = Script::new("x");
    let main = script.thread(1, "main");
    let work = script.method("a.B.work", "()V");
    for n in 0..1000 {
        script
            .at(main, n * 1000)
            .enter(work)
            .after(10)
            .unwind(u64::MAX);
    }
    let answer = Answer::of(&script.encode(), &[], 10).unwrap();
    assert_eq!(answer.methods[0].calls, 1000);
    assert!(answer.threads.begun_before > 0);
}

const LOCK: u64 = 0;
const SLEEP: u64 = 2;

/// A method that waits for so long; `holder` holds the lock if it is one.
fn wait(script: &mut Script, thread: ThreadIndex, method: u64, ms: [u64; 2], holder: u64) {
    let [from, to] = ms.map(|ms| ms * MS);
    let kind = if holder == 0 { SLEEP } else { LOCK };
    let mut at = script.at(thread, from);
    at.enter(method);
    if holder != 0 {
        at.event(Extension::LockWait, &[("held by", holder), ("lock", 0xf0)]);
    }
    at.event(Extension::WaitBegin, &[("kind", kind), ("number", from)]);
    at.at(to);
    if holder != 0 {
        at.event(Extension::WokenBy, &[("by", holder)]);
    }
    at.event(Extension::WaitEnd, &[("kind", kind), ("number", from)])
        .exit();
}

/// Kind, ms, and names and ms of the other thread's calls.
type Told<'a> = (&'a str, u64, Other, Vec<(&'a str, u64)>);

fn told(cause: &Cause) -> Told<'_> {
    let links = cause.meanwhile.iter();
    let links = links.map(|link| (link.name.as_str(), link.ns / MS));
    (cause.kind, cause.ns / MS, cause.other, links.collect())
}

#[test]
fn waits_are_followed_to_the_thread_that_waits_for_nobody() {
    let mut script = Script::new("com.example");
    script.process.pid = 7;
    let find = script.method("com.example.Store.find", "()V");
    let save = script.method("com.example.Store.save", "()V");
    let log = script.method("com.example.Log.write", "()V");
    let sync = script.method("com.example.File.sync", "()V");
    let main = script.thread(7, "main");
    // A longer wait outside the longest call: a loop without work.
    script
        .at(main, 0)
        .event(Extension::WaitBegin, &[("kind", 5), ("number", 1)])
        .at(990 * MS)
        .event(Extension::WaitEnd, &[("kind", 5), ("number", 1)]);
    wait(&mut script, main, find, [1000, 1600], 8);
    let saver = script.thread(8, "saver");
    script.at(saver, 900 * MS).enter(save);
    wait(&mut script, saver, log, [950, 1590], 9);
    script.at(saver, 1595 * MS).exit();
    let logger = script.thread(9, "logger");
    wait(&mut script, logger, sync, [100, 1580], 0);
    script.stop_at(2000 * MS);
    let answer = Answer::of(&script.encode(), &[], 10).unwrap();
    let names = [
        vec![
            ("com.example.Store.save", 595),
            ("com.example.Log.write", 590),
        ],
        vec![("com.example.File.sync", 580)],
    ];
    let [saved, synced] = names;
    assert_eq!(
        answer.causes.iter().map(told).collect::<Vec<_>>(),
        [
            ("lock", 600, Other::HeldTheLock, saved),
            ("lock", 590, Other::HeldTheLock, synced),
            ("sleep", 580, Other::Unknown, vec![]),
        ]
    );
    let text = answer.to_string();
    let part =
        "  600.000 ms  lock  another thread held it\n    595.000 ms  com.example.Store.save\n";
    assert!(text.contains(part), "{text}");
}

#[test]
fn a_call_that_computes_has_no_causes_and_a_circle_ends() {
    let mut script = Script::new("com.example");
    script.process.pid = 7;
    let work = script.method("com.example.work", "()V");
    let main = script.thread(7, "main");
    script.at(main, 0).enter(work);
    wait(&mut script, main, work, [10, 14], 8);
    script.at(main, 1000 * MS).exit();
    assert_eq!(Answer::of(&script.encode(), &[], 9).unwrap().causes, []);

    // All wait for the next one, and the last one for the first: these never end.
    let mut script = Script::new("com.example");
    script.process.pid = 1;
    let threads = MAX_CAUSES as u64 + 2;
    let work = script.method("com.example.work", "()V");
    for tid in 1..=threads {
        let thread = script.thread(tid as u32, "x");
        let next = tid % threads + 1;
        script
            .at(thread, 10 * tid * MS)
            .enter(work)
            .event(Extension::LockWait, &[("held by", next)])
            .event(Extension::WaitBegin, &[("kind", LOCK), ("number", 1)]);
    }
    script.stop_at(5000 * MS);
    let causes = Answer::of(&script.encode(), &[], 9).unwrap().causes;
    assert_eq!(causes.len(), MAX_CAUSES);
    let mut two = Script::new("com.example");
    two.process.pid = 1;
    let work = two.method("com.example.work", "()V");
    for (tid, next) in [(1, 2), (2, 1)] {
        let thread = two.thread(tid, "x");
        two.at(thread, 10 * MS)
            .enter(work)
            .event(Extension::LockWait, &[("held by", next)])
            .event(Extension::WaitBegin, &[("kind", LOCK), ("number", 1)]);
    }
    two.stop_at(5000 * MS);
    let causes = Answer::of(&two.encode(), &[], 9).unwrap().causes;
    assert_eq!((causes.len(), causes[1].meanwhile.len()), (2, 0));
}

#[test]
fn calls_that_began_before_the_ring_s_oldest_slot_have_the_names_that_were_noted() {
    let mut script = Script::new("com.example");
    script.process.pid = 7;
    script.ring_log2_bytes(12);
    let run = script.method("android.os.Looper.loop", "()V");
    let message = script.method("android.os.Handler.dispatchMessage", "()V");
    let work = script.method("com.example.work", "()V");
    let main = script.thread(7, "main");
    let mut at = script.at(main, 0);
    at.enter(run).enter(message);
    for _ in 0..400 {
        at.call(work, MS).after(MS);
    }
    at.call(work, 100 * MS);
    script.open_calls(main, 2, &[run, message]);
    script.stop_at(2000 * MS);
    let answer = Answer::of(&script.encode(), &[], 10).unwrap();
    let names: Vec<&str> = answer.chain.iter().map(|l| l.name.as_str()).collect();
    let expected = [
        "android.os.Looper.loop",
        "android.os.Handler.dispatchMessage",
        "com.example.work",
    ];
    assert_eq!(names, expected);
    let of = |name: &str| answer.methods.iter().find(|m| m.name == name).unwrap();
    let (outer, inner) = (of(names[0]), of(names[1]));
    assert_eq!((outer.calls, outer.self_ns), (1, 0));
    let covered = inner.self_ns + of(names[2]).self_ns;
    assert_eq!(covered, answer.chain[0].ns);
}

#[test]
fn calls_that_were_noted_in_the_middle_of_an_event_that_is_cut_have_no_names() {
    let mut script = Script::new("com.example");
    script.process.pid = 7;
    script.ring_log2_bytes(12);
    let run = script.method("android.os.Looper.loop", "()V");
    let work = script.method("com.example.work", "()V");
    let main = script.thread(7, "main");
    let mut at = script.at(main, 0);
    at.enter(run);
    for _ in 0..254 {
        at.call(work, MS).after(MS);
    }
    // Of its two slots, the wrap is in the middle. The ring is then filled exactly.
    at.enter(run).enter(work).unwind(2);
    for _ in 0..255 {
        at.call(work, MS).after(MS);
    }
    at.exit();
    script.open_calls(main, 3, &[run, run, work]);
    script.stop_at(2000 * MS);
    let answer = Answer::of(&script.encode(), &[], 10).unwrap();
    let names: Vec<&str> = answer.methods.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["com.example.work"]);
}

/// As the first page of the documentation explains this file by `hindsight why`.
#[test]
fn the_sample_s_stall_is_explained() {
    let file = concat!(env!("HINDSIGHT_CHECKOUT"), "samples/notes-stall.hindsight");
    let answer = Answer::of(&std::fs::read(file).unwrap(), &[], 10).unwrap();
    let last = answer.chain.last().unwrap();
    assert_eq!(last.name, "com.example.notes.NoteStore.find");
    let [lock] = &answer.causes[..] else {
        panic!("{answer}");
    };
    assert_eq!((lock.kind, lock.other), ("lock", Other::HeldTheLock));
    let culprit = "com.example.notes.NoteFile.syncToFlash";
    assert!(lock.meanwhile.iter().any(|link| link.name == culprit));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is in the file: an answer or an error.
    #[test]
    fn no_file_makes_it_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40), cut in any::<prop::sample::Index>()) {
        let mut bytes = stall().encode();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = Answer::of(&bytes, &[signature("s", &["*"], 0)], 10);
        let _ = Answer::of(&bytes[..cut.index(bytes.len())], &[], 10);
    }
}
