// SPDX-License-Identifier: Apache-2.0
//! What clients have said, saved for the next service.

use std::io;

use crate::store::{State, Store};

/// A text to be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saving {
    /// Its name in the store.
    pub name: &'static str,
    /// The text; `None` removes what was saved.
    pub text: Option<String>,
    /// What follows if it cannot be saved.
    pub if_not_saved: IfNotSaved,
}

/// What follows if a text cannot be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfNotSaved {
    /// The next service must not find the old text, which may allow more: it is made unreadable. What is saved after it still is.
    Spoil,
    /// The old text stays, and nothing is saved after it.
    Stop,
}

/// Saves these texts in their order. What is there already is not written again.
///
/// # Errors
/// What could not be saved, and what the next start will find, for people.
pub fn save(store: &mut Store, texts: &[Saving]) -> Result<(), String> {
    let mut problems = Vec::new();
    for saving in texts {
        let Err(e) = saving.save(store) else {
            continue;
        };
        let problem = saving.not_saved(store, &e);
        store.note(format!("{}: {problem}", saving.name));
        problems.push(problem);
        if saving.if_not_saved == IfNotSaved::Stop {
            break;
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("; ")),
    }
}

impl Saving {
    fn save(&self, store: &mut Store) -> io::Result<()> {
        let Some(text) = &self.text else {
            return store.remove_state(self.name);
        };
        match store.load_state(self.name) {
            State::Found(old) if old == *text => Ok(()),
            _ => store.save_state(self.name, text),
        }
    }

    fn not_saved(&self, store: &mut Store, problem: &io::Error) -> String {
        let next = match self.if_not_saved {
            IfNotSaved::Stop => "nothing else is saved: say it again".to_owned(),
            IfNotSaved::Spoil => match store.spoil_state(self.name) {
                Ok(()) => "the next start records nothing until it is said again".to_owned(),
                Err(e) => format!("the next start finds the old one, which stays: {e}"),
            },
        };
        let name = self.name;
        format!("it holds, but '{name}' could not be saved: {problem}; {next}")
    }
}
