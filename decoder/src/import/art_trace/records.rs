// SPDX-License-Identifier: Apache-2.0
//! The first format: records of one size. In a stream, records of thread 0 announce threads, methods and
//! the end.

use super::model::{action, ArtEvent, ArtTrace, Building, HEADER_BYTES};
use super::text;
use crate::bytes::{Bytes, Fault};

const NS_PER_US: u64 = 1_000;

/// The kind of an announcement, a record of thread 0.
mod announced {
    pub(super) const METHOD: u8 = 1;
    pub(super) const THREAD: u8 = 2;
    pub(super) const SUMMARY: u8 = 3;
}

#[derive(Clone, Copy)]
struct Layout {
    /// 1 or 2.
    tid_bytes: usize,
    record_bytes: usize,
    dual: bool,
}

/// Reads the part after the version.
pub(super) fn read(
    input: &mut Bytes<'_>,
    header_at: usize,
    mut building: Building,
) -> Result<ArtTrace, Fault> {
    let version = building.trace.version;
    let data_at = input.u16("the offset of the data")? as usize;
    let start_us = input.u64("the start")?;
    building.trace.start_ns = start_us.saturating_mul(NS_PER_US);
    let said = if version >= 3 || building.trace.streaming {
        usize::from(input.u16("the size of a record")?)
    } else {
        0
    };
    let layout = match version {
        1 => Layout {
            tid_bytes: 1,
            record_bytes: 9,
            dual: false,
        },
        2 => Layout {
            tid_bytes: 2,
            record_bytes: 10,
            dual: false,
        },
        _ => Layout {
            tid_bytes: 2,
            record_bytes: said,
            dual: true,
        },
    };
    if layout.dual && layout.record_bytes < 14 {
        return Err(Fault::new(
            header_at + 16,
            format!("records of {said} bytes are too short for two clocks"),
        ));
    }
    let skip = (header_at + data_at.max(18)).saturating_sub(input.at());
    input.take(skip, "the header")?;

    if !building.trace.streaming {
        fixed(input, layout, &mut building)?;
        // Without a line that says so, the older versions have one clock, of the thread.
        let trace = &mut building.trace;
        trace.has_thread_clock |= layout.dual || !trace.has_wall_clock;
        trace.has_wall_clock |= layout.dual;
        correct_clock(&mut building);
        return Ok(building.finish(8 * layout.tid_bytes as u32));
    }
    let from = input.clone();
    let mut trace = streamed(from.clone(), layout, building.start_again())?;
    if !layout.dual {
        // ART 10 to 12 stream records of 14 bytes in version 2, too; the last four are unused.
        let padded = Layout {
            record_bytes: 14,
            ..layout
        };
        let other = streamed(from, padded, building.start_again());
        trace = match (trace, other) {
            (Some(short), Ok(Some(long))) => Some(if doubt(&long) < doubt(&short) {
                long
            } else {
                short
            }),
            (trace, other) => trace.or(other.ok().flatten()),
        };
    }
    trace.ok_or_else(|| {
        Fault::new(
            header_at + HEADER_BYTES,
            "the stream makes no sense with records of 10 or of 14 bytes",
        )
    })
}

/// Number of implausible records: a measure of whether the layout is the right one.
fn doubt(trace: &ArtTrace) -> (u64, bool) {
    let unknown = trace.threads.iter().filter(|t| t.name.is_empty()).count();
    (trace.unnamed_events + unknown as u64, trace.cut_off)
}

impl Building {
    /// A copy of the facts, without events.
    fn start_again(&self) -> Building {
        Building {
            trace: self.trace.clone(),
            ..Building::default()
        }
    }
}

/// The text tells which clock a trace with one clock has. A stream ends with the text, so until then both times are set.
fn correct_clock(building: &mut Building) {
    let (thread, wall) = (
        building.trace.has_thread_clock,
        building.trace.has_wall_clock,
    );
    let events = building
        .trace
        .threads
        .iter_mut()
        .flat_map(|t| &mut t.events);
    for event in events {
        if !thread {
            event.thread_ns = 0;
        }
        if !wall {
            event.wall_ns = 0;
        }
    }
}

fn fixed(input: &mut Bytes<'_>, layout: Layout, building: &mut Building) -> Result<(), Fault> {
    while input.rest().len() >= layout.record_bytes {
        let at = input.at();
        let mut record = Bytes::new(input.take(layout.record_bytes, "a record")?);
        let tid = match layout.tid_bytes {
            1 => u32::from(record.u8("the thread")?),
            _ => u32::from(record.u16("the thread")?),
        };
        event(&mut record, at, tid, layout, building)?;
    }
    building.trace.cut_off = !input.is_at_end();
    Ok(())
}

/// A record after its thread id.
fn event(
    record: &mut Bytes<'_>,
    at: usize,
    tid: u32,
    layout: Layout,
    building: &mut Building,
) -> Result<(), Fault> {
    let word = u64::from(record.u32("the method")?);
    let first = u64::from(record.u32("the time")?) * NS_PER_US;
    let second = if layout.dual {
        u64::from(record.u32("the wall-clock time")?) * NS_PER_US
    } else {
        first
    };
    let event = ArtEvent {
        action: action(word, at)?,
        method: building.method(word & !3),
        thread_ns: first,
        wall_ns: second,
    };
    let thread = building.thread(tid);
    building.trace.threads[thread].events.push(event);
    Ok(())
}

/// `None` if the records cannot have this layout.
fn streamed(
    mut input: Bytes<'_>,
    layout: Layout,
    mut building: Building,
) -> Result<Option<ArtTrace>, Fault> {
    building.trace.cut_off = true;
    let mut complete = false;
    let result = (|| -> Result<(), Fault> {
        while !input.is_at_end() {
            let at = input.at();
            let tid = input.u16("the thread")?;
            if tid != 0 {
                let mut record =
                    Bytes::new(input.take(layout.record_bytes - 2, "the rest of a record")?);
                event(&mut record, at, u32::from(tid), layout, &mut building)?;
                continue;
            }
            match input.u8("what a record announces")? {
                announced::METHOD => {
                    let length = usize::from(input.u16("the length of a method's line")?);
                    let line = String::from_utf8_lossy(input.take(length, "a method's line")?);
                    text::method(line.trim_end_matches('\n'), &mut building)
                        .map_err(|what| Fault::new(at, what))?;
                }
                announced::THREAD => {
                    let tid = u32::from(input.u16("a thread's id")?);
                    let length = usize::from(input.u16("the length of a thread's name")?);
                    let name = String::from_utf8_lossy(input.take(length, "a thread's name")?);
                    building.announced_threads.push((tid, name.into_owned()));
                }
                announced::SUMMARY => {
                    let length = input.u32("the length of the summary")? as usize;
                    let mut summary = Bytes::new(input.take(length, "the summary")?);
                    text::section(&mut summary, &mut building)?;
                    complete = true;
                    return Ok(());
                }
                other => {
                    return Err(Fault::new(
                        at,
                        format!("a record announces {other}, which is nothing known"),
                    ))
                }
            }
        }
        Ok(())
    })();
    building.trace.cut_off = !complete;
    match result {
        Ok(()) => {}
        // The program was killed in the middle of a record.
        Err(fault) if fault.cut_off => {}
        Err(_) if !layout.dual => return Ok(None),
        Err(fault) => return Err(fault),
    }
    let trace = &mut building.trace;
    if layout.dual {
        (trace.has_thread_clock, trace.has_wall_clock) = (true, true);
    } else if !complete {
        // The file doesn't tell which clock it is.
        trace.has_wall_clock = true;
    }
    correct_clock(&mut building);
    Ok(Some(building.finish(16)))
}
