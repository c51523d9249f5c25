// SPDX-License-Identifier: Apache-2.0
//! The parts of the service, which its start puts together.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::commands::Patience;
use crate::os::{Signals, System};
use crate::store::Store;

use super::limits::Limits;
use super::log::Log;

/// What the daemon is made of.
pub struct Parts<D> {
    /// Decides.
    pub engine: D,
    /// The system.
    pub system: Arc<dyn System>,
    /// The reports.
    pub store: Store,
    /// Where processes connect: a listening socket of packets.
    pub listener: OwnedFd,
    /// Where clients connect: a listening socket of a stream.
    pub commands: Option<OwnedFd>,
    /// Where the uploader connects, a listening socket of a stream, and its user id.
    pub uploads: Option<(OwnedFd, u32)>,
    /// Nothing leaves but while a client allows it.
    pub uploads_need_permission: bool,
    /// Signals that end the service.
    pub signals: Option<Signals>,
    /// Limits of processes.
    pub limits: Limits,
    /// Limits of clients.
    pub patience: Patience,
    /// The log.
    pub log: Log,
}

/// Why the service does not start.
#[derive(Debug, thiserror::Error)]
#[error("the system has no {0} for the service: {1}")]
pub struct StartError(pub(super) &'static str, pub(super) io::Error);
