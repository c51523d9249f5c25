// SPDX-License-Identifier: Apache-2.0
//! One traced thread: the words of its thread object, its ring, and the record of its calls. Nothing here knows how
//! a thread is brought to give up its ring; that is [`handshake`](crate::handshake).

#[cfg(not(feature = "loom"))]
pub(crate) mod open_calls;
pub(crate) mod resources;
#[cfg(feature = "check-rewind")]
pub(crate) mod rewind_log;
#[cfg(not(feature = "loom"))]
pub(crate) mod ring;
#[cfg(feature = "loom")]
#[path = "../models/ring.rs"]
pub(crate) mod ring;
pub(crate) mod spool;
pub(crate) mod taken;
pub(crate) mod trace;
#[cfg(not(feature = "loom"))]
pub(crate) mod under_way;
pub(crate) mod words;
