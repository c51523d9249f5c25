// SPDX-License-Identifier: Apache-2.0
//! Transitions into and out of managed code on a real ART that no run-test makes. Run with `--ignored` after
//! `cargo xtask lab build`. testing/verify/README.md lists all paths, with the tests of each.

mod common;

use std::path::Path;
use std::process::Command;

use common::{native_library, open, traces, until, Program};
use hindsight_decoder::Trace;

const MODES: [&str; 2] = ["-Xint", "-Xjitthreshold:0"];

fn paths(mode: &str, arguments: &str, configuration: &str) -> Program {
    let change = |command: &mut Command, folder: &Path| {
        native_library(folder, "paths");
        // Nothing is inlined, so that each call is recorded.
        command.args([mode, "-Xcompiler-option", "--inline-max-code-units=0"]);
        command.arg(format!("-Djava.library.path={}", folder.display()));
        if arguments == "zygote" {
            command.arg("-Xzygote");
        }
    };
    Program::start("paths", "Paths", arguments, configuration, change)
}

/// The number of calls of methods of this name on threads of this name.
fn calls(trace: &Trace, thread: &str, method: &str) -> usize {
    let threads = trace.threads.iter().filter(|t| t.name == thread);
    threads
        .flat_map(|t| t.calls.iter())
        .filter(|call| {
            let method_of = trace.methods.get(call.method);
            method_of.is_some_and(|m| m.name == method && m.class == "Paths")
        })
        .count()
}

/// The number of threads in the only balance report in the folder.
fn balanced_threads(folder: &Path) -> usize {
    let mut files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let report = files.find(|path| path.extension().is_some_and(|x| x == "balance"));
    let report = std::fs::read_to_string(report.unwrap()).unwrap();
    let count = report
        .strip_prefix("threads ")
        .and_then(|rest| rest.split(' ').next());
    count.unwrap().parse().unwrap()
}

/// Native threads attach and detach; native code throws, returns with an exception of what it called, and
/// clears one. `Program::finish` checks that the trace is balanced.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn native_code_attaches_throws_and_calls_back() {
    for mode in MODES {
        let mut program = paths(
            mode,
            "native",
            "trace=all,max-rings=unlimited,ring=22,snapshot-at-exit=yes",
        );
        assert_eq!(program.line(), "done");
        let folder = program.finish();
        let trace = open(&traces(folder.path())[0]);
        for (method, expected) in [("throwNew", 200), ("callBack", 400), ("backAndThrow", 400)] {
            assert_eq!(calls(&trace, "main", method), expected, "{mode}: {method}");
        }
        let main = trace.main_thread().unwrap();
        assert_eq!(main.stats.open_starts + main.stats.open_ends, 0, "{mode}");
        // Interpreted frames record an exit also when an exception leaves them.
        let left = if mode == "-Xint" { 0 } else { 400 };
        assert_eq!(main.stats.left_by_exception, left, "{mode}");
        // Of the ended threads, the newest four rings are kept: the main thread's is one by now.
        let attached: Vec<_> = trace
            .threads
            .iter()
            .filter(|t| {
                t.calls.iter().any(|s| {
                    trace
                        .methods
                        .get(s.method)
                        .is_some_and(|m| m.name == "fromNative")
                })
            })
            .collect();
        assert!(
            (2..=4).contains(&attached.len()),
            "{mode}: {}",
            attached.len()
        );
        assert!(balanced_threads(folder.path()) > 100, "{mode}");
        for thread in attached {
            let names = thread
                .calls
                .iter()
                .filter_map(|s| trace.methods.get(s.method));
            let ours = names
                .filter(|m| m.class == "Paths")
                .map(|m| m.name.as_str());
            assert_eq!(ours.collect::<Vec<_>>(), ["fromNative", "inner"], "{mode}");
        }
    }
}

/// The zygote is not traced; its child is, from the end of the fork on.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn the_child_of_a_zygote_is_traced_and_the_zygote_is_not() {
    for mode in MODES {
        let mut program = paths(
            mode,
            "zygote",
            "trace=all,max-rings=unlimited,snapshot-at-exit=yes",
        );
        let line = program.line();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words[0], words[2]), ("child", "0"), "{line}");
        let child: u32 = words[1].parse().unwrap();
        assert_eq!(program.line(), "done");
        assert!(!program
            .folder()
            .join(format!("{}.balance", program.pid()))
            .exists());
        let files = traces(program.folder());
        assert_eq!(files.len(), 1, "{mode}");
        let trace = open(&files[0]);
        assert_eq!(trace.process.pid, child);
        assert_eq!(calls(&trace, "main", "inChild"), 100, "{mode}");
        assert_eq!(calls(&trace, "after the fork", "inChild"), 1, "{mode}");
        assert_eq!(calls(&trace, "main", "preFork"), 0, "{mode}");
        program.kill();
    }
}

/// A child that was forked without exec records and writes nothing, and ends; its parent goes on.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_forked_child_is_not_traced_and_its_parent_is() {
    for mode in MODES {
        let mut program = paths(
            mode,
            "forks",
            "trace=all,max-rings=unlimited,ring=22,events=all,snapshot-at-exit=yes",
        );
        let line = program.line();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words[0], words[2]), ("child", "0"), "{mode}: {line}");
        assert_eq!(program.line(), "done");
        let pid = program.pid();
        let folder = program.finish();
        let files = traces(folder.path());
        assert_eq!(files.len(), 1, "{mode}");
        let trace = open(&files[0]);
        assert_eq!(trace.process.pid, pid);
        assert_eq!(calls(&trace, "main", "inChild"), 0, "{mode}");
        assert_eq!(calls(&trace, "main", "afterFork"), 1, "{mode}");
    }
}

/// Threads that live for microseconds while snapshots are taken.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn short_lived_threads_are_complete() {
    const THREADS: usize = 3000;
    for mode in MODES {
        let arguments = format!("short {THREADS}");
        let mut program = paths(mode, &arguments, "trace=all,max-rings=unlimited,ring=12");
        // The socket exists before main runs, but not at once after the process has started.
        until("the socket", || program.folder().join("socket").exists());
        let mut socket = program.socket();
        let mut snapshots = 0;
        let done = std::thread::scope(|scope| {
            let done = scope.spawn(|| program.line());
            while !done.is_finished() {
                let path = socket.ok("snapshot short");
                open(Path::new(&path));
                std::fs::remove_file(path).unwrap();
                snapshots += 1;
            }
            done.join().unwrap()
        });
        assert_eq!(done, "done");
        assert!(snapshots > 2, "{mode}: {snapshots}");
        let folder = program.finish();
        assert!(balanced_threads(folder.path()) > THREADS, "{mode}");
    }
}

/// A thousand threads that live, and are traced, at the same time.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_crowd_of_threads_is_in_one_file() {
    const THREADS: usize = 1000;
    let mut program = paths(
        MODES[1],
        &format!("crowd {THREADS}"),
        "trace=all,max-rings=unlimited,ring=12",
    );
    assert_eq!(program.line(), "crowded");
    let path = program.socket().ok("snapshot crowd");
    let trace = open(Path::new(&path));
    let crowd = trace.threads.iter().filter(|t| t.name == "crowd");
    assert_eq!(crowd.count(), THREADS);
    assert_eq!(calls(&trace, "crowd", "inner"), THREADS);
    program.finish();
}
