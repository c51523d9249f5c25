// SPDX-License-Identifier: Apache-2.0
//! What the daemon needs of the engine.

use crate::commands::dump;
use crate::consent::{Allowed, Choices};
use crate::engine::{Action, Connection, Engine, Event, Now, Report};
use crate::json;
use crate::limits::Refusal;
use crate::policy::{Accepted, Detectors, Person, Policy, Refused, Trust};

/// Holds while the policy that a client has loaded is lost.
const NO_POLICY: &str =
    "# The policy that was loaded last cannot be read: load it again, or say 'policy default'.
version = 1
enabled = false
";

/// Decides.
pub trait Decide {
    /// Something happened; the actions are carried out in this order.
    fn handle(&mut self, now: Now, event: Event) -> Vec<Action>;

    /// Puts a policy in force; `None`: the one that was in force when the service was started. Actions that follow from it are
    /// carried out.
    ///
    /// # Errors
    /// If the policy is none, or not one that this device takes: a message for people, with the remedy. The old policy stays in force.
    fn load_policy(&mut self, now: Now, text: Option<&str>) -> Result<Vec<Action>, Refused>;

    /// Whether [`load_policy`](Self::load_policy) would take this text.
    ///
    /// # Errors
    /// Why not.
    fn check_policy(&self, text: &str) -> Result<(), Refused>;

    /// The policy that a client has loaded is lost: nothing is recorded.
    fn lose_policy(&mut self, now: Now) -> Vec<Action>;

    /// The highest revision of a signed policy that was in force.
    fn accepted(&self) -> Accepted;

    /// Puts the choices of users in force.
    fn choose(&mut self, now: Now, choices: &Choices) -> Vec<Action>;

    /// What is allowed by the policy and by the choices that are in force.
    fn allowed(&self) -> Allowed;

    /// Which report may be uploaded, of reports with these groups: its index; then it counts. The actions come first.
    ///
    /// # Errors
    /// Why none.
    fn admit_upload(
        &mut self,
        now: Now,
        groups: &[Report],
    ) -> Result<(usize, Vec<Action>), &'static str>;

    /// Processes that detectors of the service look at.
    fn observed(&self) -> Vec<Connection>;

    /// The rules of detectors.
    fn detectors(&self) -> &Detectors;

    /// The text of the policy in force.
    fn policy_text(&self) -> &str;

    /// The recording switch: while it is off, nothing is recorded, whatever the policy says.
    fn switch(&mut self, now: Now, is_on: bool) -> Vec<Action>;

    /// Whether the recording switch is on.
    fn is_on(&self) -> bool;

    /// The state as lines for people, not many.
    fn dump(&self, now: Now) -> Vec<String>;

    /// A few lines of the state, without names of apps.
    fn summary(&self, now: Now) -> Vec<String>;

    /// The state for people and tools: one line of JSON, an object.
    fn status(&self, now: Now) -> String;

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
    /// Which policies are taken.
    trust: Trust,
    accepted: Accepted,
    /// The key of the policy in force.
    key: Option<String>,
    /// The recording switch.
    is_on: bool,
    /// What consent depends on, without choices at run time.
    unasked: Person,
    person: Person,
}

impl Decider {
    /// Decides by this engine, whose policy has this text. Takes policies without looking at signatures.
    pub fn new(engine: Engine, policy_text: String) -> Self {
        let first = (engine.policy().clone(), policy_text);
        let person = engine.person().clone();
        Decider {
            engine,
            policy: first.clone(),
            first,
            trust: Trust::default(),
            accepted: Accepted::UpTo(0),
            key: None,
            is_on: true,
            unasked: person.clone(),
            person,
        }
    }

    /// Takes only policies that it may trust; signed ones were in force up to this revision.
    #[must_use]
    pub fn with_trust(self, trust: Trust, accepted: Accepted) -> Self {
        Decider {
            trust,
            accepted,
            ..self
        }
    }
}

impl Decider {
    fn signed_by(&self) -> String {
        let key = self.key.as_ref();
        let by = key.map_or("the ROM's own, or not signed".to_owned(), |key| {
            format!("signed with the key {key}")
        });
        match self.accepted {
            Accepted::UpTo(revision) => {
                format!("policy: {by}; signed ones are taken from revision {revision} on")
            }
            Accepted::Lost => format!("policy: {by}; the revision of signed ones is lost"),
        }
    }

    /// With what the engine does not know.
    fn with_heads(&self, mut lines: Vec<String>) -> Vec<String> {
        if self.trust.keys.is_some() {
            lines.insert(0, self.signed_by());
        }
        if !self.is_on {
            let line = "recording is switched off: 'switch on' ends that";
            lines.insert(0, line.to_owned());
        }
        lines
    }

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

    fn load_policy(&mut self, now: Now, text: Option<&str>) -> Result<Vec<Action>, Refused> {
        (self.policy, self.key) = match text {
            Some(text) => {
                let rom = self.first.0.revision;
                let admitted = self.trust.admit(text, self.accepted, rom)?;
                if admitted.key.is_some() {
                    self.accepted = Accepted::UpTo(admitted.policy.revision);
                }
                ((admitted.policy, text.to_owned()), admitted.key)
            }
            None => (self.first.clone(), None),
        };
        Ok(self.put_in_force(now))
    }

    fn check_policy(&self, text: &str) -> Result<(), Refused> {
        let rom = self.first.0.revision;
        self.trust.admit(text, self.accepted, rom)?;
        Policy::parse_new(text)?;
        Ok(())
    }

    fn lose_policy(&mut self, now: Now) -> Vec<Action> {
        let nothing = Policy {
            enabled: false,
            ..Policy::default()
        };
        (self.policy, self.key) = ((nothing, NO_POLICY.to_owned()), None);
        self.put_in_force(now)
    }

    fn accepted(&self) -> Accepted {
        self.accepted
    }

    fn policy_text(&self) -> &str {
        &self.policy.1
    }

    fn switch(&mut self, now: Now, is_on: bool) -> Vec<Action> {
        self.is_on = is_on;
        self.put_in_force(now)
    }

    fn is_on(&self) -> bool {
        self.is_on
    }

    fn dump(&self, now: Now) -> Vec<String> {
        self.with_heads(dump::lines(&self.engine.status(now)))
    }

    fn summary(&self, now: Now) -> Vec<String> {
        self.with_heads(dump::summary(&self.engine.status(now)))
    }

    fn choose(&mut self, now: Now, choices: &Choices) -> Vec<Action> {
        self.person = choices.person(&self.unasked);
        self.engine.set_person(now, self.person.clone())
    }

    fn admit_upload(
        &mut self,
        now: Now,
        groups: &[Report],
    ) -> Result<(usize, Vec<Action>), &'static str> {
        let admitted = self.engine.admit_upload(now, groups);
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

    fn status(&self, now: Now) -> String {
        json::to_string(&self.engine.status(now))
    }

    fn state_at_end(&self, now: Now) -> Option<String> {
        Some(self.engine.save_limits(now))
    }
}
