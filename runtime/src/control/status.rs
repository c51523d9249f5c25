// SPDX-License-Identifier: Apache-2.0
//! The state of tracing as one line of JSON. `docs/configuration.md` describes the keys.

use hindsight_trace_format::catalogue::Category;

use crate::clock;
use crate::control::rules;
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

/// The connection to the system service as JSON.
fn service(session: &Session) -> String {
    session.link().map_or("null".into(), |link| {
        let now = link.now();
        let (room, used) = (session.shared()).map_or((None, 0), |memory| memory.room().state());
        format!(
            r#"{{"connected":{},"accepted":{},"taken":{},"room_bytes":{},"used_bytes":{used}}}"#,
            now.is_connected,
            now.is_welcome,
            now.taken,
            room.map_or("null".into(), |room| room.to_string())
        )
    })
}

/// The state of tracing: the number of files written so far, of starts before this one that failed, and whether tracing has
/// switched itself off because of them.
pub(crate) fn status(
    session: &Session,
    handshake: &dyn Handshake,
    (snapshots, failed_starts, is_off): (u32, u32, bool),
) -> String {
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
    let categories: Vec<_> = (Category::ALL.iter())
        .filter(|c| session.categories() & c.bit() != 0)
        .map(|c| format!(r#""{}""#, c.name()))
        .collect();
    let (event_rings, refused) = session.event_rings();
    let (spooled, oldest) = session.spool.summary();
    let rate = clock::known_rate(&session.started).unwrap_or(0);
    let history_ms = oldest.map_or(0, |oldest| {
        let ticks = clock::counter_in_order().saturating_sub(oldest);
        (u128::from(ticks) * 1000)
            .checked_div(rate.into())
            .unwrap_or(0)
    });
    let intervals = session.stacks.intervals();
    format!(
        concat!(
            r#"{{"pid":{},"threads":{},"traced":[{}],"ring_bytes":{},"max_rings":{},"#,
            r#""retired_rings":{},"holders":[{}],"snapshots":{},"#,
            r#""rewind":"{}","held_ns":{},"waited_ns":{},"protocol":"{}","fallbacks":{},"failed_starts":{},"switched_off":{},"#,
            r#""events":{{"categories":[{}],"threads":{},"refused":{},"ring_bytes":{},"#,
            r#""spooled_rings":{},"spooled_ms":{}}},"#,
            r#""stacks":{{"main_interval_us":{},"interval_us":{},"taken":{},"lost":{},"bytes":{}}},"rules":{},"service":{}}}"#
        ),
        std::process::id(),
        threads.len(),
        traced.join(","),
        session.config.geometry.bytes(),
        counts.limit.map_or("null".into(), |n| n.to_string()),
        counts.retired,
        holders.join(","),
        snapshots,
        session.rewind.get(),
        summary(&costs.held),
        summary(&costs.waited),
        handshake.name(),
        costs.fallbacks,
        failed_starts,
        is_off,
        categories.join(","),
        event_rings,
        refused,
        session.config.events.geometry.bytes(),
        spooled,
        history_ms,
        intervals.main_us,
        intervals.others_us,
        session.stacks.taken(),
        session.stacks.lost(),
        session.stacks.used_bytes(),
        rules::status(session),
        service(session),
    )
}
