// SPDX-License-Identifier: Apache-2.0
//! ART's own method traces: the `.trace` files of `-Xmethod-trace`, `am profile` and
//! `Debug.startMethodTracing`, so that they can be compared with ours.
//!
//! ```no_run
//! use hindsight_decoder::art_trace::{self, Action};
//!
//! let trace = art_trace::read("method.trace".as_ref())?;
//! for thread in &trace.threads {
//!     for event in thread.events.iter().filter(|e| e.action == Action::Enter) {
//!         println!("{}: {}", thread.name, trace.methods.name(event.method));
//!     }
//! }
//! # Ok::<(), hindsight_decoder::Error>(())
//! ```
//!
//! Both of ART's formats are read, as files and as streams: the first (`records`, versions 1 to 3 in its
//! header), and the one of Android 15 (`packets`, versions 4 and 5). `docs/file-formats.md` has the layouts.

mod calls;
mod packets;
mod records;
mod text;

use std::path::Path;

use hashbrown::HashMap;

use crate::bytes::{Bytes, Fault};
use crate::methods::{Method, MethodId, Methods};
use crate::{file, Error};

/// `SLOW`, little-endian.
const MAGIC: u32 = 0x574f_4c53;
/// The header before the events.
const HEADER_BYTES: usize = 32;
/// Set in the version of a stream.
const STREAMING: u16 = 0xf0;

/// What an event says.
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
    /// What happened.
    pub action: Action,
    /// To which method. Unlike in our traces, exits name theirs too.
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

/// A thread and what it recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtThread {
    /// The kernel's thread id. Before ART 13 events hold its low 16 bits only; the rest is taken from the
    /// list of threads.
    pub tid: u32,
    /// Its name; empty if the file doesn't say.
    pub name: String,
    /// In the order of the file, which is that of time.
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
    /// The file ends in the middle of something: the program was killed, or the file was cut off. What is before that is
    /// here.
    pub cut_off: bool,
    /// Events of methods that the file doesn't name.
    pub unnamed_events: u64,
    /// Threads whose 16-bit ids in events are those of several threads.
    pub ambiguous_threads: u64,
    /// Size of the file, bytes.
    pub file_bytes: u64,
}

/// Reads a `.trace` file.
pub fn read(path: &Path) -> Result<ArtTrace, Error> {
    parse(path, &file::read(path)?)
}

/// Reads the bytes of a `.trace` file; `path` is what errors call it.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<ArtTrace, Error> {
    parse_bytes(bytes).map_err(|fault| Error::Malformed {
        path: path.to_owned(),
        offset: fault.offset,
        what: fault.what,
    })
}

/// Whether these may be the first bytes of a `.trace` file.
pub fn is_art_trace(bytes: &[u8]) -> bool {
    bytes.starts_with(b"*version\n") || bytes.starts_with(&MAGIC.to_le_bytes())
}

fn parse_bytes(bytes: &[u8]) -> Result<ArtTrace, Fault> {
    let mut input = Bytes::new(bytes);
    if !is_art_trace(bytes) {
        return Err(input.fault(
            "this is no method trace of ART: it starts neither with '*version' nor with 'SLOW'",
        ));
    }
    let mut building = Building::default();
    // A file starts with the text that a stream ends with.
    if bytes.starts_with(b"*") {
        text::section(&mut input, &mut building)?;
    }
    let header_at = input.at();
    if input.u32("the header's magic")? != MAGIC {
        return Err(Fault::new(
            header_at,
            "after the list of methods there is no 'SLOW', which the events begin with",
        ));
    }
    let version = input.u16("the version")?;
    let streaming = version & STREAMING == STREAMING;
    let version = version & !STREAMING;
    building.trace.version = version;
    building.trace.streaming = streaming;
    building.trace.file_bytes = bytes.len() as u64;
    match version {
        1..=3 => records::read(&mut input, header_at, building),
        4 | 5 => packets::read(&mut input, header_at, building),
        _ => Err(Fault::new(
            header_at + 4,
            format!("version {version} of ART's method traces is not one of 1 to 5, which are known here"),
        )),
    }
}

/// A trace that is being read.
#[derive(Default)]
struct Building {
    trace: ArtTrace,
    names: HashMap<u64, Method>,
    ids: HashMap<u64, MethodId>,
    methods: Vec<u64>,
    /// As the file lists them: id, name.
    listed_threads: Vec<(u32, String)>,
    /// As a stream announces them, with the same few bits as events.
    announced_threads: Vec<(u32, String)>,
    threads: HashMap<u32, usize>,
}

impl Building {
    /// The method with this number.
    fn method(&mut self, number: u64) -> MethodId {
        let methods = &mut self.methods;
        *self.ids.entry(number).or_insert_with(|| {
            methods.push(number);
            MethodId(methods.len() as u32 - 1)
        })
    }

    /// Where the thread with this id in events is in the list.
    fn thread(&mut self, tid: u32) -> usize {
        let threads = &mut self.trace.threads;
        *self.threads.entry(tid).or_insert_with(|| {
            threads.push(ArtThread {
                tid,
                ..ArtThread::default()
            });
            threads.len() - 1
        })
    }

    /// Names what can be named. `id_bits`: how many bits of a thread's id its events hold.
    fn finish(mut self, id_bits: u32) -> ArtTrace {
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
fn action(word: u64, at: usize) -> Result<Action, Fault> {
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
