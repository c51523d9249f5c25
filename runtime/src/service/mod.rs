// SPDX-License-Identifier: Apache-2.0
//! The process's side of the connection to the system service (`hindsight_trace_format::protocol`).
//!
//! ```text
//! service ──packets──► hindsight-io ──commands──► control thread
//!    ▲                                                  │
//!    └──────────────── Link: packets ◄──────────────────┘
//! ```
//!
//! The thread `hindsight-io` ([`ServiceThread`]) connects, introduces the process, and then sleeps until the service says
//! something. While there is no service it sleeps until the service's socket appears. It has no timer while nothing changes.
//! The control thread sends packets through the [`Link`], never blocking. No other thread uses the socket.

mod attempts;
mod link;
mod socket;
mod thread;
mod watch;

pub(crate) use link::Link;
pub(crate) use thread::{Facts, ServiceThread};
