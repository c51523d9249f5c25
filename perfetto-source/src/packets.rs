// SPDX-License-Identifier: Apache-2.0
//! From the trace of a process to packets of Perfetto.
//!
//! All packets of a snapshot are one sequence. Each thread begins with a packet that clears the sequence's state and describes the
//! thread's track by its process and thread id; such a packet also comes after each [`CLEAR_BYTES`], so that a buffer that
//! overwrites its oldest packets loses only what depends on them. Times are CLOCK_BOOTTIME and absolute: a lost packet moves no other.

use std::collections::HashMap;
use std::io;

use hindsight_decoder::catalogue::FieldKind;
use hindsight_decoder::{Flags, MethodId, Thread, ThreadEvent, Trace};

use crate::proto::Message;

/// The state of a sequence is written again after so many bytes.
pub const CLEAR_BYTES: usize = 128 << 10;
/// Longest name, bytes.
const MAX_NAME: usize = 1000;
const BOOTTIME: u64 = 6;
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
/// Levels of calls that Perfetto's trace processor accepts on one track.
const MAX_DEPTH: u32 = 512;

/// Category of calls, of calls that were found in samples, and of events.
pub const CATEGORIES: [&str; 3] = ["hindsight.call", "hindsight.sample", "hindsight.event"];

/// Where packets go.
pub trait Sink {
    /// Takes a packet.
    ///
    /// # Errors
    /// If it cannot be handed on.
    fn packet(&mut self, packet: &[u8]) -> io::Result<()>;
}

/// A text of at most [`MAX_NAME`] bytes.
fn short(text: &str) -> &str {
    let mut end = text.len().min(MAX_NAME);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A hash of two numbers (the finalizer of SplitMix64).
fn mix(a: u64, b: u64) -> u64 {
    let mut z = (a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Threads with at least one call or event.
    pub threads: u64,
    /// Calls, those from samples among them.
    pub calls: u64,
    /// Calls that are too deep for one track and were left out.
    pub deep_calls: u64,
    /// Events.
    pub events: u64,
}

/// Writes all threads of a trace.
///
/// # Errors
/// If the sink fails.
pub fn write(trace: &Trace, sink: &mut dyn Sink) -> io::Result<Written> {
    let mut written = Written::default();
    let pid = u64::from(trace.process.pid);
    let mut process = Message::new();
    process.varint(1, pid).string(6, short(&trace.process.name));
    let mut track = Message::new();
    track.varint(1, mix(pid, 0)).message(3, &process);
    let mut packet = Message::new();
    packet.varint(13, CLEARED).message(60, &track);
    sink.packet(packet.as_bytes())?;
    for thread in &trace.threads {
        if thread.calls.is_empty() && thread.events.is_empty() {
            continue;
        }
        written.threads += 1;
        let writer = ThreadWriter {
            trace,
            thread,
            track: mix(pid, u64::from(thread.tid)),
            names: HashMap::new(),
            since_clear: CLEAR_BYTES,
            sink: &mut *sink,
            written: &mut written,
        };
        writer.write()?;
    }
    Ok(written)
}

struct ThreadWriter<'a> {
    trace: &'a Trace,
    thread: &'a Thread,
    track: u64,
    names: HashMap<MethodId, u64>,
    since_clear: usize,
    sink: &'a mut dyn Sink,
    written: &'a mut Written,
}

impl ThreadWriter<'_> {
    fn write(mut self) -> io::Result<()> {
        let thread = self.thread;
        let mut events = thread.events.iter().peekable();
        // Ends of the running calls, innermost last.
        let mut running: Vec<u64> = Vec::new();
        for call in thread.calls.iter() {
            if call.depth >= MAX_DEPTH {
                self.written.deep_calls += 1;
                continue;
            }
            while running.len() > call.depth as usize {
                self.end(&mut running, &mut events)?;
            }
            while let Some(event) = events.next_if(|e| e.at_ns <= call.start_ns) {
                self.event(event)?;
            }
            self.begin(&call)?;
            running.push(call.end_ns);
        }
        while !running.is_empty() {
            self.end(&mut running, &mut events)?;
        }
        for event in events {
            self.event(event)?;
        }
        Ok(())
    }

    fn end(
        &mut self,
        running: &mut Vec<u64>,
        events: &mut std::iter::Peekable<std::slice::Iter<'_, ThreadEvent>>,
    ) -> io::Result<()> {
        let Some(at_ns) = running.pop() else {
            return Ok(());
        };
        while let Some(event) = events.next_if(|e| e.at_ns <= at_ns) {
            self.event(event)?;
        }
        let mut end = Message::new();
        end.varint(9, END);
        self.packet(at_ns, None, &end)
    }

    fn begin(&mut self, call: &hindsight_decoder::Call) -> io::Result<()> {
        self.written.calls += 1;
        self.clear_if_due()?;
        let mut interned = None;
        let next = self.names.len() as u64 + 1;
        let iid = *self.names.entry(call.method).or_insert_with(|| {
            let name = self.trace.methods.name(call.method);
            let mut one = Message::new();
            one.varint(1, next).string(2, short(&name));
            let mut all = Message::new();
            all.message(2, &one);
            interned = Some(all);
            next
        });
        let mut event = Message::new();
        let category = usize::from(call.flags.contains(Flags::SAMPLED));
        event
            .varint(9, BEGIN)
            .varint(10, iid)
            .varint(3, category as u64 + 1);
        if call.flags.contains(Flags::OPEN_START) {
            annotate_text(&mut event, "start", "earlier: the ring begins here");
        }
        if call.flags.contains(Flags::OPEN_END) {
            annotate_text(&mut event, "end", "later: it ran when the ring was taken");
        }
        if call.flags.contains(Flags::BY_EXCEPTION) {
            annotate_text(&mut event, "left by", "exception");
        }
        self.packet(call.start_ns, interned.as_ref(), &event)
    }

    fn event(&mut self, of_thread: &ThreadEvent) -> io::Result<()> {
        self.written.events += 1;
        let spec = of_thread.spec();
        let mut event = Message::new();
        event.varint(9, INSTANT).string(23, spec.name).varint(3, 3);
        for field in spec.fields {
            let number = field.get(&of_thread.payload);
            let text = match field.kind {
                FieldKind::Choice(all) => usize::try_from(number)
                    .ok()
                    .and_then(|i| all.get(i).copied())
                    .map(str::to_owned),
                FieldKind::String if number != 0 => {
                    let text = self.text(number);
                    text.map(|text| short(&text).to_owned())
                }
                FieldKind::Method | FieldKind::Class => {
                    let is_known = of_thread.method != MethodId::NOT_RECORDED;
                    is_known.then(|| short(&self.trace.methods.name(of_thread.method)).to_owned())
                }
                _ => None,
            };
            match text {
                Some(text) => annotate_text(&mut event, field.name, &text),
                None => {
                    let mut annotation = Message::new();
                    annotation.string(10, field.name).varint(3, number);
                    event.message(4, &annotation);
                }
            }
        }
        self.packet(of_thread.at_ns, None, &event)
    }

    fn text(&self, number: u64) -> Option<String> {
        self.trace.strings.get(number).map(str::to_owned)
    }

    fn packet(
        &mut self,
        at_ns: u64,
        interned: Option<&Message>,
        event: &Message,
    ) -> io::Result<()> {
        self.clear_if_due()?;
        let mut packet = Message::new();
        packet.varint(8, at_ns).varint(13, NEEDS_STATE);
        if let Some(interned) = interned {
            packet.message(12, interned);
        }
        packet.message(11, event);
        self.hand_on(&packet)
    }

    fn hand_on(&mut self, packet: &Message) -> io::Result<()> {
        self.since_clear += packet.as_bytes().len();
        self.sink.packet(packet.as_bytes())
    }

    /// Begins the sequence's state anew.
    fn clear_if_due(&mut self) -> io::Result<()> {
        if self.since_clear < CLEAR_BYTES {
            return Ok(());
        }
        self.since_clear = 0;
        self.names.clear();
        let mut of_events = Message::new();
        of_events.varint(11, self.track);
        let mut defaults = Message::new();
        defaults.varint(58, BOOTTIME).message(11, &of_events);
        let mut descriptor = Message::new();
        descriptor
            .varint(1, u64::from(self.trace.process.pid))
            .varint(2, u64::from(self.thread.tid))
            .string(5, short(&self.thread.name));
        let mut track = Message::new();
        track.varint(1, self.track).message(4, &descriptor);
        let mut interned = Message::new();
        for (i, category) in CATEGORIES.iter().enumerate() {
            let mut one = Message::new();
            one.varint(1, i as u64 + 1).string(2, category);
            interned.message(1, &one);
        }
        let mut packet = Message::new();
        packet
            .varint(13, CLEARED)
            .message(59, &defaults)
            .message(60, &track)
            .message(12, &interned);
        self.hand_on(&packet)
    }
}

fn annotate_text(event: &mut Message, name: &str, text: &str) {
    let mut annotation = Message::new();
    annotation.string(10, name).string(6, text);
    event.message(4, &annotation);
}
