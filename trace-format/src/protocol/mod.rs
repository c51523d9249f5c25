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
//! Activities              ──►                                        an activity was started, or the last one stopped
//!                         ◄──            Configure                   whenever the configuration or the number of rings changes
//!                         ◄──            Detectors                   whenever the rules of its detectors change
//! Held                    ──►                                        so many rings of calls are in use now
//! Trigger                 ──►
//!                         ◄──            Take                        also without a trigger
//! Taken                   ──►                                        the rings do not change any more: the service reads them
//!                         ◄──            Release                     the process uses the rings again
//! Name                    ──►                                        whenever it becomes known or changes
//! Needs                   ──►                                        more memory for events, stacks and names
//!                         ◄──            Room                        as soon and as far as the budget allows
//! Named                   ──►                                        the memory has the names of all first classes
//! Farewell                ──►                                        the process ends by itself
//! ```
//!
//! Both sides belong to different builds at times: a reader ignores messages that it does not know, and bytes after the last field
//! that it knows. A field is never removed. [`Hello::versions`] is for changes that this does not allow.
//!
//! Neither side ever waits for the other one: packets are sent without blocking, and a side that does not read loses its connection.

mod detectors;
mod messages;
mod severity;

pub use detectors::{
    AppDetector, DetectorRule, DetectorRules, DetectorSpec, Parameter, COUNTERS_RULE, DETECTORS,
    MAX_DETECTOR_NUMBERS, MAX_DETECTOR_RULES, MAX_METHOD_BYTES, MAX_SLOW_METHODS,
};
pub use messages::{Configuration, FromProcess, FromService, Hello, TakeOutcome, Trigger};
pub use severity::TriggerSeverity;

/// The versions of the protocol that this build speaks, oldest and newest.
///
/// | version | since then |
/// |---|---|
/// | 1 | a process says in its hello how much memory it may ever use |
/// | 2 | it joins with less, asks for more (`Needs`, `Room`), and tells its name when it becomes known (`Name`) |
pub const VERSIONS: (u32, u32) = (1, 2);
/// What the system calls a process that does not have the name of its package yet.
const UNNAMED: [&str; 10] = [
    "",
    "<pre-initialized>",
    "zygote",
    "zygote64",
    "webview_zygote",
    "usap32",
    "usap64",
    "app_process",
    "app_process32",
    "app_process64",
];
/// Longest message, bytes. A longer packet is damaged or hostile.
pub const MAX_MESSAGE_BYTES: usize = 4096;
/// Longest text in a message, bytes; a longer one is cut at a character.
pub const MAX_TEXT_BYTES: usize = 512;

/// Whether this is the name of a process's program, not one that a process has before it becomes an app.
pub fn is_final_name(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    !UNNAMED.contains(&file)
}

/// The newest version that two sides speak; `None` if there is none.
pub fn common_version(ours: (u32, u32), theirs: (u32, u32)) -> Option<u32> {
    let newest = ours.1.min(theirs.1);
    (newest >= ours.0.max(theirs.0)).then_some(newest)
}

#[cfg(test)]
mod tests;
