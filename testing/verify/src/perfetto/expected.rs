// SPDX-License-Identifier: Apache-2.0
//! What must be in a trace, for each way in which it was taken.

use super::ftrace::{Faults, Hole};
use super::queries::Answers;
use super::scene::{Scene, FULL_RING_CALLS};

/// What was seen of a round.
pub(super) struct Seen<'a> {
    pub(super) scene: Scene,
    pub(super) answers: &'a Answers,
    /// What the data source's program has said since the round began.
    pub(super) log: &'a str,
    /// Process ids of the apps.
    pub(super) apps: Vec<u64>,
    /// Whether the kernel lets us record the scheduler.
    pub(super) has_sched: bool,
    /// What is wrong with the kernel's events.
    pub(super) faults: &'a Faults,
}

/// What the trace processor counts where a processor's switches do not match.
const MISMATCHES: &str = "mismatched_sched_switch_tids";

impl Seen<'_> {
    /// All that is not as it must be.
    pub(super) fn problems(&self) -> Vec<String> {
        let (scene, answers) = (self.scene, self.answers);
        let mut problems = self.problems_of_the_log();
        let lost = self.faults.lost;
        let allowed = |(name, _): &&(String, u64)| {
            name == MISMATCHES || lost > 0 && name == "ftrace_cpu_has_data_loss"
        };
        let errors = answers.errors.iter().filter(|error| !allowed(error));
        let errors: Vec<String> = errors.map(|(name, n)| format!("{name} {n}")).collect();
        if scene != Scene::FullBuffer && !errors.is_empty() {
            problems.push(format!("the trace processor counts {}", errors.join(", ")));
        }
        if scene == Scene::LateStop {
            // What is not written in time is not in the trace; what is there can be read.
            if written(self.log).0 <= answers.slices() {
                problems.push("traced has waited for all calls".to_owned());
            }
            return problems;
        }
        if answers.calls == 0 || answers.events == 0 {
            problems.push("no calls, or no events".to_owned());
        }
        if scene == Scene::FullRing && answers.calls < FULL_RING_CALLS {
            problems.push(format!("the ring was not full: {} calls", answers.calls));
        }
        let trigger = match scene {
            Scene::OurTrigger => "dev.hindsight.report",
            Scene::OtherTrigger => "com.example.anything",
            _ => "",
        };
        if !trigger.is_empty() && !answers.triggers.iter().any(|t| t.contains(trigger)) {
            problems.push(format!("no trigger {trigger} in {:?}", answers.triggers));
        }
        if scene == Scene::FullBuffer {
            return problems;
        }
        let is_there = |pid: &&u64| answers.pids.contains(pid);
        let (there, all) = (self.apps.iter().filter(is_there).count(), self.apps.len());
        if there < all {
            problems.push(format!("{there} of {all} apps are in the trace"));
        }
        if answers.unclosed > 0 {
            problems.push(format!("{} slices have no end", answers.unclosed));
        }
        // If the kernel itself has lost events, the trace processor rightly counts switches that do not match, and does not know who
        // ran: such a round says nothing about the scheduler's events.
        if self.has_sched && lost == 0 {
            problems.extend(self.problems_with_sched());
        }
        problems
    }

    /// Switches that the kernel has not recorded in the time of the trace.
    fn holes(&self) -> impl Iterator<Item = &Hole> {
        let end_ns = self.answers.last_switch_ns;
        let holes = self.faults.holes.iter();
        holes.filter(move |hole| hole.until_ns <= end_ns)
    }

    /// How many switches the kernel has not recorded.
    pub(super) fn unrecorded(&self) -> u64 {
        self.holes().count() as u64
    }

    /// Threads of ours that the scheduler's events have: also those that the kernel only says to have run, not since when.
    pub(super) fn joined(&self) -> u64 {
        let is_named = |tid: &&u64| self.holes().any(|hole| hole.after == **tid);
        let apart = self.answers.apart.iter();
        self.answers.threads - apart.filter(|tid| !is_named(tid)).count() as u64
    }

    /// Calls whose thread does not run when they begin, and may not run then: not where the kernel has not recorded who ran.
    pub(super) fn not_running(&self) -> u64 {
        let may_run = |(at_ns, tid): &&(u64, u64)| {
            self.holes().any(|hole| {
                let is_within = hole.since_ns <= *at_ns && *at_ns <= hole.until_ns;
                is_within && [hole.before, hole.after].contains(tid)
            })
        };
        let all = self.answers.not_running.iter();
        all.filter(|call| !may_run(call)).count() as u64
    }

    fn problems_of_the_log(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let (written, snapshots) = written(self.log);
        // A clone is taken before the snapshot of the stop.
        let is_partial = [Scene::FullBuffer, Scene::Clone, Scene::LateStop];
        let is_compared = !is_partial.contains(&self.scene);
        let slices = self.answers.slices();
        if is_compared && written != slices {
            problems.push(format!(
                "{written} slices were written, {slices} are in the trace"
            ));
        }
        // A flush, and the stop: periodic flushes write nothing.
        let has_flush = [Scene::Stop, Scene::Clone].contains(&self.scene);
        let expected = if has_flush { 2 } else { 1 };
        if snapshots != expected {
            problems.push(format!("{snapshots} snapshots, not {expected}"));
        }
        let told = "legacy_config: \"rings=all\" is no setting";
        if self.scene == Scene::FullBuffer && !self.log.contains(told) {
            problems.push("a setting that does not exist is not told".to_owned());
        }
        problems
    }

    fn problems_with_sched(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let (joined, all) = (self.joined(), self.answers.threads);
        if all == 0 || joined < all {
            problems.push(format!("{joined} of {all} threads join sched"));
        }
        let begun = self.answers.begun;
        let running = begun - self.not_running();
        if begun == 0 || running * 100 < begun * 95 {
            problems.push(format!(
                "{running} of {begun} calls begin while their thread runs"
            ));
        }
        let ours = self.holes().filter(|hole| hole.is_ours).count();
        if ours > 0 {
            problems.push(format!("{ours} of the kernel's switches were lost"));
        }
        // Exactly those that the kernel has not recorded do not match: packets, their order and their times are right.
        let errors = self.answers.errors.iter();
        let counted = errors.filter(|(name, _)| name == MISMATCHES);
        let counted: u64 = counted.map(|(_, n)| n).sum();
        if counted != self.unrecorded() {
            problems.push(format!(
                "{counted} switches do not match the one before, but the kernel has left out {}",
                self.unrecorded()
            ));
        }
        if self.faults.unread > 0 {
            problems.push(format!(
                "{} lines of tracefs are not understood, first: {}",
                self.faults.unread, self.faults.first_unread
            ));
        }
        problems
    }
}

/// Calls and events by the program's own account, and its snapshots.
fn written(log: &str) -> (u64, u64) {
    let lines = log.lines().filter_map(|line| line.split_once("snapshot: "));
    let (mut sum, mut snapshots) = (0, 0);
    for (_, counts) in lines {
        snapshots += 1;
        for part in counts.split(", ") {
            let number = part.split(' ').next().and_then(|n| n.parse::<u64>().ok());
            if part.ends_with(" calls") || part.ends_with(" events") {
                sum += number.unwrap_or(0);
            }
        }
    }
    (sum, snapshots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> Answers {
        Answers {
            calls: 3,
            events: 1,
            threads: 1,
            begun: 3,
            last_switch_ns: 100,
            ..Answers::default()
        }
    }

    fn hole(until_ns: u64, is_ours: bool) -> Hole {
        Hole {
            since_ns: 10,
            until_ns,
            before: 0,
            after: 7,
            is_ours,
        }
    }

    fn problems(answers: &Answers, holes: &[Hole]) -> Vec<String> {
        let faults = Faults {
            holes: holes.to_vec(),
            ..Faults::default()
        };
        let seen = Seen {
            scene: Scene::SourceKilled,
            answers,
            log: "snapshot: 1 processes, 1 threads, 3 calls, 1 events, 0 too deep, 1 ms",
            apps: Vec::new(),
            has_sched: true,
            faults: &faults,
        };
        seen.problems()
    }

    fn mismatches(count: u64) -> Answers {
        Answers {
            errors: vec![(MISMATCHES.to_owned(), count)],
            ..answers()
        }
    }

    #[test]
    fn switches_that_do_not_match_are_those_that_the_kernel_left_out() {
        assert_eq!(problems(&answers(), &[]), [""; 0]);
        let after_the_end = hole(101, false);
        assert_eq!(
            problems(&mismatches(1), &[hole(20, false), after_the_end]),
            [""; 0]
        );
        assert!(problems(&mismatches(1), &[])[0].contains("1 switches do not match"));
        assert!(problems(&mismatches(2), &[hole(20, false)])[0].contains("left out 1"));
        assert!(problems(&answers(), &[hole(20, false)])[0].contains("0 switches do not match"));
        assert!(problems(&mismatches(1), &[hole(20, true)])[0].contains("were lost"));
    }

    #[test]
    fn calls_begin_while_their_thread_runs() {
        // A clock that is wrong by a second, or another thread's id.
        let wrong = Answers {
            not_running: vec![(15, 8), (30, 7), (31, 7)],
            ..mismatches(1)
        };
        assert_eq!(
            problems(&wrong, &[hole(20, false)]),
            ["0 of 3 calls begin while their thread runs"]
        );
        let unknown = Answers {
            not_running: vec![(15, 7)],
            ..mismatches(1)
        };
        assert_eq!(problems(&unknown, &[hole(20, false)]), [""; 0]);
        let none = Answers {
            begun: 0,
            ..answers()
        };
        assert_eq!(
            problems(&none, &[]),
            ["0 of 0 calls begin while their thread runs"]
        );
        let apart = |tid, count| Answers {
            apart: vec![tid],
            ..mismatches(count)
        };
        let problem = ["0 of 1 threads join sched"];
        assert_eq!(problems(&apart(7, 0), &[]), problem);
        assert_eq!(problems(&apart(8, 1), &[hole(20, false)]), problem);
        // The event after the hole names the thread.
        assert_eq!(problems(&apart(7, 1), &[hole(20, false)]), [""; 0]);
    }
}
