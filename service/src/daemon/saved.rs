// SPDX-License-Identifier: Apache-2.0
//! What a service before this one has saved: the policy that a client has loaded, and the recording switch.

use crate::engine::Now;
use crate::store::{State, Store};

use super::decide::Decide;
use super::dispatch::{Dispatcher, Outlet};
use super::links::Rim;

/// Name of the policy in the store that a client has loaded.
pub(super) const POLICY: &str = "policy";
/// Name of the recording switch in the store: there only if it is off.
pub(super) const SWITCH: &str = "switch";

/// Holds while the policy that a client has loaded is lost.
const NO_POLICY: &str =
    "# The policy that was loaded last cannot be read: load it again, or say 'policy default'.
version = 1
enabled = false
";

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
            State::Found(text) => dispatcher.load_policy(now, Some(&text), rim).err(),
        };
        let is_lost = problem.is_some();
        if let Some(why) = problem {
            let what =
                "the policy that was loaded last is lost, so that nothing is recorded or uploaded";
            let remedy = "load it again, or say 'policy default'";
            rim.log(format!("{what}: {why}; {remedy}"));
            if let Err(e) = dispatcher.load_policy(now, Some(NO_POLICY), rim) {
                rim.log(format!("the policy that records nothing: {e}"));
                dispatcher.switch(now, false, rim);
            }
        }
        if self.is_switched_off {
            rim.log("recording is switched off: 'switch on' ends that".to_owned());
            dispatcher.switch(now, false, rim);
        }
        is_lost
    }
}
