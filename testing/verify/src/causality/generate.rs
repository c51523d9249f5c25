// SPDX-License-Identifier: Apache-2.0
//! Makes a random plan. The seed determines all of it.
//!
//! No plan can hang: a step waits only for steps of *later* lanes, or of threads of their own, and lanes do their steps in
//! the order in which they get them.

use crate::stress::dice::Dice;

use super::plan::{
    Act, Action, Awaiting, Lane, LaneId, LaneKind, Plan, Stall, Step, StepId, Terminal, Way,
};

/// The lanes of every program, in the order in which they may wait for each other.
const LANES: [(LaneKind, &str); 11] = [
    (LaneKind::Main, "main"),
    (LaneKind::Looper, "looper-a"),
    (LaneKind::Pool, "pool-a"),
    (LaneKind::Marked, "marked-a"),
    (LaneKind::Looper, "looper-b"),
    (LaneKind::Consumer, "consumer-a"),
    (LaneKind::Pool, "pool-b"),
    (LaneKind::Scheduled, "scheduled-a"),
    (LaneKind::Consumer, "consumer-b"),
    (LaneKind::Timer, "timer-a"),
    (LaneKind::Service, "service-a"),
];
/// The lane that serves transactions: one step at most.
const SERVICE: LaneId = LANES.len() - 1;

/// The lanes on which a step can have a delay.
const TIMERS: [LaneId; 4] = [1, 4, 7, 9];

/// The most hops from the main thread to the cause of its stall.
pub(super) const MOST_HOPS: u64 = 5;

/// Makes the plan of a program; if its threads stay, nothing waits for their ends.
pub(super) fn generate(seed: u64, package: &str, has_staying_threads: bool) -> Plan {
    let mut maker = Maker {
        dice: Dice::new(seed, 11),
        plan: Plan {
            package: package.to_owned(),
            lanes: LANES
                .iter()
                .map(|&(kind, name)| Lane {
                    kind,
                    name: name.to_owned(),
                })
                .collect(),
            steps: Vec::new(),
            acts: Vec::new(),
            rounds: 0,
            stall: Stall {
                chain: Vec::new(),
                terminal: Terminal::Busy,
                partner: None,
                ms: 0,
            },
            has_staying_threads,
        },
        levels: Vec::new(),
        is_served: false,
    };
    maker.plan.rounds = 2 + maker.dice.below(2);
    for _ in 0..1 + maker.dice.below(2) {
        maker.flow();
    }
    maker.stall();
    maker.plan
}

struct Maker {
    dice: Dice,
    plan: Plan,
    /// By step: it waits only for steps of higher levels, or of a thread of their own.
    levels: Vec<LaneId>,
    /// Whether a transaction is in the plan.
    is_served: bool,
}

impl Maker {
    /// Adds a step on a lane; the lane of a step with a thread of its own is made with it.
    fn step(&mut self, lane: Option<LaneId>, level: LaneId) -> StepId {
        let id = self.plan.steps.len();
        let lane = lane.unwrap_or_else(|| {
            self.plan.lanes.push(Lane {
                kind: LaneKind::Own,
                name: format!("own-{id}"),
            });
            self.plan.lanes.len() - 1
        });
        let way = self.way(self.plan.lanes[lane].kind);
        self.is_served |= way == Way::Transact;
        self.plan.steps.push(Step {
            lane,
            way,
            awaiting: None,
            has_timeout: self.dice.below(3) == 0,
            actions: Vec::new(),
        });
        self.levels.push(match self.plan.lanes[lane].kind {
            LaneKind::Own => level,
            _ => lane,
        });
        id
    }

    fn way(&mut self, kind: LaneKind) -> Way {
        match kind {
            LaneKind::Main | LaneKind::Looper => {
                self.dice
                    .pick(&[Way::Post, Way::Post, Way::Send, Way::Send, Way::PostDelayed])
            }
            LaneKind::Pool => {
                (self.dice).pick(&[Way::Execute, Way::Submit, Way::Call, Way::RunAsync])
            }
            LaneKind::Scheduled => Way::Schedule,
            LaneKind::Timer => Way::Arm,
            LaneKind::Consumer => Way::Put,
            LaneKind::Marked => Way::Mark,
            LaneKind::Service => Way::Transact,
            LaneKind::Own => Way::Start,
        }
    }

    fn work(&mut self, step: StepId) {
        let micros = 20 + self.dice.below(400);
        self.plan.steps[step].actions.push(Action::Work(micros));
    }

    fn push(&mut self, step: StepId, action: Action) {
        self.plan.steps[step].actions.push(action);
    }

    fn awaiting(&mut self, way: Way) -> Awaiting {
        let mut all = vec![
            Awaiting::Latch,
            Awaiting::Object,
            Awaiting::Park,
            Awaiting::Reply,
            Awaiting::Monitor,
            Awaiting::Lock,
        ];
        match way {
            Way::Transact => return Awaiting::Transaction,
            Way::Start if !self.plan.has_staying_threads => all.extend([Awaiting::Join; 3]),
            way if way.has_future() => all.extend([Awaiting::Future; 4]),
            _ => {}
        }
        self.dice.pick(&all)
    }

    /// Steps that follow from one that the user posts, without a stall.
    fn flow(&mut self) {
        let first = self.plan.steps.len();
        let lane = match self.dice.below(4) {
            0 => 1 + self.dice.below(5) as LaneId,
            _ => 0,
        };
        let root = self.step(Some(lane), 0);
        let mut open = vec![(root, 0)];
        let most = first + 3 + self.dice.below(8) as usize;
        while let Some((step, depth)) = open.pop() {
            self.work(step);
            let children = match depth {
                0 => 1 + self.dice.below(3),
                _ => self.dice.below(3),
            };
            for _ in 0..children {
                if self.plan.steps.len() < most && !self.plan.is_served(step) {
                    let child = self.child(step);
                    open.push((child, depth + 1));
                }
            }
            if self.dice.below(6) == 0 {
                let ms = 1 + self.dice.below(3);
                self.push(step, Action::Nap(ms));
            }
            self.work(step);
        }
        self.act(vec![root], first);
    }

    /// Adds a step that the other one hands over, and waits for if it can.
    fn child(&mut self, step: StepId) -> StepId {
        let level = self.levels[step];
        let lane = match self.dice.below(SERVICE as u64 + 2) as LaneId {
            SERVICE if self.is_served || level >= SERVICE => None,
            lane if lane <= SERVICE => Some(lane),
            _ => None,
        };
        let child = self.step(lane, level);
        self.push(step, Action::Hand(child));
        let can_wait = lane.is_none_or(|lane| lane > level);
        let way = self.plan.steps[child].way;
        // Its caller waits for a transaction, in any case.
        if way == Way::Transact {
            self.plan.steps[child].awaiting = Some(Awaiting::Transaction);
            self.push(step, Action::Await(child));
        } else if can_wait && self.dice.below(3) > 0 {
            self.await_step(step, child);
        }
        child
    }

    /// Lets a step wait for one that was handed over.
    fn await_step(&mut self, step: StepId, child: StepId) {
        let way = self.plan.steps[child].way;
        let awaiting = match self.plan.steps[child].awaiting {
            Some(awaiting) => awaiting,
            None => self.awaiting(way),
        };
        self.plan.steps[child].awaiting = Some(awaiting);
        let begun = Action::Begun(child);
        if awaiting.is_lock() && self.plan.steps[step].actions.last() != Some(&begun) {
            self.push(step, begun);
        } else if self.dice.below(3) == 0 {
            self.work(step);
        }
        self.push(step, Action::Await(child));
    }

    fn act(&mut self, hands: Vec<StepId>, first: StepId) {
        self.plan.acts.push(Act {
            hands,
            steps: (first..self.plan.steps.len()).collect(),
        });
    }

    /// The stall of the main thread, with its chain to the cause.
    fn stall(&mut self) {
        let first = self.plan.steps.len();
        let root = self.step(Some(0), 0);
        // A stall has its own messages, not timers: its root is what the user did.
        self.plan.steps[root].way = self.dice.pick(&[Way::Post, Way::Send]);
        let mut hands = Vec::new();
        for _ in 0..self.dice.below(3) {
            let decoy = self.step(None, 0);
            self.push(decoy, Action::Terminal(Terminal::Busy));
            hands.push(decoy);
        }
        let mut chain = vec![root];
        let hops = self.dice.below(MOST_HOPS + 1);
        for _ in 0..hops {
            let last = chain[chain.len() - 1];
            if self.plan.is_served(last) {
                break;
            }
            let (next, is_ahead) = self.hop(last);
            if is_ahead {
                hands.push(next);
            }
            chain.push(next);
        }
        hands.extend(self.terminal(chain[chain.len() - 1]));
        // Those that are there before the root begin with the last one.
        hands.reverse();
        hands.push(root);
        self.plan.stall.chain = chain;
        self.plan.stall.ms = 500 + self.dice.below(300);
        self.act(hands, first);
    }

    /// Adds a step that the last one of the chain waits for. Returns whether the user hands it over, before the root.
    fn hop(&mut self, last: StepId) -> (StepId, bool) {
        let level = self.levels[last];
        // Not far away, so that further hops have lanes left.
        let near = level + 1 + self.dice.below(3) as LaneId;
        let lane = match self.dice.below(3) {
            _ if near > SERVICE || (near == SERVICE && self.is_served) => None,
            0 => None,
            _ => Some(near),
        };
        self.work(last);
        let kind = lane.map(|lane| self.plan.lanes[lane].kind);
        let is_in_order = matches!(
            kind,
            Some(LaneKind::Looper | LaneKind::Pool | LaneKind::Consumer | LaneKind::Marked)
        );
        if is_in_order && self.dice.below(3) == 0 {
            return (self.queued(last, lane), true);
        }
        let next = self.step(lane, level);
        let is_ahead = kind != Some(LaneKind::Service) && self.dice.below(3) == 0;
        match is_ahead {
            true => self.push(last, Action::Begun(next)),
            false => self.push(last, Action::Hand(next)),
        }
        self.await_step(last, next);
        self.work(last);
        (next, is_ahead)
    }

    /// The last step waits for one whose thread is busy with another one, which is the next of the chain.
    fn queued(&mut self, last: StepId, lane: Option<LaneId>) -> StepId {
        let level = self.levels[last];
        let busy = self.step(lane, level);
        let behind = self.step(lane, level);
        // It must be there when the other one ends.
        if self.plan.steps[behind].way == Way::PostDelayed {
            self.plan.steps[behind].way = Way::Post;
        }
        let way = self.plan.steps[behind].way;
        let awaiting = match self.awaiting(way) {
            awaiting if awaiting.is_lock() => Awaiting::Latch,
            awaiting => awaiting,
        };
        self.plan.steps[behind].awaiting = Some(awaiting);
        self.work(behind);
        self.push(last, Action::Begun(busy));
        self.push(last, Action::Hand(behind));
        self.push(last, Action::Await(behind));
        self.work(last);
        self.push(busy, Action::Awaited(behind));
        busy
    }

    /// What the last step of the chain does. Returns a step that the user hands over, before the root.
    fn terminal(&mut self, last: StepId) -> Option<StepId> {
        let mut all = vec![Terminal::Busy; 4];
        all.extend([Terminal::Sleep, Terminal::Sleep, Terminal::Timeout]);
        if !self.plan.is_served(last) {
            all.extend([Terminal::Yield, Terminal::Timer]);
            all.extend([Terminal::Circle, Terminal::Late]);
        }
        let mut terminal = self.dice.pick(&all);
        let level = self.levels[last];
        let later: Vec<LaneId> = TIMERS.into_iter().filter(|&lane| lane > level).collect();
        if terminal == Terminal::Timer && later.is_empty() {
            terminal = Terminal::Sleep;
        }
        let mut actions = vec![Action::Terminal(terminal)];
        let partner = match terminal {
            Terminal::Timer => {
                let lane = self.dice.pick(&later);
                let fired = self.step(Some(lane), level);
                if !self.plan.steps[fired].way.is_delayed() {
                    self.plan.steps[fired].way = Way::PostDelayed;
                }
                self.plan.steps[fired].awaiting = Some(Awaiting::Latch);
                self.work(fired);
                actions.extend([Action::Hand(fired), Action::Await(fired)]);
                Some(fired)
            }
            Terminal::Circle | Terminal::Yield | Terminal::Late => Some(self.step(None, level)),
            _ => None,
        };
        if let Some(partner) = partner.filter(|_| terminal != Terminal::Timer) {
            self.push(partner, Action::Partner(terminal));
        }
        // Before it goes on, others may wait.
        let own = &mut self.plan.steps[last].actions;
        own.splice(0..0, actions);
        self.work(last);
        self.plan.stall.terminal = terminal;
        self.plan.stall.partner = partner;
        partner.filter(|_| terminal == Terminal::Yield)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plans() -> impl Iterator<Item = Plan> {
        (0..400).map(|seed| generate(seed, "p", seed % 4 == 0))
    }

    #[test]
    fn a_seed_gives_one_plan() {
        assert_eq!(generate(7, "p", false), generate(7, "p", false));
        assert_ne!(generate(7, "p", false), generate(8, "p", false));
    }

    #[test]
    fn nothing_waits_for_the_end_of_a_thread_that_stays() {
        for plan in plans().filter(|plan| plan.has_staying_threads) {
            let mut awaited = plan.steps.iter().filter_map(|step| step.awaiting);
            assert!(awaited.all(|a| a != Awaiting::Join), "{plan:#?}");
        }
    }

    #[test]
    fn everything_that_a_plan_can_have_is_in_some_plan() {
        let (mut ways, mut waits) = (BTreeSet::new(), BTreeSet::new());
        let (mut terminals, mut hops) = (BTreeSet::new(), BTreeSet::new());
        for plan in plans() {
            for step in &plan.steps {
                ways.insert(format!("{:?}", step.way));
                waits.extend(step.awaiting.map(|a| format!("{a:?}")));
            }
            terminals.insert(format!("{:?}", plan.stall.terminal));
            hops.insert(plan.stall.chain.len() - 1);
        }
        assert_eq!((ways.len(), waits.len(), terminals.len()), (13, 9, 7));
        assert_eq!(hops, (0..=MOST_HOPS as usize).collect());
    }

    #[test]
    fn a_step_waits_only_for_later_lanes() {
        let is_waited = |a: &&Action| {
            use Action::{Await, Awaited, Begun};
            matches!(a, Await(_) | Awaited(_) | Begun(_))
        };
        for plan in plans() {
            // A thread of its own is as far as the step that starts it.
            let mut levels: Vec<Option<LaneId>> = plan.steps.iter().map(|_| None).collect();
            for (id, step) in plan.steps.iter().enumerate() {
                if plan.lanes[step.lane].kind != LaneKind::Own {
                    levels[id] = Some(step.lane);
                }
            }
            for (id, step) in plan.steps.iter().enumerate() {
                for action in step.actions.iter().filter(is_waited) {
                    let (Action::Await(other) | Action::Begun(other) | Action::Awaited(other)) =
                        *action
                    else {
                        continue;
                    };
                    let (Some(own), Some(later)) = (levels[id], levels[other]) else {
                        continue;
                    };
                    // The step behind a busy one is on the same lane.
                    let is_behind = matches!(action, Action::Awaited(_));
                    assert!(own < later || is_behind, "{plan:#?}");
                }
            }
        }
    }

    #[test]
    fn a_step_is_handed_over_once_and_one_step_waits_for_it() {
        for plan in plans() {
            for id in 0..plan.steps.len() {
                let times = |wanted: Action| {
                    let all = plan.steps.iter().flat_map(|s| &s.actions);
                    all.filter(|a| **a == wanted).count()
                };
                let by_user = plan.acts.iter().flat_map(|a| &a.hands);
                let by_user = by_user.filter(|&&s| s == id).count();
                // A terminal starts its partner's thread itself.
                let by_terminal = plan.stall.partner == Some(id)
                    && matches!(plan.stall.terminal, Terminal::Circle | Terminal::Late);
                let handed = times(Action::Hand(id)) + by_user + usize::from(by_terminal);
                assert_eq!(handed, 1, "step {id} of {plan:#?}");
                let waits = usize::from(plan.steps[id].awaiting.is_some());
                assert_eq!(times(Action::Await(id)), waits, "step {id} of {plan:#?}");
            }
        }
    }
}
