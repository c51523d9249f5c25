// SPDX-License-Identifier: Apache-2.0
//! A few questions about a trace, answered where it was recorded: which methods took the time, which calls made up the longest
//! piece of work, and which known signatures match. Memory is bounded whatever the file is: by the file's length, by one ring
//! at a time ([`MAX_RING_LOG2_BYTES`]), and by the limits below for all that is counted.
//!
//! The answers are smaller than those of the host's tools: causes between threads are not looked for.

mod calls;
mod question;
mod signature;
mod text;

pub use calls::{MAX_DEPTH, MAX_RING_LOG2_BYTES};
pub use question::{
    Answer, Link, Method, QueryError, Threads, MAX_CHAIN, MAX_FILE_BYTES, MAX_METHODS,
};
pub use signature::{Condition, Found, Signature, SignatureError, MAX_PATTERNS, MAX_SIGNATURES};
