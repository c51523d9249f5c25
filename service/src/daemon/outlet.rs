// SPDX-License-Identifier: Apache-2.0
//! What carries out the engine's actions: the loop, or a model of it in tests and in the fuzzer.

use hindsight_trace_format::protocol::FromService;
use hindsight_trace_format::shared::{Crash, ReadLimits};

use crate::engine::{About, Connection, Report, Service};

/// Carries actions out.
pub trait Outlet {
    /// Sends a message. False: the other side does not read. If it is gone, its hang-up tells so when all is read that it has said.
    fn send(&mut self, connection: Connection, message: &FromService) -> bool;
    /// The crash that the process has noted in its memory, if there is one.
    fn crash(&self, connection: Connection) -> Option<Crash> {
        let _ = connection;
        None
    }
    /// Whether the process has noted in its memory that it ends by itself.
    fn has_left(&self, connection: Connection) -> bool {
        let _ = connection;
        false
    }
    /// The transactions that processes have noted that they serve, or have served.
    fn services(&self) -> Vec<Service> {
        Vec::new()
    }
    /// Closes the connection; the end of the process and its memory may still be of interest.
    fn close(&mut self, connection: Connection);
    /// Writes a report, later, and reads so much at most. False: it cannot be done.
    fn write(
        &mut self,
        report: Report,
        connection: Connection,
        about: About,
        ended: bool,
        limits: ReadLimits,
    ) -> bool;
    /// Keeps the names of the boot image that the process gives, if it is trusted; reads so many bytes of names at most.
    fn learn_names(&mut self, connection: Connection, most: u64) {
        let _ = (connection, most);
    }
    /// Gives the process's memory back.
    fn forget(&mut self, connection: Connection);
    /// Nothing of the process is of interest any more.
    fn remove(&mut self, connection: Connection);
    /// [`Event::Woke`] is wanted at this time.
    fn wake_at(&mut self, at: Option<u64>);
    /// Answers a request by lines, or an error.
    fn answer(&mut self, reply: u64, result: Result<Vec<String>, String>);
    /// Saves the engine's state, before any report that is written later.
    fn save(&mut self, state: String);
    /// A report has this number: the next service must not use it.
    fn uses(&mut self, report: Report);
    /// Writes a line into the log.
    fn log(&mut self, line: String);
}
