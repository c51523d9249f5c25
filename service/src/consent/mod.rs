// SPDX-License-Identifier: Apache-2.0
//! What users chose at run time: who chose which level, and when. The policy limits what a choice allows
//! ([`ConsentRules`](crate::policy::ConsentRules)).

mod allowed;
mod saved;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::policy::{Level, Person};

pub use allowed::Allowed;
pub use saved::{ChoicesError, CHOICES};

/// The most Android users with a choice of their own.
pub const MAX_USERS: usize = 200;
/// Android users have lower numbers: a user id is the user's number times 100000, and an app's id.
pub const USERS_END: u32 = 42_949;

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The level that was chosen.
    pub level: Level,
    /// User id of the program that asked for it, by the kernel's account.
    pub by: u32,
    /// When: s since 1970, by the clock of the device then.
    pub at_s: u64,
}

/// For whom a choice holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// For all Android users without a choice of their own.
    Device,
    /// For one Android user.
    User(u32),
}

/// What a client wants of the choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// One more choice.
    Choose(Whose, Choice),
    /// A choice for all Android users: the choices for single users end.
    ChooseForAll(Choice),
    /// This Android user was removed: another one may get the number, and must not have the choice.
    Forget {
        /// The user.
        user: u32,
        /// Nothing is allowed to the user until the choice is forgotten: who asked for that, and when.
        until_then: Choice,
    },
}

/// All choices that hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// For users without a choice of their own; `None`: nobody has chosen.
    pub device: Option<Choice>,
    /// Of Android users.
    pub users: BTreeMap<u32, Choice>,
    /// The choices were lost. Until somebody chooses for the device, nothing is allowed to users without a choice of their own.
    pub are_lost: bool,
}

fn check_user(user: u32) -> Result<(), String> {
    match user >= USERS_END {
        true => Err(format!(
            "{user} is no Android user: their numbers are below {USERS_END}"
        )),
        false => Ok(()),
    }
}

impl Choices {
    /// Choices that were lost: nothing is allowed.
    pub fn lost() -> Self {
        Choices {
            are_lost: true,
            ..Choices::default()
        }
    }

    /// These choices after a change.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn changed(&self, change: &Change) -> Result<Self, String> {
        match change {
            Change::Choose(whose, choice) => self.with(*whose, *choice),
            Change::ChooseForAll(choice) => Ok(Choices::withdrawn(*choice)),
            Change::Forget { user, .. } => self.without(*user),
        }
    }

    /// These choices, without the one of an Android user.
    fn without(&self, user: u32) -> Result<Self, String> {
        check_user(user)?;
        let mut choices = self.clone();
        choices.users.remove(&user);
        Ok(choices)
    }

    /// Those that hold while a change to `newer` is not saved.
    pub fn until_saved(&self, newer: &Self, change: &Change) -> Self {
        let mut lowered = self.lowered_to(newer);
        if let Change::Forget { user, until_then } = change {
            let nothing = Choice {
                level: Level::None,
                ..*until_then
            };
            lowered.users.insert(*user, nothing);
        }
        lowered
    }

    /// These choices and one more.
    ///
    /// # Errors
    /// If too many users have a choice of their own, or there cannot be such a user: a message for people.
    pub fn with(&self, whose: Whose, choice: Choice) -> Result<Self, String> {
        let mut choices = self.clone();
        match whose {
            Whose::Device => {
                choices.device = Some(choice);
                choices.are_lost = false;
            }
            Whose::User(user) => {
                check_user(user)?;
                choices.users.insert(user, choice);
                if choices.users.len() > MAX_USERS {
                    return Err(format!(
                        "{MAX_USERS} users have a choice of their own: 'consent withdraw' ends all of them"
                    ));
                }
            }
        }
        Ok(choices)
    }

    /// All choices are withdrawn, also those of single users.
    pub fn withdrawn(choice: Choice) -> Self {
        Choices {
            device: Some(choice),
            ..Choices::default()
        }
    }

    /// The facts that the policy needs; `base` has what is not chosen at run time.
    pub fn person(&self, base: &Person) -> Person {
        let levels = self.users.iter();
        let mut agreed_by_user = base.agreed_by_user.clone();
        if self.are_lost || self.device.is_some() {
            agreed_by_user.clear();
        }
        agreed_by_user.extend(levels.map(|(user, choice)| (*user, choice.level)));
        let chosen = self.device.map(|choice| choice.level);
        Person {
            agreed: match self.are_lost {
                true => Some(Level::None),
                false => chosen.or(base.agreed),
            },
            agreed_by_user,
            ..base.clone()
        }
    }

    /// Those of `newer` that allow less than these, and else these: they may be in force before `newer` is saved.
    pub fn lowered_to(&self, newer: &Self) -> Self {
        let lower = |old: Option<Choice>, new: Option<Choice>| match (old, new) {
            (Some(old), Some(new)) if new.level < old.level => Some(new),
            (None, Some(new)) if new.level == Level::None => Some(new),
            (old, _) => old,
        };
        let mut lowered = self.clone();
        lowered.device = lower(self.device, newer.device);
        for (user, old) in &self.users {
            // A user's own choice that is gone is replaced by the device's.
            let new = newer.users.get(user).copied().or(newer.device);
            let kept = lower(Some(*old), new).unwrap_or(*old);
            lowered.users.insert(*user, kept);
        }
        for (user, new) in &newer.users {
            let is_new = !self.users.contains_key(user);
            let is_lower = self.device.is_some_and(|old| new.level < old.level);
            if is_new && (is_lower || new.level == Level::None) {
                lowered.users.insert(*user, *new);
            }
        }
        lowered
    }
}

#[cfg(test)]
mod tests;
