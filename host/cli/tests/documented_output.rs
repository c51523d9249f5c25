// SPDX-License-Identifier: Apache-2.0
//! The documents show the real output of the commands: each `console` block of `docs/reading-traces.md`, `docs/events.md`
//! and `docs/causality.md` is run. With `UPDATE_DOCS=1` the documents are corrected instead.

use std::fmt::Write;
use std::path::Path;

use assert_cmd::Command;
use hindsight_testkit::{events_only, recorded_owner, server, taps, Script};

/// Each document, and how many commands it has at least.
const DOCUMENTS: [(&str, usize); 3] = [
    (
        concat!(env!("HINDSIGHT_CHECKOUT"), "/docs/reading-traces.md"),
        6,
    ),
    (concat!(env!("HINDSIGHT_CHECKOUT"), "/docs/events.md"), 2),
    (concat!(env!("HINDSIGHT_CHECKOUT"), "/docs/causality.md"), 9),
];
const SIGNATURES: &str = concat!(env!("HINDSIGHT_CHECKOUT"), "/docs/signatures.md");

/// Forty frames, in which a row takes at least `row_ns` to bind.
fn scrolling(run: u64, row_ns: u64, with_log: bool) -> Script {
    let mut s = Script::new("com.example.notes");
    let dispatch = s.method(
        "android.os.Handler.dispatchMessage",
        "(Landroid/os/Message;)V",
    );
    let frame = s.method("android.view.Choreographer.doFrame", "(JI)V");
    let layout = s.method("com.example.notes.NoteListScreen.layout", "()V");
    let bind = s.method(
        "com.example.notes.NoteRow.bind",
        "(Lcom/example/notes/Note;)V",
    );
    let format = s.method(
        "com.example.notes.DateFormat.format",
        "(J)Ljava/lang/String;",
    );
    let log = s.method("com.example.notes.Log.debug", "(Ljava/lang/String;)V");
    let save = s.method("com.example.notes.NoteStore.save", "()V");
    let main = s.thread(4_200, "main");
    let mut r = s.at(main, 0);
    r.call(save, 3_000_000 + 900_000 * run).after(1_000_000);
    for i in 0..40 {
        // Runs differ a little, and rows do.
        let noise = |scale: u64| scale * (100 + run * 2 + (i * 7 + run * 3) % 11) / 100;
        r.enter(dispatch).after(4_000).enter(frame).after(6_000);
        r.enter(layout).after(noise(150_000));
        for _ in 0..6 {
            r.enter(bind)
                .after(noise(row_ns))
                .call(format, noise(20_000));
            if with_log {
                r.call(log, noise(9_000));
            }
            r.exit().after(1_000);
        }
        r.exit()
            .after(2_000)
            .exit()
            .after(1_000)
            .exit()
            .after(9_000_000);
    }
    s
}

fn write_scenes(folder: &Path) {
    for (name, scene) in [
        ("demo", recorded_owner()),
        ("events", events_only()),
        ("taps", taps()),
    ] {
        scene
            .write(&folder.join(format!("{name}.hindsight")))
            .unwrap();
    }
    let (app, device) = server();
    app.write(&folder.join("app.hindsight")).unwrap();
    std::fs::write(folder.join("device.pftrace"), device.encode()).unwrap();
    // As in the checkout, from which a reader runs the command.
    let sample = "samples/notes-events.hindsight";
    std::fs::create_dir(folder.join("samples")).unwrap();
    let checkout = Path::new(env!("HINDSIGHT_CHECKOUT"));
    std::fs::copy(checkout.join(sample), folder.join(sample)).unwrap();
    let questions = "stuck\nkind\nchain\nbefore\n";
    std::fs::write(folder.join("questions"), questions).unwrap();
    let signatures = std::fs::read_to_string(SIGNATURES).unwrap();
    let toml = signatures.split("```toml\n").nth(1).unwrap();
    let toml = toml.split("```").next().unwrap();
    std::fs::write(folder.join("slow.toml"), toml).unwrap();
    for (set, row_ns, with_log) in [("before", 60_000, false), ("after", 95_000, true)] {
        std::fs::create_dir(folder.join(set)).unwrap();
        for run in 0..5 {
            let path = folder.join(set).join(format!("run-{run}.hindsight"));
            scrolling(run, row_ns, with_log).write(&path).unwrap();
        }
    }
}

/// Runs `$ hindsight …`, and returns its output, with the exit code if that is not 0.
fn run(folder: &Path, command: &str) -> String {
    let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
    let output = Command::cargo_bin("hindsight")
        .unwrap()
        .current_dir(folder)
        .args(arguments)
        .args(["--width", "100"])
        .output()
        .unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    text += &String::from_utf8(output.stderr).unwrap();
    match output.status.code() {
        Some(0) => {}
        code => writeln!(text, "(exit code {})", code.unwrap_or(-1)).unwrap(),
    }
    text
}

#[test]
fn documents_show_what_the_commands_print() {
    let folder = tempfile::tempdir().unwrap();
    write_scenes(folder.path());
    for (document, commands) in DOCUMENTS {
        check(folder.path(), document, commands);
    }
}

fn check(folder: &Path, document: &str, least_commands: usize) {
    let shown = std::fs::read_to_string(document).unwrap();
    let mut expected = String::new();
    let mut commands = 0;
    for (i, part) in shown.split("```").enumerate() {
        if i > 0 {
            expected += "```";
        }
        let Some(block) = part.strip_prefix("console\n").filter(|_| i % 2 == 1) else {
            expected += part;
            continue;
        };
        expected += "console\n";
        for command in block.lines().filter_map(|l| l.strip_prefix("$ ")) {
            assert!(command.starts_with("hindsight "), "{command}");
            commands += 1;
            write!(expected, "$ {command}\n{}", run(folder, command)).unwrap();
        }
    }
    assert!(
        commands >= least_commands,
        "only {commands} commands in {document}"
    );
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(document, expected).unwrap();
    } else {
        let different = shown.lines().zip(expected.lines()).find(|(a, b)| a != b);
        assert!(
            shown == expected,
            "{document} is out of date, at {different:?}: look at what changed, then run with UPDATE_DOCS=1"
        );
    }
}
