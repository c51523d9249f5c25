// SPDX-License-Identifier: Apache-2.0
//! Waiting for something that must happen.

use std::time::{Duration, Instant};

/// Longest wait for something that must happen.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until this is so.
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begin.elapsed() < PATIENCE, "it does not happen: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
