// SPDX-License-Identifier: Apache-2.0
//! The program under stress, and its watchdog.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// The output of the program so far.
#[derive(Debug)]
struct Said {
    /// Steps of each worker, and the time of the last change.
    workers: Vec<(u64, Instant)>,
    /// The time of the last line.
    latest: Instant,
    started: bool,
    done: bool,
    digests: Vec<String>,
    /// Findings that the program reports, with the lines that follow.
    findings: Vec<String>,
}

/// A running program.
pub(super) struct Process {
    child: Child,
    said: Arc<Mutex<Said>>,
    reader: Option<std::thread::JoinHandle<()>>,
    log: PathBuf,
}

/// Texts in the log that are findings. ART's log has other lines, too.
const FATAL: [&str; 8] = [
    "ERROR: AddressSanitizer",
    "AddressSanitizer:DEADLYSIGNAL",
    "internal error",
    "Check failed:",
    "Fatal signal",
    "JNI DETECTED ERROR",
    "Runtime aborting",
    "panicked at",
];

fn lock(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(|e| e.into_inner())
}

impl Process {
    /// Starts the program; its log and output go to the folder.
    pub(super) fn start(command: &mut Command, folder: &Path) -> Result<Process> {
        let log = folder.join("log.txt");
        let printed = folder.join("output.txt");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let said = Arc::new(Mutex::new(Said {
            workers: Vec::new(),
            latest: Instant::now(),
            started: false,
            done: false,
            digests: Vec::new(),
            findings: Vec::new(),
        }));
        let output = child.stdout.take().context("no output")?;
        let mut copy = fs::File::create(&printed)?;
        let listener = Arc::clone(&said);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                use std::io::Write as _;
                let _ = writeln!(copy, "{line}");
                lock(&listener).hear(&line);
            }
        });
        Ok(Process {
            child,
            said,
            reader: Some(reader),
            log,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether its threads are at work, and the handlers of signals installed.
    pub(super) fn has_started(&self) -> bool {
        lock(&self.said).started
    }

    pub(super) fn is_done(&self) -> bool {
        lock(&self.said).done
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// A description of the threads without progress for longer than `limit`.
    pub(super) fn stuck(&self, limit: Duration) -> Option<String> {
        let said = lock(&self.said);
        if said.latest.elapsed() > limit {
            return Some(format!("it printed nothing for {} s", limit.as_secs()));
        }
        // The last line leaves out workers that are done.
        let worker = said
            .workers
            .iter()
            .position(|(_, at)| at.elapsed() > 2 * limit)?;
        Some(format!(
            "worker {worker} made no step for {} s",
            2 * limit.as_secs()
        ))
    }

    /// Writes the state of all its threads to the folder, as seen by the kernel, by ART (at SIGQUIT), and by gdb, if
    /// installed.
    pub(super) fn dump(&self, folder: &Path) {
        use std::fmt::Write as _;
        let mut text = String::new();
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid()));
        for task in tasks.into_iter().flatten().flatten() {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let status = read("status");
            let state = status.lines().find(|l| l.starts_with("State:"));
            let _ = writeln!(
                text,
                "{} {} {} wchan {} syscall {}",
                task.file_name().to_string_lossy(),
                read("comm").trim(),
                state.unwrap_or_default(),
                read("wchan"),
                read("syscall").trim(),
            );
        }
        let _ = fs::write(folder.join("threads.txt"), text);
        // SAFETY: kill takes any numbers and touches no memory of this process.
        unsafe { libc::kill(self.pid() as i32, libc::SIGQUIT) };
        std::thread::sleep(Duration::from_secs(10));
        let gdb = Command::new("gdb")
            .args(["-batch", "-p", &self.pid().to_string()])
            .args(["-ex", "thread apply all bt 30"])
            .stdin(Stdio::null())
            .output();
        if let Ok(output) = gdb {
            let _ = fs::write(folder.join("gdb.txt"), output.stdout);
        }
    }

    /// Kills the program, if it has not ended, and waits for it.
    pub(super) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }

    /// Findings in its output and log, once it has ended.
    pub(super) fn findings(&mut self) -> Vec<String> {
        self.end();
        let mut findings = lock(&self.said).findings.clone();
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        if let Some(at) = lines
            .iter()
            .position(|line| FATAL.iter().any(|fatal| line.contains(fatal)))
        {
            findings.push(lines[at..lines.len().min(at + 25)].join("\n    "));
        }
        findings
    }

    /// The last lines of its log.
    pub(super) fn log_end(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// Checksums of the workers' results; the same for the same seed and number of steps.
    pub(super) fn digests(&self) -> Vec<String> {
        lock(&self.said).digests.clone()
    }

    /// Steps of all workers so far.
    pub(super) fn steps(&self) -> u64 {
        lock(&self.said)
            .workers
            .iter()
            .map(|(steps, _)| steps)
            .sum()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

impl Said {
    fn hear(&mut self, line: &str) {
        let now = Instant::now();
        self.latest = now;
        if let Some(steps) = line.strip_prefix("beat") {
            self.started = true;
            for (index, steps) in steps.split_whitespace().enumerate() {
                let steps = steps.parse().unwrap_or(0);
                match self.workers.get_mut(index) {
                    Some(worker) if worker.0 == steps => {}
                    Some(worker) => *worker = (steps, now),
                    None => self.workers.push((steps, now)),
                }
            }
        } else if line.starts_with("finding:") {
            self.findings.push(line.to_owned());
        } else if line.starts_with("worker ") {
            self.digests.push(line.to_owned());
        } else if line == "done" {
            self.done = true;
        } else if let Some(finding) = self.findings.last_mut().filter(|f| f.len() < 4000) {
            // The stack of the exception.
            finding.push_str("\n    ");
            finding.push_str(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_stops_printing_or_stepping_is_stuck() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        // The finding comes last: when it is there, the log has its line.
        command.args(["-c", "echo 'Check failed: z' >&2; echo beat 1 2; echo finding: x; echo '  at y'; exec sleep 60"]);
        let mut process = Process::start(&mut command, folder.path()).unwrap();
        while lock(&process.said).findings.is_empty() {
            std::thread::yield_now();
        }
        assert!(process.has_started() && !process.is_done());
        assert_eq!(process.steps(), 3);
        assert_eq!(process.stuck(Duration::from_secs(3600)), None);
        assert!(process
            .stuck(Duration::ZERO)
            .unwrap()
            .contains("printed nothing"));
        let findings = process.findings();
        assert!(
            findings.iter().any(|f| f.starts_with("finding: x")),
            "{findings:?}"
        );
        assert!(
            findings.iter().any(|f| f.contains("Check failed: z")),
            "{findings:?}"
        );
    }
}
