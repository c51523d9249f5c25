// SPDX-License-Identifier: Apache-2.0
//! Tells all threads which calls they take back.

use std::time::Duration;

use crate::rewind::Rewind;
use crate::session::Session;

/// Time after which the counter's rate is known at the latest.
const RATE_IS_KNOWN_AFTER: Duration = Duration::from_millis(25);

/// Sets the limit of all threads, and sets it again as soon as the counter's rate is known.
pub(crate) struct Rewinding<'a> {
    session: &'a Session,
    is_exact: bool,
}

impl<'a> Rewinding<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        let (_, is_exact) = session.rewind.ticks();
        Rewinding { session, is_exact }
    }

    /// Changes the limit.
    pub(crate) fn set(&mut self, limit: Rewind) {
        self.session.rewind.set(limit);
        self.tell();
    }

    /// If the limit of the threads rests on an assumed rate: sets it again. Returns the time until the next attempt; `None`
    /// if the limit is exact.
    pub(crate) fn make_exact(&mut self) -> Option<Duration> {
        if self.is_exact {
            return None;
        }
        self.tell();
        (!self.is_exact).then_some(RATE_IS_KNOWN_AFTER)
    }

    fn tell(&mut self) {
        let (ticks, is_exact) = self.session.rewind.ticks();
        self.is_exact = is_exact;
        for thread in self.session.registry.threads() {
            thread.trace().set_rewind_below(|| ticks);
        }
    }
}
