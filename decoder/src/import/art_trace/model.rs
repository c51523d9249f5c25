// SPDX-License-Identifier: Apache-2.0
//! A method trace of ART, and its builder.

use hashbrown::HashMap;

use crate::bytes::Fault;
use crate::methods::{Method, MethodId, Methods};

/// `SLOW`, little-endian.
pub(super) const MAGIC: u32 = 0x574f_4c53;
/// The header before the events.
pub(super) const HEADER_BYTES: usize = 32;
/// Set in the version of a stream.
pub(super) const STREAMING: u16 = 0xf0;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The method was entered.
    Enter,
    /// It returned.
    Exit,
    /// An exception left it.
    Unwind,
}

/// One event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtEvent {
    /// Its kind.
    pub action: Action,
    /// Its method. Unlike in `.hindsight` traces, exits name their method too.
    pub method: MethodId,
    /// CPU time of the thread since its first event, ns; 0 without [`ArtTrace::has_thread_clock`].
    pub thread_ns: u64,
    /// Time since [`ArtTrace::start_ns`], ns; 0 without [`ArtTrace::has_wall_clock`].
    pub wall_ns: u64,
}

impl ArtEvent {
    /// CPU time of the thread, µs, as in the files of ART 14 and before.
    pub fn thread_us(&self) -> u64 {
        self.thread_ns / 1_000
    }

    /// Time since the trace's start, µs, as in the files of ART 14 and before.
    pub fn wall_us(&self) -> u64 {
        self.wall_ns / 1_000
    }
}

/// A thread and its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtThread {
    /// The kernel's thread id. Before ART 13 events hold its low 16 bits only; the rest is taken from the
    /// list of threads.
    pub tid: u32,
    /// Its name; empty if the file doesn't say.
    pub name: String,
    /// In the order of the file, which is the order of time.
    pub events: Vec<ArtEvent>,
}

/// A whole `.trace` file.
#[derive(Clone, Debug, Default)]
pub struct ArtTrace {
    /// The threads that recorded anything, in the order of their first events.
    pub threads: Vec<ArtThread>,
    /// The methods; [`Method::address`] is their number in the file.
    pub methods: Methods,
    /// The version in the header: 1 to 3 for the first format, 4 and 5 for the second.
    pub version: u16,
    /// Whether it was streamed to the file while the program ran.
    pub streaming: bool,
    /// When tracing began: CLOCK_MONOTONIC, ns (Dalvik: the time of day).
    pub start_ns: u64,
    /// Whether events have a CPU time.
    pub has_thread_clock: bool,
    /// Whether events have a wall-clock time.
    pub has_wall_clock: bool,
    /// Process id; 0 if the file doesn't say.
    pub pid: u32,
    /// The buffer was full: later events were dropped by ART.
    pub overflow: bool,
    /// The file ends within a record: the program was killed, or the file was cut off. Everything before is here.
    pub cut_off: bool,
    /// Events of methods that the file doesn't name.
    pub unnamed_events: u64,
    /// Threads whose 16-bit ids in events belong to several threads.
    pub ambiguous_threads: u64,
    /// Size of the file, bytes.
    pub file_bytes: u64,
}

/// A trace that is being read.
#[derive(Default)]
pub(super) struct Building {
    pub(super) trace: ArtTrace,
    pub(super) names: HashMap<u64, Method>,
    pub(super) ids: HashMap<u64, MethodId>,
    pub(super) methods: Vec<u64>,
    /// As the file lists them: id, name.
    pub(super) listed_threads: Vec<(u32, String)>,
    /// As a stream announces them, with the same few bits as events.
    pub(super) announced_threads: Vec<(u32, String)>,
    pub(super) threads: HashMap<u32, usize>,
}

impl Building {
    /// The method with this number.
    pub(super) fn method(&mut self, number: u64) -> MethodId {
        let methods = &mut self.methods;
        *self.ids.entry(number).or_insert_with(|| {
            methods.push(number);
            MethodId(methods.len() as u32 - 1)
        })
    }

    /// Index of the thread with this id in events.
    pub(super) fn thread(&mut self, tid: u32) -> usize {
        let threads = &mut self.trace.threads;
        *self.threads.entry(tid).or_insert_with(|| {
            threads.push(ArtThread {
                tid,
                ..ArtThread::default()
            });
            threads.len() - 1
        })
    }

    /// Adds the names of threads and methods. `id_bits`: number of bits of a thread's id in events.
    pub(super) fn finish(mut self, id_bits: u32) -> ArtTrace {
        let mask = u32::MAX >> (32 - id_bits);
        for thread in &mut self.trace.threads {
            let listed = &self.listed_threads;
            let exact = listed.iter().find(|(tid, _)| *tid == thread.tid);
            let mut alike = listed
                .iter()
                .filter(|(tid, _)| tid & mask == thread.tid & mask);
            let first = alike.next();
            if let Some((tid, name)) = exact.or(first) {
                let several = alike.any(|(other, _)| other != tid);
                self.trace.ambiguous_threads += u64::from(several);
                thread.tid = *tid;
                thread.name.clone_from(name);
                continue;
            }
            let mut announced = self.announced_threads.iter();
            if let Some((_, name)) = announced.find(|(tid, _)| *tid == thread.tid) {
                thread.name.clone_from(name);
            }
        }
        let methods: Vec<Method> = self
            .methods
            .iter()
            .map(|&number| {
                self.names.remove(&number).unwrap_or(Method {
                    address: number,
                    ..Method::default()
                })
            })
            .collect();
        let unnamed = |event: &&ArtEvent| !methods[event.method.0 as usize].is_named();
        self.trace.unnamed_events = self
            .trace
            .threads
            .iter()
            .map(|thread| thread.events.iter().filter(unnamed).count() as u64)
            .sum();
        self.trace.methods = Methods::new(methods);
        self.trace
    }
}

/// The two low bits of a method's number.
pub(super) fn action(word: u64, at: usize) -> Result<Action, Fault> {
    match word & 3 {
        0 => Ok(Action::Enter),
        1 => Ok(Action::Exit),
        2 => Ok(Action::Unwind),
        _ => Err(Fault::new(
            at,
            format!("event {word:#x} is neither entry, exit nor unwinding"),
        )),
    }
}
