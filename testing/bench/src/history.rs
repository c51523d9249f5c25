// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench history`: how far back a ring goes, by what is recorded.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{Execution, Variant};

use crate::ahead::LEFT_OUT;
use crate::demo::{self, Demo};
use crate::process::{ControlSocket, Process};
use crate::programs::{self, Device, Installed, Mode};
use crate::rings::{self, Written};
use crate::statistics::median;
use crate::worker::Worker;

const PROGRAMS: [&str; 5] = ["rhino", "h2", "antlr", "gson", "jsoup"];
/// CPU time of a round to aim at, in seconds.
const ROUND_SECONDS: f64 = 0.5;
/// The demo app draws 60 frames a second; its stall begins two seconds after its start.
const DEMO_ROUND: Duration = Duration::from_millis(1500);
const MIB: f64 = (1 << 20) as f64;

/// Options of the measurement.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these programs besides the demo app, with commas between them
    #[arg(long, value_delimiter = ',', default_values_t = PROGRAMS.map(str::to_owned))]
    programs: Vec<String>,
    /// Rounds of each program with each configuration
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// One round
    #[arg(long)]
    quick: bool,
}

type Metrics = BTreeMap<String, f64>;

/// What is recorded.
struct Configuration {
    /// Its name in metrics.
    name: &'static str,
    /// Items of Hindsight's configuration, each with a comma before it.
    items: &'static str,
    /// Whether trivial methods have no trace points.
    trivial_left_out: bool,
}

impl Configuration {
    const fn of_calls(name: &'static str, items: &'static str) -> Self {
        Configuration {
            name,
            items,
            trivial_left_out: false,
        }
    }

    const fn without_trivial(name: &'static str, items: &'static str) -> Self {
        Configuration {
            trivial_left_out: true,
            ..Configuration::of_calls(name, items)
        }
    }
}

const CONFIGURATIONS: [Configuration; 7] = [
    Configuration::of_calls("all", ",rewind=off"),
    Configuration::of_calls("rewind_0_2us", ",rewind=200ns"),
    Configuration::of_calls("rewind_1us", ",rewind=1us"),
    Configuration::of_calls("rewind_10us", ",rewind=10us"),
    Configuration::without_trivial("trivial", ",rewind=off"),
    Configuration::without_trivial("trivial_default", ""),
    Configuration::of_calls("default", ""),
];

/// What a round has used and written.
struct Round {
    seconds: f64,
    written: Written,
}

pub(crate) fn bench(checkout: &Path, options: &Options) -> Result<Metrics> {
    let rounds = if options.quick { 1 } else { options.rounds };
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let programs = programs::dex(checkout, &options.programs)?;
    let device =
        |environment| Device::open(Variant::Hindsight, checkout, scratch.path(), environment);
    let demo = |environment| {
        let (variant, folder) = (Variant::Hindsight, scratch.path());
        Demo::open(variant, checkout, folder, Execution::Jit, environment)
    };
    // Traced and left out, as in `CONFIGURATIONS`.
    let devices = [device(&[])?, device(LEFT_OUT)?];
    let demos = [demo(&[])?, demo(LEFT_OUT)?];
    let mut metrics = Metrics::new();
    for configuration in &CONFIGURATIONS {
        let name = configuration.name;
        let demo = &demos[usize::from(configuration.trivial_left_out)];
        let measured = of_demo(demo, configuration, rounds, scratch.path())
            .with_context(|| format!("the demo app, {name}"))?;
        put(&mut metrics, "demo", name, &measured);
    }
    for program in &programs {
        let installed = [
            devices[0].install(program, Mode::Ahead)?,
            devices[1].install(program, Mode::Ahead)?,
        ];
        for configuration in &CONFIGURATIONS {
            let installed = &installed[usize::from(configuration.trivial_left_out)];
            let measured = of_program(installed, configuration, rounds)
                .with_context(|| format!("{}, {}", program.name, configuration.name))?;
            put(&mut metrics, program.name, configuration.name, &measured);
        }
    }
    Ok(metrics)
}

fn put(metrics: &mut Metrics, program: &str, configuration: &str, rounds: &[Round]) {
    let history = median(
        rounds
            .iter()
            .map(|r| r.seconds / (r.written.bytes() as f64 / MIB)),
    );
    let points = median(rounds.iter().map(|r| r.written.points() as f64 / r.seconds));
    println!(
        "{program:>8} {configuration:>19}: {history:10.4} s of history in a MiB, {:8.3} M points a second",
        points / 1e6
    );
    metrics.insert(
        format!("{program}_history_s_per_mib_{configuration}"),
        history,
    );
    metrics.insert(format!("{program}_points_per_s_{configuration}"), points);
}

/// The configuration of a process whose main thread is traced.
fn line(configuration: &Configuration, socket: &Path) -> String {
    // The ring's size does not matter: what was written over is counted, too.
    let items = configuration.items;
    format!("trace=main,ring=20,socket={}{items}", socket.display())
}

/// The time is CPU time: waits of the machine for other programs are no history.
fn of_program(
    program: &Installed,
    configuration: &Configuration,
    rounds: usize,
) -> Result<Vec<Round>> {
    let socket = program.socket();
    let mut worker = Worker::start(program.worker(&line(configuration, &socket)))?;
    let times = worker.warm_up(ROUND_SECONDS, 1.0)?;
    let mut socket = ControlSocket::connect(&socket)?;
    rings::take(&mut socket, worker.pid())?;
    let mut measured = Vec::new();
    for _ in 0..rounds {
        let seconds = worker.work(times)?;
        let written = rings::take(&mut socket, worker.pid())?;
        ensure!(written.slots > 0, "the main thread recorded nothing");
        measured.push(Round { seconds, written });
    }
    worker.end()?;
    Ok(measured)
}

/// The time is that of a clock: the app mostly waits for the next frame, and that is a part of its history.
fn of_demo(
    demo: &Demo,
    configuration: &Configuration,
    rounds: usize,
    folder: &Path,
) -> Result<Vec<Round>> {
    let path = folder.join("demo-socket");
    let mut measured = Vec::new();
    for _ in 0..rounds {
        let mut process = Process::start(demo.command(&line(configuration, &path)))?;
        demo::wait_for_start(&mut process)?;
        let mut socket = ControlSocket::connect(&path)?;
        rings::take(&mut socket, process.pid())?;
        let begin = Instant::now();
        std::thread::sleep(DEMO_ROUND);
        let written = rings::take(&mut socket, process.pid())?;
        ensure!(written.slots > 0, "the main thread recorded nothing");
        measured.push(Round {
            seconds: begin.elapsed().as_secs_f64(),
            written,
        });
    }
    Ok(measured)
}
