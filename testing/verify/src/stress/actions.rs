// SPDX-License-Identifier: Apache-2.0
//! Actions on the process from outside: commands to the control socket, and signals.

use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::dice::Dice;

/// An action on the process. A thread is given by a number, which selects one of the threads at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A line to the control socket.
    Command(&'static str, u64),
    Snapshot,
    Status,
    /// `None`: no limit.
    MaxRings(Option<u64>),
    /// Sets Nanoscope's property to a file of this number, or clears it.
    Property(Option<u64>),
    /// An invalid line.
    Nonsense(&'static str),
    /// A client that closes its connection in the middle of a line.
    HalfALine,
    /// SIGPROF, which the program counts, to one thread.
    Interrupt(u64),
    /// A signal that ART itself handles, to the process.
    Signal(i32),
    /// SIGSTOP for this many milliseconds, then SIGCONT.
    Freeze(u64),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Command(command, thread) => write!(f, "{command} #{thread}"),
            Action::Snapshot => f.write_str("snapshot"),
            Action::Status => f.write_str("status"),
            Action::MaxRings(None) => f.write_str("max-rings unlimited"),
            Action::MaxRings(Some(n)) => write!(f, "max-rings {n}"),
            Action::Property(None) => f.write_str("property off"),
            Action::Property(Some(n)) => write!(f, "property on {n}"),
            Action::Nonsense(line) => write!(f, "nonsense {line:?}"),
            Action::HalfALine => f.write_str("half a line"),
            Action::Interrupt(thread) => write!(f, "SIGPROF #{thread}"),
            Action::Signal(number) => write!(f, "signal {number}"),
            Action::Freeze(ms) => write!(f, "freeze {ms} ms"),
        }
    }
}

/// Lines whose answer must be an error, or that do nothing.
const NONSENSE: [&str; 8] = [
    "",
    "start",
    "start -1",
    "stop 99999999999",
    "max-rings 0",
    "property dev.nanoscope",
    "snapshot",
    "\u{fffd} what",
];

/// The next action of a client of the control socket, and the pause before it.
pub(super) fn command(dice: &mut Dice, files: &mut u64) -> (Duration, Action) {
    let pause = Duration::from_millis(dice.below(30));
    let action = match dice.below(100) {
        0..=19 => Action::Command("start", dice.below(1 << 16)),
        20..=39 => Action::Command("stop", dice.below(1 << 16)),
        40..=51 => Action::Command("foreground", dice.below(1 << 16)),
        52..=66 => Action::Snapshot,
        67..=76 => Action::Status,
        77..=81 => Action::MaxRings(Some(1 + dice.below(12))),
        82..=86 => Action::MaxRings(None),
        87..=90 => {
            *files += 1;
            Action::Property(Some(*files))
        }
        91..=94 => Action::Property(None),
        95..=97 => Action::Nonsense(dice.pick(&NONSENSE)),
        _ => Action::HalfALine,
    };
    (pause, action)
}

/// The next signal, and the pause before it.
pub(super) fn signal(dice: &mut Dice) -> (Duration, Action) {
    let pause = Duration::from_millis(dice.below(25));
    let action = match dice.below(200) {
        0..=9 => Action::Freeze(dice.below(60)),
        // A garbage collection.
        10..=12 => Action::Signal(libc::SIGUSR1),
        // No SIGQUIT: ART 10's own dump of the class loaders reads freed dex files after loaders were unloaded
        // (docs/verification-log.md).
        _ => Action::Interrupt(dice.below(1 << 16)),
    };
    (pause, action)
}

/// The process, seen from outside.
pub(super) struct Subject<'a> {
    pub(super) pid: u32,
    pub(super) socket: &'a Path,
    /// The folder of the files that Nanoscope's property names.
    pub(super) package: &'a str,
    /// Time limit for the answer to a command.
    pub(super) patience: Duration,
}

/// The outcome of an action.
pub(super) enum Outcome {
    /// As expected, whether or not the process could do it.
    Done,
    /// No connection: the process is ending.
    NoSocket,
    /// The process says that it ends: it must do so.
    Ends,
    /// A violation.
    Finding(String),
}

impl Subject<'_> {
    /// The kernel's ids of the current threads.
    fn threads(&self) -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid));
        let mut ids: Vec<u32> = tasks
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        ids.sort_unstable();
        ids
    }

    fn thread(&self, number: u64) -> Option<u32> {
        let threads = self.threads();
        let count = threads.len() as u64;
        (count != 0).then(|| threads[(number % count) as usize])
    }

    pub(super) fn perform(&self, action: &Action) -> Outcome {
        let line = match action {
            Action::Command(command, thread) => match self.thread(*thread) {
                Some(tid) => format!("{command} {tid}"),
                None => return Outcome::NoSocket,
            },
            Action::Snapshot => "snapshot stress".to_owned(),
            Action::Status => "status".to_owned(),
            Action::MaxRings(limit) => {
                let limit = limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
                format!("max-rings {limit}")
            }
            Action::Property(None) => "property dev.nanoscope=".to_owned(),
            Action::Property(Some(file)) => {
                let package = self.package;
                format!("property dev.nanoscope={package}:property-{file}.hindsight")
            }
            Action::Nonsense(line) => (*line).to_owned(),
            Action::HalfALine => {
                if let Ok(mut client) = UnixStream::connect(self.socket) {
                    let _ = client.write_all(b"snapshot of somebody wh");
                }
                return Outcome::Done;
            }
            Action::Interrupt(number) => {
                if let Some(tid) = self.thread(*number) {
                    // SAFETY: kill and tgkill take any numbers and touch no memory of this process.
                    unsafe { libc::syscall(libc::SYS_tgkill, self.pid, tid, libc::SIGPROF) };
                }
                return Outcome::Done;
            }
            Action::Signal(number) => {
                self.kill(*number);
                return Outcome::Done;
            }
            Action::Freeze(ms) => {
                self.kill(libc::SIGSTOP);
                std::thread::sleep(Duration::from_millis(*ms));
                self.kill(libc::SIGCONT);
                return Outcome::Done;
            }
        };
        let started = Instant::now();
        let answer = match self.ask(&line) {
            Ok(answer) => answer,
            Err(error) => {
                use std::io::ErrorKind as Kind;
                return match error.kind() {
                    Kind::WouldBlock | Kind::TimedOut => Outcome::Finding(format!(
                        "'{line}' has no answer after {} s",
                        started.elapsed().as_secs()
                    )),
                    _ => Outcome::NoSocket,
                };
            }
        };
        match judge(action, &answer) {
            _ if answer == SHUT_DOWN => Outcome::Ends,
            Ok(()) => Outcome::Done,
            Err(problem) => Outcome::Finding(format!("'{line}' is answered '{answer}': {problem}")),
        }
    }

    fn kill(&self, signal: i32) {
        // SAFETY: kill and tgkill take any numbers and touch no memory of this process.
        unsafe { libc::kill(self.pid as i32, signal) };
    }

    fn ask(&self, line: &str) -> std::io::Result<String> {
        let mut client = UnixStream::connect(self.socket)?;
        client.set_read_timeout(Some(self.patience))?;
        client.set_write_timeout(Some(self.patience))?;
        client.write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        if BufReader::new(client).read_line(&mut answer)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(answer.trim_end().to_owned())
    }
}

/// The answer to any command that comes when tracing has been shut down, because the process ends.
const SHUT_DOWN: &str = "error tracing was shut down";

/// Checks an answer; an error names the problem.
fn judge(action: &Action, answer: &str) -> Result<(), String> {
    let word = answer.split(' ').next().unwrap_or_default();
    match (action, word) {
        (Action::Nonsense(_), "error") => Ok(()),
        (Action::Nonsense(_), _) => Err("expected an error".to_owned()),
        (Action::Status, "ok") => status(answer.trim_start_matches("ok ")),
        (Action::Status | Action::MaxRings(_), _) if word != "ok" => Err("not ok".to_owned()),
        // An error is right, too: `TID` may be no Java thread, or traced already, or there may be nothing to write.
        (_, "ok" | "error") if !answer.contains("does not answer") => Ok(()),
        _ => Err("neither ok nor an error".to_owned()),
    }
}

/// Checks the answer to `status`.
fn status(json: &str) -> Result<(), String> {
    let status: serde_json::Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
    let count = |name: &str| status[name].as_array().map(Vec::len);
    let (Some(traced), Some(holders)) = (count("traced"), count("holders")) else {
        return Err("'traced' or 'holders' is missing".to_owned());
    };
    let retired = status["retired_rings"].as_u64().ok_or("no retired_rings")?;
    match status["max_rings"].as_u64() {
        Some(limit) if holders as u64 + retired > limit => Err(format!(
            "{holders} threads with rings, and {retired} retired rings, are more than {limit}"
        )),
        // A thread may have ended between the two counts.
        _ if traced > holders + 8 => Err(format!("{traced} traced, {holders} with rings")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_actions_comes_from_the_seed() {
        let sequence = |seed| {
            let (mut dice, mut files) = (Dice::new(seed, 3), 0);
            (0..200)
                .map(|_| command(&mut dice, &mut files).1.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(sequence(1), sequence(1));
        assert_ne!(sequence(1), sequence(2));
        let all = sequence(1).join("\n");
        for kind in [
            "start #",
            "stop #",
            "foreground #",
            "snapshot",
            "max-rings",
            "property on",
        ] {
            assert!(all.contains(kind), "{kind}");
        }
    }

    #[test]
    fn answers_are_judged() {
        let judged = |action: Action, answer: &str| judge(&action, answer).is_ok();
        assert!(judged(Action::Snapshot, "ok /x/y-1.hindsight"));
        assert!(judged(
            Action::Command("start", 1),
            "error thread 7 is traced already"
        ));
        assert!(!judged(
            Action::Command("start", 1),
            "error the control thread does not answer"
        ));
        assert!(!judged(Action::Snapshot, "perhaps"));
        assert!(judged(Action::Nonsense("x"), "error unknown command"));
        assert!(!judged(Action::Nonsense("x"), "ok"));
        assert!(!judged(Action::MaxRings(None), "error no"));
        let status = |max: &str, holders: &str| {
            format!(
                r#"ok {{"traced":[1],"holders":{holders},"retired_rings":1,"max_rings":{max}}}"#
            )
        };
        assert!(judged(Action::Status, &status("2", "[1]")));
        assert!(judged(Action::Status, &status("null", "[1,2,3]")));
        assert!(!judged(Action::Status, &status("2", "[1,2]")));
        assert!(!judged(Action::Status, "ok {"));
    }
}
