// SPDX-License-Identifier: Apache-2.0
//! How fast threads that record events only fill their rings, for `info`.

use std::io::{self, Write as _};

use hindsight_decoder::{Mode, Thread};
use serde::Serialize;

use crate::page::{column, Cell, Kind, Page};
use crate::words::{count, duration};

/// How fast a thread that records events only fills its ring.
#[derive(Serialize)]
pub(crate) struct Rate {
    events_per_second: f64,
    /// Space of an event, with the stacks among them, bytes.
    bytes_per_event: f64,
    /// How long a full ring goes back at this rate, ns.
    ring_ns: u64,
}

impl Rate {
    /// Of fewer events a rate says little.
    const LEAST_EVENTS: usize = 200;

    /// Of a thread, before a part of it is selected.
    pub(crate) fn of(thread: &Thread) -> Option<Self> {
        let (events, ns) = (thread.events.len(), thread.end_ns - thread.start_ns);
        if thread.mode != Mode::Events || events < Self::LEAST_EVENTS || ns == 0 {
            return None;
        }
        // A thread has one ring, and more of them in the spool.
        let ring = thread.ring_bytes / (thread.parts.len() as u64).max(1);
        let bytes = thread.stats.slots.checked_mul(8).filter(|&b| b > 0)? as f64;
        Some(Rate {
            events_per_second: events as f64 / (ns as f64 / 1e9),
            bytes_per_event: bytes / events as f64,
            ring_ns: (ring as f64 * ns as f64 / bytes) as u64,
        })
    }
}

/// Writes the rates of these threads: id and name.
pub(crate) fn write<'a>(
    page: &mut Page,
    rates: impl Iterator<Item = (u32, &'a str, &'a Rate)>,
) -> io::Result<()> {
    let rows: Vec<Vec<Cell>> = rates
        .map(|(tid, name, rate)| {
            vec![
                tid.to_string().into(),
                name.to_owned().into(),
                count(rate.events_per_second.round() as u64).into(),
                format!("{:.1}", rate.bytes_per_event).into(),
                duration(rate.ring_ns).into(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(page)?;
    let columns = [
        column("tid", Kind::Number),
        column("thread", Kind::Text),
        column("events a second", Kind::Number),
        column("bytes an event", Kind::Number),
        column("a full ring goes back", Kind::Number),
    ];
    page.table(&columns, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::{Extension, Trace};
    use hindsight_testkit::Script;

    #[test]
    fn a_rate_is_of_many_events() {
        let rate = |events: u64| {
            let mut s = Script::new("p");
            let t = s.events_thread(1, "t", 1);
            for i in 0..=events {
                s.at(t, i * 1_000_000)
                    .event(Extension::UserMark, &[("name", 1)]);
            }
            s.stop_at(events * 1_000_000);
            let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
            Rate::of(&trace.threads[0])
        };
        assert!(rate(50).is_none());
        let rate = rate(1_000).unwrap();
        assert_eq!(rate.events_per_second.round(), 1_001.0);
        assert_eq!(rate.bytes_per_event.round(), 16.0);
        // 64 KiB hold 4,096 events of 16 bytes.
        assert_eq!(rate.ring_ns / 1_000_000, 4_091);
    }
}
