// SPDX-License-Identifier: Apache-2.0
//! Tracing switches itself off after some starts in a row that failed: if it makes a process crash at its start, the
//! process, or the device whose system server it is, must come up without it.
//!
//! A process notes its start in a hidden file, and removes that file when it has lived for [`TRIAL`], or ends in an orderly
//! way. So the file has the starts since the last good one; those whose process is dead have failed. They count for
//! [`WINDOW`], and as long as the configuration is the same: after that, tracing is tried again. A process that the system
//! kills within [`TRIAL`] counts, too, as the recorder cannot tell it from one that crashed; hence the window.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::folder::{is_dead, open_own, read_text, safe_name, user, write_text};

/// A process that lives this long has started: longer than the minute after which Android's watchdog ends a system server
/// that hangs.
pub(crate) const TRIAL: Duration = Duration::from_secs(120);
/// For this long, by the wall clock, a start that failed counts. A boot loop has many starts in this time.
const WINDOW: Duration = Duration::from_secs(600);

/// The most bytes of the file that are read.
const MAX_FILE: u64 = 4096;
/// The most starts in the file.
const MAX_STARTS: usize = 128;

/// The start of this process.
#[derive(Debug)]
pub(crate) struct Start {
    /// The file; `None` once the start has succeeded, or if there is no limit.
    file: Option<PathBuf>,
    /// When the trial ends, ns of the clock given to [`begin`](Start::begin); `None` once it is over.
    ends_ns: Option<u64>,
    /// Starts before this one that failed.
    failed: u32,
    limit: Option<u32>,
}

impl Start {
    /// Notes a start of the process with this name, and with this configuration. `wall_s` is the wall clock, in seconds.
    ///
    /// # Errors
    /// If the file cannot be read or written; then starts are not counted.
    pub(crate) fn begin(
        folder: &Path,
        process: &str,
        configuration: &str,
        limit: Option<u32>,
        now_ns: u64,
        wall_s: u64,
    ) -> (Self, io::Result<()>) {
        let mut start = Start {
            file: None,
            ends_ns: Some(now_ns.saturating_add(TRIAL.as_secs() * 1_000_000_000)),
            failed: 0,
            limit,
        };
        let mut noted = Ok(());
        if limit.is_some() {
            let path = folder.join(format!(".{}-{}.starts", safe_name(process), user()));
            noted = start.note(&path, configuration, wall_s);
            if noted.is_ok() {
                start.file = Some(path);
            }
        }
        (start, noted)
    }

    fn note(&mut self, path: &Path, configuration: &str, wall_s: u64) -> io::Result<()> {
        let file = open_own(path, true)?;
        let text = read_text(&file, MAX_FILE)?;
        let first = format!("{:08x}", fingerprint(configuration));
        let mut lines = text.lines();
        let mut starts: Vec<(u32, u64)> = match lines.next() {
            Some(line) if line == first => lines.filter_map(parse_start).collect(),
            _ => Vec::new(),
        };
        // Also those of a clock that was ahead.
        starts.retain(|(_, at_s)| wall_s.abs_diff(*at_s) <= WINDOW.as_secs());
        // An earlier process had this one's id.
        let has_failed = |(pid, _): &&(u32, u64)| *pid == std::process::id() || is_dead(*pid);
        let failed = starts.iter().filter(has_failed).count();
        self.failed = u32::try_from(failed).unwrap_or(u32::MAX);
        if self.is_refused() {
            return Ok(());
        }
        starts.push((std::process::id(), wall_s));
        let kept = &starts[starts.len().saturating_sub(MAX_STARTS)..];
        let mut text = format!("{first}\n");
        (kept.iter()).for_each(|(pid, at_s)| text += &format!("{pid} {at_s}\n"));
        write_text(&file, &text)
    }

    /// Whether the process must not be traced, because too many starts failed.
    pub(crate) fn is_refused(&self) -> bool {
        self.limit.is_some_and(|limit| self.failed >= limit)
    }

    /// Starts in a row before this one that failed.
    pub(crate) fn failed(&self) -> u32 {
        self.failed
    }

    /// For the log: why the process is not traced, and what to do about it.
    pub(crate) fn refusal(&self) -> Option<String> {
        let file = self.file.as_ref().filter(|_| self.is_refused())?;
        Some(format!(
            "tracing has switched itself off: {} starts in a row, in the last {} minutes, ended within {} s. After that time it is tried again. To switch it on now remove {}, or change the configuration (max-failed-starts=off: whatever happens)",
            self.failed,
            WINDOW.as_secs() / 60,
            TRIAL.as_secs(),
            file.display()
        ))
    }

    /// The time until the trial ends; zero once, when it has ended, and then the start has succeeded; `None` afterwards.
    pub(crate) fn look(&mut self, now_ns: u64) -> Option<Duration> {
        let left = self.ends_ns?.saturating_sub(now_ns);
        if left == 0 {
            self.ends_ns = None;
            self.succeed();
        }
        Some(Duration::from_nanos(left))
    }

    /// The start has succeeded, or the process ends in an orderly way.
    pub(crate) fn succeed(&mut self) {
        if !self.is_refused() {
            if let Some(file) = self.file.take() {
                let _ = fs::remove_file(file);
            }
        }
    }
}

/// A line of the file: a process, and the wall clock at its start, in seconds.
fn parse_start(line: &str) -> Option<(u32, u64)> {
    let (pid, at_s) = line.split_once(' ')?;
    Some((pid.parse().ok()?, at_s.parse().ok()?))
}

/// Tells configurations apart: FNV-1a.
fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn start(folder: &Path, configuration: &str, now_ns: u64) -> Start {
        start_at(folder, configuration, now_ns, 1_000_000)
    }

    fn start_at(folder: &Path, configuration: &str, now_ns: u64, wall_s: u64) -> Start {
        let (start, noted) = Start::begin(
            folder,
            "com.example",
            configuration,
            Some(3),
            now_ns,
            wall_s,
        );
        noted.unwrap();
        start
    }

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn the_fourth_start_after_three_that_failed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for failed in 0..3 {
            // Dropped without success: the process crashed.
            let start = start(folder, "trace=main", 0);
            assert_eq!((start.failed(), start.is_refused()), (failed, false));
            assert_eq!(start.refusal(), None);
        }
        for _ in 0..2 {
            let mut start = start(folder, "trace=main", 0);
            assert!(start.is_refused());
            let message = start.refusal().unwrap();
            assert!(
                message.contains("3 starts in a row, in the last 10 minutes, ended within 120 s"),
                "{message}"
            );
            assert!(message.contains(".com.example-"), "{message}");
            // The process lives without tracing; that does not show that it would with it.
            assert_eq!(start.look(1000 * SECOND), Some(Duration::ZERO));
            start.succeed();
        }
        // Another configuration is tried.
        assert!(!start(folder, "trace=main,ring=20", 0).is_refused());
        fs::remove_file(folder.join(format!(".com.example-{}.starts", user()))).unwrap();
        assert!(!start(folder, "trace=main", 0).is_refused());
    }

    #[test]
    fn tracing_is_tried_again_after_some_time() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for at in [0, 100, 200] {
            start_at(folder, "trace=main", 0, 5_000 + at);
        }
        assert!(start_at(folder, "trace=main", 0, 5_000 + WINDOW.as_secs()).is_refused());
        let again = start_at(folder, "trace=main", 0, 5_001 + WINDOW.as_secs());
        assert_eq!((again.failed(), again.is_refused()), (2, false));
        // A clock that was set back.
        assert_eq!(start_at(folder, "trace=main", 0, 10).failed(), 0);
    }

    #[test]
    fn a_start_that_succeeds_forgets_those_that_failed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for _ in 0..2 {
            start(folder, "trace=main", 0);
        }
        let mut third = start(folder, "trace=main", 5 * SECOND);
        assert_eq!(third.look(5 * SECOND), Some(TRIAL));
        assert_eq!(third.look(124 * SECOND), Some(Duration::from_secs(1)));
        assert_eq!(files(folder), 1);
        assert_eq!(third.look(125 * SECOND), Some(Duration::ZERO));
        assert_eq!(files(folder), 0);
        assert_eq!(third.look(126 * SECOND), None);
        assert_eq!(start(folder, "trace=main", 0).failed(), 0);
        // An orderly end, at once.
        start(folder, "trace=main", 0).succeed();
        assert_eq!(files(folder), 0);
    }

    #[test]
    fn starts_of_processes_that_live_have_not_failed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let path = folder.join(format!(".com.example-{}.starts", user()));
        // SAFETY: no precondition.
        let alive = unsafe { libc::getppid() };
        let text = format!(
            "{:08x}\n{alive} 1000000\n{alive} 1000000\n{alive} 1000000\n",
            fingerprint("trace=main")
        );
        fs::write(&path, text).unwrap();
        assert_eq!(start(folder, "trace=main", 0).failed(), 0);
    }

    #[test]
    fn a_damaged_file_and_a_folder_that_cannot_be_written_refuse_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder
            .path()
            .join(format!(".com.example-{}.starts", user()));
        fs::write(&path, [0xff; 10_000]).unwrap();
        assert_eq!(start(folder.path(), "trace=main", 0).failed(), 0);
        let missing = folder.path().join("missing");
        let (start, noted) = Start::begin(&missing, "a", "", Some(3), 0, 0);
        assert!(noted.is_err() && !start.is_refused());
        // Without a limit nothing is written.
        let (_, noted) = Start::begin(&missing, "a", "", None, 0, 0);
        assert!(noted.is_ok());
    }
}
