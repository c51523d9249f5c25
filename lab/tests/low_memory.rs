// SPDX-License-Identifier: Apache-2.0
//! A full range below 4 GiB, where the overlay puts methods, does not end a process, and gives no method a wrong name. Run
//! with `--ignored` after `cargo xtask lab build`.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use common::{jar, lab, native_library, open, tests_folder, traces};
use hindsight_decoder::{MethodId, Trace};
use hindsight_lab::{Execution, Framework};

/// What ART's log says once.
const FULL: &str = "no room is left below 4 GiB";
const UNNAMED: &str = "are recorded without names";

/// Runs the program with these arguments, and returns its output, and the snapshot of its end.
fn run(
    mut command: Command,
    change: impl FnOnce(&mut Command, &Path),
    arguments: &str,
) -> (Output, Trace) {
    let folder = tempfile::tempdir().unwrap();
    let library = native_library(folder.path(), "low_memory");
    change(&mut command, &library);
    let path = folder.path().display();
    command.env("ANDROID_LOG_TAGS", "*:w");
    command.arg(format!("-Djava.library.path={path}")).env(
        "HINDSIGHT",
        format!(
            "trace=main,ring=24,rewind=off,snapshot-at-exit=yes,check-balance={path},dir={path}"
        ),
    );
    command.args(["LowMemory"]).args(arguments.split(' '));
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {log}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "right\n", "{log}");
    let files = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let report = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|x| x == "balance"));
    let report = std::fs::read_to_string(report.unwrap()).unwrap();
    assert!(report.contains(" unbalanced 0"), "{report}");
    let trace = open(&traces(folder.path())[0]);
    (output, trace)
}

/// The program for the interpreter, or for the JIT, which inlines nothing.
fn interpreted_or_jit(mode: &str) -> Command {
    let mut command = lab().dalvikvm_command();
    command.args([mode, "-Xcompiler-option", "--inline-max-code-units=0"]);
    command.arg("-cp").arg(jar("low_memory"));
    command
}

fn preload(command: &mut Command, library: &Path) {
    command.env("LD_PRELOAD", library).env("NO_LOW_ARENAS", "1");
}

/// The number of calls of this method on the main thread.
fn calls(trace: &Trace, name: &str) -> usize {
    let main = trace.main_thread().unwrap();
    main.calls
        .iter()
        .filter(|call| trace.methods.name(call.method) == name)
        .count()
}

/// The names of the methods that `LowMemory$Work.applyAsInt` calls, but for those of the boot class path.
fn callees(trace: &Trace) -> BTreeSet<String> {
    let main = trace.main_thread().unwrap();
    let calls: Vec<_> = main.calls.iter().collect();
    let name = |method: MethodId| trace.methods.name(method).into_owned();
    let inner = calls.iter().filter(|call| {
        let parent = calls.get(call.parent as usize);
        parent.is_some_and(|parent| name(parent.method) == "LowMemory$Work.applyAsInt")
    });
    let names = inner.map(|call| name(call.method));
    names.filter(|name| !name.starts_with("java.")).collect()
}

fn unnamed(trace: &Trace) -> u64 {
    let losses = trace.losses.counts.iter();
    losses
        .filter(|(what, _)| what == "methods without a name")
        .map(|(_, n)| n)
        .sum()
}

/// Checks the trace of a run with this many loaders whose methods are all known.
fn check_named(output: &Output, trace: &Trace, loaders: usize, inlines: bool) {
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(log.matches(FULL).count(), 1, "{log}");
    assert!(!log.contains(UNNAMED), "{log}");
    assert_eq!(unnamed(trace), 0);
    let above = trace
        .process
        .extra
        .iter()
        .find(|(key, _)| key == "methods.above.4gib");
    assert!(above.is_some(), "{:?}", trace.process.extra);
    let main = trace.main_thread().unwrap();
    assert_eq!(main.stats.open_starts + main.stats.open_ends, 0);
    assert_eq!(calls(trace, "LowMemory.twice"), loaders);
    assert_eq!(calls(trace, "LowMemory$Work.applyAsInt"), loaders);
    if !inlines {
        assert_eq!(calls(trace, "LowMemory$Work.add"), 4 * loaders);
        assert_eq!(calls(trace, "LowMemory$Work.fail"), 6 * loaders);
        let names = ["LowMemory$Work.add", "LowMemory$Work.fail"].map(String::from);
        assert_eq!(callees(trace), BTreeSet::from(names));
    }
}

const MODES: [&str; 2] = ["-Xint", "-Xjitthreshold:0"];

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn methods_that_find_no_room_below_4_gib_have_their_names() {
    for mode in MODES {
        let (output, trace) = run(interpreted_or_jit(mode), |_, _| (), "20 fill");
        check_named(&output, &trace, 20, false);
    }
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_program_starts_although_no_room_is_left_for_its_methods() {
    for mode in MODES {
        let (output, trace) = run(interpreted_or_jit(mode), preload, "20");
        check_named(&output, &trace, 20, false);
    }
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn code_compiled_ahead_of_time_records_methods_above_4_gib() {
    let framework = Framework::build(&lab(), &|_| ()).unwrap();
    let app = framework
        .compile_app("low-memory", &tests_folder().join("java/low_memory"))
        .unwrap();
    let (output, trace) = run(framework.vm_command(&app, Execution::Aot), preload, "20");
    check_named(&output, &trace, 20, true);
}

/// More methods above 4 GiB than have numbers of their own: they are recorded, but not named.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn methods_that_share_their_number_have_no_name() {
    const LOADERS: usize = 200;
    let (output, trace) = run(
        interpreted_or_jit("-Xint"),
        |command, _| {
            // A heap of 16 MiB takes 32 MiB of addresses, half of which are a window: 128 arenas.
            command.arg("-Xmx16m");
        },
        &format!("{LOADERS} fill"),
    );
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (log.matches(FULL).count(), log.matches(UNNAMED).count()),
        (1, 1),
        "{log}"
    );
    let main = trace.main_thread().unwrap();
    assert_eq!(main.stats.open_starts + main.stats.open_ends, 0);
    assert_eq!(calls(&trace, "LowMemory.twice"), LOADERS);
    // The first loaders may get arenas that were left below 4 GiB.
    let named = calls(&trace, "LowMemory$Work.applyAsInt");
    assert!(named < LOADERS / 10, "{named}");
    assert!(unnamed(&trace) >= (LOADERS - named) as u64);
    // What `main` calls besides has names.
    let of_main = main.calls.iter().filter(|call| call.depth == 1);
    let methods = of_main.filter_map(|call| trace.methods.get(call.method));
    let nameless = methods.filter(|method| !method.is_named());
    assert_eq!(nameless.count(), LOADERS - named);
}
