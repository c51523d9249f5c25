// SPDX-License-Identifier: Apache-2.0
//! What the commands print, and how they fail.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use hindsight_testkit::{stall, Script};
use predicates::prelude::*;
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn trace(&self, script: &Script) -> PathBuf {
        let path = self.file("t.hindsight");
        script.write(&path).unwrap();
        path
    }

    fn hindsight(&self, arguments: &[&str]) -> Command {
        let mut command = Command::cargo_bin("hindsight").unwrap();
        command.current_dir(self.0.path()).args(arguments);
        command
    }

    /// What a command that succeeds prints.
    fn output(&self, arguments: &[&str]) -> String {
        let output = self
            .hindsight(arguments)
            .assert()
            .success()
            .get_output()
            .stdout
            .clone();
        String::from_utf8(output).unwrap()
    }
}

#[test]
fn info_says_what_the_trace_is_of() {
    let f = Folder::new();
    f.trace(&stall());
    insta::assert_snapshot!("info", f.output(&["info", "t.hindsight"]));
}

#[test]
fn top_ranks_methods() {
    let f = Folder::new();
    f.trace(&stall());
    insta::assert_snapshot!(
        "top_by_self_time",
        f.output(&["top", "t.hindsight", "--limit", "6"])
    );
    let main_by_total = [
        "top",
        "t.hindsight",
        "--thread",
        "main",
        "--sort",
        "total",
        "-n",
        "4",
    ];
    insta::assert_snapshot!("top_of_main_by_total", f.output(&main_by_total));
}

#[test]
fn top_tells_overloads_apart() {
    let f = Folder::new();
    let mut s = Script::new("p");
    let (a, b) = (
        s.method("C.f", "(J)V"),
        s.method("C.f", "([Ljava/lang/String;)V"),
    );
    let t = s.thread(1, "main");
    s.at(t, 0).call(a, 3_000).call(b, 1_000);
    f.trace(&s);
    let output = f.output(&["top", "t.hindsight"]);
    assert!(
        output.contains("C.f(long)\n") && output.contains("C.f(String[])\n"),
        "{output}"
    );
}

#[test]
fn chains_names_the_culprit() {
    let f = Folder::new();
    f.trace(&stall());
    insta::assert_snapshot!("chains", f.output(&["chains", "t.hindsight"]));
    assert_eq!(
        f.output(&["why", "t.hindsight"]),
        f.output(&["chains", "t.hindsight"])
    );
    let json: serde_json::Value =
        serde_json::from_str(&f.output(&["chains", "t.hindsight", "--json", "-n", "3"])).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 3);
    assert_eq!(
        json[0]["culprit"][0],
        "com.example.notes.NoteFile.syncToFlash"
    );
    assert_eq!(json[0]["culprit"][1], "notes-sync");
}

#[test]
fn colours_are_for_terminals_only() {
    let f = Folder::new();
    f.trace(&stall());
    for command in ["info", "top", "chains"] {
        assert!(
            !f.output(&[command, "t.hindsight"]).contains('\x1b'),
            "{command}"
        );
    }
}

#[test]
fn export_writes_next_to_the_trace_or_where_it_is_told() {
    let f = Folder::new();
    f.trace(&stall());
    f.hindsight(&["export", "t.hindsight"])
        .assert()
        .success()
        .stderr(predicate::str::contains(
            "t.pftrace: 1 259 calls of 2 threads",
        ));
    let bytes = std::fs::read(f.file("t.pftrace")).unwrap();
    f.hindsight(&["export", "t.hindsight", "-o", "-"])
        .assert()
        .success()
        .stdout(bytes);
    let arguments = [
        "export",
        "t.hindsight",
        "--format",
        "nanoscope",
        "-t",
        "notes-sync",
        "-o",
        "w.txt",
    ];
    f.hindsight(&arguments).assert().success();
    let text = std::fs::read_to_string(f.file("w.txt")).unwrap();
    assert!(text.starts_with("0:+android.os.HandlerThread.run\n30000:+android.os.Looper.loop\n"));
}

#[test]
fn an_export_that_fails_leaves_nothing_behind() {
    let f = Folder::new();
    f.trace(&stall());
    f.hindsight(&["export", "t.hindsight", "-o", "missing/t.pftrace"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("cannot write missing/t.pftrace"));
    std::fs::create_dir(f.file("taken")).unwrap();
    f.hindsight(&["export", "t.hindsight", "-o", "taken"])
        .assert()
        .code(1);
    let left: Vec<_> = std::fs::read_dir(f.0.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn completions_are_written_for_each_shell() {
    let f = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = f.output(&["completions", shell]);
        assert!(
            script.contains("hindsight") && script.contains("chains"),
            "{shell}"
        );
    }
}

/// The command fails with exit code 1, one line that begins with `hindsight:`, and names the file.
fn fails(f: &Folder, name: &str, expected: &str) {
    for command in ["info", "export", "top", "chains"] {
        f.hindsight(&[command, name])
            .assert()
            .code(1)
            .stdout("")
            .stderr(predicate::str::starts_with("hindsight:"))
            .stderr(predicate::str::contains(name))
            .stderr(predicate::str::contains(expected));
    }
}

#[test]
fn files_that_are_missing_or_something_else_are_refused() {
    let f = Folder::new();
    fails(&f, "missing.hindsight", "cannot open");
    std::fs::write(f.file("text"), "hello\n").unwrap();
    fails(&f, "text", "not a .hindsight file");
    std::fs::write(f.file("empty"), "").unwrap();
    fails(&f, "empty", "not a .hindsight file");
    std::fs::create_dir(f.file("folder")).unwrap();
    fails(&f, "folder", "directory");
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let f = Folder::new();
    let bytes = std::fs::read(f.trace(&stall())).unwrap();
    for length in [10, 39, 40, 1_000, bytes.len() - 1] {
        std::fs::write(f.file("cut"), &bytes[..length]).unwrap();
        fails(&f, "cut", "cut off");
    }
}

#[test]
fn a_damaged_section_is_named() {
    let f = Folder::new();
    let path = f.trace(&stall());
    let mut bytes = std::fs::read(&path).unwrap();
    let info = {
        let reader = hindsight_trace_format::container::Reader::new(&bytes).unwrap();
        *reader
            .sections()
            .iter()
            .find(|s| s.kind == hindsight_trace_format::container::SectionKind::Ring as u32)
            .unwrap()
    };
    bytes[(info.offset + info.length / 2) as usize] ^= 0x10;
    std::fs::write(f.file("damaged"), bytes).unwrap();
    fails(&f, "damaged", "section Ring 0");
    fails(&f, "damaged", "copy the file again");
}

/// Any single byte changed anywhere: an error or an answer, no panic.
#[test]
fn no_damage_makes_it_panic() {
    let f = Folder::new();
    let mut s = Script::new("p");
    s.ring_log2_bytes(12);
    let m = s.method("C.f", "()V");
    let t = s.thread(1, "main");
    s.at(t, 0).call(m, 10).enter(m).anchor();
    let bytes = s.encode();
    for i in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[i] ^= 0xff;
        // What the program does with a file, without starting it a thousand times.
        let decoded = hindsight_decoder::Trace::decode(Path::new("damaged"), &damaged);
        // Padding is covered by no checksum.
        if let Ok(trace) = decoded {
            assert_eq!(trace.threads[0].stats.points, 3, "byte {i}");
        }
    }
    drop(f);
}

#[test]
fn a_thread_that_is_not_there_is_refused_with_those_that_are() {
    let f = Folder::new();
    f.trace(&stall());
    for command in ["top", "chains", "export"] {
        f.hindsight(&[command, "t.hindsight", "--thread", "nobody"])
            .assert()
            .code(1)
            .stderr(predicate::str::contains("4200 (main), 4217 (notes-sync)"));
    }
}

#[test]
fn wrong_usage_has_another_exit_code() {
    let f = Folder::new();
    f.hindsight(&[]).assert().code(2);
    f.hindsight(&["top"]).assert().code(2);
    f.hindsight(&["top", "t.hindsight", "--sort", "colour"])
        .assert()
        .code(2);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let f = Folder::new();
    f.trace(&stall());
    let program = assert_cmd::cargo::cargo_bin("hindsight");
    let mut child = std::process::Command::new(program)
        .args(["export", "t.hindsight", "-f", "nanoscope", "-o", "-"])
        .current_dir(f.0.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn an_empty_trace_is_told_as_such() {
    let f = Folder::new();
    let mut s = Script::new("p");
    s.stop_at(5);
    f.trace(&s);
    assert!(f
        .output(&["info", "t.hindsight"])
        .contains("0 trace points"));
    f.hindsight(&["chains", "t.hindsight"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("no thread was traced"));
    f.output(&["export", "t.hindsight"]);
    let mut s = Script::new("p");
    s.thread(1, "main");
    f.trace(&s);
    assert!(f
        .output(&["chains", "t.hindsight"])
        .contains("recorded no call"));
}
