// SPDX-License-Identifier: Apache-2.0
//! How long the main thread was ready to run and had no processor, by the kernel's account (`/proc/self/schedstat`).
//!
//! The service may not look into `/proc` of apps, so that the process itself reads it, when it writes its other counters: nothing
//! wakes up for it.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

/// It is not read again for so long, ns: the service looks once a second.
const PAUSE_NS: u64 = 500_000_000;
/// Of the main thread, whatever thread reads it: the process's own entry is the one of its first thread.
const PATH: &str = "/proc/self/schedstat";

/// Reads the delay, at most twice a second.
#[derive(Debug, Default)]
pub(super) struct RunDelay {
    /// Not before, CLOCK_MONOTONIC, ns.
    next: AtomicU64,
}

impl RunDelay {
    /// The delay since the process's start, ns; `None`: it was read a short time ago, or the system does not tell. Called by the main
    /// thread. Takes some µs when it reads; allocates nothing.
    pub(super) fn look(&self, now: u64) -> Option<u64> {
        if now < self.next.load(Ordering::Relaxed) {
            return None;
        }
        let delay = read(PATH);
        let next = match delay {
            Some(_) => now.saturating_add(PAUSE_NS),
            // This kernel does not count it, or the process may not read it.
            None => u64::MAX,
        };
        self.next.store(next, Ordering::Relaxed);
        delay
    }
}

fn read(path: &str) -> Option<u64> {
    let mut text = [0; 96];
    let length = File::open(path).ok()?.read(&mut text).ok()?;
    parse(std::str::from_utf8(text.get(..length)?).ok()?)
}

/// The second of: time on a processor (ns), time ready without one (ns), time slices.
fn parse(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_is_read_at_most_twice_a_second_and_not_again_in_vain() {
        assert_eq!(parse("4711 815 3\n"), Some(815));
        assert_eq!([parse("4711"), parse("4711 x 3")], [None; 2]);
        assert_eq!(read("/proc/self/no-such-file"), None);
        let delay = RunDelay::default();
        let at = |ms: u64| delay.look(ms * 1_000_000).is_some();
        let is_counted = at(1);
        assert_eq!((at(500), at(501)), (false, is_counted));
        assert!(!at(1000));
    }
}
