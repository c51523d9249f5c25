// SPDX-License-Identifier: Apache-2.0
//! What traced processes and the system service (hindsightd) say to each other.
//!
//! Each message is one packet of a Unix socket of type `SOCK_SEQPACKET`: a number that says which message it is (4 bytes), then its
//! fields, little-endian; texts are a length in bytes (4 bytes) and UTF-8. Only the first message of a process,
//! [`FromProcess::Hello`], comes with a file descriptor: its shared memory ([`crate::shared`]).
//!
//! ```text
//! process                                service
//! Hello, memory           ──►
//!                         ◄──            Welcome, Configure          or Refused, and the connection ends
//! Foreground              ──►
//!                         ◄──            Configure                   whenever the configuration or the number of rings changes
//! Held                    ──►                                        so many rings of calls are in use now
//! Trigger                 ──►
//!                         ◄──            Take                        also without a trigger
//! Taken                   ──►                                        the rings do not change any more: the service reads them
//!                         ◄──            Release                     the process uses the rings again
//! Farewell                ──►                                        the process ends by itself
//! ```
//!
//! Both sides belong to different builds at times: a reader ignores messages that it does not know, and bytes after the last field
//! that it knows. A field is never removed. [`Hello::versions`] is for changes that this does not allow.
//!
//! Neither side ever waits for the other one: packets are sent without blocking, and a side that does not read loses its connection.

mod messages;

pub use messages::{
    Configuration, FromProcess, FromService, Hello, TakeOutcome, Trigger, TriggerSeverity,
};

/// The versions of the protocol that this build speaks, oldest and newest.
pub const VERSIONS: (u32, u32) = (1, 1);
/// Longest message, bytes. A longer packet is damaged or hostile.
pub const MAX_MESSAGE_BYTES: usize = 4096;
/// Longest text in a message, bytes; a longer one is cut at a character.
pub const MAX_TEXT_BYTES: usize = 512;

/// The newest version that two sides speak; `None` if there is none.
pub fn common_version(ours: (u32, u32), theirs: (u32, u32)) -> Option<u32> {
    let newest = ours.1.min(theirs.1);
    (newest >= ours.0.max(theirs.0)).then_some(newest)
}

#[cfg(test)]
mod tests;
