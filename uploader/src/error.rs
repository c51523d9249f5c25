// SPDX-License-Identifier: Apache-2.0
//! What can go wrong.

use std::io;

/// Why an item is not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// hindsightd.
    #[error("hindsightd: {0}")]
    Service(io::Error),
    /// The network, TLS, or the time for a request.
    #[error("the collector cannot be reached, or its certificate is not trusted: {0}")]
    Network(io::Error),
    /// The collector breaks the protocol.
    #[error("the collector does not keep to the protocol of docs/upload.md: {0}")]
    Protocol(&'static str),
    /// The collector does not take it.
    #[error("the collector answers with status {0}")]
    Status(u16),
}
