// SPDX-License-Identifier: Apache-2.0
//! What users agreed to, and what the policy allows at most.

use std::collections::BTreeMap;

use hindsight_trace_format::container::Consent;
use serde::{Deserialize, Serialize};

use super::selector::{FIRST_APP, UIDS_OF_A_USER};

/// A level of consent; each includes the lower ones.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Nothing is recorded, and nothing is kept.
    #[default]
    None,
    /// Numbers, and names of the platform's own code.
    Summary,
    /// Also names of the app's code, which signatures are made of.
    Signatures,
    /// Also texts that the app composed while it ran.
    Full,
}

impl Level {
    /// All levels, the lowest first.
    pub const ALL: [Level; 4] = [Level::None, Level::Summary, Level::Signatures, Level::Full];

    /// Its name in policy files.
    pub const fn name(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Summary => "summary",
            Level::Signatures => "signatures",
            Level::Full => "full",
        }
    }

    /// The level with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// The level with these strings.
    pub const fn of_strings(strings: Consent) -> Self {
        match strings {
            Consent::Structure => Level::Summary,
            Consent::Names => Level::Signatures,
            Consent::Content => Level::Full,
        }
    }

    /// Which strings may be in a file; `None`: there may be no file.
    pub const fn strings(self) -> Option<Consent> {
        match self {
            Level::None => None,
            Level::Summary => Some(Consent::Structure),
            Level::Signatures => Some(Consent::Names),
            Level::Full => Some(Consent::Content),
        }
    }
}

/// Who uses the device.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum UserType {
    /// The maker's own people.
    Internal,
    /// Somebody who takes part in a public test.
    Beta,
    /// Anybody else.
    #[default]
    EndUser,
}

impl UserType {
    /// All types.
    pub const ALL: [UserType; 3] = [UserType::Internal, UserType::Beta, UserType::EndUser];

    /// Its name in policy files.
    pub const fn name(self) -> &'static str {
        match self {
            UserType::Internal => "internal",
            UserType::Beta => "beta",
            UserType::EndUser => "end-user",
        }
    }

    /// The type with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|user| user.name() == name)
    }
}

/// Whether this is the form of a region's code: two capitals, such as `DE`.
pub fn is_region(code: &str) -> bool {
    code.len() == 2 && code.bytes().all(|b| b.is_ascii_uppercase())
}

/// Longest name of a device model, bytes.
const MAX_MODEL: usize = 92;

/// Which device models a rule is about: one by its whole name, or all whose names begin with a text (`Phone 3*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    begin: String,
    is_pattern: bool,
}

impl Model {
    /// From a policy.
    ///
    /// # Errors
    /// If it is no name of a model: what it must be.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let begin = text.strip_suffix('*');
        let is_pattern = begin.is_some();
        let begin = begin.unwrap_or(text);
        let is_plain = |c: char| !c.is_control() && c != '*';
        let has_length = (1..=MAX_MODEL).contains(&begin.len());
        match has_length && begin.chars().all(is_plain) {
            true => Ok(Model {
                begin: begin.to_owned(),
                is_pattern,
            }),
            false => Err("no device model: write its name, such as \"Phone 3\", or its beginning and a star, such as \"Phone 3*\""),
        }
    }

    fn matches(&self, model: &str) -> bool {
        match self.is_pattern {
            true => model.starts_with(&self.begin),
            false => model == self.begin,
        }
    }
}

/// The facts that consent depends on. The default is an end user who has agreed to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    /// Who uses the device.
    pub user: UserType,
    /// Where, as a two-letter code of ISO 3166 in capitals, such as `DE`. Empty: not known; the rules of all regions apply.
    pub region: String,
    /// The device's model. Empty: not known; the rules of all models apply.
    pub model: String,
    /// What was agreed to on this device; `None`: nobody was asked.
    pub agreed: Option<Level>,
    /// What single Android users (user id / 100000) agreed to, instead.
    pub agreed_by_user: BTreeMap<u32, Level>,
}

impl Person {
    fn agreed(&self, uid: u32) -> Option<Level> {
        let own = self.agreed_by_user.get(&(uid / UIDS_OF_A_USER)).copied();
        own.or(self.agreed)
    }
}

/// What holds for one type of user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfUser {
    /// The highest level, whatever the user agrees to.
    pub most: Level,
    /// The level as long as nobody was asked.
    pub unasked: Level,
}

/// A further limit in some regions, or for some device models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionRule {
    /// Codes of the regions; `None`: all.
    pub regions: Option<Vec<String>>,
    /// Device models; `None`: all.
    pub models: Option<Vec<Model>>,
    /// Only for this type of user; `None`: for all.
    pub user: Option<UserType>,
    /// The highest level there.
    pub most: Level,
}

impl RegionRule {
    fn applies(&self, person: &Person) -> bool {
        let regions = self.regions.as_ref();
        let is_there = regions
            .is_none_or(|regions| person.region.is_empty() || regions.contains(&person.region));
        let models = self.models.as_ref();
        let is_it = models.is_none_or(|models| {
            person.model.is_empty() || models.iter().any(|model| model.matches(&person.model))
        });
        is_there && is_it && self.user.is_none_or(|user| user == person.user)
    }
}

/// Consent by type of user and by region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsentRules {
    /// The maker's own people.
    pub internal: OfUser,
    /// Public tests.
    pub beta: OfUser,
    /// Anybody else.
    pub end_user: OfUser,
    /// Regions; all rules that apply hold together.
    pub regions: Vec<RegionRule>,
}

impl Default for ConsentRules {
    /// An end user is asked first.
    fn default() -> Self {
        let unasked = |unasked| OfUser {
            most: Level::Full,
            unasked,
        };
        ConsentRules {
            internal: unasked(Level::Full),
            beta: unasked(Level::Summary),
            end_user: unasked(Level::None),
            regions: Vec::new(),
        }
    }
}

impl ConsentRules {
    /// The rules of a type of user.
    pub const fn of(&self, user: UserType) -> OfUser {
        match user {
            UserType::Internal => self.internal,
            UserType::Beta => self.beta,
            UserType::EndUser => self.end_user,
        }
    }

    /// The level for processes of this user id. Those of the system work for all Android users, so that the lowest choice holds.
    pub fn level(&self, person: &Person, uid: u32) -> Level {
        let rules = self.of(person.user);
        let mut level = person.agreed(uid).unwrap_or(rules.unasked).min(rules.most);
        if uid % UIDS_OF_A_USER < FIRST_APP {
            level = person
                .agreed_by_user
                .values()
                .copied()
                .fold(level, Level::min);
        }
        let regions = self.regions.iter().filter(|rule| rule.applies(person));
        regions.fold(level, |level, rule| level.min(rule.most))
    }
}
