// SPDX-License-Identifier: Apache-2.0
//! `hindsight export` and `convert`: formats by name, parts of traces, failures.

use assert_cmd::cargo::cargo_bin;
use hindsight_testkit::stall;
use predicates::prelude::*;
use tempfile::TempDir;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    stall().write(&folder.path().join("t.hindsight")).unwrap();
    folder
}

fn hindsight(folder: &TempDir, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = assert_cmd::Command::new(cargo_bin("hindsight"));
    command.args(arguments).current_dir(folder.path()).assert()
}

fn export(folder: &TempDir, arguments: &[&str]) -> assert_cmd::assert::Assert {
    hindsight(folder, &[&["export", "t.hindsight"], arguments].concat())
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Format, usual extension, first bytes of its files.
const FORMATS: [(&str, &str, &[u8]); 7] = [
    ("perfetto", "pftrace", b"\x0a"),
    ("chrome", "chrome.json", b"{\"displayTimeUnit\""),
    ("firefox", "firefox.json.gz", b"\x1f\x8b"),
    (
        "speedscope",
        "speedscope.json",
        b"{\"$schema\":\"https://www.speedscope.app/",
    ),
    (
        "folded",
        "folded",
        b"main (4200);com.example.notes.NotesApp.main ",
    ),
    ("pprof", "pb.gz", b"\x1f\x8b"),
    (
        "nanoscope",
        "nanoscope.txt",
        b"0:+com.example.notes.NotesApp.main\n",
    ),
];

#[test]
fn the_name_of_the_output_says_the_format() {
    for (format, extension, start) in FORMATS {
        let folder = folder();
        export(&folder, &["--format", format]).success();
        let default = std::fs::read(folder.path().join(format!("t.{extension}"))).unwrap();
        assert!(default.starts_with(start), "{format}");
        let named = format!("named.{extension}");
        export(&folder, &["-o", &named]).success();
        assert!(std::fs::read(folder.path().join(&named)).unwrap() == default);
        export(&folder, &["-f", format, "-o", "-"])
            .success()
            .stdout(default);
        assert_eq!(names(&folder).len(), 3, "{:?}", names(&folder));
    }
    let folder = folder();
    export(&folder, &["-o", "t.png"]).code(1).stderr(
        predicate::str::contains("--format").and(predicate::str::contains(".speedscope.json")),
    );
}

/// A terminal would show nonsense, and may take it for commands. `script` runs a command on a terminal.
#[test]
fn binary_formats_are_not_written_to_a_terminal() {
    let folder = folder();
    let on_terminal = |format: &str| -> String {
        let program = cargo_bin("hindsight");
        let command = format!("{} export t.hindsight -f {format} -o -", program.display());
        let output = std::process::Command::new("script")
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .current_dir(folder.path())
            .stdin(std::process::Stdio::null())
            .output()
            .expect("script, of util-linux, is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for format in ["perfetto", "pprof", "firefox"] {
        let text = on_terminal(format);
        assert!(text.contains("format is binary"), "{format}: {text}");
        assert_eq!(text.lines().count(), 1, "{format}: {text}");
    }
    assert!(on_terminal("folded").contains("main (4200);com.example.notes.NotesApp.main "));
}

#[test]
fn parquet_is_a_folder_that_can_be_written_again() {
    let folder = folder();
    for _ in 0..2 {
        export(&folder, &["-o", "tables.parquet"])
            .success()
            .stderr(predicate::str::contains(
                "tables.parquet: 1 259 calls of 2 threads",
            ));
        assert_eq!(names(&folder), ["t.hindsight", "tables.parquet"]);
        let tables = std::fs::read_dir(folder.path().join("tables.parquet")).unwrap();
        assert_eq!(tables.count(), 8);
    }
    export(&folder, &["-f", "parquet", "-o", "-"])
        .code(1)
        .stderr(predicate::str::contains("such as trace.parquet"));
    std::fs::write(folder.path().join("a-file"), "kept").unwrap();
    export(&folder, &["-f", "parquet", "-o", "a-file"])
        .code(1)
        .stderr(predicate::str::contains("cannot write a-file"));
    assert_eq!(names(&folder), ["a-file", "t.hindsight", "tables.parquet"]);
}

#[test]
fn part_of_a_trace_and_json() {
    let folder = folder();
    let output = export(
        &folder,
        &[
            "-f",
            "folded",
            "-t",
            "main",
            "--from=-750ms",
            "--depth",
            "4",
            "--json",
        ],
    )
    .success();
    let report: serde_json::Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    assert_eq!(report["output"], "t.folded");
    assert_eq!(report["format"], "folded");
    assert_eq!(report["threads"], 1);
    let written = std::fs::read_to_string(folder.path().join("t.folded")).unwrap();
    assert_eq!(report["bytes"], written.len());
    assert_eq!(report["chains"], written.lines().count());
    assert!(written.contains(";com.example.notes.NoteListScreen.handleMessage "));
    assert!(!written.contains("NoteStore.find") && !written.contains("notes-sync"));
    export(&folder, &["--json", "-o", "-"]).code(1);
}

#[test]
fn part_of_a_trace_is_a_trace() {
    let folder = folder();
    let hindsight = |arguments: &[&str]| hindsight(&folder, arguments);
    hindsight(&[
        "convert",
        "t.hindsight",
        "part.hindsight",
        "-t",
        "main",
        "--from=-750ms",
    ])
    .success();
    let info = hindsight(&["info", "--json", "part.hindsight"]).success();
    let info: serde_json::Value = serde_json::from_slice(&info.get_output().stdout).unwrap();
    assert_eq!(info["process"], "com.example.notes");
    assert_eq!(info["threads"].as_array().unwrap().len(), 1);
    assert!(info["span_ns"].as_u64().unwrap() <= 750_000_000, "{info}");
    hindsight(&["why", "part.hindsight"])
        .success()
        .stdout(predicate::str::contains(
            "com.example.notes.NoteStore.find called nothing for 702 ms",
        ));

    for output in ["t.hindsight", "./t.hindsight"] {
        hindsight(&["convert", "t.hindsight", output])
            .code(1)
            .stderr(predicate::str::contains("this is the input"));
    }
    export(&folder, &["-f", "hindsight"])
        .code(1)
        .stderr(predicate::str::contains("--output"));
    hindsight(&["convert", "t.hindsight", "t.nanoscope.txt"])
        .success()
        .stderr(predicate::str::contains("--thread"));
}

#[test]
fn traces_of_art_itself_can_be_converted() {
    let art = hindsight_testkit::ArtFile {
        threads: vec![(77, "main".into())],
        methods: ["f", "g"]
            .map(|name| ["a.C".into(), name.into(), "()V".into(), "C.java".into()])
            .into(),
        events: vec![
            (0, 0, 0, 1, 10),
            (0, 1, 0, 2, 30),
            (0, 1, 1, 3, 45),
            (0, 0, 1, 4, 100),
        ],
        start_us: 5_000_000,
    };
    let folder = tempfile::tempdir().unwrap();
    let bytes = art.encode(hindsight_testkit::ArtLayout::V3);
    std::fs::write(folder.path().join("method.trace"), bytes).unwrap();
    let hindsight = |arguments: &[&str]| hindsight(&folder, arguments);
    hindsight(&["convert", "method.trace", "ours.hindsight"]).success();
    for input in ["method.trace", "ours.hindsight"] {
        hindsight(&["convert", input, "out.nanoscope.txt"]).success();
        let text = std::fs::read_to_string(folder.path().join("out.nanoscope.txt")).unwrap();
        assert_eq!(
            text, "0:+a.C.f\n20000:+a.C.g\n35000:POP\n90000:POP\n",
            "{input}"
        );
    }
    hindsight(&["export", "method.trace"]).success();
    assert!(folder.path().join("method.pftrace").exists());
}

#[test]
fn every_format_that_can_be_read_is_read_by_all_commands() {
    let folder = folder();
    let hindsight = |arguments: &[&str]| hindsight(&folder, arguments);
    hindsight(&[
        "convert",
        "t.hindsight",
        "a.nanoscope.txt",
        "-t",
        "notes-sync",
    ])
    .success();
    hindsight(&["convert", "t.hindsight", "b.ring", "-t", "notes-sync"]).success();
    assert!(folder.path().join("b.symbols").exists());
    let text = std::fs::read_to_string(folder.path().join("a.nanoscope.txt")).unwrap();
    for input in ["a.nanoscope.txt", "b.ring"] {
        hindsight(&["top", input, "--limit", "3"])
            .success()
            .stdout(predicate::str::contains("java.lang.Thread.sleep"));
        hindsight(&["convert", input, "again.hindsight"]).success();
        hindsight(&["convert", "again.hindsight", "again.nanoscope.txt"]).success();
        let again = std::fs::read_to_string(folder.path().join("again.nanoscope.txt")).unwrap();
        assert!(again == text, "{input}");
    }
}

/// Whether a process is writing to a file in the folder that has no name.
#[cfg(target_os = "linux")]
fn writes_nameless_file(pid: u32, folder: &std::path::Path) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut files = descriptors.flatten().flat_map(|d| d.path().read_link());
    files.any(|file| {
        let is_nameless = file.to_string_lossy().ends_with(" (deleted)");
        is_nameless && file.starts_with(folder)
    })
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_left_of_an_export_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    hindsight_testkit::busy(22, 1, 100, 20)
        .write(&folder.path().join("t.hindsight"))
        .unwrap();
    for output in ["t.chrome.json", "t.parquet", "part.hindsight"] {
        // An export that is faster than this test is not killed: try again.
        let killed = (0..20).any(|_| {
            let mut export = std::process::Command::new(cargo_bin("hindsight"))
                .args(["export", "t.hindsight", "-o", output])
                .current_dir(folder.path())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            while export.try_wait().unwrap().is_none() {
                if writes_nameless_file(export.id(), folder.path()) {
                    export.kill().unwrap();
                    break;
                }
            }
            if export.wait().unwrap().success() {
                let path = folder.path().join(output);
                let removed = match path.is_dir() {
                    true => std::fs::remove_dir_all(&path),
                    false => std::fs::remove_file(&path),
                };
                removed.unwrap();
                return false;
            }
            true
        });
        assert!(killed, "no export to {output} was killed while it wrote");
        assert_eq!(names(&folder), ["t.hindsight"], "{output}");
    }
}

/// On a full disk a write fails in the middle of a file, as beyond the limit of its length.
#[test]
fn on_a_full_disk_no_file_has_its_final_name() {
    let folder = folder();
    let limited = |arguments: &str, input: &str| {
        let program = cargo_bin("hindsight");
        let command = format!(
            "trap '' XFSZ; ulimit -f 1; exec {} {arguments}",
            program.display()
        );
        let mut shell = assert_cmd::Command::new("bash");
        let shell = shell.args(["-c", &command]).current_dir(folder.path());
        shell.write_stdin(input).assert()
    };
    std::fs::write(folder.path().join("old.json"), "old").unwrap();
    for arguments in [
        "summary t.hindsight -o new.json",
        "summary t.hindsight -o old.json",
        "export t.hindsight -o new.pftrace",
        "convert t.hindsight new.hindsight",
    ] {
        limited(arguments, "")
            .code(1)
            .stderr(predicate::str::contains("cannot write"));
        assert_eq!(names(&folder), ["old.json", "t.hindsight"], "{arguments}");
    }
    let rule = format!("rule add ignore from.class={}\n", "a".repeat(400));
    let script = rule.repeat(4) + "rule save rules.toml\n";
    limited("debug t.hindsight", &script)
        .code(1)
        .stderr(predicate::str::contains("cannot write rules.toml"));
    assert_eq!(names(&folder), ["old.json", "t.hindsight"]);
    let old = std::fs::read_to_string(folder.path().join("old.json")).unwrap();
    assert_eq!(old, "old");
}
