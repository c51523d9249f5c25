// SPDX-License-Identifier: Apache-2.0
//! All programs of a device, and rounds in which a trace is taken and checked.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use hindsight_lab::device::{Device, DeviceApp, Service};
use hindsight_lab::Execution;
use hindsight_perfetto_source::ipc::Producer;

use super::consumer::Consumer;
use super::expected::Seen;
use super::ftrace::Ftrace;
use super::queries::{self, Answers};
use super::scene::{Scene, FULL_RING_CALLS, SCENES};
use super::setting::{wait_for, Sockets};
use super::text_config;
use super::traced::{self, Running};

/// What apps record; the first one with a ring of 16 MiB, which [`Scene::FullRing`] fills.
const RECORDED: [&str; 3] = [
    "trace=main,events=all,ring=24,rewind=off",
    "trace=all,events=all,ring=17,rewind=off",
    "trace=main,events=all,ring=17,rewind=off",
];

/// What happened.
#[derive(Debug, Default)]
pub(super) struct Totals {
    rounds: u64,
    slices: u64,
    threads: u64,
    joined: u64,
    begun: u64,
    running: u64,
    /// Those among them that begin where the kernel has left out a switch to or from their thread.
    unsure: u64,
    samples: u64,
    events: u64,
    skipped: u64,
    /// Rounds in which the kernel lost events of the scheduler.
    with_losses: u64,
    /// Switches that the kernel has not recorded, without telling.
    unrecorded: u64,
    pub(super) problems: u64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} calls from samples, {} events, {} of {} calls begin while their thread runs ({} where the kernel does not say), {} rounds with losses of the kernel, {} switches that it left out, {} skipped",
            self.samples, self.events, self.running, self.begun, self.unsure, self.with_losses, self.unrecorded, self.skipped
        )?;
        write!(
            f,
            "perfetto: {} rounds, {} slices, {} of {} threads join sched, {} problems",
            self.rounds, self.slices, self.joined, self.threads, self.problems
        )
    }
}

/// All programs of a device with Perfetto.
pub(super) struct Scenes<'a> {
    device: &'a Device,
    sockets: &'a Sockets,
    checkout: &'a Path,
    traced_program: &'a Path,
    source_program: &'a Path,
    example: String,
    policy: PathBuf,
    // Dropped in this order: whoever connects goes first.
    apps: Vec<DeviceApp>,
    ftrace: Option<Ftrace>,
    source: Running,
    service: Service,
    traced: Running,
    totals: Totals,
}

/// The first example in docs/perfetto.md.
fn example(checkout: &Path) -> Result<String> {
    let path = checkout.join("docs/perfetto.md");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let block = text
        .split("```")
        .nth(1)
        .context("docs/perfetto.md has no example")?;
    let (_, block) = block
        .split_once('\n')
        .context("docs/perfetto.md has no example")?;
    Ok(block.to_owned())
}

fn start_source(program: &Path, device: &Device, sockets: &Sockets) -> Result<Running> {
    let mut command = Command::new(program);
    command
        .arg("--traced")
        .arg(&sockets.producers)
        .arg("--commands")
        .arg(device.commands());
    let log = sockets.log("hindsight-perfetto");
    Running::start(&mut command, &log, "hindsight-perfetto")
}

impl<'a> Scenes<'a> {
    pub(super) fn new(
        device: &'a Device,
        sockets: &'a Sockets,
        checkout: &'a Path,
        traced_program: &'a Path,
        source_program: &'a Path,
    ) -> Result<Self> {
        let policy = device.logs().join("policy.toml");
        std::fs::write(&policy, POLICY)
            .with_context(|| format!("cannot write {}", policy.display()))?;
        let mut totals = Totals::default();
        let traced = traced::start(traced_program, sockets)?;
        let service = device.start_service(Some(&policy))?;
        let ftrace = match Ftrace::start(&sockets.producers, &sockets.folder) {
            Ok(ftrace) => Some(ftrace),
            Err(e) => {
                totals.skipped += 1;
                println!("skipped sched: {e:#}");
                None
            }
        };
        let mut scenes = Scenes {
            device,
            sockets,
            checkout,
            traced_program,
            source_program,
            example: example(checkout)?,
            policy,
            apps: Vec::new(),
            ftrace,
            source: start_source(source_program, device, sockets)?,
            service,
            traced,
            totals,
        };
        scenes.wait_until_registered(1)?;
        scenes.fill()?;
        Ok(scenes)
    }

    /// Starts apps until there is one of each kind.
    fn fill(&mut self) -> Result<()> {
        let executions = [Execution::Jit, Execution::Aot, Execution::Interpreter];
        while self.apps.len() < RECORDED.len() {
            let kind = self.apps.len();
            let mut app = self.device.start_app(executions[kind], RECORDED[kind])?;
            app.ask("foreground")?;
            self.apps.push(app);
        }
        self.wait_for_apps()
    }

    fn wait_for_apps(&self) -> Result<()> {
        let pids: Vec<u64> = self.apps.iter().map(|app| app.pid().into()).collect();
        wait_for("all apps have rings", || {
            let lines = self.service.ask("status")?;
            let status: serde_json::Value = serde_json::from_str(&lines[0])?;
            let known = status["engine"]["processes"].as_array();
            let has_rings = |pid: &u64| {
                known
                    .is_some_and(|all| all.iter().any(|p| p["pid"] == *pid && p["rings_held"] != 0))
            };
            Ok(pids.iter().all(has_rings).then_some(()))
        })
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.sockets.log("hindsight-perfetto")).unwrap_or_default()
    }

    /// Waits until the data source has registered so often, in all instances of the program.
    fn wait_until_registered(&self, times: usize) -> Result<()> {
        wait_for("the data source registers", || {
            let count = self.log().matches("registered with traced").count();
            Ok((count >= times).then_some(()))
        })
    }

    /// The example, with its first trigger only, or without triggers and with more settings.
    fn config(&self, scene: Scene) -> String {
        let (with_triggers, name) = (self.example.clone(), "unique_session_name: \"verify\"\n");
        let without = match (with_triggers.find("trigger_config {"), scene) {
            (_, Scene::OurTrigger | Scene::OtherTrigger) | (None, _) => return with_triggers,
            (Some(start), _) => with_triggers[..start].to_owned(),
        };
        match scene {
            // As a session without these settings where the snapshot takes longer than traced waits by default.
            Scene::LateStop => {
                format!("{without}{name}").replace("timeout_ms: 120000", "timeout_ms: 50")
            }
            Scene::Stop => format!("{without}{name}flush_period_ms: 100\n"),
            Scene::FullBuffer => {
                let text = without.replacen("size_kb: 65536", "size_kb: 128", 1);
                let name = "name: \"dev.hindsight\"";
                text.replacen(name, &format!("{name} legacy_config: \"rings=all\""), 1)
            }
            _ => format!("{without}{name}"),
        }
    }

    /// Takes a trace, and checks it.
    pub(super) fn round(&mut self, round: u64) -> Result<()> {
        let scene = SCENES[(round % SCENES.len() as u64) as usize];
        self.totals.rounds += 1;
        self.fill()?;
        if scene == Scene::TracedKilled {
            let times = self.log().matches("registered with traced").count();
            self.traced.kill();
            self.traced = traced::start(self.traced_program, self.sockets)?;
            self.wait_until_registered(times + 1)?;
        }
        let logged = self.log().len();
        let mut consumer = Consumer::connect(&self.sockets.consumers)?;
        consumer.enable(&text_config::parse(&self.config(scene))?)?;
        wait_for("the session has begun", || {
            Ok(self.log()[logged..]
                .contains("a session has begun")
                .then_some(()))
        })?;
        self.wait_until_asleep()?;
        let (before, told) = (self.switches(), self.log().len());
        for app in &mut self.apps {
            app.ask("work 30")?;
            app.ask("stall 60")?;
            app.ask("work 30")?;
        }
        let after = self.switches();
        // For a report it has to wake up.
        let is_idle = !self.log()[told..].contains("report ");
        self.disturb(scene)?;
        let trace = match self.take(scene, &mut consumer) {
            Ok(trace) => trace,
            Err(e) => {
                self.problem(&format!("{scene:?}: {e:#}"));
                return Ok(());
            }
        };
        if before != after && is_idle && scene != Scene::Stop {
            let woken = after - before;
            self.problem(&format!(
                "{scene:?}: woken {woken} times while the session ran"
            ));
        }
        if scene == Scene::LateStop {
            // traced has not waited for it.
            wait_for("the data source has written its snapshot", || {
                Ok(self.log()[logged..].contains("snapshot:").then_some(()))
            })?;
        }
        let path = self.sockets.folder.join(format!("round-{round}.pftrace"));
        std::fs::write(&path, &trace)?;
        let answers = queries::ask(self.checkout, &path)?;
        let log = self.log()[logged..].to_owned();
        self.check(scene, &answers, &log);
        println!(
            "round {round}: {scene:?}: {} bytes, {} calls, {} from samples, {} events, {}/{} threads join sched, {}/{} run",
            trace.len(), answers.calls, answers.samples, answers.events, answers.threads - answers.apart.len() as u64, answers.threads,
            answers.begun - answers.not_running.len() as u64, answers.begun
        );
        for line in log.lines().filter(|line| line.contains("snapshot:")) {
            println!("  {line}");
        }
        Ok(())
    }

    /// Waits until the data source's program sleeps, having said that a session has begun: it waits for traced then.
    fn wait_until_asleep(&self) -> Result<()> {
        let path = format!("/proc/{}/status", self.source.pid());
        wait_for("the data source's program sleeps", || {
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
            Ok(text.contains("\nState:\tS").then_some(()))
        })
    }

    /// How often the data source's program went to sleep: it did something each time.
    fn switches(&self) -> u64 {
        let path = format!("/proc/{}/status", self.source.pid());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text
            .lines()
            .find(|l| l.starts_with("voluntary_ctxt_switches:"));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .unwrap_or(0)
    }

    fn disturb(&mut self, scene: Scene) -> Result<()> {
        match scene {
            Scene::SourceKilled => {
                let times = self.log().matches("registered with traced").count();
                let started = self.log().matches("a session has begun").count();
                self.source.kill();
                self.source = start_source(self.source_program, self.device, self.sockets)?;
                self.wait_until_registered(times + 1)?;
                wait_for("traced starts the data source again", || {
                    let count = self.log().matches("a session has begun").count();
                    Ok((count > started).then_some(()))
                })?;
            }
            Scene::ServiceKilled => {
                self.service.kill();
                self.service = self.device.start_service(Some(&self.policy))?;
                self.wait_for_apps()?;
                for app in &mut self.apps {
                    app.ask("work 30")?;
                }
            }
            Scene::FullRing | Scene::LateStop => {
                self.apps[0].ask(&format!("fill {}", 2 * FULL_RING_CALLS))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the session, and reads its trace.
    fn take(&mut self, scene: Scene, consumer: &mut Consumer) -> Result<Vec<u8>> {
        match scene {
            Scene::OurTrigger => {
                let mut app = self.apps.remove(self.apps.len() - 1);
                app.kill();
                consumer.wait_until_disabled()?;
            }
            Scene::OtherTrigger => {
                let mut other = Producer::connect(&self.sockets.producers, "com.example.other")?;
                other.trigger(&["com.example.anything"])?;
                consumer.wait_until_disabled()?;
            }
            Scene::Clone => {
                let mut copy = Consumer::connect(&self.sockets.consumers)?;
                copy.clone_session("verify")?;
                let trace = copy.read()?;
                consumer.disable()?;
                return Ok(trace);
            }
            Scene::Stop => {
                consumer.flush()?;
                consumer.disable()?;
            }
            _ => consumer.disable()?,
        }
        consumer.read()
    }

    fn check(&mut self, scene: Scene, answers: &Answers, log: &str) {
        let faults = self.ftrace.as_ref().map(Ftrace::faults);
        let faults = faults.unwrap_or_default();
        let lost = faults.lost;
        if lost > 0 {
            self.totals.with_losses += 1;
            println!("the kernel lost {lost} of the scheduler's events: they are not checked");
        }
        let seen = Seen {
            scene,
            answers,
            log,
            apps: self.apps.iter().map(|app| app.pid().into()).collect(),
            has_sched: self.ftrace.is_some(),
            faults: &faults,
        };
        for problem in seen.problems() {
            self.problem(&format!("{scene:?}: {problem}"));
        }
        self.totals.slices += answers.slices();
        self.totals.samples += answers.samples;
        self.totals.events += answers.events;
        if ![Scene::FullBuffer, Scene::LateStop].contains(&scene) && lost == 0 {
            self.totals.threads += answers.threads;
            self.totals.joined += seen.joined();
            self.totals.begun += answers.begun;
            self.totals.running += answers.begun - seen.not_running();
            self.totals.unsure += answers.not_running.len() as u64 - seen.not_running();
            self.totals.unrecorded += seen.unrecorded();
        }
    }

    fn problem(&mut self, what: &str) {
        self.totals.problems += 1;
        println!("problem: {what}");
    }

    pub(super) fn finish(mut self) -> Totals {
        if self.ftrace.is_some() && self.totals.begun == 0 {
            self.problem("no round says whether calls begin while their thread runs: the kernel lost events in all");
        }
        self.totals
    }
}

/// Everything is recorded and kept; the user has agreed to everything.
const POLICY: &str = r#"
version = 1

[memory]
budget-mib = 4096
call-rings = 64
uid-share = 100
processes-per-uid = 64

[reports]
killed = "all"
queue = 64

[limits]
device = 1000
per-uid = 1000
per-detector = 1000

[consent.end-user]
unasked = "full"
"#;
