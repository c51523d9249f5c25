// SPDX-License-Identifier: Apache-2.0
//! A process as the engine may meet it: honest, silent or lying.

use std::collections::VecDeque;

use hindsight_trace_format::protocol::{FromProcess, FromService, Hello, TakeOutcome, VERSIONS};
use hindsight_trace_format::shared::SHARED_VERSION;

use crate::engine::{Connection, Peer};

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub(super) peer: Peer,
    pub(super) name: String,
    /// The process is a zygote's child that has no name of its own yet.
    pub(super) is_unnamed: bool,
    pub(super) ring_bytes: u64,
    pub(super) other_bytes: u64,
    /// It does what the service says. Others answer only what the test makes up.
    pub(super) is_honest: bool,
    pub(super) connection: Option<Connection>,
    pub(super) is_foreground: bool,
    /// Rings in use: as many as it may.
    pub(super) in_use: u32,
    /// The report whose rings are taken, and their number.
    pub(super) taken: Option<(u64, u32)>,
    pub(super) categories: u32,
    inbox: VecDeque<FromService>,
}

impl Actor {
    pub(super) fn new(peer: Peer, name: &str, sizes: (u64, u64), is_honest: bool) -> Self {
        Actor {
            peer,
            name: name.into(),
            is_unnamed: false,
            ring_bytes: sizes.0,
            other_bytes: sizes.1,
            is_honest,
            connection: None,
            is_foreground: false,
            in_use: 0,
            taken: None,
            categories: 0,
            inbox: VecDeque::new(),
        }
    }

    pub(super) fn hello(&self) -> Hello {
        Hello {
            versions: VERSIONS,
            memory_version: SHARED_VERSION,
            name: match self.is_unnamed {
                true => "zygote64".into(),
                false => self.name.clone(),
            },
            ring_bytes: self.ring_bytes,
            other_bytes: self.other_bytes,
            held: self.rings(),
            is_foreground: self.is_foreground,
            taken: self.taken.map_or(0, |(report, _)| report),
        }
    }

    /// Rings in memory.
    pub(super) fn rings(&self) -> u32 {
        self.in_use + self.taken.map_or(0, |(_, rings)| rings)
    }

    pub(super) fn connect(&mut self, connection: Connection) {
        self.connection = Some(connection);
        self.inbox.clear();
    }

    pub(super) fn lose(&mut self) {
        self.connection = None;
        self.inbox.clear();
    }

    pub(super) fn receive(&mut self, message: FromService) {
        self.inbox.push_back(message);
    }

    /// Carries one message out. Returns the answer.
    pub(super) fn step(&mut self) -> Option<FromProcess> {
        if !self.is_honest {
            return None;
        }
        match self.inbox.pop_front()? {
            FromService::Configure(configuration) => {
                self.in_use = configuration.call_rings;
                self.categories = configuration.categories;
                let rings = self.rings();
                Some(FromProcess::Held { rings })
            }
            FromService::Take { report } => {
                let outcome = if self.taken.is_some() {
                    TakeOutcome::Refused
                } else if self.in_use == 0 && self.categories == 0 {
                    TakeOutcome::Nothing
                } else {
                    self.taken = Some((report, self.in_use));
                    TakeOutcome::Taken
                };
                Some(FromProcess::Taken { report, outcome })
            }
            FromService::Release { report } => {
                self.taken.take_if(|(taken, _)| *taken == report);
                None
            }
            FromService::Room { bytes } => {
                self.other_bytes = self.other_bytes.max(bytes);
                None
            }
            FromService::Welcome { .. }
            | FromService::Refused { .. }
            | FromService::Detectors(_) => None,
        }
    }
}
