// SPDX-License-Identifier: Apache-2.0
//! What a service before this one has saved: the policy that a client has loaded, and the recording switch.

use crate::engine::Now;
use crate::policy::{Accepted, Refused, Trust};
use crate::report::{IfNotSaved, Saving};
use crate::store::{State, Store};

use super::decide::Decide;
use super::dispatch::Dispatcher;
use super::outlet::Outlet;

/// Name of the policy in the store that a client has loaded.
pub(super) const POLICY: &str = "policy";
/// Name of the recording switch in the store: there only if it is off.
pub(super) const SWITCH: &str = "switch";

/// Name of the highest revision of a signed policy that was in force.
const REVISION: &str = "revision";

/// What is saved of a policy that was loaded, in this order. `before`, `after`: the highest revisions of signed policies that were in
/// force until then, and with this one.
///
/// At each moment the disk has the highest revision, in its own file or in the saved policy: so a signed policy that raises it is
/// saved first, and a policy that replaces a signed one without raising it comes after the revision. An interrupted service leaves
/// the old policy or the new one, and none that is older than the revision.
pub(super) fn texts_of_policy(
    before: Accepted,
    after: Accepted,
    text: Option<String>,
) -> Vec<Saving> {
    let policy = Saving {
        name: POLICY,
        text,
        if_not_saved: IfNotSaved::Spoil,
    };
    let Accepted::UpTo(revision) = after else {
        return vec![policy];
    };
    let revision = Saving {
        name: REVISION,
        text: Some(revision.to_string()),
        if_not_saved: IfNotSaved::Stop,
    };
    match before == after {
        true => vec![revision, policy],
        false => vec![policy, revision],
    }
}

/// The highest revision of a signed policy that was in force: the saved one, or that of the saved policy, if it is higher, because
/// an interrupted service has saved no more. If the saved one is lost, it is that of the policy; without such a policy nobody knows
/// which ones are old.
pub fn read_accepted(store: &mut Store, trust: &Trust) -> Accepted {
    let problem = match store.load_state(REVISION) {
        State::Found(text) => match text.parse() {
            Ok(revision) => {
                return match saved_by(store, trust) {
                    Some(newer) if newer > revision => keep(store, newer),
                    _ => Accepted::UpTo(revision),
                };
            }
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
        outlet: &mut impl Outlet,
    ) -> bool {
        let problem = match self.policy {
            State::Missing => None,
            State::Damaged(why) => Some(why),
            State::Found(text) => match dispatcher.load_policy(now, Some(&text), outlet) {
                Ok(()) => None,
                // A new ROM with a newer policy.
                Err(older @ Refused::OlderThanRom { .. }) => {
                    outlet.log(format!("the ROM's own policy is in force: {older}"));
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
            outlet.log(format!("{what}: {why}; {remedy}"));
            dispatcher.lose_policy(now, outlet);
        }
        if self.is_switched_off {
            outlet.log("recording is switched off: 'switch on' ends that".to_owned());
            dispatcher.switch(now, false, outlet);
        }
        is_lost
    }
}
