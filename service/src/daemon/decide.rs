// SPDX-License-Identifier: Apache-2.0
//! What the daemon needs of the engine.

use crate::commands::dump;
use crate::consent::{Allowed, Choices};
use crate::engine::{Action, Connection, Engine, Event, Now};
use crate::json;
use crate::limits::Refusal;
use crate::policy::{Detectors, Person, Policy};

/// Decides.
pub trait Decide {
    /// Something happened; the actions are carried out in this order.
    fn handle(&mut self, now: Now, event: Event) -> Vec<Action>;

    /// Puts a policy in force; `None`: the one that was in force when the service was started. Actions that follow from it are
    /// carried out.
    ///
    /// # Errors
    /// If the policy is none: a message for people, with the line and the remedy. The old policy stays in force.
    fn load_policy(&mut self, now: Now, text: Option<&str>) -> Result<Vec<Action>, String>;

    /// Puts the choices of users in force.
    fn choose(&mut self, now: Now, choices: &Choices) -> Vec<Action>;

    /// What is allowed by the policy and by the choices that are in force.
    fn allowed(&self) -> Allowed;

    /// Whether one more report may be uploaded; then it counts. The actions come first.
    ///
    /// # Errors
    /// Why not.
    fn admit_upload(&mut self, now: Now) -> Result<Vec<Action>, &'static str>;

    /// Processes that detectors of the service look at.
    fn observed(&self) -> Vec<Connection>;

    /// The rules of detectors.
    fn detectors(&self) -> &Detectors;

    /// The text of the policy in force.
    fn policy_text(&self) -> &str;

    /// The recording switch: while it is off, nothing is recorded, whatever the policy says.
    fn switch(&mut self, now: Now, is_on: bool) -> Vec<Action>;

    /// The state as lines for people, not many.
    fn dump(&self) -> Vec<String>;

    /// The state for people and tools: one line of JSON, an object.
    fn status(&self) -> String;

    /// What must be known after the service was started again; asked for when it ends.
    fn state_at_end(&self, now: Now) -> Option<String>;
}

/// The engine, and the policy that it began with.
pub struct Decider {
    engine: Engine,
    /// The policy at the start, and its text.
    first: (Policy, String),
    /// The policy in force, and its text.
    policy: (Policy, String),
    /// The recording switch.
    is_on: bool,
    /// What consent depends on, without choices at run time.
    unasked: Person,
    person: Person,
}

impl Decider {
    /// Decides by this engine, whose policy has this text.
    pub fn new(engine: Engine, policy_text: String) -> Self {
        let first = (engine.policy().clone(), policy_text);
        let person = engine.person().clone();
        Decider {
            engine,
            policy: first.clone(),
            first,
            is_on: true,
            unasked: person.clone(),
            person,
        }
    }
}

impl Decider {
    fn put_in_force(&mut self, now: Now) -> Vec<Action> {
        let mut policy = self.policy.0.clone();
        policy.enabled &= self.is_on;
        self.engine.set_policy(now, policy)
    }
}

impl Decide for Decider {
    fn handle(&mut self, now: Now, event: Event) -> Vec<Action> {
        self.engine.handle(now, event)
    }

    fn load_policy(&mut self, now: Now, text: Option<&str>) -> Result<Vec<Action>, String> {
        self.policy = match text {
            Some(text) => {
                let policy = Policy::parse(text).map_err(|e| e.to_string())?;
                (policy, text.to_owned())
            }
            None => self.first.clone(),
        };
        Ok(self.put_in_force(now))
    }

    fn policy_text(&self) -> &str {
        &self.policy.1
    }

    fn switch(&mut self, now: Now, is_on: bool) -> Vec<Action> {
        self.is_on = is_on;
        self.put_in_force(now)
    }

    fn dump(&self) -> Vec<String> {
        let mut lines = dump::lines(&self.engine.status());
        if !self.is_on {
            lines.insert(
                0,
                "recording is switched off: 'switch on' ends that".to_owned(),
            );
        }
        lines
    }

    fn choose(&mut self, now: Now, choices: &Choices) -> Vec<Action> {
        self.person = choices.person(&self.unasked);
        self.engine.set_person(now, self.person.clone())
    }

    fn admit_upload(&mut self, now: Now) -> Result<Vec<Action>, &'static str> {
        let admitted = self.engine.admit_upload(now);
        admitted.map_err(|refusal| match refusal {
            Refusal::Closed => "the list of uploads was lost: none until a window has passed",
            _ => "the limit of uploads is reached",
        })
    }

    fn allowed(&self) -> Allowed {
        Allowed {
            policy: self.engine.policy().clone(),
            person: self.person.clone(),
        }
    }

    fn observed(&self) -> Vec<Connection> {
        self.engine.observed()
    }

    fn detectors(&self) -> &Detectors {
        &self.engine.policy().detectors
    }

    fn status(&self) -> String {
        json::to_string(&self.engine.status())
    }

    fn state_at_end(&self, now: Now) -> Option<String> {
        Some(self.engine.save_limits(now))
    }
}
