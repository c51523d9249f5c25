// SPDX-License-Identifier: Apache-2.0
//! The state of tracing as one line of JSON. `docs/configuration.md` describes the keys.

use crate::handshake::Handshake;
use crate::histogram::Histogram;
use crate::session::Session;

/// A histogram of ns as JSON.
fn summary(times: &Histogram) -> String {
    format!(
        r#"{{"count":{},"p50":{},"p99":{},"max":{}}}"#,
        times.count(),
        times.percentile(50),
        times.percentile(99),
        times.max(),
    )
}

/// The state of tracing; `snapshots` is the number of files written so far.
pub(crate) fn status(session: &Session, handshake: &dyn Handshake, snapshots: u32) -> String {
    let threads = session.registry.threads();
    let traced: Vec<_> = threads
        .iter()
        .map(|thread| thread.trace())
        .filter(|trace| trace.is_traced())
        .map(|trace| trace.tid().to_string())
        .collect();
    let counts = session.registry.counts();
    let holders: Vec<_> = (counts.holders.iter())
        .map(|h| format!(r#"{{"tid":{},"wanted_at_ns":{}}}"#, h.tid, h.wanted_at_ns))
        .collect();
    let costs = handshake.costs();
    format!(
        concat!(
            r#"{{"pid":{},"threads":{},"traced":[{}],"ring_bytes":{},"max_rings":{},"#,
            r#""retired_rings":{},"holders":[{}],"snapshots":{},"#,
            r#""held_ns":{},"waited_ns":{},"protocol":"{}","fallbacks":{}}}"#
        ),
        std::process::id(),
        threads.len(),
        traced.join(","),
        session.config.geometry.bytes(),
        counts.limit.map_or("null".into(), |n| n.to_string()),
        counts.retired,
        holders.join(","),
        snapshots,
        summary(&costs.held),
        summary(&costs.waited),
        handshake.name(),
        costs.fallbacks,
    )
}
