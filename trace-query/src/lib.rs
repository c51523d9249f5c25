// SPDX-License-Identifier: Apache-2.0
//! A few questions about a trace, answered where it was recorded: which methods took the time, which calls made up the longest
//! piece of work, what it waited for, and which known signatures match. Memory is bounded whatever the file is: by the file's length, by one ring
//! at a time ([`MAX_RING_LOG2_BYTES`]), and by the limits below for all that is counted.
//!
//! The answers are smaller than those of the host's tools: of causes between threads, only waits are followed.

mod calls;
mod causes;
mod chain;
mod question;
mod rings;
mod signature;
mod text;
mod waits;

pub use calls::MAX_DEPTH;
pub use causes::{Cause, Other, MAX_CAUSES};
pub use chain::{Link, MAX_CHAIN};
pub use question::{Answer, Method, QueryError, Threads, MAX_FILE_BYTES, MAX_METHODS};
pub use rings::MAX_RING_LOG2_BYTES;
pub use signature::{Condition, Found, Signature, SignatureError, MAX_PATTERNS, MAX_SIGNATURES};
