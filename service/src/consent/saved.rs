// SPDX-License-Identifier: Apache-2.0
//! The choices as a text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use super::{Choice, Choices, MAX_USERS, USERS_END};

/// Name of the choices in the store.
pub const CHOICES: &str = "consent";

/// A text has no choices in it. Nothing is allowed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the choices about consent cannot be read: {0}")]
pub struct ChoicesError(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChoicesFile {
    version: u64,
    #[serde(default)]
    are_lost: bool,
    device: Option<Choice>,
    #[serde(default)]
    users: BTreeMap<String, Choice>,
}

impl Choices {
    /// The choices as a text.
    pub fn to_toml(&self) -> String {
        let mut text = format!("version = 1\nare_lost = {}\n", self.are_lost);
        let of_users = self.users.iter();
        let of_users = of_users.map(|(user, choice)| (format!("users.{user}"), choice));
        let of_device = self.device.iter().map(|choice| ("device".into(), choice));
        for (name, choice) in of_device.chain(of_users) {
            let Choice { level, by, at_s } = choice;
            let level = level.name();
            let _ = writeln!(
                text,
                "[{name}]\nlevel = \"{level}\"\nby = {by}\nat_s = {at_s}"
            );
        }
        text
    }

    /// From a text of [`to_toml`](Self::to_toml).
    ///
    /// # Errors
    /// If it is no such text: use [`Choices::lost`] then.
    pub fn from_toml(text: &str) -> Result<Self, ChoicesError> {
        let wrong = |why: String| ChoicesError(why);
        let file: ChoicesFile = toml::from_str(text).map_err(|e| wrong(e.message().to_owned()))?;
        if file.version != 1 {
            return Err(wrong(format!("they are of version {}", file.version)));
        }
        if file.users.len() > MAX_USERS {
            return Err(wrong("there are too many users".into()));
        }
        let user = |name: String| {
            let number = name.parse().ok().filter(|user| *user < USERS_END);
            number.ok_or_else(|| wrong(format!("'{name}' is no Android user")))
        };
        let users = file.users.into_iter();
        let users = users.map(|(name, choice)| Ok((user(name)?, choice)));
        Ok(Choices {
            device: file.device,
            users: users.collect::<Result<_, ChoicesError>>()?,
            are_lost: file.are_lost,
        })
    }

    /// One line of JSON for people and tools.
    pub fn to_json(&self) -> String {
        let of = |choice: &Choice| {
            let Choice { level, by, at_s } = choice;
            let level = level.name();
            format!("{{\"level\":\"{level}\",\"by\":{by},\"at_s\":{at_s}}}")
        };
        let device = self.device.as_ref().map_or("null".into(), of);
        let users = self.users.iter();
        let users: Vec<String> = users
            .map(|(user, choice)| format!("\"{user}\":{}", of(choice)))
            .collect();
        format!(
            "{{\"device\":{device},\"users\":{{{}}},\"are_lost\":{}}}",
            users.join(","),
            self.are_lost
        )
    }
}
