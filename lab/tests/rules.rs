// SPDX-License-Identifier: Apache-2.0
//! Rules of a real ART: each call of a method, and each access to a field, that a rule names is recorded once, in
//! interpreted and in compiled code. Run with `--ignored` after `cargo xtask lab build`.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{jar, lab, open, tests_folder, Program, Socket};
use hindsight_decoder::{Extension, Trace};
use hindsight_lab::JavaLibrary;

const RULES: &str = "\
method Rules$Queue.put(int, java.lang.Object) identity=argument-2 name=put
method Rules$Queue.isDone name=is-done
method Rules$Queue.count(long, java.lang.Object) identity=argument-2 name=count
method java.util.ArrayDeque.addLast(java.lang.Object) name=add
";

/// Calls in an iteration of the program.
const CALLS: [(&str, u64); 4] = [("add", 1), ("count", 1), ("is-done", 2), ("put", 4)];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Interpreter,
    Jit,
    Aot,
}

/// The program, compiled ahead of time.
fn compiled_jar() -> &'static Path {
    static FOLDER: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    &FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("compiled.jar");
            std::fs::copy(jar("rules"), &path).unwrap();
            compile_ahead_of_time(folder.path());
            (folder, path)
        })
        .1
}

/// Compiles the folder's `compiled.jar`.
fn compile_ahead_of_time(folder: &Path) {
    let lab = lab();
    let oat = folder.join("oat").join(lab.isa().name());
    std::fs::create_dir_all(&oat).unwrap();
    let status = lab
        .dex2oat_command()
        .arg(format!("--dex-file={}/compiled.jar", folder.display()))
        .arg(format!("--oat-file={}/compiled.odex", oat.display()))
        .args(["--compiler-filter=speed", "--class-loader-context=PCL[]"])
        .args(["--host", "-j1"])
        .status()
        .unwrap();
    assert!(status.success());
}

/// The jar of `rules_chain` with two dex files, of which the second has the class `Chain$Middle`.
fn chain_jar(folder: &Path) -> PathBuf {
    let source = tests_folder().join("java/rules_chain/Chain.java");
    let classes = folder.join("classes");
    let sources = JavaLibrary {
        sources: vec![source],
        class_output: Some(classes.clone()),
        ..JavaLibrary::default()
    };
    lab()
        .compile_java(&sources, &folder.join("all.jar"))
        .unwrap();
    let second = folder.join("second");
    std::fs::create_dir(&second).unwrap();
    let middle = "Chain$Middle.class";
    std::fs::rename(classes.join(middle), second.join(middle)).unwrap();
    let jar = folder.join("compiled.jar");
    for (classes, jar) in [(classes, &jar), (second, &folder.join("second.jar"))] {
        let library = JavaLibrary {
            class_jars: vec![classes],
            ..JavaLibrary::default()
        };
        lab().compile_java(&library, jar).unwrap();
    }
    let run = |arguments: &[&str]| {
        let status = Command::new("jar")
            .args(arguments)
            .current_dir(folder)
            .status();
        assert!(status.unwrap().success());
    };
    run(&["xf", "second.jar", "classes.dex"]);
    std::fs::rename(folder.join("classes.dex"), folder.join("classes2.dex")).unwrap();
    run(&["uf", "compiled.jar", "classes2.dex"]);
    jar
}

/// Starts the program, with these rules if any.
fn start(mode: Mode, configuration: &str, rules: Option<&Path>) -> (Program, Socket) {
    let jar = match mode {
        Mode::Aot => compiled_jar().to_owned(),
        _ => jar("rules"),
    };
    let sizes = "ring=22,event-ring=20,event-rings=512,event-spool=23";
    let mut configuration = format!("{configuration},{sizes}");
    if let Some(rules) = rules {
        configuration += &format!(",rules={}", rules.display());
    }
    let mut program = Program::start_jar(
        &jar,
        "Rules",
        "",
        &configuration,
        |command: &mut Command, _: &Path| {
            command.args(match mode {
                Mode::Interpreter => &["-Xint"][..],
                Mode::Jit => &["-Xusejit:true", "-Xjitthreshold:200"],
                Mode::Aot => &["-Xusejit:false"],
            });
        },
    );
    assert_eq!(program.line(), "ready");
    let socket = program.socket();
    (program, socket)
}

fn rules_file(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("rules.txt");
    std::fs::write(&path, text).unwrap();
    path
}

/// Begins by the names of their rules. Each begin has its end, with the same object, after the ends of those in it.
fn begins(trace: &Trace) -> BTreeMap<String, u64> {
    begins_in(trace, true)
}

/// As [`begins`]. Unless `whole`, the first events of a thread may be lost, and with them begins.
fn begins_in(trace: &Trace, whole: bool) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for thread in &trace.threads {
        let mut running = Vec::new();
        for event in &thread.events {
            let id = (event.get("name"), event.get("object"));
            match event.kind {
                Extension::RuleBegin => {
                    assert_ne!(id.1, 0, "{}: no identity", thread.name);
                    let name = trace.strings.get(id.0).unwrap().to_owned();
                    *counts.entry(name).or_default() += 1;
                    running.push(id);
                }
                Extension::RuleEnd if running.is_empty() && !whole => {}
                Extension::RuleEnd => assert_eq!(running.pop(), Some(id), "{}", thread.name),
                _ => {}
            }
        }
        assert!(running.is_empty(), "{}: {running:?}", thread.name);
    }
    counts
}

fn expected(iterations: u64) -> BTreeMap<String, u64> {
    let calls = CALLS.map(|(name, calls)| (name.to_owned(), calls * iterations));
    calls.into_iter().collect()
}

fn snapshot(socket: &mut Socket) -> Trace {
    open(Path::new(&socket.ok("snapshot test")))
}

/// The states of the rules.
fn states(socket: &mut Socket) -> Vec<String> {
    let status = socket.status();
    let rules = status["rules"]["rules"].as_array().unwrap();
    let state = |rule: &serde_json::Value| rule["state"].as_str().unwrap().to_owned();
    rules.iter().map(state).collect()
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn each_call_of_a_rules_method_is_recorded_once() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules_file(folder.path(), RULES);
    for mode in [Mode::Interpreter, Mode::Jit, Mode::Aot] {
        for traced in ["trace=off", "trace=all"] {
            let (mut program, mut socket) = start(mode, traced, Some(&rules));
            let done = program.number("work 3 300");
            assert_eq!(
                begins(&snapshot(&mut socket)),
                expected(done),
                "{mode:?} {traced}"
            );
            assert_eq!(states(&mut socket), ["on"; 4], "{mode:?} {traced}");
            let done = program.number("work 1 300");
            assert_eq!(begins(&snapshot(&mut socket)), expected(done), "{mode:?}");
            program.finish();
        }
    }
}

/// Each thread puts the same few objects into a queue of its own, and takes each out again.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn an_element_has_one_identity_where_it_is_put_and_where_it_is_taken() {
    const PUT: &str = "method java.util.ArrayDeque.addLast(java.lang.Object) name=put";
    const TAKE: &str = "method java.util.ArrayDeque.pollFirst() name=take";
    let folder = tempfile::tempdir().unwrap();
    for mode in [Mode::Interpreter, Mode::Jit, Mode::Aot] {
        for (put, take, objects) in [
            ("argument-1", "result", 3),
            ("this+argument-1", "this+result", 9),
        ] {
            let text = format!("{PUT} identity={put}\n{TAKE} identity={take}\n");
            let rules = rules_file(folder.path(), &text);
            let (mut program, mut socket) = start(mode, "trace=off", Some(&rules));
            let done = program.number("work 3 300");
            let (mut calls, mut seen) = (0, BTreeSet::new());
            let trace = snapshot(&mut socket);
            for thread in &trace.threads {
                let of_rule = |kind, name| {
                    let events = thread.events.iter().filter(|e| e.kind == kind);
                    let events = events.filter(|e| trace.strings.get(e.get("name")) == Some(name));
                    events.map(|e| e.get("object")).collect::<Vec<u64>>()
                };
                let put = of_rule(Extension::RuleBegin, "put");
                let taken = of_rule(Extension::RuleEnd, "take");
                assert_eq!(put, taken, "{mode:?} {}", thread.name);
                calls += put.len() as u64;
                seen.extend(put);
            }
            assert_eq!((calls, seen.len()), (done, objects), "{mode:?} {take}");
            assert!(!seen.contains(&0));
            program.finish();
        }
    }
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn rules_are_switched_while_their_methods_run() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules_file(folder.path(), RULES);
    let on = format!("rules {}", rules.display());
    for mode in [Mode::Interpreter, Mode::Jit, Mode::Aot] {
        for traced in ["trace=off", "trace=all"] {
            let (mut program, mut socket) = start(
                mode,
                &format!("{traced},events=rules,max-rings=500,ring=25"),
                None,
            );
            program.number("work 2 500");
            assert!(begins(&snapshot(&mut socket)).is_empty(), "{mode:?}");
            program.number("spin 3");
            for _ in 0..50 {
                socket.ok(&on);
                socket.ok("rules off");
            }
            program.number("stop");
            // Some calls were seen, and none has only one end.
            let seen = begins_in(&snapshot(&mut socket), false);
            assert!(!seen.is_empty(), "{mode:?} {traced}");
            // The process has closed the connection if reading the file took long.
            let mut socket = program.socket();
            program.number("work 1 100");
            assert!(begins(&snapshot(&mut socket)).is_empty(), "{mode:?}");
            socket.ok(&on);
            let done = program.number("work 2 300");
            assert_eq!(begins(&snapshot(&mut socket)), expected(done), "{mode:?}");
            program.finish();
        }
    }
}

/// A method of the first dex file is inlined into one of the second, and that one into one of the first.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn methods_inlined_over_several_dex_files_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules_file(folder.path(), "method Chain$First.first name=first\n");
    let jar = chain_jar(folder.path());
    compile_ahead_of_time(folder.path());
    let configuration = format!("trace=off,events=rules,rules={}", rules.display());
    for configuration in [&*configuration, "trace=off,events=rules"] {
        let mut program = Program::start_jar(&jar, "Chain", "", configuration, |command, _| {
            command.arg("-Xusejit:false");
        });
        assert_eq!(program.line(), "ready");
        let mut socket = program.socket();
        if !configuration.contains("rules=/") {
            assert_eq!(program.number("100"), 100);
            socket.ok(&format!("rules {}", rules.display()));
        }
        assert_eq!(program.number("100"), 100);
        let expected = BTreeMap::from([("first".to_owned(), 100)]);
        assert_eq!(begins(&snapshot(&mut socket)), expected, "{configuration}");
        program.finish();
    }
}

/// The program cannot free dex files that rules look through.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn dex_files_that_were_looked_through_are_kept_when_they_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules_file(folder.path(), "method Chain$First.first name=first\n");
    let jar = chain_jar(folder.path());
    let mut program = Program::start_jar(&jar, "Chain", "", "trace=off,events=rules", |_, _| {});
    assert_eq!(program.line(), "ready");
    let mut socket = program.socket();
    assert_eq!(program.number("close"), 1);
    socket.ok(&format!("rules {}", rules.display()));
    assert_eq!(program.number("close"), 2);
    program.finish();
}

/// Class loaders whose methods have rules are unloaded while rules begin and end.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn rules_are_switched_while_class_loaders_are_unloaded() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules_file(
        folder.path(),
        "method Rules$Late.count identity=argument-1 name=late\nfield Rules$Late.counted name=counted\n",
    );
    let on = format!("rules {}", rules.display());
    for mode in [Mode::Interpreter, Mode::Jit, Mode::Aot] {
        let (mut program, mut socket) = start(mode, "trace=off,events=rules,max-rings=500", None);
        program.send("churn 40");
        for _ in 0..40 {
            socket.ok(&on);
            socket.ok("rules off");
        }
        assert!(program.line().parse::<u64>().unwrap() > 0);
        let mut socket = program.socket();
        // Some calls were seen, and none has only one end.
        let seen = begins_in(&snapshot(&mut socket), false);
        assert!(!seen.is_empty(), "{mode:?}");
        socket.ok(&on);
        assert!(program.number("churn 8") > 0);
        let expected = BTreeMap::from([("late".to_owned(), 80)]);
        assert_eq!(begins(&snapshot(&mut socket)), expected, "{mode:?}");
        socket.ok("rules off");
        program.finish();
    }
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn accesses_to_a_field_are_recorded_once() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules_file(
        folder.path(),
        "field Rules$Queue.done name=done\nfield Rules$Queue.counted access=written\n",
    );
    for mode in [Mode::Interpreter, Mode::Jit, Mode::Aot] {
        let (mut program, mut socket) = start(mode, "trace=off", Some(&rules));
        let done = program.number("work 3 300");
        let trace = snapshot(&mut socket);
        let mut counts = BTreeMap::new();
        for event in trace.threads.iter().flat_map(|t| &t.events) {
            let name = trace.strings.get(event.get("name")).unwrap_or_default();
            if matches!(event.kind, Extension::FieldRead | Extension::FieldWritten) {
                // The static field has no object.
                assert_eq!(event.get("object") != 0, name == "done", "{mode:?} {name}");
                *counts.entry((event.kind, name)).or_insert(0) += 1;
            }
        }
        let expected = [
            ((Extension::FieldRead, "done"), 2 * done),
            // At the end of each thread, the second time while it holds the lock of an object without a hash.
            ((Extension::FieldWritten, "done"), 6),
            ((Extension::FieldWritten, "Rules$Queue.counted"), done),
        ];
        assert_eq!(counts, BTreeMap::from(expected), "{mode:?}");
        program.finish();
    }
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_rule_that_cannot_be_followed_is_an_error_that_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (mut program, mut socket) = start(Mode::Jit, "trace=off,events=rules", None);
    program.number("work 1 1");
    let mut answer = |text: &str| {
        let file = rules_file(folder.path(), text);
        let path = file.display().to_string();
        let answer = socket.ask(&format!("rules {path}"));
        (answer.replace(&path, "RULES"), states(&mut socket))
    };
    for (rule, error) in [
        (
            "method Rules$Queue.putt",
            "error RULES:1: Rules$Queue has no method putt",
        ),
        (
            "method Rules$Queue.put()",
            "error RULES:1: Rules$Queue has no method put(); methods of this name have the signatures (ILjava/lang/Object;)I",
        ),
        (
            "method Rules$Worker.join",
            "error RULES:1: Rules$Worker has no method join; its superclass java.lang.Thread has one: name java.lang.Thread in the rule",
        ),
        (
            "method java.lang.Object.notify",
            "error RULES:1: void java.lang.Object.notify() is native: name the method that calls it",
        ),
        (
            "method java.util.Queue.add",
            "error RULES:1: boolean java.util.Queue.add(java.lang.Object) is abstract: name the class that implements it",
        ),
        (
            "method java.lang.Math.max(int, int)",
            "error RULES:1: int java.lang.Math.max(int, int) was inlined away: the compilers replace its calls by code of their own (an intrinsic)",
        ),
        (
            "method Rules$Queue.put identity=argument-1",
            "error RULES:1: int Rules$Queue.put(int, java.lang.Object) has no object as argument 1",
        ),
        (
            "method Rules$Queue.finish identity=result",
            "error RULES:1: void Rules$Queue.finish() returns no object",
        ),
        (
            "method Rules$Queue.count identity=this+argument-2",
            "error RULES:1: int Rules$Queue.count(long, java.lang.Object) is static: leave out 'this+'",
        ),
        (
            "field Rules$Queue.size",
            "error RULES:1: Rules$Queue declares no field size",
        ),
    ] {
        assert_eq!(answer(rule), (error.to_owned(), vec!["failed".to_owned()]));
    }
    // The other rules of a file are followed.
    let (_, states) = answer("method Rules$Queue.putt\nmethod Rules$Queue.put");
    assert_eq!(states, ["failed", "on"]);
    // A file with a wrong line changes nothing.
    let (error, states) = answer("method Rules$Queue.put\nmetod Rules$Queue.put");
    assert!(error.starts_with("error RULES:2: 'metod'"), "{error}");
    assert_eq!(states, ["failed", "on"]);
    program.finish();
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_rule_waits_for_its_class() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules_file(
        folder.path(),
        "method Rules$Late.count identity=argument-1 name=late\nmethod Rules$Late.size name=size\n",
    );
    for mode in [Mode::Interpreter, Mode::Jit, Mode::Aot] {
        let (mut program, mut socket) = start(mode, "trace=off", Some(&rules));
        assert_eq!(states(&mut socket), ["waits", "waits"]);
        program.ask("load");
        assert_eq!(states(&mut socket), ["on", "failed"]);
        let expected = BTreeMap::from([("late".to_owned(), 1)]);
        assert_eq!(begins(&snapshot(&mut socket)), expected, "{mode:?}");
        program.finish();
    }
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_rule_waits_again_when_its_class_is_unloaded() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules_file(
        folder.path(),
        "method Rules$Late.count identity=argument-1 name=late\nfield Rules$Late.counted name=counted\n",
    );
    for mode in [Mode::Interpreter, Mode::Jit, Mode::Aot] {
        let (mut program, mut socket) = start(mode, "trace=off", Some(&rules));
        assert_eq!(program.number("churn 1"), 1);
        assert_eq!(begins(&snapshot(&mut socket))["late"], 10, "{mode:?}");
        assert_eq!(states(&mut socket), ["waits", "waits"], "{mode:?}");
        program.ask("load");
        assert_eq!(states(&mut socket), ["on", "on"], "{mode:?}");
        program.finish();
    }
}
