// SPDX-License-Identifier: Apache-2.0
//! Which reports may exist.

use hindsight_trace_format::protocol::is_final_name;

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
    /// The level that holds for a report now. One of a process that had no name of its own yet has the lowest one of all apps. Where the report does not name its app, rules for apps do not fit it: it tells
    /// nothing about one either.
    pub fn level(&self, entry: &Entry) -> Level {
        match is_final_name(&entry.process) {
            true => self.policy.level(&self.person, entry.uid, &entry.process),
            false => self.policy.level_unnamed(&self.person, entry.uid),
        }
    }

    /// Whether the report may exist: it has nothing that its level does not allow. A report of nobody knows whom may not.
    pub fn allows(&self, entry: &Entry) -> bool {
        if entry.is_unreadable {
            return false;
        }
        let most = self.level(entry).strings();
        most.is_some_and(|most| entry.consent() <= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::UserType;

    #[test]
    fn a_report_without_a_name_is_allowed_what_every_app_is() {
        let lines =
            "version = 1\n[[record.override]]\npackage = \"com.example.bank\"\nconsent = \"none\"";
        let allowed = Allowed {
            policy: Policy::parse(lines).unwrap(),
            person: Person {
                user: UserType::Internal,
                ..Person::default()
            },
        };
        let level = |process: &str| {
            allowed.level(&Entry {
                process: process.into(),
                ..Entry::default()
            })
        };
        assert_ne!(level("com.example.notes"), Level::None);
        assert_eq!(level("com.example.bank:sync"), Level::None);
        assert_eq!(level("zygote64"), Level::None);
    }
}
