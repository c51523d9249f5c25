// SPDX-License-Identifier: Apache-2.0
//! Calls inside each other, as an answer names them.

/// Calls of the longest piece of work that are named.
pub const MAX_CHAIN: usize = 64;

/// A call of a chain: the longest one, or the longest one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Class and name.
    pub name: String,
    /// Its time in the trace, ns.
    pub ns: u64,
}
