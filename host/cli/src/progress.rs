// SPDX-License-Identifier: Apache-2.0
//! Progress of long work, on standard error if that is a terminal.

use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Work that is done sooner shows no spinner.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(80);

/// A spinner, which is removed from the terminal when this is dropped.
pub(crate) struct Spinner {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Shows `message` with a spinner if the work takes long.
pub(crate) fn spinner(message: String) -> Spinner {
    if !console_is_there() {
        return Spinner {
            done: None,
            thread: None,
        };
    }
    let (done, waiting) = channel::<()>();
    let thread = std::thread::spawn(move || {
        if waiting.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let bar = ProgressBar::new_spinner().with_message(message);
        bar.enable_steady_tick(TICK);
        // Fails when the spinner is dropped.
        let _ = waiting.recv();
        bar.finish_and_clear();
    });
    Spinner {
        done: Some(done),
        thread: Some(thread),
    }
}

/// A bar over this number of files.
pub(crate) fn bar(files: usize) -> ProgressBar {
    if files < 2 || !console_is_there() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(files as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

fn console_is_there() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stderr())
}

impl Drop for Spinner {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
