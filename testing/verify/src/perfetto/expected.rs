// SPDX-License-Identifier: Apache-2.0
//! What must be in a trace, for each way in which it was taken.

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
    /// Events of the scheduler that the kernel had no room for.
    pub(super) lost: u64,
}

impl Seen<'_> {
    /// All that is not as it must be.
    pub(super) fn problems(&self) -> Vec<String> {
        let (scene, answers) = (self.scene, self.answers);
        let mut problems = self.problems_of_the_log();
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
        let mut errors = answers.errors.iter();
        if !errors.all(|error| self.lost > 0 && is_of_lost_switches(error)) {
            problems.push(format!("the trace processor counts {:?}", answers.errors));
        }
        if self.has_sched && self.lost == 0 {
            problems.extend(self.problems_with_sched());
        }
        problems
    }

    fn problems_of_the_log(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let (written, snapshots) = written(self.log);
        // A clone is taken before the snapshot of the stop.
        let is_compared = ![Scene::FullBuffer, Scene::Clone].contains(&self.scene);
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
        let (joined, all) = (self.answers.joined, self.answers.threads);
        if all == 0 || joined < all {
            problems.push(format!("{joined} of {all} threads join sched"));
        }
        let (running, begun) = (self.answers.running, self.answers.begun);
        if running * 100 < begun * 95 {
            problems.push(format!(
                "{running} of {begun} calls begin while their thread runs"
            ));
        }
        problems
    }
}

/// Whether the trace processor counts this where the kernel has lost events of the scheduler.
fn is_of_lost_switches(error: &str) -> bool {
    error.contains("mismatched_sched_switch_tids") || error.contains("ftrace_cpu_has_data_loss")
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
