// SPDX-License-Identifier: Apache-2.0
//! A process that is killed by SIGKILL leaves its rings, with the names of all methods, in the memory that it shares. Run with
//! `--ignored` after `cargo xtask lab build`.

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use common::{jar, lab, open};
use hindsight_decoder::{Flags, Trace};
use hindsight_trace_format::shared::read;

/// A process that does not outlive the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the program in this mode until it has done so many rounds, kills it, and opens its memory.
fn kill(mode: &[&str], configuration: &str, rounds: usize) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let process = lab()
        .dalvikvm_command()
        .args(mode)
        .arg("-cp")
        .arg(jar("killed"))
        .arg("Killed")
        .env(
            "HINDSIGHT",
            format!("trace=main,shared-memory={path},dir={path},{configuration}"),
        )
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut process = Killed(process);
    let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
    let memory = folder.path().join(format!("{}.memory", process.0.id()));
    // The names of the classes of the boot image take a while.
    let is_ready = || {
        let memory = File::open(&memory);
        memory.is_ok_and(|memory| read(&memory, 0).is_ok_and(|ended| ended.are_named))
    };
    while !is_ready() {
        lines.next().unwrap().unwrap();
    }
    lines.nth(rounds).unwrap().unwrap();
    drop(process);
    open(&memory)
}

/// The open calls of the main thread, outermost first.
fn open_calls(trace: &Trace) -> Vec<String> {
    let main = trace.main_thread().unwrap();
    let open = main
        .calls
        .iter()
        .filter(|call| call.flags.contains(Flags::OPEN_END));
    let names = open.map(|call| trace.methods.name(call.method).into_owned());
    names.collect()
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_killed_process_has_its_calls_and_all_names() {
    for (mode, configuration) in [
        (&["-Xint"][..], "ring=16,rewind=off"),
        (&["-Xint"], "ring=16,rewind=1us,events=all"),
        (&[], "ring=18,rewind=off"),
        (
            &["-Xcompiler-option", "--inline-max-code-units=0"],
            "ring=16,rewind=off,events=all",
        ),
        (&[], "ring=20,rewind=20us"),
    ] {
        for rounds in [1, 7, 60] {
            let trace = kill(mode, configuration, rounds);
            let what = format!("{mode:?}, {configuration}, {rounds} rounds");
            assert!(trace.damaged.is_empty(), "{what}: {:?}", trace.damaged);
            let open = open_calls(&trace);
            let expected = ["Killed.main", "Killed.work"];
            assert!(
                open.iter().map(String::as_str).take(2).eq(expected),
                "{what}: {open:?}"
            );
            let main = trace.main_thread().unwrap();
            for call in main.calls.iter() {
                let name = trace.methods.name(call.method);
                // Their entries were overwritten, and they ended before open calls were noted.
                let is_cut = name == "<entered before the trace>";
                assert!(
                    is_cut || name.contains('.') && !name.contains("0x"),
                    "{what}: {name} has no name"
                );
            }
            assert!(trace.losses.counts.is_empty(), "{what}: {:?}", trace.losses);
        }
    }
}
