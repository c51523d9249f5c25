// SPDX-License-Identifier: Apache-2.0
//! Which reports may exist.

use crate::policy::{Level, Person, Policy};
use crate::store::Entry;

/// What a policy and the users' choices allow.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// The policy.
    pub policy: Policy,
    /// The facts that consent depends on.
    pub person: Person,
}

impl Allowed {
    /// The level that holds for a report now. Where the report does not name its app, rules for apps do not fit it: it tells
    /// nothing about one either.
    pub fn level(&self, entry: &Entry) -> Level {
        self.policy.level(&self.person, entry.uid, &entry.process)
    }

    /// Whether the report may exist: it has nothing that its level does not allow.
    pub fn allows(&self, entry: &Entry) -> bool {
        let most = self.level(entry).strings();
        most.is_some_and(|most| entry.consent() <= most)
    }
}
