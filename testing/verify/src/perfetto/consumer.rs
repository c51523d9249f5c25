// SPDX-License-Identifier: Apache-2.0
//! What Perfetto's command line does: starts sessions, and reads their traces.

use std::path::Path;

use anyhow::{bail, Context as _, Result};
use hindsight_perfetto_source::ipc::{Client, Frame};
use hindsight_perfetto_source::proto::{Fields, Message};

/// A consumer with at most one session.
pub(super) struct Consumer {
    client: Client,
    /// The request that is answered when the session is over.
    enabled: u64,
}

impl Consumer {
    pub(super) fn connect(path: &Path) -> Result<Self> {
        let client = Client::connect(path, "ConsumerPort").context("no consumer of traced")?;
        Ok(Consumer { client, enabled: 0 })
    }

    /// Starts a session.
    pub(super) fn enable(&mut self, config: &Message) -> Result<()> {
        let mut request = Message::new();
        request.message(1, config);
        self.enabled = self.client.send("EnableTracing", &request, None)?;
        Ok(())
    }

    /// Waits until the session is over, by a trigger or by command.
    pub(super) fn wait_until_disabled(&mut self) -> Result<()> {
        let answer = self.answer(self.enabled)?;
        if let Some(error) = Fields::get(&answer, 3) {
            bail!(
                "the session ended: {}",
                String::from_utf8_lossy(error.bytes())
            );
        }
        Ok(())
    }

    /// Ends the session.
    pub(super) fn disable(&mut self) -> Result<()> {
        self.client.send("DisableTracing", &Message::new(), None)?;
        self.wait_until_disabled()
    }

    /// Flushes the session.
    pub(super) fn flush(&mut self) -> Result<()> {
        let mut request = Message::new();
        request.varint(1, 120_000);
        let number = self.client.send("Flush", &request, None)?;
        self.answer(number).map(drop)
    }

    /// Takes a copy of another consumer's session, which goes on.
    pub(super) fn clone_session(&mut self, name: &str) -> Result<()> {
        let mut request = Message::new();
        request.string(4, name);
        let number = self.client.send("CloneSession", &request, None)?;
        let answer = self.answer(number)?;
        if Fields::get(&answer, 1).map_or(0, |v| v.number()) != 1 {
            let error = Fields::get(&answer, 2).map_or(&[][..], |v| v.bytes());
            bail!(
                "the session is not cloned: {}",
                String::from_utf8_lossy(error)
            );
        }
        Ok(())
    }

    fn answer(&mut self, number: u64) -> Result<Vec<u8>> {
        loop {
            if let Frame::Reply {
                request,
                is_success,
                bytes,
                ..
            } = self.client.read_frame()?
            {
                if request == number {
                    anyhow::ensure!(is_success, "traced refused a request of the consumer");
                    return Ok(bytes);
                }
            }
        }
    }

    /// The trace of the session: all packets.
    pub(super) fn read(&mut self) -> Result<Vec<u8>> {
        let number = self.client.send("ReadBuffers", &Message::new(), None)?;
        let mut trace = Message::new();
        let mut packet = Vec::new();
        loop {
            let frame = self.client.read_frame()?;
            let Frame::Reply {
                request,
                is_success,
                has_more,
                bytes,
            } = frame
            else {
                continue;
            };
            if request != number {
                continue;
            }
            anyhow::ensure!(is_success, "traced does not hand out the trace");
            for (_, slice) in Fields::new(&bytes).filter(|(field, _)| *field == 2) {
                let slice = slice.bytes();
                packet.extend_from_slice(Fields::get(slice, 1).map_or(&[][..], |v| v.bytes()));
                if Fields::get(slice, 2).is_some_and(|v| v.number() != 0) {
                    trace.bytes(1, &packet);
                    packet.clear();
                }
            }
            if !has_more {
                return Ok(trace.as_bytes().to_vec());
            }
        }
    }
}
