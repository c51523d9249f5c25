// SPDX-License-Identifier: Apache-2.0
//! Output and errors of the commands.

use std::path::PathBuf;

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

    /// The JSON that a command writes, whatever its exit code.
    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.hindsight(arguments).assert().get_output().clone();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The output of a command that succeeds.
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

/// The length of a JSON array.
fn count(json: &serde_json::Value) -> usize {
    json.as_array().unwrap().len()
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
fn why_explains_the_stall() {
    let f = Folder::new();
    f.trace(&stall());
    insta::assert_snapshot!("why", f.output(&["why", "t.hindsight"]));
    let json = f.json(&["why", "t.hindsight", "--json", "-n", "3"]);
    // The other messages were no stalls.
    assert_eq!((&json["stall"], count(&json["chains"])), (&true.into(), 1));
    // That trace has no lock events: there is a suspect, and no culprit.
    let chain = &json["chains"][0];
    assert!(chain["culprit"].is_null());
    assert_eq!(chain["culprit_reason"], "not_recorded");
    assert_eq!(
        chain["suspect"][0],
        "com.example.notes.NoteFile.syncToFlash"
    );
}

#[test]
fn the_old_name_of_why_gives_the_new_one() {
    let f = Folder::new();
    f.trace(&stall());
    let why = f.output(&["why", "t.hindsight"]);
    f.hindsight(&["chains", "t.hindsight"])
        .assert()
        .success()
        .stdout(why)
        .stderr(predicate::str::contains("now called hindsight why"));
    assert!(!f.output(&["--help"]).contains("chains"));
}

const SIGNATURES: &str = r#"
[[signature]]
name = "note file synced under the store's lock"
help = "Copy the notes, release the lock, then write: see NoteStore.saveAll."
thread = "notes-sync"
stack = ["android.os.Handler.dispatchMessage", "...", "*.NoteStore.*", "...", "*.NoteFile.syncToFlash"]
when = { max = "> 100 ms", mean = "> 50ms" }

[[signature]]
name = "slow frames"
thread = "main"
stack = ["android.view.Choreographer.doFrame"]
when = { calls = ">= 3", mean = "> 16.7 ms" }

[[signature]]
name = "web view"
stack = ["android.webkit.WebView.*"]
"#;

#[test]
fn match_recognizes_the_slow_call() {
    let f = Folder::new();
    f.trace(&stall());
    std::fs::write(f.file("slow.toml"), SIGNATURES).unwrap();
    let arguments = ["match", "t.hindsight", "-s", "slow.toml"];
    let output = f
        .hindsight(&arguments)
        .assert()
        .code(1)
        .get_output()
        .clone();
    insta::assert_snapshot!("match", String::from_utf8(output.stdout).unwrap());
    let json = [&arguments[..], &["--json"]].concat();
    let output = f.hindsight(&json).assert().code(1).get_output().clone();
    insta::assert_snapshot!("match_json", String::from_utf8(output.stdout).unwrap());
    // On the main thread, and before the stall, there is no match.
    let of_main = [&arguments[..], &["--thread", "main"]].concat();
    f.hindsight(&of_main).assert().code(0);
    let before = [&arguments[..], &["--to", "900ms"]].concat();
    let output = f.hindsight(&before).assert().code(0).get_output().clone();
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(output.contains("0 of 3 signatures matched"), "{output}");
}

#[test]
fn match_has_another_exit_code_for_mistakes() {
    let f = Folder::new();
    f.trace(&stall());
    let mistake = SIGNATURES.replace("help", "halp");
    std::fs::write(f.file("bad.toml"), mistake).unwrap();
    std::fs::write(f.file("good.toml"), SIGNATURES).unwrap();
    let fails = |trace: &str, signatures: &str, expected: &str| {
        f.hindsight(&["match", trace, "-s", signatures])
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::str::starts_with("hindsight: "))
            .stderr(predicate::str::contains(expected));
    };
    fails(
        "t.hindsight",
        "bad.toml",
        "bad.toml:4: unknown field `halp`",
    );
    fails("t.hindsight", "missing.toml", "cannot read missing.toml");
    fails("missing.hindsight", "good.toml", "missing.hindsight");
    fails("good.toml", "good.toml", "good.toml: it is a text file");
    fails("t.hindsight", "t.hindsight", "cannot read t.hindsight");
    f.hindsight(&["match", "t.hindsight"]).assert().code(2);
}

/// Frames with a method that takes `work` ns, more or less.
fn frames(runs: u64, work: u64, with_new_call: bool) -> Script {
    let mut s = Script::new("com.example.frames");
    let frame = s.method("android.view.Choreographer.doFrame", "(JI)V");
    let draw = s.method("com.example.frames.ListView.draw", "(II)V");
    let layout = s.method("com.example.frames.ListView.layout", "()V");
    let log = s.method("com.example.frames.Log.write", "(Ljava/lang/String;)V");
    let once = s.method("com.example.frames.App.start", "()V");
    let t = s.thread(300, "main");
    let mut r = s.at(t, 0);
    r.call(once, work / 10).after(100);
    for i in 0..40 {
        let noise = |scale: u64| scale * ((i * 7 + runs * 3) % 11);
        r.enter(frame)
            .after(5_000)
            .call(layout, 80_000 + noise(500))
            .after(1_000);
        r.enter(draw).after(work + noise(1_000));
        if with_new_call {
            r.call(log, 30_000 + noise(100));
        }
        r.exit().after(3_000).exit().after(9_000_000);
    }
    s
}

#[test]
fn diff_lists_what_got_slower() {
    let f = Folder::new();
    frames(0, 400_000, false)
        .write(&f.file("a.hindsight"))
        .unwrap();
    frames(1, 900_000, true)
        .write(&f.file("b.hindsight"))
        .unwrap();
    insta::assert_snapshot!("diff", f.output(&["diff", "a.hindsight", "b.hindsight"]));
    insta::assert_snapshot!(
        "diff_80_columns",
        f.output(&["diff", "a.hindsight", "b.hindsight", "--width", "80"])
    );
    insta::assert_snapshot!(
        "diff_json",
        f.output(&[
            "diff",
            "a.hindsight",
            "b.hindsight",
            "--json",
            "--time",
            "total"
        ])
    );
    let same = f.output(&["diff", "a.hindsight", "a.hindsight"]);
    assert!(same.starts_with("No method got slower or faster; no call is new or gone.\n"));
    let exit_code = |a: &str, b: &str, code: i32| {
        f.hindsight(&["diff", a, b, "--exit-code"])
            .assert()
            .code(code);
    };
    exit_code("a.hindsight", "b.hindsight", 1);
    exit_code("b.hindsight", "a.hindsight", 0);
    exit_code("a.hindsight", "missing", 2);
    f.hindsight(&["diff", "a.hindsight", "missing"])
        .assert()
        .code(1);
}

#[test]
fn diff_compares_folders() {
    let f = Folder::new();
    for (folder, work) in [("before", 400_000), ("after", 500_000)] {
        std::fs::create_dir(f.file(folder)).unwrap();
        for run in 0..4 {
            let script = frames(run, work + run * 10_000, false);
            script
                .write(&f.file(&format!("{folder}/{run}.hindsight")))
                .unwrap();
        }
    }
    std::fs::write(f.file("before/README"), "not a trace").unwrap();
    insta::assert_snapshot!("diff_folders", f.output(&["diff", "before", "after"]));
    std::fs::create_dir(f.file("empty")).unwrap();
    f.hindsight(&["diff", "before", "empty"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains(
            "empty: the folder holds no .hindsight files",
        ));
}

#[test]
fn summary_is_shown_written_and_added_up() {
    let f = Folder::new();
    f.trace(&stall());
    insta::assert_snapshot!("summary", f.output(&["summary", "t.hindsight"]));
    let json = f.output(&["summary", "t.hindsight", "--json", "-n", "3"]);
    insta::assert_snapshot!("summary_json", json);
    f.output(&["summary", "t.hindsight", "-o", "s.json"]);
    // The same trace twice, once as a summary.
    let sum = f.output(&["summary", "t.hindsight", "s.json", "--json"]);
    let sum: serde_json::Value = serde_json::from_str(&sum).unwrap();
    assert_eq!(
        (&sum["traces"], &sum["main"]["threads"]),
        (&2.into(), &2.into())
    );
    std::fs::write(f.file("other.json"), json.replace("summary/1", "summary/9")).unwrap();
    let fails = |file: &str, more: &[&str], expected: &str| {
        f.hindsight(&[&["summary", file], more].concat())
            .assert()
            .code(1)
            .stderr(predicate::str::contains(expected));
    };
    fails("other.json", &[], "its schema is \"hindsight-summary/9\"");
    std::fs::write(f.file("cut.json"), &json[..200]).unwrap();
    fails("cut.json", &[], "cut.json: neither a trace nor a summary");
    fails(
        "s.json",
        &["--thread", "main"],
        "no part of a summary can be selected",
    );
    fails(
        "t.hindsight",
        &["-o", "missing/s.json"],
        "cannot write missing/s.json",
    );
}

#[test]
fn top_adds_up_by_class_and_package() {
    let f = Folder::new();
    f.trace(&stall());
    insta::assert_snapshot!(
        "top_by_class",
        f.output(&["top", "t.hindsight", "--by", "class"])
    );
    let by_package = ["top", "t.hindsight", "--by", "package", "--sort", "total"];
    insta::assert_snapshot!("top_by_package", f.output(&by_package));
    let json = f.output(&["top", "t.hindsight", "--json", "-n", "2"]);
    insta::assert_snapshot!("top_json", json);
}

#[test]
fn json_of_info_and_why() {
    let f = Folder::new();
    f.trace(&stall());
    insta::assert_snapshot!("info_json", f.output(&["info", "t.hindsight", "--json"]));
    insta::assert_snapshot!("why_json", f.output(&["why", "t.hindsight", "--json"]));
}

#[test]
fn part_of_a_trace_can_be_asked_about() {
    let f = Folder::new();
    f.trace(&stall());
    let top = |more: &[&str]| -> serde_json::Value {
        let output = f.output(&[&["top", "t.hindsight", "--json"], more].concat());
        serde_json::from_str(&output).unwrap()
    };
    let self_ns = |more: &[&str]| top(more)["self_ns"].as_u64().unwrap();
    let whole = self_ns(&["-t", "main"]);
    let parts = [
        self_ns(&["-t", "main", "--to", "500ms"]),
        self_ns(&["-t", "main", "--from", "500ms", "--to", "-0.5s"]),
        self_ns(&["-t", "main", "--from", "-0.5s"]),
    ];
    assert_eq!(parts.iter().sum::<u64>(), whole);
    assert_eq!(self_ns(&["-t", "main", "--depth", "1"]), whole);
    let main_only = top(&["-t", "m??n"]);
    assert_eq!(main_only["threads"].as_array().unwrap().len(), 1);
    assert_eq!(
        top(&["-t", "main", "-t", "notes-*"])["threads"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    // Only the stall ran in there, and it is cut at both ends.
    let window = ["--from", "-0.5s", "--to", "-0.35s"];
    let part = f.output(&[&["why", "t.hindsight", "-n", "9"], &window[..]].concat());
    assert!(
        part.contains("had run for at least 150 ms") && !part.contains("───"),
        "{part}"
    );
    let early = f.output(&["why", "t.hindsight", "--to", "100ms"]);
    let expected = "No stall in the selected time: the longest message on thread \"main\" (tid 4200) took 1.14 ms.";
    assert!(early.contains(expected), "{early}");
    let shallow = f.output(&["why", "t.hindsight", "--depth", "2"]);
    assert!(shallow.contains("… 2 deeper calls"), "{shallow}");
}

#[test]
fn times_that_make_no_sense_are_refused() {
    let f = Folder::new();
    f.trace(&stall());
    let fails = |more: &[&str], code: i32, expected: &str| {
        f.hindsight(&[&["top", "t.hindsight"], more].concat())
            .assert()
            .code(code)
            .stderr(predicate::str::contains(expected));
    };
    fails(&["--from", "2"], 2, "not a time: write 1.5s");
    fails(&["--to", "tomorrow"], 2, "not a time: write 1.5s");
    fails(
        &["--from", "10s"],
        1,
        "the trace is 1.70 s long; --from 10.0 s is after its end",
    );
    fails(
        &["--from", "1s", "--to", "500ms"],
        1,
        "--from 1.00 s is not before --to 500 ms",
    );
    fails(&["--depth", "0"], 2, "0 is not in 1..");
    fails(&["--width", "7"], 2, "7 is not in 40..");
}

#[test]
fn shortened_names_are_translated_back() {
    let f = Folder::new();
    let mut s = Script::new("p");
    let find = s.method("a.b.a", "(I)V");
    let t = s.thread(1, "main");
    s.at(t, 0).call(find, 500_000_000);
    f.trace(&s);
    let mapping = "com.example.NoteStore -> a.b:\n\
                   \x20   1:3:void find(int):30:32 -> a\n\
                   \x20   4:4:void com.example.Lock.lock():99:99 -> a\n\
                   \x20   4:4:void find(int):33 -> a\n";
    std::fs::write(f.file("mapping.txt"), mapping).unwrap();
    let with = |command: &[&str]| {
        f.output(&[command, &["t.hindsight", "--mapping", "mapping.txt"]].concat())
    };
    assert!(f.output(&["top", "t.hindsight"]).contains("a.b.a\n"));
    assert!(with(&["top"]).contains("com.example.NoteStore.find\n"));
    let chain = with(&["why"]);
    assert!(
        chain.contains("com.example.NoteStore.find called nothing for 500 ms"),
        "{chain}"
    );
    assert!(
        chain.contains("Inlined into it, and so part of that time: com.example.Lock.lock."),
        "{chain}"
    );
    assert!(with(&["summary", "--json"]).contains("com.example.NoteStore.find"));
    let same = with(&["diff", "t.hindsight"]);
    assert!(same.starts_with("No method got slower"), "{same}");
    f.hindsight(&["top", "t.hindsight", "--mapping", "missing.txt"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("missing.txt"));
    std::fs::write(f.file("other.txt"), "com.example.Other -> z.z:\n").unwrap();
    f.hindsight(&["top", "t.hindsight", "--mapping", "other.txt"])
        .assert()
        .success()
        .stderr(predicate::str::contains("is it of the same build?"));
}

#[test]
fn where_no_call_dominates_why_shows_a_tree() {
    let f = Folder::new();
    let mut s = Script::new("p");
    let names = [
        "a.App.run",
        "a.List.fill",
        "a.Row.bind",
        "a.Date.format",
        "a.Log.write",
    ];
    let [run, fill, bind, format, log] = names.map(|n| s.method(n, "()V"));
    let t = s.thread(1, "main");
    let mut r = s.at(t, 0);
    r.enter(run);
    for _ in 0..12 {
        r.enter(fill).after(50_000);
        for _ in 0..100 {
            r.enter(bind)
                .after(60_000)
                .call(format, 90_000)
                .call(log, 20)
                .exit();
        }
        r.exit().call(log, 4_000_000).call(format, 100_000);
    }
    r.exit();
    f.trace(&s);
    insta::assert_snapshot!("why_tree", f.output(&["why", "t.hindsight"]));
}

#[test]
fn texts_fit_the_width() {
    let f = Folder::new();
    f.trace(&stall());
    std::fs::write(f.file("slow.toml"), SIGNATURES).unwrap();
    let commands: [&[&str]; 7] = [
        &["info", "t.hindsight"],
        &["top", "t.hindsight"],
        &["top", "t.hindsight", "--by", "package"],
        &["why", "t.hindsight", "-n", "3"],
        &["match", "t.hindsight", "-s", "slow.toml"],
        &["diff", "t.hindsight", "t.hindsight"],
        &["summary", "t.hindsight"],
    ];
    for command in commands {
        for width in [72, 80, 140] {
            let columns = width.to_string();
            let arguments = [command, &["--width", &columns]].concat();
            let output = f.hindsight(&arguments).assert().get_output().clone();
            let output = String::from_utf8(output.stdout).unwrap();
            assert!(!output.is_empty());
            for line in output.lines() {
                assert!(
                    line.chars().count() <= width,
                    "{command:?} at {width}: {line:?}"
                );
            }
        }
    }
    insta::assert_snapshot!(
        "why_80_columns",
        f.output(&["why", "t.hindsight", "--width", "80"])
    );
    insta::assert_snapshot!(
        "top_60_columns",
        f.output(&["top", "t.hindsight", "--width", "60"])
    );
}

#[test]
fn manual_pages_are_written() {
    let f = Folder::new();
    f.output(&["man", "pages"]);
    for page in [
        "hindsight.1",
        "hindsight-top.1",
        "hindsight-match.1",
        "hindsight-diff.1",
    ] {
        let text = std::fs::read_to_string(f.file("pages").join(page)).unwrap();
        assert!(text.contains("hindsight"), "{page}");
    }
    std::fs::write(f.file("taken"), "").unwrap();
    f.hindsight(&["man", "taken"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains(
            "cannot write manual pages into taken",
        ));
}

#[test]
fn colours_can_be_asked_for_and_refused() {
    let f = Folder::new();
    f.trace(&stall());
    assert!(f
        .output(&["top", "t.hindsight", "--color", "always"])
        .contains('\x1b'));
    let output = f
        .hindsight(&["top", "t.hindsight"])
        .env("CLICOLOR_FORCE", "1")
        .assert()
        .get_output()
        .stdout
        .clone();
    assert!(output.contains(&0x1b));
    let output = f
        .hindsight(&["top", "t.hindsight"])
        .env("CLICOLOR_FORCE", "1")
        .env("NO_COLOR", "1")
        .assert()
        .get_output()
        .stdout
        .clone();
    assert!(!output.contains(&0x1b));
}

#[test]
fn colours_are_for_terminals_only() {
    let f = Folder::new();
    f.trace(&stall());
    for command in ["info", "top", "why"] {
        assert!(
            !f.output(&[command, "t.hindsight"]).contains('\x1b'),
            "{command}"
        );
    }
}

#[test]
fn export_writes_next_to_the_trace_or_to_the_given_file() {
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
            script.contains("hindsight") && script.contains("why"),
            "{shell}"
        );
    }
}

/// The command fails with exit code 1, one line that begins with `hindsight:`, and names the file.
fn fails(f: &Folder, name: &str, expected: &str) {
    for command in ["info", "export", "top", "why", "summary"] {
        f.hindsight(&[command, name])
            .assert()
            .code(1)
            .stdout("")
            .stderr(predicate::str::starts_with("hindsight:"))
            .stderr(predicate::str::contains(name))
            .stderr(predicate::str::contains(expected).count(1));
    }
}

#[test]
fn files_that_are_missing_or_something_else_are_refused() {
    let f = Folder::new();
    fails(&f, "missing.hindsight", "cannot open");
    std::fs::write(f.file("text"), "hello\n").unwrap();
    fails(&f, "text", "it is a text file");
    std::fs::write(f.file("empty"), "").unwrap();
    fails(&f, "empty", "the file is empty");
    std::fs::create_dir(f.file("folder")).unwrap();
    fails(&f, "folder", "this command reads files");
}

#[test]
fn a_file_without_any_section_is_refused() {
    let f = Folder::new();
    let bytes = std::fs::read(f.trace(&stall())).unwrap();
    for length in [1, 10, 39, 40] {
        std::fs::write(f.file("cut"), &bytes[..length]).unwrap();
        fails(&f, "cut", "cut off");
    }
}

#[test]
fn an_unknown_thread_is_refused_with_a_list_of_the_threads() {
    let f = Folder::new();
    f.trace(&stall());
    for command in ["info", "top", "why", "export", "summary"] {
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
fn an_empty_trace_is_no_error() {
    let f = Folder::new();
    let mut s = Script::new("p");
    s.stop_at(5);
    f.trace(&s);
    assert!(f
        .output(&["info", "t.hindsight"])
        .contains("0 trace points"));
    f.hindsight(&["why", "t.hindsight"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("no thread was traced"));
    f.output(&["export", "t.hindsight"]);
    let mut s = Script::new("p");
    s.thread(1, "main");
    f.trace(&s);
    assert!(f
        .output(&["why", "t.hindsight"])
        .contains("recorded no call"));
}

/// Overloads are told apart by their parameters, also if the other one is below the limit.
#[test]
fn top_tells_overloads_apart_whatever_the_limit() {
    let f = Folder::new();
    let mut s = Script::new("p");
    let (long, short) = (s.method("a.A.f", "(I)V"), s.method("a.A.f", "(J)V"));
    let main = s.thread(1, "main");
    s.at(main, 0).call(long, 2_000).call(short, 1_000);
    f.trace(&s);
    let top = f.output(&["top", "t.hindsight", "--limit", "1", "--sort", "longest"]);
    assert!(top.contains("a.A.f(int)"), "{top}");
}

/// A copy of a trace is no second trace.
#[test]
fn files_of_the_same_contents_count_once() {
    let f = Folder::new();
    f.trace(&stall());
    std::fs::copy(f.file("t.hindsight"), f.file("copy.hindsight")).unwrap();
    f.hindsight(&["summary", "t.hindsight", "copy.hindsight", "--json"])
        .assert()
        .success()
        .stdout(predicate::str::contains("\"traces\": 1"))
        .stderr(predicate::str::contains(
            "copy.hindsight has the same contents as t.hindsight",
        ));
}

/// A window may cut a message so short that it is no stall; its whole length is not known then.
#[test]
fn a_message_that_the_window_cuts_took_at_least_that_long() {
    let f = Folder::new();
    f.trace(&stall());
    let why = f.output(&["why", "t.hindsight", "--from=-50ms"]);
    assert!(
        why.starts_with("No stall in the selected time: ")
            || why.contains("\nNo stall in the selected time: ")
    );
    assert!(why.contains(" took at least "), "{why}");
}

/// Errors repeat the times that were asked for.
#[test]
fn times_outside_of_the_trace_are_named_as_they_were_asked_for() {
    let f = Folder::new();
    f.trace(&stall());
    let fails = |arguments: &[&str], error: &str| {
        f.hindsight(&[&["top", "t.hindsight"], arguments].concat())
            .assert()
            .failure()
            .stderr(predicate::str::contains(error));
    };
    fails(&["--to=-5s"], "--to -5.00 s is not after its beginning");
    fails(&["--from=2,5s"], "write a decimal point, as in 2.5s");
    f.hindsight(&["top", "."])
        .assert()
        .failure()
        .stderr(predicate::str::contains(". is a folder"));
    f.hindsight(&["top", "-"])
        .assert()
        .failure()
        .stderr(predicate::str::contains(
            "-: pipes and devices are not read",
        ));
    for command in [["top", "--mapping"], ["match", "--signatures"]] {
        f.hindsight(&[command[0], "t.hindsight", command[1], "."])
            .assert()
            .failure()
            .stderr(predicate::str::contains(". is a folder"));
    }
    std::fs::write(f.file("s.json"), r#"{"schema":"hindsight.summary/9"}"#).unwrap();
    f.hindsight(&["summary", "s.json"])
        .assert()
        .failure()
        .stderr(predicate::str::contains("its schema is"));
}
