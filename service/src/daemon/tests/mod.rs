// SPDX-License-Identifier: Apache-2.0
//! The dispatcher without a socket, and what is saved without a power supply.

mod crashed;
mod interruptions;
mod packets;

use hindsight_trace_format::protocol::FromService;
use hindsight_trace_format::shared::{Crash, ReadLimits};

use crate::engine::{About, Connection, Report};

use super::Outlet;

/// Carries nothing out, and remembers what matters to a test.
#[derive(Default)]
pub(super) struct Noted {
    /// Messages to processes.
    pub(super) sent: Vec<(Connection, FromService)>,
    /// What processes have noted in their memory.
    pub(super) crash: Option<Crash>,
    /// Reports.
    pub(super) writes: Vec<About>,
    /// The log.
    pub(super) log: Vec<String>,
}

impl Outlet for Noted {
    fn send(&mut self, connection: Connection, message: &FromService) -> bool {
        self.sent.push((connection, message.clone()));
        true
    }

    fn close(&mut self, _: Connection) {}

    fn crash(&self, _: Connection) -> Option<Crash> {
        self.crash
    }

    fn write(&mut self, _: Report, _: Connection, about: About, _: bool, _: ReadLimits) -> bool {
        self.writes.push(about);
        true
    }

    fn forget(&mut self, _: Connection) {}

    fn remove(&mut self, _: Connection) {}

    fn wake_at(&mut self, _: Option<u64>) {}

    fn answer(&mut self, _: u64, _: Result<Vec<String>, String>) {}

    fn save(&mut self, _: String) {}

    fn uses(&mut self, _: Report) {}

    fn log(&mut self, line: String) {
        self.log.push(line);
    }
}
