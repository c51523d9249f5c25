// SPDX-License-Identifier: Apache-2.0
//! The rings of all processes that a session wants, as packets in traced's memory.

use std::io;
use std::path::Path;
use std::sync::Mutex;

use hindsight_decoder::Trace;

use crate::config::Config;
use crate::hindsightd::{Process, Service};
use crate::ipc::{Completed, Producer};
use crate::packets::{self, Sink, Written};
use crate::shared_buffer::{Chunk, MAX_PACKET_BYTES, PAGES};

/// Processes whose rings are taken at the same time: hindsightd serves a user at most 8 clients.
const AT_ONCE: usize = 4;

/// What a snapshot has.
#[derive(Debug, Default)]
pub struct Summary {
    /// Processes whose rings are in it.
    pub processes: u64,
    /// All of them together.
    pub written: Written,
    /// What is missing, for the log.
    pub problems: Vec<String>,
}

/// Packets that are put into chunks, and chunks that are handed to traced.
#[derive(Debug)]
pub struct Chunks<'a> {
    producer: &'a mut Producer,
    /// Number of the writer, which traced makes a sequence of.
    writer: u16,
    buffer: u64,
    number: u32,
    chunk: Chunk,
    completed: Vec<Completed>,
}

impl<'a> Chunks<'a> {
    /// Packets of this writer, for a buffer of a session. `number` is the number of the writer's next chunk.
    pub fn new(producer: &'a mut Producer, writer: u16, buffer: u64, number: u32) -> Self {
        Chunks {
            producer,
            writer,
            buffer,
            number,
            chunk: Chunk::default(),
            completed: Vec::new(),
        }
    }

    /// Completes the chunk, and hands all chunks over when there is no other page.
    fn complete(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let page = self.completed.len();
        let memory = self.producer.memory();
        if !memory.publish(page, self.number, self.writer, &self.chunk) {
            let what = "traced has not read a page that it was handed";
            return Err(io::Error::other(what));
        }
        self.number = self.number.wrapping_add(1);
        self.chunk.clear();
        let buffer = self.buffer;
        self.completed.push(Completed { page, buffer });
        match self.completed.len() {
            PAGES => self.hand_over(),
            _ => Ok(()),
        }
    }

    fn hand_over(&mut self) -> io::Result<()> {
        let result = self.producer.commit(&self.completed, None);
        self.completed.clear();
        result
    }

    /// Hands the last chunks over. Returns the number of the writer's next chunk.
    ///
    /// # Errors
    /// If traced has gone.
    pub fn finish(mut self) -> io::Result<u32> {
        self.complete()?;
        self.hand_over()?;
        Ok(self.number)
    }
}

impl Sink for Chunks<'_> {
    fn packet(&mut self, packet: &[u8]) -> io::Result<()> {
        if packet.len() > MAX_PACKET_BYTES {
            // Texts are limited, so that there is none; a longer one would end the connection.
            return Ok(());
        }
        if !self.chunk.push(packet) {
            self.complete()?;
            self.chunk.push(packet);
        }
        Ok(())
    }
}

/// One snapshot. `first_chunk` is the number of the writer's next chunk; the result has the one after its last.
///
/// # Errors
/// If traced has gone. What goes wrong with hindsightd or a process is told in the summary.
pub fn write(
    producer: &mut Producer,
    service: &Service,
    config: &Config,
    writer: u16,
    first_chunk: u32,
) -> io::Result<(Summary, u32)> {
    let mut summary = Summary::default();
    let processes = match service.processes() {
        Ok(processes) => processes,
        Err(e) => {
            summary
                .problems
                .push(format!("hindsightd does not answer: {e}"));
            Vec::new()
        }
    };
    let wanted: Vec<Process> = processes
        .into_iter()
        .filter(|process| config.wants(&process.name, process.pid))
        .collect();
    let mut chunks = Chunks::new(producer, writer, config.buffer, first_chunk);
    for group in wanted.chunks(AT_ONCE) {
        for (process, bytes) in take(service, group) {
            let decoded = bytes.map_err(|e| e.to_string()).and_then(|bytes| {
                Trace::decode(Path::new(&process.name), &bytes).map_err(|e| e.to_string())
            });
            match decoded {
                Ok(trace) => {
                    summary.processes += 1;
                    add(&mut summary.written, packets::write(&trace, &mut chunks)?);
                }
                Err(e) => {
                    let (name, pid) = (&process.name, process.pid);
                    summary.problems.push(format!("{name} (pid {pid}): {e}"));
                }
            }
        }
    }
    let next_chunk = chunks.finish()?;
    Ok((summary, next_chunk))
}

/// Takes the rings of all these processes at the same time.
fn take<'a>(
    service: &Service,
    processes: &'a [Process],
) -> Vec<(&'a Process, io::Result<Vec<u8>>)> {
    let taken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for process in processes {
            let taken = &taken;
            scope.spawn(move || {
                let bytes = service.take(process.pid);
                if let Ok(mut taken) = taken.lock() {
                    taken.push((process, bytes));
                }
            });
        }
    });
    let mut taken = taken.into_inner().unwrap_or_default();
    taken.sort_by_key(|(process, _)| process.pid);
    taken
}

fn add(all: &mut Written, one: Written) {
    all.threads += one.threads;
    all.calls += one.calls;
    all.deep_calls += one.deep_calls;
    all.events += one.events;
}
