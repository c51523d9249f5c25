// SPDX-License-Identifier: Apache-2.0
//! Choices about consent, from the command to the reports that they remove.
//!
//! A choice that allows less holds at once, and then is saved. A choice that allows more is saved first. So at no moment is
//! anything recorded by a choice that the next service would not find.

use std::collections::VecDeque;

use crate::consent::{Change, Choice, Choices, Whose, CHOICES, USERS_END};
use crate::engine::Now;
use crate::policy::{Level, FIRST_APP, UIDS_OF_A_USER};
use crate::report::Job;
use crate::store::{State, Store};
use crate::text::quoted;

use super::decide::Decide;
use super::dispatch::Dispatcher;
use super::links::Rim;
use super::log::Log;

/// The most choices that wait for the disk: each has a copy of all choices.
const MAX_PENDING: usize = 256;

/// A choice that a client has made.
struct Pending {
    client: u64,
    change: Change,
    /// All choices, this one among them.
    choices: Choices,
}

/// After a choice could not be saved, and was reported so: the choices that still wait must not bring it into force. They count
/// from lost ones on, and are saved so. Returns the newest choices.
fn without_failed(pending: &mut VecDeque<Pending>, jobs: &mut VecDeque<Job>) -> Choices {
    let mut newest = Choices::lost();
    for one in pending {
        // There are fewer users than before, so that there is room for this one.
        let next = newest.changed(&one.change);
        newest = next.unwrap_or_else(|_| Choices::lost());
        one.choices = newest.clone();
        for job in jobs.iter_mut() {
            match job {
                Job::SaveChoices { text, client } if *client == one.client => {
                    *text = newest.to_toml();
                }
                _ => {}
            }
        }
    }
    newest
}

/// Whether these choices are the last ones: on a disk that takes nothing, a newer one could not be saved, nor these made unreadable.
/// A full disk lets files be made unreadable.
fn still_saved(store: &mut Store, text: &str) -> Result<(), String> {
    match store.save_state(CHOICES, text) {
        Err(e) if !matches!(e.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) => Err(format!(
            "the disk takes nothing ({e}), so that a newer choice may be missing"
        )),
        _ => Ok(()),
    }
}

/// What a client chooses now.
fn choice_of(client: u64, level: Level, rim: &Rim) -> Choice {
    let by = rim.commands.as_ref().and_then(|c| c.uid(client));
    Choice {
        level,
        by: by.unwrap_or(u32::MAX),
        at_s: rim.now.realtime_ns / 1_000_000_000,
    }
}

fn chosen(choice: Choice) -> String {
    format!("\"chosen\":\"{}\"", choice.level.name())
}

/// The choices.
pub(super) struct Consent {
    in_force: Choices,
    /// With those that are not saved yet.
    newest: Choices,
    pending: VecDeque<Pending>,
}

impl Consent {
    /// The choices as they were saved. Lost ones allow nothing.
    pub(super) fn begin(store: &mut Store, log: &mut Log, now: Now) -> Self {
        let found = match store.load_state(CHOICES) {
            // Before the store counts as used: from then on missing choices are lost ones.
            State::Missing if !store.was_used() => {
                let none = Choices::default();
                let saved = store.save_state(CHOICES, &none.to_toml());
                saved.map(|()| none).map_err(|e| e.to_string())
            }
            State::Missing => Err("the file is missing".to_owned()),
            State::Damaged(why) => Err(why),
            State::Found(text) => Choices::from_toml(&text)
                .map_err(|e| e.to_string())
                .and_then(|choices| still_saved(store, &text).map(|()| choices)),
        };
        let choices = found.unwrap_or_else(|why| {
            let what = "what users agreed to is not known, so that nothing is recorded";
            let remedy = "ask again, and say 'consent set LEVEL'";
            log.line(now.boottime_ns, &format!("{what}: {why}; {remedy}"));
            Choices::lost()
        });
        Consent {
            newest: choices.clone(),
            in_force: choices,
            pending: VecDeque::new(),
        }
    }

    /// The choices that are in force.
    pub(super) fn choices(&self) -> &Choices {
        &self.in_force
    }

    /// Which choices hold, and what they come to.
    pub(super) fn show<D: Decide>(&self, dispatcher: &Dispatcher<D>) -> String {
        let allowed = dispatcher.engine().allowed();
        let (person, rules) = (&allowed.person, &allowed.policy.consent);
        let users = [0].into_iter().chain(self.in_force.users.keys().copied());
        let mut users: Vec<u32> = users.collect();
        users.dedup();
        let levels = users.into_iter().map(|user| {
            let level = rules.level(person, user * UIDS_OF_A_USER + FIRST_APP);
            format!("\"{user}\":\"{}\"", level.name())
        });
        let levels: Vec<String> = levels.collect();
        // Of any user without a choice of their own: there are more users than may have one.
        let other = (0..USERS_END).find(|user| !person.agreed_by_user.contains_key(user));
        let others = other.map_or(Level::None, |user| {
            rules.level(person, user * UIDS_OF_A_USER + FIRST_APP)
        });
        format!(
            "{{\"user_type\":\"{}\",\"region\":{},\"choices\":{},\"levels\":{{{}}},\"others\":\"{}\"}}",
            person.user.name(),
            quoted(&person.region),
            self.in_force.to_json(),
            levels.join(","),
            others.name()
        )
    }

    /// A client chooses.
    pub(super) fn choose<D: Decide>(
        &mut self,
        client: u64,
        (whose, level, ends_others): (Whose, Level, bool),
        dispatcher: &mut Dispatcher<D>,
        rim: &mut Rim,
    ) {
        let choice = choice_of(client, level, rim);
        let change = match ends_others {
            true => Change::ChooseForAll(choice),
            false => Change::Choose(whose, choice),
        };
        self.change(client, change, dispatcher, rim);
    }

    /// An Android user was removed: the choice and the reports go.
    pub(super) fn forget<D: Decide>(
        &mut self,
        client: u64,
        user: u32,
        dispatcher: &mut Dispatcher<D>,
        rim: &mut Rim,
    ) {
        let until_then = choice_of(client, Level::None, rim);
        let change = Change::Forget { user, until_then };
        self.change(client, change, dispatcher, rim);
    }

    fn change<D: Decide>(
        &mut self,
        client: u64,
        change: Change,
        dispatcher: &mut Dispatcher<D>,
        rim: &mut Rim,
    ) {
        let now = rim.now;
        if self.pending.len() >= MAX_PENDING {
            let busy = "too many choices wait for the disk; try again";
            return rim.answer_client(client, Err(busy.into()), None);
        }
        let choices = match self.newest.changed(&change) {
            Ok(choices) => choices,
            Err(message) => return rim.answer_client(client, Err(message), None),
        };
        self.in_force = self.in_force.until_saved(&choices, &change);
        dispatcher.choose(now, &self.in_force, rim);
        rim.jobs.push_back(Job::SaveChoices {
            text: choices.to_toml(),
            client,
        });
        self.newest = choices.clone();
        self.pending.push_back(Pending {
            client,
            change,
            choices,
        });
    }

    /// The oldest choice that waited is saved, or cannot be.
    pub(super) fn saved<D: Decide>(
        &mut self,
        result: Result<(), String>,
        dispatcher: &mut Dispatcher<D>,
        rim: &mut Rim,
    ) {
        let Some(pending) = self.pending.pop_front() else {
            return;
        };
        match result {
            Ok(()) if self.pending.is_empty() => self.in_force = pending.choices,
            // The newer ones may allow less; they are saved in a moment.
            Ok(()) => {}
            Err(_) => {
                self.in_force = Choices::lost();
                self.newest = without_failed(&mut self.pending, &mut rim.jobs);
            }
        }
        dispatcher.choose(rim.now, &self.in_force, rim);
        if let Err(message) = result {
            let message = format!("{message}; nothing is recorded until a choice can be saved");
            return rim.answer_client(pending.client, Err(message), None);
        }
        let allowed = dispatcher.engine().allowed();
        let (user, what) = match pending.change {
            Change::Choose(Whose::User(user), choice) => (user, chosen(choice)),
            Change::Choose(Whose::Device, choice) | Change::ChooseForAll(choice) => {
                (0, chosen(choice))
            }
            Change::Forget { user, .. } => (user, format!("\"forgotten\":{user}")),
        };
        let rules = &allowed.policy.consent;
        let level = rules.level(&allowed.person, user * UIDS_OF_A_USER + FIRST_APP);
        let line = format!("{{{what},\"level\":\"{}\"}}", level.name());
        let client = (pending.client, line);
        match pending.change {
            Change::Forget { user, .. } => {
                // Also if the choices are lost. No report of the user has begun since the command came.
                rim.jobs.push_back(Job::RemoveOfUser { user, client });
                self.enforce(dispatcher, rim);
            }
            // Also if the others' choices are lost.
            Change::Choose(Whose::User(user), _) if self.in_force.are_lost => {
                rim.jobs.push_back(Job::Enforce {
                    allowed: Box::new(dispatcher.engine().allowed()),
                    of_user: Some(user),
                    client: Some(client),
                });
            }
            _ => self.enforce_for(dispatcher, rim, Some(client)),
        }
    }

    /// Removes reports that are not allowed any more.
    pub(super) fn enforce<D: Decide>(&self, dispatcher: &Dispatcher<D>, rim: &mut Rim) {
        self.enforce_for(dispatcher, rim, None);
    }

    fn enforce_for<D: Decide>(
        &self,
        dispatcher: &Dispatcher<D>,
        rim: &mut Rim,
        client: Option<(u64, String)>,
    ) {
        // Lost choices are no withdrawal: reports wait for the next choice, and nothing leaves until then.
        match (self.in_force.are_lost, client) {
            (false, client) => rim.jobs.push_back(Job::Enforce {
                allowed: Box::new(dispatcher.engine().allowed()),
                of_user: None,
                client,
            }),
            (true, Some((client, line))) => rim.answer_client(client, Ok(vec![line]), None),
            (true, None) => {}
        }
    }
}
