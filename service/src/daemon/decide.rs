// SPDX-License-Identifier: Apache-2.0
//! What the daemon needs of the engine.

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

    /// The state for people and tools: one line of JSON, an object.
    fn status(&self) -> String;

    /// What must be known after the service was started again; asked for when it ends.
    fn state_at_end(&self, now: Now) -> Option<String>;
}

/// The engine, and the policy that it began with.
pub struct Decider {
    engine: Engine,
    first: Policy,
    /// What consent depends on, without choices at run time.
    unasked: Person,
    person: Person,
}

impl Decider {
    /// Decides by this engine.
    pub fn new(engine: Engine) -> Self {
        let first = engine.policy().clone();
        let person = engine.person().clone();
        Decider {
            engine,
            first,
            unasked: person.clone(),
            person,
        }
    }
}

impl Decide for Decider {
    fn handle(&mut self, now: Now, event: Event) -> Vec<Action> {
        self.engine.handle(now, event)
    }

    fn load_policy(&mut self, now: Now, text: Option<&str>) -> Result<Vec<Action>, String> {
        let policy = match text {
            Some(text) => Policy::parse(text).map_err(|e| e.to_string())?,
            None => self.first.clone(),
        };
        Ok(self.engine.set_policy(now, policy))
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
