// SPDX-License-Identifier: Apache-2.0
//! The second format, of Android 15: packets of threads, of methods, and of events, which are encoded as LEB128
//! differences.

use super::model::{action, ArtEvent, ArtTrace, Building, HEADER_BYTES};
use super::text;
use crate::bytes::{Bytes, Fault};

/// The kind of a packet.
mod packet {
    pub(super) const THREAD: u8 = 0;
    pub(super) const METHOD: u8 = 1;
    pub(super) const EVENTS: u8 = 2;
    pub(super) const SUMMARY: u8 = 3;
}

/// Reads the part after the version.
pub(super) fn read(
    input: &mut Bytes<'_>,
    header_at: usize,
    mut building: Building,
) -> Result<ArtTrace, Fault> {
    building.trace.start_ns = input.u64("the start")?;
    let skip = (header_at + HEADER_BYTES).saturating_sub(input.at());
    input.take(skip, "the header")?;
    let dual = building.trace.version == 5;
    building.trace.cut_off = true;
    while !input.is_at_end() {
        // An incomplete packet: the program was killed here.
        let Some(packet) = whole(input) else {
            break;
        };
        match packet.kind {
            packet::THREAD => {
                let name = String::from_utf8_lossy(packet.body).into_owned();
                building.listed_threads.push((packet.id as u32, name));
            }
            packet::METHOD => {
                let names = String::from_utf8_lossy(packet.body);
                text::name(packet.id & !3, &names, &mut building);
            }
            packet::EVENTS => events(&packet, dual, &mut building)?,
            packet::SUMMARY => {
                let mut summary = Bytes::new(packet.body);
                text::section(&mut summary, &mut building)
                    .map_err(|fault| fault.inside(packet.at))?;
                building.trace.cut_off = false;
                break;
            }
            other => {
                return Err(Fault::new(
                    packet.at,
                    format!("there is no packet of kind {other}"),
                ))
            }
        }
    }
    let trace = &mut building.trace;
    if dual {
        (trace.has_thread_clock, trace.has_wall_clock) = (true, true);
    } else if !trace.has_thread_clock {
        trace.has_wall_clock = true;
    }
    if !trace.has_wall_clock {
        for event in trace.threads.iter_mut().flat_map(|t| &mut t.events) {
            event.thread_ns = std::mem::take(&mut event.wall_ns);
        }
    }
    Ok(building.finish(32))
}

struct Packet<'a> {
    kind: u8,
    /// Number of its thread or method.
    id: u64,
    body: &'a [u8],
    /// Offset of the body.
    at: usize,
}

fn whole<'a>(input: &mut Bytes<'a>) -> Option<Packet<'a>> {
    let kind = input.u8("").ok()?;
    let (id, length) = match kind {
        packet::THREAD => (
            u64::from(input.u32("").ok()?),
            usize::from(input.u16("").ok()?),
        ),
        packet::METHOD => (input.u64("").ok()?, usize::from(input.u16("").ok()?)),
        packet::EVENTS => {
            let id = u64::from(input.u32("").ok()?);
            // Where ART splits a block, its count of events is wrong; its length is right.
            input.u24("").ok()?;
            (id, input.u32("").ok()? as usize)
        }
        packet::SUMMARY => (0, usize::from(input.u16("").ok()?)),
        _ => (0, 0),
    };
    let at = input.at();
    Some(Packet {
        kind,
        id,
        body: input.take(length, "").ok()?,
        at,
    })
}

fn events(packet: &Packet<'_>, dual: bool, building: &mut Building) -> Result<(), Fault> {
    let mut input = Bytes::new(packet.body);
    let (mut word, mut wall_ns, mut thread_ns) = (0_u64, 0_u64, 0_u64);
    let thread = building.thread(packet.id as u32);
    let place = |fault: Fault| fault.inside(packet.at);
    while !input.is_at_end() {
        let at = packet.at + input.at();
        word = word.wrapping_add(input.sleb("the method").map_err(place)? as u64);
        wall_ns = wall_ns.wrapping_add(input.uleb("the time").map_err(place)?);
        if dual {
            thread_ns = thread_ns.wrapping_add(input.uleb("the CPU time").map_err(place)?);
        }
        let event = ArtEvent {
            action: action(word, at)?,
            method: building.method(word & !3),
            thread_ns,
            wall_ns,
        };
        building.trace.threads[thread].events.push(event);
    }
    Ok(())
}
