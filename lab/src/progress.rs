// SPDX-License-Identifier: Apache-2.0
//! Progress: a bar on a terminal, plain lines elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Shows the progress of a build.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// The title and the time of the last line that was printed; used without a terminal.
    plain: Option<Mutex<Plain>>,
    start: Instant,
}

#[derive(Default)]
struct Plain {
    title: String,
    last: Option<Instant>,
}

/// The time between two lines with a step count, without a terminal.
const PLAIN_INTERVAL: Duration = Duration::from_secs(20);

impl Progress {
    pub(crate) fn new() -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
        };
        bar.set_style(spinner());
        if terminal {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        let plain = (!terminal).then(|| Mutex::new(Plain::default()));
        Progress {
            bar,
            plain,
            start: Instant::now(),
        }
    }

    /// Shows the current activity, when its number of steps is unknown.
    pub(crate) fn message(&self, text: &str) {
        self.bar.set_style(spinner());
        self.bar.set_message(text.to_owned());
        if self.plain.is_some() {
            eprintln!("[{}] {text}", self.elapsed());
        }
    }

    /// Begins a part with a known number of steps.
    pub(crate) fn begin(&self, title: &str) {
        self.bar.set_style(steps());
        self.bar.set_prefix(title.to_owned());
        self.bar.set_message("");
        self.bar.set_position(0);
        if let Some(plain) = &self.plain {
            let mut plain = plain.lock().unwrap_or_else(|e| e.into_inner());
            plain.title = title.to_owned();
            plain.last = None;
        }
    }

    /// `done` of `total` steps are done; the last one was `what`.
    pub(crate) fn step(&self, done: u64, total: u64, what: &str) {
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.set_message(what.to_owned());
        if let Some(plain) = &self.plain {
            let mut plain = plain.lock().unwrap_or_else(|e| e.into_inner());
            let now = Instant::now();
            let due = plain.last.is_none_or(|last| now - last >= PLAIN_INTERVAL);
            if due || done == total {
                plain.last = Some(now);
                eprintln!("[{}] {} {done}/{total} {what}", self.elapsed(), plain.title);
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Time since the beginning, as `m:ss`.
    pub(crate) fn elapsed(&self) -> String {
        let seconds = self.start.elapsed().as_secs();
        format!("{}:{:02}", seconds / 60, seconds % 60)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn spinner() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}").expect("a valid template")
}

fn steps() -> ProgressStyle {
    ProgressStyle::with_template("{elapsed} {prefix} [{bar:30}] {pos}/{len} {wide_msg}")
        .expect("a valid template")
        .progress_chars("=> ")
}
