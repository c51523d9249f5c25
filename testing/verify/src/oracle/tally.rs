// SPDX-License-Identifier: Apache-2.0
//! The results of each mode, and their output.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use super::mode::Mode;
use super::outcome::{add, Counts, Equal};
use super::programs::Program;

/// The result of a mode.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) programs: usize,
    pub(super) events: usize,
    /// Compared threads other than main threads.
    pub(super) threads: usize,
    pub(super) differences: usize,
    /// Calls of trivial methods in the references.
    pub(super) left_out: u64,
    /// Programs of which only a second run was equal.
    pub(super) again: Vec<String>,
    /// Programs that were compared with a reference that was verified ahead of time.
    pub(super) verified: Vec<String>,
    /// Whether a program that can be compared was left out.
    pub(super) failed: bool,
    /// Programs that were left out, by reason.
    pub(super) skipped: BTreeMap<String, Vec<String>>,
    pub(super) missing: Counts,
    pub(super) additional: Counts,
}

impl Tally {
    pub(super) fn skip(&mut self, program: &Program, why: &str) {
        if program.comparable {
            self.failed = true;
        }
        let programs = self.skipped.entry(why.to_owned()).or_default();
        programs.push(program.name.clone());
    }

    pub(super) fn add(&mut self, program: &Program, equal: Equal) {
        self.programs += 1;
        self.events += equal.events;
        self.threads += equal.threads;
        self.left_out += equal.left_out;
        if equal.again {
            self.again.push(program.name.clone());
        }
        if equal.verified {
            self.verified.push(program.name.clone());
        }
        add(&mut self.missing, equal.missing);
        add(&mut self.additional, equal.additional);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Prints the progress.
pub(super) fn print_progress(
    index: usize,
    programs: usize,
    started: Instant,
    tallies: &BTreeMap<Mode, Tally>,
) {
    let seconds = started.elapsed().as_secs();
    let modes: Vec<String> = tallies
        .iter()
        .map(|(mode, tally)| {
            let (programs, events) = (tally.programs, tally.events);
            format!("{mode} {programs}/{events}/{}", tally.differences)
        })
        .collect();
    eprintln!(
        "verify: {index}/{programs} programs, {seconds} s; programs/events/differences: {}",
        modes.join(", ")
    );
}

pub(super) fn report(mode: Mode, tally: &Tally) {
    let threads = match tally.threads {
        0 => String::new(),
        n => format!(" of main threads and {n} others"),
    };
    println!(
        "{:>12}: {} programs, {} events{threads}, {} differences",
        mode.name(),
        tally.programs,
        tally.events,
        tally.differences,
    );
    for (programs, what) in [
        (
            &tally.again,
            "differed from the reference in one run, and equalled it in the next",
        ),
        (
            &tally.verified,
            "differ from the first reference, and equal the one that was verified ahead of time",
        ),
    ] {
        let n = programs.len();
        if n > 0 {
            println!("{:>14}{n} of the programs {what}:", "");
            println!("{:>16}{}", "", programs.join(" "));
        }
    }
    if tally.left_out > 0 {
        println!(
            "{:>14}without trace points, as trivial methods: {} calls",
            "", tally.left_out
        );
    }
    print_permitted(&tally.missing, &tally.additional);
    for (why, programs) in &tally.skipped {
        let n = programs.len();
        println!("{:>14}{n} programs left out: {why}", "");
        println!("{:>16}{}", "", programs.join(" "));
    }
}

/// Prints the permitted differences: the number of calls, and the most frequent methods.
pub(super) fn print_permitted(missing: &Counts, additional: &Counts) {
    for (what, counts) in [
        ("only seen by ART's tracer", missing),
        ("only seen by Hindsight", additional),
    ] {
        let calls: u64 = counts.values().sum();
        println!(
            "{:>14}{what}: {calls} calls of {} methods",
            "",
            counts.len()
        );
        let mut most: Vec<_> = counts.iter().collect();
        most.sort_by_key(|(_, &n)| std::cmp::Reverse(n));
        for (name, n) in most.iter().take(8) {
            println!("{:>16}{n} {name}", "");
        }
    }
}
