// SPDX-License-Identifier: Apache-2.0
//! What apps and service do while nobody wants anything: how often their threads wake up.

use std::collections::BTreeMap;
use std::time::Duration;

/// Parts of the time in which it is looked. A thread that wakes up in two of them wakes up periodically.
const PARTS: u32 = 3;

/// A thread: process, its id, and its name.
type Thread = (u32, u32, String);

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Idle {
    /// Threads of apps that woke up in more than one part of the time, with the number of their wake-ups.
    pub(super) periodic: BTreeMap<Thread, u64>,
    /// Wake-ups of apps in all.
    pub(super) of_apps: u64,
    /// Wake-ups of the service.
    pub(super) of_service: u64,
    /// How long it was looked, s.
    pub(super) seconds: f64,
    /// How often it had been looked before, when something still woke up periodically after the start of the apps.
    pub(super) before: u32,
}

/// Voluntary context switches of all threads of a process so far.
fn switches(pid: u32) -> BTreeMap<Thread, u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let of = |task: std::fs::DirEntry| {
        let tid = task.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let name = field("Name:")?.trim().to_owned();
        let count = field("voluntary_ctxt_switches:")?.trim().parse().ok()?;
        Some(((pid, tid, name), count))
    };
    tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(of)
        .collect()
}

fn all(apps: &[u32]) -> BTreeMap<Thread, u64> {
    apps.iter().flat_map(|pid| switches(*pid)).collect()
}

/// How much more often the threads woke up, without those that did not.
fn woken(before: &BTreeMap<Thread, u64>, after: &BTreeMap<Thread, u64>) -> BTreeMap<Thread, u64> {
    let more = after.iter().map(|(thread, count)| {
        let earlier = before.get(thread).copied().unwrap_or(0);
        (thread.clone(), count.saturating_sub(earlier))
    });
    more.filter(|(_, count)| *count != 0).collect()
}

/// Threads that woke up in at least two parts.
fn periodic(parts: &[BTreeMap<Thread, u64>]) -> BTreeMap<Thread, u64> {
    let mut found: BTreeMap<Thread, (u32, u64)> = BTreeMap::new();
    for (thread, count) in parts.iter().flatten() {
        let entry = found.entry(thread.clone()).or_default();
        entry.0 += 1;
        entry.1 += count;
    }
    let often = found.into_iter().filter(|(_, (parts, _))| *parts >= 2);
    often.map(|(thread, (_, count))| (thread, count)).collect()
}

/// Looks at apps and service for so long.
pub(super) fn watch(apps: &[u32], service: u32, time: Duration) -> Idle {
    let begin = std::time::Instant::now();
    let served = switches(service).values().sum::<u64>();
    let mut parts = Vec::new();
    let mut before = all(apps);
    for _ in 0..PARTS {
        // The time is what is measured in: it decides about nothing else.
        std::thread::sleep(time / PARTS);
        let after = all(apps);
        parts.push(woken(&before, &after));
        before = after;
    }
    Idle {
        of_apps: parts.iter().flat_map(BTreeMap::values).sum(),
        periodic: periodic(&parts),
        of_service: switches(service).values().sum::<u64>() - served,
        seconds: begin.elapsed().as_secs_f64(),
        before: 0,
    }
}

/// The most attempts to find apps that have settled after their start.
const ATTEMPTS: u32 = 5;

/// As [`watch`], once what apps do after their start is over: they are looked at again as long as anything is periodic. A thread that
/// goes on doing something periodically does so each time, so that this hides none.
pub(super) fn settled(apps: &[u32], service: u32, time: Duration) -> Idle {
    let is_idle = |idle: &Idle| idle.periodic.is_empty() && idle.of_service as f64 <= idle.seconds;
    let mut before = 0;
    loop {
        let idle = watch(apps, service, time);
        if is_idle(&idle) || before + 1 == ATTEMPTS {
            return Idle { before, ..idle };
        }
        before += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_thread_that_wakes_up_again_and_again_is_found() {
        let ends = AtomicBool::new(false);
        let own = std::process::id();
        let found = std::thread::scope(|scope| {
            let ticks = || {
                while !ends.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            let named = std::thread::Builder::new().name("ticks".into());
            named.spawn_scoped(scope, ticks).unwrap();
            // Until it was seen: a busy machine may not run it for some time.
            let found = loop {
                let idle = watch(&[own], own, Duration::from_millis(300));
                if idle.periodic.keys().any(|thread| thread.2 == "ticks") {
                    break idle;
                }
            };
            ends.store(true, Ordering::Relaxed);
            found
        });
        assert!(found.of_apps >= 2 && found.of_service >= 2);
    }

    #[test]
    fn one_wake_up_is_not_periodic() {
        let thread = |tid| (1, tid, String::new());
        let parts = [
            BTreeMap::from([(thread(1), 5), (thread(2), 1)]),
            BTreeMap::from([(thread(2), 1)]),
            BTreeMap::new(),
        ];
        assert_eq!(periodic(&parts), BTreeMap::from([(thread(2), 2)]));
    }
}
