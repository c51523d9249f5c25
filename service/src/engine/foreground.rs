// SPDX-License-Identifier: Apache-2.0
//! How often processes may claim the foreground.
//!
//! A claim takes rings from other processes, and only the process itself makes it: without a limit, two processes that claim in
//! turns would keep the rings of everybody moving.

use std::collections::BTreeMap;

/// So many claims of a user id count at once.
pub(super) const CLAIMS: u64 = 6;
/// After that, one claim counts each of these times, ns.
pub(super) const CLAIM_NS: u64 = 10_000_000_000;
/// The most user ids that are remembered. Each is forgotten when it has not claimed for a while.
const MAX_UIDS: usize = 1024;

/// The claims of all user ids.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    /// When all claims of a user id are allowed again, ns.
    full_ns: BTreeMap<u32, u64>,
}

impl Claims {
    /// Whether a claim counts now; then it is one of the allowed ones.
    ///
    /// # Errors
    /// The time from which on the next one counts, ns.
    pub(super) fn claim(&mut self, uid: u32, now_ns: u64) -> Result<(), u64> {
        self.full_ns.retain(|_, full_ns| *full_ns > now_ns);
        let is_known = self.full_ns.contains_key(&uid);
        if !is_known && self.full_ns.len() >= MAX_UIDS {
            return Err(now_ns.saturating_add(CLAIM_NS));
        }
        let full_ns = self.full_ns.entry(uid).or_insert(now_ns);
        let allowed_ns = full_ns.saturating_sub((CLAIMS - 1) * CLAIM_NS);
        if allowed_ns > now_ns {
            return Err(allowed_ns);
        }
        *full_ns = full_ns.saturating_add(CLAIM_NS);
        Ok(())
    }

    /// When the next claim of the user id counts, ns.
    pub(super) fn allowed_ns(&self, uid: u32, now_ns: u64) -> u64 {
        match self.full_ns.get(&uid) {
            Some(full_ns) => full_ns.saturating_sub((CLAIMS - 1) * CLAIM_NS),
            None if self.full_ns.len() >= MAX_UIDS => now_ns.saturating_add(CLAIM_NS),
            None => now_ns,
        }
    }
}
