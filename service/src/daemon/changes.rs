// SPDX-License-Identifier: Apache-2.0
//! What clients change in the engine: the policy, choices about consent, the recording switch, uploads.

use crate::consent::Choices;
use crate::engine::{Now, Report};
use crate::policy::Refused;

use super::decide::Decide;
use super::dispatch::Dispatcher;
use super::outlet::Outlet;

impl<D: Decide> Dispatcher<D> {
    /// Puts a policy in force.
    ///
    /// # Errors
    /// As [`Decide::load_policy`].
    pub fn load_policy(
        &mut self,
        now: Now,
        text: Option<&str>,
        outlet: &mut impl Outlet,
    ) -> Result<(), Refused> {
        let actions = self.engine.load_policy(now, text)?;
        self.perform(now, actions, outlet);
        self.drain(now, outlet);
        Ok(())
    }

    /// The policy that a client has loaded is lost.
    pub(super) fn lose_policy(&mut self, now: Now, outlet: &mut impl Outlet) {
        let actions = self.engine.lose_policy(now);
        self.perform(now, actions, outlet);
        self.drain(now, outlet);
    }

    /// Which report may be uploaded, of reports with these groups: its index; then it counts, and what says so is saved before
    /// anything that is given to the disk later.
    ///
    /// # Errors
    /// As [`Decide::admit_upload`].
    pub fn admit_upload(
        &mut self,
        now: Now,
        groups: &[Report],
        outlet: &mut impl Outlet,
    ) -> Result<usize, &'static str> {
        let (index, actions) = self.engine.admit_upload(now, groups)?;
        self.perform(now, actions, outlet);
        self.drain(now, outlet);
        Ok(index)
    }

    /// Puts the choices of users in force.
    pub fn choose(&mut self, now: Now, choices: &Choices, outlet: &mut impl Outlet) {
        let actions = self.engine.choose(now, choices);
        self.perform(now, actions, outlet);
        self.drain(now, outlet);
    }

    /// The recording switch.
    pub fn switch(&mut self, now: Now, is_on: bool, outlet: &mut impl Outlet) {
        let actions = self.engine.switch(now, is_on);
        self.perform(now, actions, outlet);
        self.drain(now, outlet);
    }
}
