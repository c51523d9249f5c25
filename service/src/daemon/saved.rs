// SPDX-License-Identifier: Apache-2.0
//! What a service before this one has saved: the policy that a client has loaded, and the recording switch.

use crate::engine::Now;
use crate::policy::{Accepted, Refused, Trust};
use crate::store::{State, Store};

use super::decide::Decide;
use super::dispatch::Dispatcher;
use super::links::Rim;
use super::outlet::Outlet;

/// Name of the policy in the store that a client has loaded.
pub(super) const POLICY: &str = "policy";
/// Name of the recording switch in the store: there only if it is off.
pub(super) const SWITCH: &str = "switch";

/// Name of the highest revision of a signed policy that was in force.
const REVISION: &str = "revision";

/// What is saved of it before a policy is: an interrupted service leaves no policy that is newer than this. Nothing, if it is lost.
pub(super) fn saved_revision(accepted: Accepted) -> Option<(&'static str, String)> {
    match accepted {
        Accepted::UpTo(revision) => Some((REVISION, revision.to_string())),
        Accepted::Lost => None,
    }
}

/// The highest revision of a signed policy that was in force. If it is lost, it is the one of the signed policy that was loaded last;
/// without such a policy nobody knows which ones are old.
pub fn read_accepted(store: &mut Store, trust: &Trust) -> Accepted {
    let problem = match store.load_state(REVISION) {
        State::Found(text) => match text.parse() {
            Ok(revision) => return Accepted::UpTo(revision),
            Err(_) => "it is no number".to_owned(),
        },
        // Before the store counts as used: from then on a missing revision is a lost one.
        State::Missing if !store.was_used() || store.knew_no_signatures() => {
            return keep(store, saved_by(store, trust).unwrap_or(0));
        }
        State::Missing => "it is missing".to_owned(),
        State::Damaged(why) => why,
    };
    let what = format!("the highest revision of a signed policy: {problem}");
    match saved_by(store, trust) {
        Some(revision) => {
            store.note(format!(
                "{what}; it is {revision}, as the policy that was loaded last has it"
            ));
            keep(store, revision)
        }
        None if trust.keys.is_some() => {
            store.note(format!(
                "{what}; no signed policy is taken until the device's data are erased"
            ));
            Accepted::Lost
        }
        None => Accepted::Lost,
    }
}

/// The revision of the signed policy that was loaded last.
fn saved_by(store: &Store, trust: &Trust) -> Option<u64> {
    let State::Found(text) = store.load_state(POLICY) else {
        return None;
    };
    let saved = trust.read(&text).ok()?;
    saved.key.map(|_| saved.policy.revision)
}

fn keep(store: &mut Store, revision: u64) -> Accepted {
    if let Err(e) = store.save_state(REVISION, &revision.to_string()) {
        store.note(format!(
            "the highest revision of a signed policy cannot be saved: {e}"
        ));
    }
    Accepted::UpTo(revision)
}

/// What was found in the store.
pub(super) struct Saved {
    policy: State,
    is_switched_off: bool,
}

impl Saved {
    /// Reads it.
    pub(super) fn load(store: &mut Store) -> Self {
        Saved {
            policy: store.load_state(POLICY),
            // A damaged file says that there was a switch.
            is_switched_off: !matches!(store.load_state(SWITCH), State::Missing),
        }
    }

    /// Puts the saved policy in force, and the recording switch. True: the policy is lost. It may have forbidden what the policy of
    /// the start allows, so that nothing is recorded.
    pub(super) fn put_in_force<D: Decide>(
        self,
        dispatcher: &mut Dispatcher<D>,
        now: Now,
        rim: &mut Rim,
    ) -> bool {
        let problem = match self.policy {
            State::Missing => None,
            State::Damaged(why) => Some(why),
            State::Found(text) => match dispatcher.load_policy(now, Some(&text), rim) {
                Ok(()) => None,
                // A new ROM with a newer policy.
                Err(older @ Refused::OlderThanRom { .. }) => {
                    rim.log(format!("the ROM's own policy is in force: {older}"));
                    None
                }
                Err(refused) => Some(refused.to_string()),
            },
        };
        let is_lost = problem.is_some();
        if let Some(why) = problem {
            let what =
                "the policy that was loaded last is lost, so that nothing is recorded or uploaded";
            let remedy = "load it again, or say 'policy default'";
            rim.log(format!("{what}: {why}; {remedy}"));
            dispatcher.lose_policy(now, rim);
        }
        if self.is_switched_off {
            rim.log("recording is switched off: 'switch on' ends that".to_owned());
            dispatcher.switch(now, false, rim);
        }
        is_lost
    }
}
