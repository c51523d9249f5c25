// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench events`: what events and stacks cost: one by one, whole programs, and memory.
//!
//! What cannot be measured here is left out, and the reason is printed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{bail, ensure, Context as _, Result};
use hindsight_lab::{BootJar, Execution, Framework, Isa, JavaLibrary, Lab, Release, Variant};
use hindsight_trace_format::catalogue::Extension;
use hindsight_trace_format::container::{Reader, SectionKind};
use hindsight_verify::debian;

use crate::statistics::median;
use program::Program;

mod program;
mod switched;

type Metrics = BTreeMap<String, f64>;

/// The names of the programs' metrics, and the drivers in `lab/oracle/debian`.
const PROGRAMS: [(&str, &str); 4] = [
    ("rhino", "RhinoScript"),
    ("h2", "H2Database"),
    ("antlr", "AntlrTool"),
    ("gson", "GsonTree"),
];

/// The code of the frames of a stack, and who walks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// Compiled ahead of time.
    Ahead,
    /// Compiled by the JIT.
    Jit,
    /// Compiled ahead of time; ART walks all stacks, as it does those with frames that are not known.
    WalkedByArt,
}

/// Everything that the measurements in the lab need.
struct Subject {
    lab: Lab,
    /// `dev.hindsight`.
    hindsight: PathBuf,
    /// `lab/bench/Repeat.java` and `EventCosts.java`.
    own: PathBuf,
    folder: PathBuf,
}

pub(super) fn bench(checkout: &Path) -> Result<Metrics> {
    let mut metrics = Metrics::new();
    put(&mut metrics, micro(checkout)?);
    let lab = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight)?;
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let subject = Subject::compile(lab, checkout, scratch.path())?;
    for code in [Code::Ahead, Code::Jit, Code::WalkedByArt] {
        optional(&mut metrics, "stacks of 32 frames", subject.stacks(code));
    }
    optional(&mut metrics, "memory of 50 threads", subject.memory());
    let folder = checkout.join("target/bench/events");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, driver) in PROGRAMS {
        let program = debian::programs(&subject.lab, checkout, &folder, &|class| class == driver)
            .and_then(|programs| {
                let program = programs.into_iter().next().context("there is none")?;
                Program::compile(&subject, &program.jar, driver)
            });
        let program = match program {
            Ok(program) => program,
            Err(error) => {
                println!("{name} is left out: {error:#}");
                continue;
            }
        };
        if name == "rhino" {
            optional(&mut metrics, "bytes a stack", program.bytes_per_sample());
        }
        optional(&mut metrics, name, program.cost(name));
    }
    optional(&mut metrics, "messages", subject.storm(checkout));
    Ok(metrics)
}

fn put(metrics: &mut Metrics, results: impl IntoIterator<Item = (String, f64)>) {
    for (name, value) in results {
        println!("{name:28} {value:.3}");
        metrics.insert(name, value);
    }
}

/// Adds what was measured, or says why it is not.
fn optional(metrics: &mut Metrics, what: &str, result: Result<Vec<(String, f64)>>) {
    match result {
        Ok(results) => put(metrics, results),
        Err(error) => println!("{what} is left out: {error:#}"),
    }
}

/// The recorder alone, by `runtime/examples/event_costs.rs`.
fn micro(checkout: &Path) -> Result<Metrics> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(checkout)
        .args(["run", "--quiet", "--release"])
        .args(["-p", "hindsight-runtime", "--example", "event_costs"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "event_costs: {}", output.status);
    serde_json::from_slice(&output.stdout).context("event_costs printed no numbers")
}

impl Subject {
    fn compile(lab: Lab, checkout: &Path, folder: &Path) -> Result<Subject> {
        let classes = folder.join("classes");
        let hindsight = folder.join("hindsight.jar");
        lab.compile_java(
            &JavaLibrary {
                sources: vec![checkout.join("art-hooks/java/dev/hindsight/Events.java")],
                class_output: Some(classes.clone()),
                ..JavaLibrary::default()
            },
            &hindsight,
        )?;
        let own = folder.join("own.jar");
        lab.compile_java(
            &JavaLibrary {
                sources: ["Repeat", "EventCosts"]
                    .map(|class| {
                        checkout
                            .join("lab/bench")
                            .join(class)
                            .with_extension("java")
                    })
                    .to_vec(),
                class_path: vec![classes],
                ..JavaLibrary::default()
            },
            &own,
        )?;
        Ok(Subject {
            lab,
            hindsight,
            own,
            folder: folder.to_owned(),
        })
    }

    /// dalvikvm with all compiled ahead of time, and a configuration; an empty one is off.
    fn command(&self, class_path: &[&Path], configuration: &str) -> Command {
        let jar = BootJar::new(self.hindsight.clone());
        let mut command = (self.lab).dalvikvm_command_extended(&self.lab.core_image(), &[jar]);
        let class_path: Vec<String> = class_path.iter().map(|p| p.display().to_string()).collect();
        command.args(["-Xusejit:false", "-Xms128m", "-Xmx512m", "-cp"]);
        command.arg(class_path.join(":"));
        command.env_remove("HINDSIGHT");
        if !configuration.is_empty() {
            let folder = self.folder.display();
            command.env("HINDSIGHT", format!("{configuration},dir={folder}"));
        }
        command
    }

    /// Compiles a jar, beside it.
    fn compile_ahead(&self, jar: &Path) -> Result<()> {
        let stem = jar.file_stem().context("no name")?;
        let oat = jar.with_file_name("oat").join(self.lab.isa().name());
        fs::create_dir_all(&oat)?;
        let output = (self.lab.dex2oat_command())
            .arg(format!("--dex-file={}", jar.display()))
            .arg(format!(
                "--oat-file={}",
                oat.join(stem).with_extension("odex").display()
            ))
            .args([
                "--compiler-filter=speed",
                "--class-loader-context=PCL[]",
                "--host",
                "-j1",
            ])
            .arg("--instruction-set-features=runtime")
            .output()
            .context("cannot run dex2oat")?;
        ensure!(
            output.status.success(),
            "dex2oat fails:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Stacks of 32 frames, new ones and the same again: how much longer it takes than to ask for one that is not due.
    fn stacks(&self, code: Code) -> Result<Vec<(String, f64)>> {
        let jar = match code {
            Code::Jit => self.folder.join("jit.jar"),
            Code::Ahead | Code::WalkedByArt => self.own.clone(),
        };
        let configuration = "events=stacks+marks,stack-interval=3600000000,snapshot-at-exit=yes";
        let mut command = self.command(&[&jar], configuration);
        let name = match code {
            Code::Ahead => "",
            Code::Jit => {
                fs::copy(&self.own, &jar)?;
                command.args(["-Xusejit:true", "-Xjitthreshold:100"]);
                "_jit"
            }
            Code::WalkedByArt => {
                command.env("HINDSIGHT_CHECK_STACKS", "art");
                "_art"
            }
        };
        if code == Code::Ahead {
            self.compile_ahead(&self.own)?;
        }
        let output = command
            .args(["EventCosts", "stacks"])
            .output()
            .context("cannot run dalvikvm")?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8_lossy(&output.stdout);
        let rounds: Vec<Vec<f64>> = (text.lines())
            .filter_map(|line| line.strip_prefix("ns "))
            .map(|line| line.split(' ').filter_map(|n| n.parse().ok()).collect())
            .filter(|round: &Vec<f64>| round.len() == 4)
            .collect();
        let taken = self.trace().and_then(|file| Samples::read(&file))?;
        let expected = (2 * rounds.len()) as u64 * 500;
        ensure!(
            !rounds.is_empty() && taken.stacks >= expected.min(1000),
            "{} stacks are recorded: this ART takes none",
            taken.stacks
        );
        let of = |what: usize| median(rounds.iter().map(|r| (r[what] - r[what + 2]) / 1e3));
        Ok(vec![
            (format!("stack32_new{name}_us"), of(0)),
            (format!("stack32_same{name}_us"), of(1)),
        ])
    }

    /// 100,000 messages a second.
    fn storm(&self, checkout: &Path) -> Result<Vec<(String, f64)>> {
        /// `PER_MILLISECOND` in the program.
        const MESSAGES: f64 = 100.0;
        let framework = Framework::build(&self.lab, &|step| eprintln!("bench: building {step}"))?;
        let app = framework.compile_app("bench", &checkout.join("lab/bench"))?;
        let mut command = framework.app_command(&app, "MessageStorm", Execution::Aot);
        let (folder, socket) = (self.folder.display(), self.folder.join("storm-socket"));
        command.env(
            "HINDSIGHT",
            format!("events=off,socket={},dir={folder}", socket.display()),
        );
        let cost = switched::cost(command, &socket)?;
        let mut metrics = cost.metrics("storm");
        metrics.push(("storm_ns_per_message".to_owned(), cost.ns() / MESSAGES));
        Ok(metrics)
    }

    /// Memory that a process with 50 threads needs more with events than without.
    fn memory(&self) -> Result<Vec<(String, f64)>> {
        const RUNS: usize = 5;
        let mut more = Vec::new();
        for _ in 0..RUNS {
            let off = self.private_bytes("")?;
            let on = self.private_bytes("events=all")?;
            more.push(on - off);
        }
        Ok(vec![("process50_bytes".to_owned(), median(more))])
    }

    fn private_bytes(&self, configuration: &str) -> Result<f64> {
        let mut child = self
            .command(&[&self.own], configuration)
            .args(["EventCosts", "threads", "50"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run dalvikvm")?;
        let output = child.stdout.take().context("no output")?;
        let ready = BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .any(|line| line == "ready");
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", child.id()));
        // The end of its input ends it.
        drop(child.stdin.take());
        child.wait()?;
        ensure!(ready, "the program ended too early");
        let rollup = rollup.context("cannot read smaps_rollup")?;
        let of = |key: &str| -> Option<f64> {
            let line = rollup.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim().strip_suffix(" kB")?.trim().parse().ok()
        };
        let (clean, dirty) = (of("Private_Clean:"), of("Private_Dirty:"));
        let kb = clean.zip(dirty).map(|(clean, dirty)| clean + dirty);
        Ok(kb.context("smaps_rollup has no sums")? * 1024.0)
    }

    /// The only trace in the folder, which is removed from there.
    fn trace(&self) -> Result<PathBuf> {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|x| x == "hindsight") {
                let taken = path.with_extension("taken");
                fs::rename(&path, &taken)?;
                return Ok(taken);
            }
        }
        bail!("no trace was written: does this ART know events?")
    }
}

/// The stacks in a trace, and the bytes that they take.
struct Samples {
    stacks: u64,
    bytes: u64,
}

impl Samples {
    fn read(file: &Path) -> Result<Samples> {
        let bytes = fs::read(file)?;
        let reader = Reader::new(&bytes)?;
        let mut samples = Samples {
            stacks: 0,
            bytes: (reader.section(SectionKind::Stacks, 0)?).map_or(0, |table| table.len() as u64),
        };
        for ring in 0.. {
            let Some(ring) = reader.ring(ring)? else {
                break;
            };
            for event in ring.slots().events() {
                let number = event.slot.low();
                let words = hindsight_trace_format::slot::payload_slots(number) as u64 + 1;
                if number == Extension::PackedStack.number() {
                    samples.stacks += 1;
                    samples.bytes += 8 * words;
                } else if number == Extension::StackAgain.number() {
                    samples.stacks += event.payload(0).unwrap_or(0);
                    samples.bytes += 8 * words;
                }
            }
        }
        Ok(samples)
    }
}
