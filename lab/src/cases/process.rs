// SPDX-License-Identifier: Apache-2.0
//! The running processes of a case, and what they say: see `lab/causality/common/Case.java`.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, IoContext as _, Result};

/// What a process says, or that it has ended.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// The next process may start, with these ports.
    Ready(String),
    /// The case has happened.
    Done,
    /// A snapshot is in this file.
    Saved(String),
    /// Something went wrong.
    Failed(String),
    /// It has closed its output.
    Ended,
}

impl Said {
    /// `None` for a line that is none of them.
    fn parse(line: &str) -> Option<Said> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "ready" => Some(Said::Ready(rest.to_owned())),
            "done" => Some(Said::Done),
            "saved" => Some(Said::Saved(rest.to_owned())),
            "failed" => Some(Said::Failed(rest.to_owned())),
            _ => None,
        }
    }
}

struct Process {
    name: String,
    child: Child,
    /// On which it listens: `NAME=PORT,PORT`.
    ports: Option<String>,
    snapshot: Option<PathBuf>,
}

/// What the processes say, by their index: the end that their readers have, and ours.
type Lines = (Sender<(usize, Said)>, Receiver<(usize, Said)>);

/// Processes that are ended with this.
pub(super) struct Running {
    out: PathBuf,
    end: Instant,
    processes: Vec<Process>,
    is_done: bool,
    lines: Lines,
}

impl Drop for Running {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended by itself.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

impl Running {
    pub(super) fn new(out: &Path, limit: Duration) -> Running {
        Running {
            out: out.to_owned(),
            end: Instant::now() + limit,
            processes: Vec::new(),
            is_done: false,
            lines: mpsc::channel(),
        }
    }

    /// The arguments that tell a process on which ports the others listen.
    pub(super) fn ports(&self) -> impl Iterator<Item = &str> {
        self.processes.iter().filter_map(|p| p.ports.as_deref())
    }

    /// Starts a process, and waits until the next one may start.
    pub(super) fn start(&mut self, name: &str, mut command: Command) -> Result<()> {
        let log = self.out.join(name).with_extension("txt");
        let errors = File::create(&log).context("write", &log)?;
        let program = PathBuf::from(command.get_program());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .context("run", &program)?;
        let index = self.processes.len();
        if let Some(output) = child.stdout.take() {
            let lines = self.lines.0.clone();
            thread::spawn(move || forward(index, output, &lines));
        }
        self.processes.push(Process {
            name: name.to_owned(),
            child,
            ports: None,
            snapshot: None,
        });
        while self.processes[index].ports.is_none() {
            self.hear()?;
        }
        Ok(())
    }

    /// Waits until the case has happened, and for the end of its processes. Returns their snapshots.
    pub(super) fn finish(mut self) -> Result<Vec<PathBuf>> {
        while !self.is_done {
            self.hear()?;
        }
        for process in &mut self.processes {
            process.child.stdin = None;
        }
        while self.processes.iter().any(|p| p.snapshot.is_none()) {
            self.hear()?;
        }
        let snapshots = self.processes.iter_mut().filter_map(|p| p.snapshot.take());
        Ok(snapshots.collect())
    }

    /// Takes the next thing that a process says.
    fn hear(&mut self) -> Result<()> {
        let left = self.end.saturating_duration_since(Instant::now());
        let (index, said) = match self.lines.1.recv_timeout(left) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(Error::Other("the case has not ended in time".to_owned()))
            }
        };
        let process = &mut self.processes[index];
        let failed = |why: &str| {
            let log = self.out.join(&process.name).with_extension("txt");
            Err(Error::Other(format!(
                "process {}: {why} (see {})",
                process.name,
                log.display()
            )))
        };
        match said {
            Said::Ready(ports) => process.ports = Some(format!("{}={ports}", process.name)),
            Said::Done => self.is_done = true,
            Said::Saved(file) if file == "null" => return failed("it could not save a snapshot"),
            Said::Saved(file) => process.snapshot = Some(file.into()),
            Said::Failed(why) => return failed(&why),
            Said::Ended if process.snapshot.is_none() => {
                return failed("it ended without a snapshot")
            }
            Said::Ended => (),
        }
        Ok(())
    }
}

/// Reads what a process says, to its end.
fn forward(index: usize, output: ChildStdout, lines: &Sender<(usize, Said)>) {
    let said = BufReader::new(output).lines().map_while(|line| line.ok());
    for said in said.filter_map(|line| Said::parse(&line)) {
        if lines.send((index, said)).is_err() {
            return;
        }
    }
    // Nobody hears it once the case is over.
    let _ = lines.send((index, Said::Ended));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn running(folder: &Path) -> Running {
        Running::new(folder, Duration::from_secs(60))
    }

    #[test]
    fn processes_learn_ports_and_are_asked_for_snapshots_together() {
        let folder = tempfile::tempdir().unwrap();
        let mut case = running(folder.path());
        let save = "while read x; do :; done; echo saved /tmp/";
        case.start("a", shell(&format!("echo ready 1,2; {save}a")))
            .unwrap();
        assert_eq!(case.ports().collect::<Vec<_>>(), ["a=1,2"]);
        case.start("b", shell(&format!("echo ready; echo done; {save}b")))
            .unwrap();
        let files = case.finish().unwrap();
        assert_eq!(files, [Path::new("/tmp/a"), Path::new("/tmp/b")]);
    }

    #[test]
    fn a_failure_names_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let cases = [
            ("exit 0", "ended without a snapshot"),
            ("echo failed of hunger; cat", "of hunger"),
            ("echo ready; echo done; cat; echo saved null", "could not"),
            ("echo ready; echo other; cat", "not ended in time"),
        ];
        for (script, message) in cases {
            let mut case = running(folder.path());
            let error = case.start("p", shell(script)).and_then(|()| {
                if message.ends_with("time") {
                    case.end = Instant::now();
                }
                case.finish().map(drop)
            });
            let text = error.unwrap_err().to_string();
            assert!(text.contains(message), "{script}: {text}");
            assert!(message.ends_with("time") || text.contains("process p"));
        }
    }
}
