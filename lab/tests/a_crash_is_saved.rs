// SPDX-License-Identifier: Apache-2.0
//! An exception that nothing catches is recorded, and a snapshot is taken before the thread ends, if that is configured.
//! Run with `--ignored` after `cargo xtask lab build`.

mod common;

use common::{jar, lab, open, traces};
use hindsight_trace_format::slot::Extension;

/// Runs a program of which two threads end by exceptions; it writes its snapshots to the folder.
fn crash(configuration: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let output = lab()
        .dalvikvm_command()
        .arg("-cp")
        .arg(jar("crash"))
        .arg("Crash")
        .env(
            "HINDSIGHT",
            format!("rewind=off,{configuration},dir={}", folder.path().display()),
        )
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "goes on\n");
    folder
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn the_first_crash_is_saved_before_its_thread_ends() {
    for configuration in ["trace=all,ring=16", "trace=off,events=all"] {
        let folder = crash(&format!("{configuration},snapshot-at-crash=yes"));
        let files = traces(folder.path());
        assert_eq!(files.len(), 1, "{configuration}: {files:?}");
        let trace = open(&files[0]);
        let facts = &trace.process;
        assert_eq!(facts.reason, "crash: java.lang.IllegalStateException");
        let first = (trace.threads.iter())
            .find(|thread| thread.tid == facts.raised_by)
            .unwrap();
        assert_eq!(first.name, "first", "{configuration}");
        let kinds = first.events.iter().map(|e| e.kind);
        let recorded = kinds.filter(|kind| *kind == Extension::Uncaught).count();
        assert_eq!(recorded == 1, configuration.contains("events"));
        assert!(!trace.threads.iter().any(|thread| thread.name == "second"));
    }
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_crash_is_not_saved_unless_it_is_configured() {
    let folder = crash("trace=all,ring=16,events=all");
    assert!(traces(folder.path()).is_empty());
}
