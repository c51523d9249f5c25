// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench control`: for how long a thread is held when its tracing is started, put into a snapshot and stopped, and how
//! long these commands take, by the thread's activity and by protocol.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{build, BuildOptions, Isa, JavaLibrary, Lab, Variant};
use hindsight_trace_format::container::Reader;
use serde::Deserialize;

use crate::process::{ControlSocket, Process};

/// Rounds of a start, two snapshots and a stop for each thread.
const ROUNDS: usize = 250;
/// Large enough for the events of a busy thread between two snapshots, on a busy machine.
const LOG2_RING: u32 = 24;

/// The activities of the measured threads: the kinds of `Control.java`, with their descriptions.
const STATES: [(&str, &str); 4] = [
    ("busy", "in compiled code"),
    ("native", "in native code (read)"),
    ("asleep", "asleep"),
    ("waiting", "waiting for a monitor"),
];

/// The protocols, with the beginnings of their metrics' names.
const PROTOCOLS: [(&str, &str); 2] = [("checkpoint", ""), ("lock-free", "lock_free_")];

#[derive(Deserialize)]
struct Status {
    held_ns: Times,
    waited_ns: Times,
    protocol: String,
    fallbacks: u64,
}

#[derive(Deserialize)]
struct Times {
    count: u64,
    p50: u64,
    p99: u64,
    max: u64,
}

pub(super) fn bench(checkout: &Path) -> Result<BTreeMap<String, f64>> {
    let lab = build(&BuildOptions::from_environment(
        Isa::X86_64,
        Variant::Hindsight,
    ))?;
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let jar = scratch.path().join("control.jar");
    let library = JavaLibrary {
        sources: vec![checkout.join("lab/tests/java/control/Control.java")],
        ..JavaLibrary::default()
    };
    lab.compile_java(&library, &jar)?;

    let mut metrics = BTreeMap::new();
    println!(
        "{ROUNDS} times a start, two snapshots and a stop, us\n{:>36} {:>7} {:>8} {:>8} {:>8}",
        "", "times", "median", "p99", "max"
    );
    let print = |what: &str, count: u64, values: [f64; 3]| {
        let [p50, p99, max] = values.map(|ns| ns / 1e3);
        println!("{what:>36} {count:>7} {p50:>8.1} {p99:>8.1} {max:>8.1}");
    };
    let all = STATES
        .iter()
        .flat_map(|state| PROTOCOLS.iter().map(move |protocol| (state, protocol)));
    for ((kind, what), (protocol, prefix)) in all {
        let folder = scratch.path().join(format!("{kind}-{protocol}"));
        fs::create_dir(&folder).context("cannot make a folder")?;
        println!("{what}, {protocol}");
        let (status, mut gaps) = measure(&lab, &jar, &folder, kind, protocol)?;
        for (name, times) in [("held", &status.held_ns), ("waited", &status.waited_ns)] {
            let values = [times.p50, times.p99, times.max].map(|ns| ns as f64);
            print(name, times.count, values);
            for (percentile, value) in ["p50", "p99", "max"].iter().zip(values) {
                metrics.insert(format!("{prefix}{name}_ns_{percentile}_{kind}"), value);
            }
        }
        metrics.insert(format!("{prefix}holds_{kind}"), status.held_ns.count as f64);
        if *protocol == "lock-free" {
            println!(
                "{:>36} {:>7}",
                "fell back to a checkpoint", status.fallbacks
            );
            metrics.insert(format!("{prefix}fallbacks_{kind}"), status.fallbacks as f64);
        }
        if *kind == "busy" {
            ensure!(
                gaps.len() > ROUNDS / 2,
                "the busy thread's ring was too small"
            );
            gaps.sort_by(f64::total_cmp);
            let at = |percent: usize| gaps[(gaps.len() - 1) * percent / 100];
            let values = [at(50), at(99), at(100)];
            print("pause in its trace", gaps.len() as u64, values);
            for (name, value) in ["p50", "p99", "max"].iter().zip(values) {
                metrics.insert(format!("{prefix}swap_pause_ns_{name}_busy"), value);
            }
        }
    }
    println!(
        "held: the thread could not go on, or could not have; waited: until it was done. By the lock-free protocol a\n\
         start holds no thread, and is not among the held ones."
    );
    println!("pause: from the last event in one ring to the first in the next, including time slices of other programs");
    Ok(metrics)
}

/// The holds of one thread of this kind, and the pauses in its trace at swaps of its ring, in ns.
fn measure(
    lab: &Lab,
    jar: &Path,
    folder: &Path,
    kind: &str,
    protocol: &str,
) -> Result<(Status, Vec<f64>)> {
    let mut command = lab.dalvikvm_command();
    command.args(["-Xjitthreshold:0", "-Xusejit:true"]);
    command.args(["-Xcompiler-option", "--inline-max-code-units=0"]);
    command.arg("-cp").arg(jar).arg("Control");
    let path = folder.display();
    command.env(
        "HINDSIGHT",
        format!("trace=off,ring={LOG2_RING},dir={path},socket={path}/socket,protocol={protocol}"),
    );
    let mut program = Process::start(command)?;
    program.line()?;
    let fifo = folder.join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    ensure!(
        made.context("cannot run mkfifo")?.success(),
        "mkfifo failed"
    );
    // For reading and writing, so that the other end exists as long as this one is open.
    let other_end = fs::OpenOptions::new().read(true).write(true).open(&fifo)?;
    let tid = program.ask(&format!("thread {kind} subject {}", fifo.display()))?;
    let mut socket = ControlSocket::connect(&folder.join("socket"))?;
    let mut gaps = Vec::new();
    for _ in 0..ROUNDS {
        socket.ask(&format!("start {tid}"))?;
        let mut files = Vec::new();
        for _ in 0..2 {
            files.push(socket.ask("snapshot bench")?);
        }
        socket.ask(&format!("stop {tid}"))?;
        gaps.extend(pause(&files[0], &files[1])?);
        for file in files {
            fs::remove_file(file)?;
        }
    }
    let status: Status = serde_json::from_str(&socket.ask("status")?)?;
    drop(other_end);
    program.end()?;
    ensure!(
        status.protocol == protocol,
        "the protocol in use is {}",
        status.protocol
    );
    Ok((status, gaps))
}

/// The time from the last event of the only ring in `before` to the first event of the one in `after`, in ns. `None` if
/// there is no event, or it was overwritten.
fn pause(before: &str, after: &str) -> Result<Option<f64>> {
    let (before, after) = (fs::read(before)?, fs::read(after)?);
    let (before, after) = (Reader::new(&before)?, Reader::new(&after)?);
    let (Some(first), Some(second)) = (before.ring(0)?, after.ring(0)?) else {
        return Ok(None);
    };
    let newest = first.slots().events().next();
    let oldest = second.slots().events().last();
    let (Some(newest), Some(oldest)) = (newest, oldest) else {
        return Ok(None);
    };
    if second.header.position.laps != 0 {
        return Ok(None);
    }
    let ticks = oldest.counter().wrapping_sub(newest.counter());
    let per_second = after.clocks()?.ticks_per_second;
    ensure!(per_second != 0, "the rate of the counter is not known");
    Ok(Some(f64::from(ticks) * 1e9 / per_second as f64))
}
