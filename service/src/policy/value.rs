// SPDX-License-Identifier: Apache-2.0
//! Values of the policy's file: numbers in a range, and names.

use std::fmt;

use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::protocol::TriggerSeverity;
use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::consent::{is_region, Level, Model, UserType};
use super::model::Killed;
use super::selector::Package;

/// A whole number in a range.
#[derive(Clone, Copy)]
pub(super) struct Number<const MIN: u64, const MAX: u64>(pub(super) u64);

impl<const MIN: u64, const MAX: u64> Number<MIN, MAX> {
    /// It, where the range is one of `u32`.
    pub(super) const fn u32(self) -> u32 {
        const { assert!(MAX <= u32::MAX as u64) };
        self.0 as u32
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Number<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InRange<const MIN: u64, const MAX: u64>;
        impl<const MIN: u64, const MAX: u64> Visitor<'_> for InRange<MIN, MAX> {
            type Value = u64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {MIN} to {MAX}")
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<u64, E> {
                let found = u64::try_from(number).ok();
                let found = found.filter(|n| (MIN..=MAX).contains(n));
                found.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
            }
        }
        from.deserialize_any(InRange::<MIN, MAX>).map(Number)
    }
}

/// A value with a name, of a list of names.
#[derive(Clone)]
pub(super) struct Named<T>(pub(super) T);

/// What a text in a policy file names.
pub(super) trait Names: Sized {
    /// # Errors
    /// If nothing has this name: what may be there.
    fn parse(name: &str) -> Result<Self, String>;
}

fn one_of<T>(found: Option<T>, name: &str, all: &[&str]) -> Result<T, String> {
    found.ok_or_else(|| format!("\"{name}\" is not one of {}", all.join(", ")))
}

impl Names for Level {
    fn parse(name: &str) -> Result<Self, String> {
        one_of(Level::from_name(name), name, &Level::ALL.map(Level::name))
    }
}

impl Names for UserType {
    fn parse(name: &str) -> Result<Self, String> {
        let all = UserType::ALL.map(UserType::name);
        one_of(UserType::from_name(name), name, &all)
    }
}

impl Names for TriggerSeverity {
    fn parse(name: &str) -> Result<Self, String> {
        let all = TriggerSeverity::ALL.map(TriggerSeverity::name);
        one_of(TriggerSeverity::from_name(name), name, &all)
    }
}

impl Names for Killed {
    fn parse(name: &str) -> Result<Self, String> {
        let found = Killed::ALL.into_iter().find(|k| k.name() == name);
        one_of(found, name, &Killed::ALL.map(Killed::name))
    }
}

impl Names for Package {
    fn parse(name: &str) -> Result<Self, String> {
        Package::parse(name).map_err(|error| format!("\"{name}\" is {error}"))
    }
}

/// A code of a region.
pub(super) struct Region(pub(super) String);

impl Names for Region {
    fn parse(name: &str) -> Result<Self, String> {
        let wrong = || format!("\"{name}\" is not a region's code of two capitals, such as \"DE\"");
        is_region(name)
            .then(|| Region(name.into()))
            .ok_or_else(wrong)
    }
}

impl Names for Model {
    fn parse(name: &str) -> Result<Self, String> {
        Model::parse(name).map_err(|error| format!("\"{name}\" is {error}"))
    }
}

/// Bits of one category, or of all.
pub(super) struct Bits(pub(super) u32);

impl Names for Bits {
    fn parse(name: &str) -> Result<Self, String> {
        let all = Category::ALL.iter().fold(0, |bits, c| bits | c.bit());
        let found = match name {
            "all" => Some(all),
            name => Category::from_name(name).map(Category::bit),
        };
        let names: Vec<&str> = Category::ALL.iter().map(|c| c.name()).collect();
        let of_names = || format!("\"{name}\" is not one of all, {}", names.join(", "));
        found.map(Bits).ok_or_else(of_names)
    }
}

impl<'de, T: Names> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        T::parse(&name).map(Named).map_err(D::Error::custom)
    }
}

/// Events are never recorded without what readers need to understand them.
pub(super) fn bits(categories: &[Named<Bits>]) -> u32 {
    match categories {
        [] => 0,
        some => some
            .iter()
            .fold(Category::Recording.bit(), |all, c| all | c.0 .0),
    }
}
