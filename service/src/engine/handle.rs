// SPDX-License-Identifier: Apache-2.0
//! The engine: takes events, hands actions out.

use hindsight_trace_format::protocol::FromProcess;

use super::action::Action;
use super::event::{Asked, Connection, Event, Now, Pressure, Report};
use super::pending::Stage;
use super::process::{Link, Process};
use super::state::{Facts, Outcome, State, SAVE_NS, SETTLE_NS};
use super::status::Status;
use crate::limits::{Limiter, Refusal};
use crate::policy::{Person, Policy};

/// All decisions of the service.
#[derive(Debug)]
pub struct Engine(State);

impl Engine {
    /// Begins with no processes.
    pub fn new(policy: Policy, limits: Limiter, facts: Facts) -> Self {
        Engine(State::new(policy, limits, facts))
    }

    /// Something happened: returns what is to be done, in this order.
    pub fn handle(&mut self, now: Now, event: Event) -> Vec<Action> {
        let state = &mut self.0;
        state.begin_at(now);
        match event {
            Event::Joined {
                connection,
                peer,
                hello,
                crash,
            } => state.joined(connection, peer, hello, crash.as_ref()),
            Event::Said {
                connection,
                message,
            } => state.said(connection, message),
            Event::Lost { connection } => state.lost(connection),
            Event::Crashed { connection, crash } => state.noted(connection, &crash),
            Event::Left { connection } => state.left(connection),
            Event::Ended { connection } => {
                if state.ended(connection) {
                    state.recorded_ended(connection);
                    state.forget_if_over(connection);
                }
            }
            Event::Written { report, is_kept } => state.written(report, is_kept),
            Event::Serving {
                report,
                connection,
                services,
            } => state.serving(report, connection, &services),
            Event::Found {
                connection,
                finding,
            } => state.found(connection, finding),
            Event::Asked { reply, what } => match what {
                Asked::Report { process, reason } => state.asked(reply, &process, &reason),
                Asked::EndRecording { package } => state.asked_end(reply, &package),
                Asked::Record { package, seconds } => {
                    state.asked_record(reply, &package, seconds);
                }
            },
            Event::Pressure(pressure) => state.pressure = pressure,
            Event::Memory(facts) => state.shortage.noted(state.now.boottime_ns, facts),
            Event::Slept(slept_ns) => state.slept(slept_ns),
            Event::Woke => state.wake_ns = None,
        }
        state.settle()
    }

    /// Another policy holds from now on, for running processes as well.
    pub fn set_policy(&mut self, now: Now, policy: Policy) -> Vec<Action> {
        let state = &mut self.0;
        state.begin_at(now);
        state.log(format!("policy: revision {}", policy.revision));
        state.policy = policy;
        state.look_up_recordings();
        state.settle()
    }

    /// The facts that consent depends on have changed.
    pub fn set_person(&mut self, now: Now, person: Person) -> Vec<Action> {
        let state = &mut self.0;
        state.begin_at(now);
        state.person = person;
        state.look_up_recordings();
        state.settle()
    }

    /// The policy that holds.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Which report may be uploaded, of reports with these groups: its index; then it counts. A group counts once for as many
    /// reports as a process and its peers leave. The actions come first.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn admit_upload(
        &mut self,
        now: Now,
        groups: &[Report],
    ) -> Result<(usize, Vec<Action>), Refusal> {
        let state = &mut self.0;
        state.begin_at(now);
        let now_ns = state.now_ns();
        let (uploads, most) = (&state.policy.uploads, state.policy.reports.peers + 1);
        let index = state.limiter.admit_upload(now_ns, uploads, most, groups)?;
        state.is_unsaved = true;
        Ok((index, state.settle()))
    }

    /// The facts that consent depends on.
    pub fn person(&self) -> &Person {
        &self.0.person
    }

    /// Processes that detectors of the service look at.
    pub fn observed(&self) -> Vec<Connection> {
        self.0.observed()
    }

    /// The limiter's list as a text, for a last [`Action::SaveLimits`] before the service ends.
    pub fn save_limits(&self, now: Now) -> String {
        self.0.limiter.save(now.boottime_ns)
    }

    /// Whether a recording that a user asked for goes on.
    #[cfg(test)]
    pub(super) fn is_recording(&self) -> bool {
        !self.0.recordings.0.is_empty()
    }

    /// How it is now, for people. It may be long since the last event.
    pub fn status(&self, now: Now) -> Status {
        Status::of(&self.0, now.boottime_ns.max(self.0.now_ns()))
    }
}

impl State {
    fn begin_at(&mut self, now: Now) {
        self.now = Now {
            boottime_ns: now.boottime_ns.max(self.now.boottime_ns),
            ..now
        };
        let settle_ns = if self.is_restart { SETTLE_NS } else { 0 };
        let settled_ns = self.now_ns().saturating_add(settle_ns);
        self.settled_ns.get_or_insert(settled_ns);
    }

    fn said(&mut self, connection: Connection, message: FromProcess) {
        let process = self.processes.get_mut(&connection);
        let Some(process) = process.filter(|process| process.link == Link::Connected) else {
            return;
        };
        match message {
            FromProcess::Hello(_) => {}
            FromProcess::Foreground { is_foreground, .. } => {
                self.foreground(connection, is_foreground);
            }
            FromProcess::Activities { are_started } => self.activities(connection, are_started),
            FromProcess::Held { rings } => self.held(connection, rings),
            FromProcess::Trigger(trigger) => self.trigger(connection, trigger),
            FromProcess::Taken { report, outcome } => self.taken(connection, report, outcome),
            FromProcess::Farewell => self.left(connection),
            FromProcess::Needs { bytes } => self.needs(connection, bytes),
            FromProcess::Name { name } => self.named(connection, &name),
            FromProcess::Named => {
                let most = process.other_bytes;
                let learn = Action::LearnNames { connection, most };
                self.actions.push(learn);
            }
        }
    }

    /// Brings everything up to date after an event.
    fn settle(&mut self) -> Vec<Action> {
        self.expire();
        let deferred = self
            .processes
            .iter()
            .filter(|(_, process)| process.is_deferred);
        let deferred: Vec<Connection> = deferred.map(|(connection, _)| *connection).collect();
        for connection in deferred {
            self.claim(connection);
        }
        self.end_recordings();
        self.withdraw();
        self.send_rules();
        self.plan_rings();
        self.give_room();
        self.save();
        self.proceed();
        self.wake();
        self.actions.append(&mut self.looks);
        std::mem::take(&mut self.actions)
    }

    /// Processes get as much more time for their answers.
    fn slept(&mut self, slept_ns: u64) {
        for process in self.processes.values_mut() {
            let stage = process.report.as_mut().map(|pending| &mut pending.stage);
            let of_report = match stage {
                Some(Stage::Waiting { until_ns } | Stage::Taking { until_ns, .. }) => {
                    Some(until_ns)
                }
                _ => None,
            };
            let limits = of_report.into_iter().chain(&mut process.answer_until_ns);
            limits.for_each(|until_ns| *until_ns = until_ns.saturating_add(slept_ns));
        }
    }

    /// Gives up all that has taken too long.
    fn expire(&mut self) {
        let now_ns = self.now_ns();
        let connections: Vec<Connection> = self.processes.keys().copied().collect();
        for connection in connections {
            let Some(process) = self.processes.get(&connection) else {
                continue;
            };
            let stage = process.report.as_ref().map(|pending| pending.stage);
            if process
                .answer_until_ns
                .is_some_and(|until_ns| until_ns <= now_ns)
            {
                self.disconnect(
                    connection,
                    "it did not give its rings back in time; it may be frozen in the background",
                );
            }
            match stage {
                Some(Stage::Taking { until_ns, .. }) if until_ns <= now_ns => {
                    self.disconnect(
                        connection,
                        "it did not take its rings in time; it may be frozen in the background",
                    );
                }
                Some(Stage::Waiting { until_ns }) if until_ns <= now_ns => {
                    // No ring is taken while the system is short of memory, however large the budget is.
                    let outcome = match self.pressure {
                        Pressure::Full => Outcome::Pressure,
                        Pressure::None | Pressure::Some => Outcome::NoMemory,
                    };
                    self.finish(connection, outcome);
                }
                _ => {}
            }
        }
    }

    /// The list is on disk before a report that it has.
    fn save(&mut self) {
        let now_ns = self.now_ns();
        let is_old = now_ns.saturating_sub(self.saved_ns) >= SAVE_NS && !self.limiter.is_empty();
        if self.is_unsaved || is_old {
            self.is_unsaved = false;
            self.saved_ns = now_ns;
            let text = self.limiter.save(now_ns);
            self.actions.push(Action::SaveLimits(text));
        }
    }

    /// Wishes to be told when the next time limit ends.
    fn wake(&mut self) {
        let now_ns = self.now_ns();
        let of_processes = self.processes.values().filter_map(|p| self.next_limit(p));
        let settled = self.settled_ns.filter(|until_ns| *until_ns > now_ns);
        let next_ns = of_processes
            .chain(settled)
            .chain(self.recordings.next_end())
            .min();
        if next_ns != self.wake_ns {
            self.wake_ns = next_ns;
            self.actions.push(Action::WakeAt(next_ns));
        }
    }

    fn next_limit(&self, process: &Process) -> Option<u64> {
        let claim = || self.claims.allowed_ns(process.peer.uid, self.now_ns());
        let claim_ns = process.is_deferred.then(claim);
        let report_ns = process
            .report
            .as_ref()
            .and_then(|pending| match pending.stage {
                Stage::Waiting { until_ns } | Stage::Taking { until_ns, .. } => Some(until_ns),
                _ => None,
            });
        let taken_back_ns = process.taken_back_ns().filter(|ns| *ns > self.now_ns());
        let limits = [process.answer_until_ns, claim_ns, report_ns, taken_back_ns];
        limits.into_iter().flatten().min()
    }
}
