// SPDX-License-Identifier: Apache-2.0
//! Rules that are in force for a while.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hindsight_trace_format::library_rules;
use tempfile::NamedTempFile;

use crate::rules_file::{with_rules, AddedRule};
use crate::{ControlSocket, Error, RuleState, Status};

/// The category of the events of rules.
const CATEGORY: &str = "rules";

/// Rules in force in addition to those that the process had. Dropped, it puts those before into force again; errors are then
/// lost, unlike with [`restore`](Self::restore).
#[derive(Debug)]
pub struct AddedRules {
    socket: ControlSocket,
    /// The rules of this file are in force now.
    file: NamedTempFile,
    /// The file of the rules before; `None`: there were none.
    before: Option<PathBuf>,
    /// The added rules, with the names that their events have.
    rules: Vec<AddedRule>,
    is_restored: bool,
}

impl AddedRules {
    /// Puts rules into force, besides those that are.
    ///
    /// # Errors
    /// If one of them cannot be followed, or the process does not record their events. Then the rules are as before.
    pub fn put_into_force(socket: &ControlSocket, rules: &[AddedRule]) -> Result<Self, Error> {
        let status = socket.status()?;
        if status.switched_off {
            return Err(Error::SwitchedOff);
        }
        let categories = &status.events.categories;
        if !categories.iter().any(|name| name == CATEGORY) {
            // The category `recording` is always on, and is none that a command takes.
            let others = categories.iter().filter(|name| *name != "recording");
            let wanted: Vec<&str> = others.map(String::as_str).chain([CATEGORY]).collect();
            return Err(Error::NoRules {
                wanted: wanted.join("+"),
            });
        }
        let before = status.rules.file;
        let text = match &before {
            Some(path) if path == Path::new(library_rules::NAME) => library_rules::TEXT.to_owned(),
            Some(path) => fs::read_to_string(path).map_err(|error| Error::RulesInForce {
                path: path.clone(),
                error,
            })?,
            None => String::new(),
        };
        let mut rules = rules.to_vec();
        let file = write_file(&with_rules(&text, &mut rules)).map_err(Error::File)?;
        let added = AddedRules {
            socket: socket.clone(),
            file,
            before,
            rules,
            is_restored: false,
        };
        // Rules that were there before may fail as they did before. From here on, an error restores the rules.
        let answer = socket.ask(&format!("rules {}", added.file.path().display()));
        let status = socket.status()?;
        if status.rules.file.as_deref() != Some(added.file.path()) {
            answer?;
            return Err(Error::Failed(status.rules.error));
        }
        added.check(&status)?;
        Ok(added)
    }

    /// The added rules, with the names that their events have.
    pub fn rules(&self) -> &[AddedRule] {
        &self.rules
    }

    /// The states of the added rules, in their order, and what their events may miss.
    ///
    /// # Errors
    /// If the process does not answer, or one of the rules cannot be followed (any more).
    pub fn states(&self) -> Result<Vec<(RuleState, String)>, Error> {
        self.check(&self.socket.status()?)
    }

    fn check(&self, status: &Status) -> Result<Vec<(RuleState, String)>, Error> {
        let state = |rule: &AddedRule| match status.rule(rule.name()) {
            Some(found) if found.state == RuleState::Failed => {
                Err(Error::Failed(with_remedy(&found.message)))
            }
            Some(found) => Ok((found.state, found.message.clone())),
            None => Err(Error::ChangedMeanwhile {
                file: name_of_file(status),
            }),
        };
        self.rules.iter().map(state).collect()
    }

    /// Puts the rules before into force again.
    ///
    /// # Errors
    /// If the process does not answer, or another client has put other rules into force meanwhile: those stay.
    pub fn restore(&mut self) -> Result<(), Error> {
        if self.is_restored {
            return Ok(());
        }
        let status = self.socket.status()?;
        self.is_restored = true;
        if status.rules.file.as_deref() != Some(self.file.path()) {
            return Err(Error::ChangedMeanwhile {
                file: name_of_file(&status),
            });
        }
        let Some(before) = &self.before else {
            return self.socket.ask("rules off").map(drop);
        };
        // Rules of the file may fail, as they did before.
        let answer = self.socket.ask(&format!("rules {}", before.display()));
        match self.socket.status()?.rules.file.as_ref() == Some(before) {
            true => Ok(()),
            false => answer.map(drop),
        }
    }
}

impl Drop for AddedRules {
    fn drop(&mut self) {
        let restored = self.restore();
        // The file goes in any case: a process reads it once.
        let _ = restored;
    }
}

/// The reason why a rule failed, and what to do.
fn with_remedy(message: &str) -> String {
    match message.contains("declares no field") {
        true => {
            format!("{message}: name the class that declares it; a nested class is Outer$Inner")
        }
        false => message.to_owned(),
    }
}

fn name_of_file(status: &Status) -> Option<String> {
    let file = status.rules.file.as_ref();
    file.map(|path| format!("the rules of {}", path.display()))
}

/// A file that the process can read even if it has another user.
fn write_file(text: &str) -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix("hindsight-rules-")
        .suffix(".txt")
        .permissions(Permissions::from_mode(0o644))
        .tempfile()?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}
