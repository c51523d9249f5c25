// SPDX-License-Identifier: Apache-2.0
//! What the measurements of events need in the lab, and those of its own programs: stacks, memory, messages.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{bail, ensure, Context as _, Result};
use hindsight_lab::{BootJar, Execution, Framework, JavaLibrary, Lab};
use hindsight_trace_format::catalogue::Extension;
use hindsight_trace_format::container::{Reader, SectionKind};

use super::switched;
use crate::ahead;
use crate::statistics::median;

/// The code of the frames of a stack, and who walks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// Compiled ahead of time.
    Ahead,
    /// Compiled by the JIT.
    Jit,
    /// Compiled ahead of time; ART walks all stacks, as it does those with frames that are not known.
    WalkedByArt,
}

/// Everything that the measurements in the lab need.
pub(super) struct Subject {
    pub(super) lab: Lab,
    /// `dev.hindsight`.
    pub(super) hindsight: PathBuf,
    /// `lab/bench/Repeat.java` and `EventCosts.java`.
    pub(super) own: PathBuf,
    pub(super) folder: PathBuf,
}

impl Subject {
    pub(super) fn compile(lab: Lab, checkout: &Path, folder: &Path) -> Result<Subject> {
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
    pub(super) fn command(&self, class_path: &[&Path], configuration: &str) -> Command {
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
    pub(super) fn compile_ahead(&self, jar: &Path) -> Result<()> {
        ahead::compile(&self.lab, &self.lab.core_image(), jar, &[], &[])
    }

    /// Stacks of 32 frames, new ones and the same again: how much longer it takes than to ask for one that is not due.
    pub(super) fn stacks(&self, code: Code) -> Result<Vec<(String, f64)>> {
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
        // The oldest of them may have left the spool.
        ensure!(
            !rounds.is_empty() && taken.stacks >= 1000,
            "only {} stacks are recorded",
            taken.stacks
        );
        let of = |what: usize| median(rounds.iter().map(|r| (r[what] - r[what + 2]) / 1e3));
        Ok(vec![
            (format!("stack32_new{name}_us"), of(0)),
            (format!("stack32_same{name}_us"), of(1)),
        ])
    }

    /// 100,000 messages a second.
    pub(super) fn storm(&self, checkout: &Path) -> Result<Vec<(String, f64)>> {
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
    pub(super) fn memory(&self) -> Result<Vec<(String, f64)>> {
        const RUNS: usize = 5;
        let mut more = Vec::new();
        for _ in 0..RUNS {
            let off = self.private_bytes("")?;
            let on = self.private_bytes("events=all")?;
            more.push(on - off);
        }
        Ok(vec![("process50_bytes".to_owned(), median(more))])
    }

    pub(super) fn private_bytes(&self, configuration: &str) -> Result<f64> {
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
    pub(super) fn trace(&self) -> Result<PathBuf> {
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
pub(super) struct Samples {
    pub(super) stacks: u64,
    pub(super) bytes: u64,
}

impl Samples {
    pub(super) fn read(file: &Path) -> Result<Samples> {
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
