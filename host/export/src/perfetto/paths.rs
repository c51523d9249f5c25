// SPDX-License-Identifier: Apache-2.0
//! Critical paths, on tracks below those of the threads that they go through, with flows from step to step.

use std::io::{self, Write};

use hindsight_causality::transactions::{Component, CriticalPath, Step, TransactionId};
use hindsight_causality::{Session, ThreadId};

use super::proto::{fields, Message};
use super::{absolute, Numbers, Writer, CATEGORY, CHUNK_BYTES};
use crate::causes::Causes;

/// Writes all traces, and the critical paths of these transactions.
pub(crate) fn write(
    causes: &Causes<'_>,
    chosen: &[TransactionId],
    out: &mut dyn Write,
) -> io::Result<()> {
    for trace in causes.session.traces() {
        super::write(trace, out)?;
    }
    for (place, id) in chosen.iter().enumerate() {
        let path = causes.paths.iter().find(|p| p.transaction == *id);
        if let Some(path) = path {
            write_path(causes, path, place as u64, out)?;
        }
    }
    Ok(())
}

/// The numbers of a thread's trace, and the thread's place in it.
fn numbers(session: &Session, thread: ThreadId) -> (Numbers, u64) {
    let about = session.about(thread);
    let trace = session.trace(about.trace());
    (Numbers::of(trace), about.place.into())
}

fn write_path(
    causes: &Causes<'_>,
    path: &CriticalPath,
    place: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(first) = path.steps.first() else {
        return Ok(());
    };
    let session = causes.session;
    let (own, _) = numbers(session, first.thread);
    let threads = session.trace_of(first.thread).threads.len() as u64;
    let mut writer = Writer {
        out,
        chunk: Vec::with_capacity(CHUNK_BYTES + 1024),
        numbers: own,
    };
    // After the sequences of the threads.
    let mut tail = Message::default();
    tail.varint(fields::packet::SEQUENCE, own.sequence(threads + place));
    let mut described: Vec<ThreadId> = path.steps.iter().map(|s| s.thread).collect();
    described.sort_unstable();
    described.dedup();
    let mut cleared = false;
    for &thread in &described {
        let (numbers, place) = numbers(session, thread);
        let mut track = Message::default();
        track.varint(fields::track::UUID, uuid(session, path, thread));
        track.varint(fields::track::PARENT_UUID, numbers.track(place, 0));
        let name = format!("critical path of transaction {}", path.transaction.0);
        track.string(fields::track::NAME, &name);
        let mut packet = Message::default();
        packet.append(&tail);
        if !std::mem::replace(&mut cleared, true) {
            packet.varint(fields::packet::FLAGS, fields::packet::STATE_CLEARED);
        }
        packet.message(fields::packet::TRACK_DESCRIPTOR, &track);
        writer.packet(&packet)?;
    }
    for (i, step) in path.steps.iter().enumerate() {
        let flow =
            |step: usize| own.flow(1 << 60 | u64::from(path.transaction.0) << 32 | step as u64);
        let mut event = Message::default();
        event.varint(fields::event::TYPE, fields::event::SLICE_BEGIN);
        event.string(fields::event::CATEGORIES, CATEGORY);
        event.string(fields::event::NAME, &name(causes, step));
        event.varint(fields::event::TRACK_UUID, uuid(session, path, step.thread));
        for (component, ns) in step.shares.parts() {
            let mut annotation = Message::default();
            annotation.string(
                fields::annotation::NAME,
                &format!("{}, ns", component.key()),
            );
            annotation.varint(fields::annotation::UINT, ns);
            event.message(fields::event::ANNOTATIONS, &annotation);
        }
        if i > 0 {
            event.fixed64(fields::event::TERMINATING_FLOW_IDS, flow(i - 1));
        }
        if i + 1 < path.steps.len() {
            event.fixed64(fields::event::FLOW_IDS, flow(i));
        }
        absolute(&tail, step.begin_ns, &event, &mut writer)?;
        let mut end = Message::default();
        end.varint(fields::event::TYPE, fields::event::SLICE_END);
        end.varint(fields::event::TRACK_UUID, uuid(session, path, step.thread));
        absolute(&tail, step.end_ns, &end, &mut writer)?;
    }
    writer.hand_on()
}

/// The track of a path below a thread.
fn uuid(session: &Session, path: &CriticalPath, thread: ThreadId) -> u64 {
    let (numbers, place) = numbers(session, thread);
    numbers.flow(1 << 59 | u64::from(path.transaction.0) << 32 | place)
}

/// `lock: message com.example.Screen`
fn name(causes: &Causes<'_>, step: &Step) -> String {
    let component = step.shares.largest().map_or(Component::Unknown, |l| l.0);
    format!("{}: {}", component.name(), causes.work(step.node))
}
