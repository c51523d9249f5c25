// SPDX-License-Identifier: Apache-2.0
//! Writes `.hindsight` files from scripted calls, so that host tools can be tested without ART.
//!
//! ```
//! use hindsight_testkit::Script;
//!
//! let mut script = Script::new("com.example");
//! let work = script.method("com.example.Main.work", "()V");
//! let main = script.thread(100, "main");
//! script.at(main, 10).enter(work).at(30).exit();
//! let bytes = script.encode();
//! assert!(hindsight_trace_format::container::Reader::new(&bytes).is_ok());
//! ```

use std::io::{Cursor, Result};
use std::path::Path;

use hindsight_trace_format::catalogue::{Field, FieldKind, CATALOGUE};
use hindsight_trace_format::container::{
    write_file, Anchor, ClockSample, Clocks, Epochs, Losses, OpenCalls, ProcessFacts, RingHeader,
    RingMode, SectionKind, StackGeneration, StackNode, Stacks, Strings, Symbol, Symbols, Writer,
};
use hindsight_trace_format::ring::{Geometry, Position};
use hindsight_trace_format::shared::{Open, UnderWay};
use hindsight_trace_format::slot::{payload_slots, Extension, Slot, SLOT_BYTES};

mod art_trace;
pub mod device;
mod perfetto;
mod random;
mod scenes;
mod shared_memory;
mod system;
mod workload;
pub use art_trace::{ArtEvent, ArtFile, ArtLayout};
pub use perfetto::Perfetto;
pub use scenes::{
    busy, cpu_bound, cut_file, damaged_ring, events_only, lock_chain, many_short_messages,
    no_stall, recorded_owner, repeated_tid, server, stall, taps, transaction, untraced_owner,
    wrapped, Scene, SCENES, STALL_NS,
};
pub use system::System;
pub use workload::Workload;

/// The counter of scripts ticks once a nanosecond, so that ticks and ns can be compared.
pub const TICKS_PER_SECOND: u64 = 1_000_000_000;
/// The counter, and CLOCK_BOOTTIME, at the scripts' time 0.
pub const EPOCH: u64 = 50_000_000_000;
/// CLOCK_REALTIME less CLOCK_BOOTTIME, ns: scripts happen in November 2026.
pub const REALTIME_OFFSET: u64 = 1_795_000_000_000_000_000;
/// Address of the first method; they are 40 bytes apart, as ArtMethods are.
pub const FIRST_METHOD: u64 = 0x7000_1000;

/// A thread of a [`Script`].
#[derive(Clone, Copy, Debug)]
pub struct ThreadIndex(usize);

impl ThreadIndex {
    /// The thread that was added first.
    pub const FIRST: ThreadIndex = ThreadIndex(0);
}

struct ThreadScript {
    header: RingHeader,
    slots: Vec<Slot>,
    anchors: Vec<Anchor>,
    /// Number and methods of the calls that were open when the ring wrapped last.
    open_calls: Option<(u64, Vec<u64>)>,
    under_way: Option<UnderWay>,
    /// The counter when the thread ended.
    ended: Option<u64>,
}

/// The events of a process, and the file that is made of them.
pub struct Script {
    /// Facts; unless set, the pid is the id of the first thread.
    pub process: ProcessFacts,
    /// The clocks, without the reference, which is taken at the end.
    pub clocks: Clocks,
    /// The losses that the writer reports.
    pub losses: Losses,
    /// Names of methods.
    pub symbols: Vec<Symbol>,
    /// Strings that events name.
    pub strings: Strings,
    /// The stacks that events name; see [`Script::stack`].
    pub stacks: Stacks,
    /// The rings are written in compressed frames, as the runtime writes them; default false: as in memory.
    pub compressed: bool,
    geometry: Geometry,
    threads: Vec<ThreadScript>,
    stopped: Option<u64>,
    now: u64,
}

impl Script {
    /// An empty process.
    pub fn new(process: &str) -> Self {
        Script {
            process: ProcessFacts {
                uid: 10_123,
                name: process.into(),
                isa: "x86_64".into(),
                extra: vec![("art.release".into(), "10".into())],
                ..ProcessFacts::default()
            },
            clocks: Clocks {
                ticks_per_second: TICKS_PER_SECOND,
                source: "tsc".into(),
                ..Clocks::default()
            },
            losses: Losses::default(),
            symbols: Vec::new(),
            strings: Strings::default(),
            stacks: Stacks::default(),
            compressed: false,
            geometry: Geometry::default(),
            threads: Vec::new(),
            stopped: None,
            now: EPOCH,
        }
    }

    /// Size of the rings of threads added from now on; default 8 MiB.
    ///
    /// # Panics
    /// If the size is out of bounds.
    pub fn ring_log2_bytes(&mut self, log2: u32) -> &mut Self {
        self.geometry = Geometry::new(log2).expect("a ring size within the bounds");
        self
    }

    /// Adds a method, named `package.Class.method`, and returns its address.
    pub fn method(&mut self, full_name: &str, signature: &str) -> u64 {
        let address = FIRST_METHOD + 40 * self.symbols.len() as u64;
        let (class, name) = full_name.rsplit_once('.').unwrap_or(("", full_name));
        let file = class.rsplit('.').next().unwrap_or_default();
        self.symbols.push(Symbol {
            address,
            class: class.into(),
            name: name.into(),
            signature: signature.into(),
            source_file: format!("{}.java", file.split('$').next().unwrap_or_default()),
            ..Symbol::default()
        });
        address
    }

    /// From this time on, the address is another method's: the class loader of the one before was unloaded.
    pub fn reused_by(&mut self, address: u64, at_ns: u64, full_name: &str) {
        self.method(full_name, "()V");
        if let Some(symbol) = self.symbols.last_mut() {
            symbol.address = address;
            symbol.valid_from = EPOCH + at_ns;
        }
    }

    /// Adds a thread, whose recording begins at time 0.
    pub fn thread(&mut self, tid: u32, name: &str) -> ThreadIndex {
        self.threads.push(ThreadScript {
            header: RingHeader {
                tid,
                name: name.into(),
                geometry: self.geometry,
                started_counter: EPOCH,
                ..RingHeader::default()
            },
            slots: Vec::new(),
            anchors: Vec::new(),
            open_calls: None,
            under_way: None,
            ended: None,
        });
        ThreadIndex(self.threads.len() - 1)
    }

    /// Adds a string, and returns its number.
    pub fn string(&mut self, text: &str) -> u64 {
        self.strings.strings.push(text.into());
        self.strings.strings.len() as u64
    }

    /// Adds the nodes of a stack of these methods, outermost first, each with its dex pc. Returns the payload of an event
    /// [`Stack`](Extension::Stack) that names it.
    pub fn stack(&mut self, frames: &[(u64, u32)]) -> [u64; 2] {
        if self.stacks.generations.is_empty() {
            self.stacks.generations.push(StackGeneration {
                number: 1,
                nodes: Vec::new(),
            });
        }
        let nodes = &mut self.stacks.generations[0].nodes;
        let mut parent = 0;
        for &(method, dex_pc) in frames {
            let node = StackNode {
                method,
                parent,
                dex_pc,
            };
            let known = nodes.iter().position(|n| *n == node);
            let index = known.unwrap_or_else(|| {
                nodes.push(node);
                nodes.len() - 1
            });
            parent = index as u32 + 1;
        }
        [u64::from(parent) | 1 << 32, 0]
    }

    /// Adds a thread that records events only, from time 0 on. The number is the thread's own.
    ///
    /// # Panics
    /// Never: its ring's size is within the bounds.
    pub fn events_thread(&mut self, tid: u32, name: &str, number: u64) -> ThreadIndex {
        let index = self.thread(tid, name);
        let header = &mut self.threads[index.0].header;
        header.geometry = Geometry::new(16).expect("a ring size within the bounds");
        header.thread = number;
        header.mode = RingMode::Events;
        index
    }

    /// From `ns` after time 0 on, a thread records into another ring.
    pub fn next_part(&mut self, thread: ThreadIndex, mode: RingMode, ns: u64) -> ThreadIndex {
        let before = &mut self.threads[thread.0];
        before.ended = Some(EPOCH + ns);
        let header = RingHeader {
            part: before.header.part + 1,
            started_counter: EPOCH + ns,
            mode,
            ..before.header.clone()
        };
        self.threads.push(ThreadScript {
            header,
            slots: Vec::new(),
            anchors: Vec::new(),
            open_calls: None,
            under_way: None,
            ended: None,
        });
        ThreadIndex(self.threads.len() - 1)
    }

    /// The header of a thread's ring, for tests that make it wrong.
    pub fn header(&mut self, thread: ThreadIndex) -> &mut RingHeader {
        &mut self.threads[thread.0].header
    }

    /// The thread took this many calls back, as all that were shorter than `below_ns`, ns, and in which nothing was recorded.
    pub fn taken_back(&mut self, thread: ThreadIndex, below_ns: u32, calls: u64) -> &mut Self {
        self.threads[thread.0].header.epochs = Some(Epochs {
            rewind_below: below_ns,
            taken_back: calls,
            epoch: 0,
        });
        self
    }

    /// Records events of `thread`, from `ns` after time 0 on.
    pub fn at(&mut self, thread: ThreadIndex, ns: u64) -> Recorder<'_> {
        self.now = self.now.max(EPOCH + ns);
        Recorder {
            thread: &mut self.threads[thread.0],
            latest: &mut self.now,
            at: EPOCH + ns,
        }
    }

    /// When the thread's ring wraps last, this many calls are open, and these are the methods of the outermost ones.
    pub fn open_calls(&mut self, thread: ThreadIndex, count: u64, methods: &[u64]) -> &mut Self {
        self.threads[thread.0].open_calls = Some((count, methods.to_vec()));
        self
    }

    /// What was under way on the thread when it began to record into its ring, because it had another one before. Only
    /// [`shared_memory`](Self::shared_memory) has it.
    pub fn under_way(&mut self, thread: ThreadIndex, open: &Open) -> &mut Self {
        let thread = &mut self.threads[thread.0];
        let started = thread.header.started_counter;
        thread.under_way = Some(UnderWay::new(started, open));
        self
    }

    /// The rings are taken `ns` after time 0; by default with the last event.
    pub fn stop_at(&mut self, ns: u64) -> &mut Self {
        self.stopped = Some(EPOCH + ns);
        self
    }

    /// When the rings are taken, ns after time 0.
    pub fn stopped_ns(&self) -> u64 {
        self.stopped.unwrap_or(self.now) - EPOCH
    }

    /// The thread ends `ns` after time 0, which takes its ring.
    pub fn end_thread(&mut self, thread: ThreadIndex, ns: u64) -> &mut Self {
        self.threads[thread.0].ended = Some(EPOCH + ns);
        self
    }

    /// Writes the sections of a file.
    pub fn sections<W: std::io::Write + std::io::Seek>(
        &self,
        writer: &mut Writer<W>,
    ) -> Result<()> {
        let stopped = EPOCH + self.stopped_ns();
        let mut process = self.process.clone();
        if process.pid == 0 {
            process.pid = self.threads.first().map_or(1, |t| t.header.tid);
        }
        writer.section(SectionKind::Process, 0, &[&process.encode()])?;
        let mut clocks = self.clocks.clone();
        clocks.samples.push(ClockSample {
            counter: stopped,
            monotonic_ns: stopped,
            boottime_ns: stopped,
            realtime_ns: REALTIME_OFFSET + stopped,
        });
        writer.section(SectionKind::Clocks, 0, &[&clocks.encode()])?;
        for (i, thread) in self.threads.iter().enumerate() {
            let (header, raw) = thread.ring(stopped);
            match self.compressed {
                true => writer.ring(i as u32, &header, &raw)?,
                false => writer.section(SectionKind::Ring, i as u32, &[&header.encode(), &raw])?,
            }
            if !thread.anchors.is_empty() {
                let anchors = Anchor::encode_all(&thread.anchors);
                writer.section(SectionKind::Anchors, i as u32, &[&anchors])?;
            }
            if let Some((count, methods)) = &thread.open_calls {
                let Position { laps, .. } = header.position;
                let open = OpenCalls {
                    slots_written: laps * header.geometry.slots() as u64,
                    count: *count,
                    methods: methods.clone(),
                };
                writer.section(SectionKind::OpenCalls, i as u32, &[&open.encode()])?;
            }
        }
        let symbols = Symbols {
            symbols: self.symbols.clone(),
        };
        writer.section(SectionKind::Symbols, 0, &[&symbols.encode()])?;
        if !self.strings.strings.is_empty() {
            writer.section(SectionKind::Strings, 0, &[&self.strings.encode()])?;
        }
        if !self.stacks.generations.is_empty() {
            writer.section(SectionKind::Stacks, 0, &[&self.stacks.encode()])?;
        }
        writer.section(SectionKind::Losses, 0, &[&self.losses.encode()])
    }

    /// The bytes of the file.
    ///
    /// # Panics
    /// Never: memory can be written.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        let mut writer = Writer::new(&mut out).expect("memory can be written");
        self.sections(&mut writer).expect("memory can be written");
        writer.finish().expect("memory can be written");
        out.into_inner()
    }

    /// Writes the file.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_file(path, |writer| self.sections(writer))
    }
}

impl ThreadScript {
    /// The ring after all recorded slots were written to it.
    fn ring(&self, stopped: u64) -> (RingHeader, Vec<u8>) {
        let capacity = self.header.geometry.slots();
        // As in the runtime, a full ring wraps when the next slot is written.
        let laps = self.slots.len().saturating_sub(1) / capacity;
        let stopped_counter = self.ended.unwrap_or(stopped);
        // All events of scripts with such rings are in one epoch, unless they say which the newest one is in.
        let of_end = (stopped_counter >> 32) as u32;
        let epoch = |e: Epochs| if e.epoch == 0 { of_end } else { e.epoch };
        let header = RingHeader {
            position: Position {
                laps: laps as u64,
                offset: ((self.slots.len() - laps * capacity) * SLOT_BYTES) as u64,
            },
            stopped_counter,
            epochs: self.header.epochs.map(|e| Epochs {
                epoch: epoch(e),
                ..e
            }),
            ..self.header.clone()
        };
        let mut raw = vec![0; header.stored_bytes()];
        let kept = self.slots.len().saturating_sub(capacity);
        for (i, slot) in self.slots.iter().enumerate().skip(kept) {
            let at = (i % capacity) * SLOT_BYTES;
            raw[at..at + SLOT_BYTES].copy_from_slice(&slot.0.to_le_bytes());
        }
        (header, raw)
    }
}

/// A plausible number for a field, different for the fields of an event where possible.
fn number_for(field: &Field, index: usize) -> u64 {
    match field.kind {
        FieldKind::Choice(values) => (index % values.len()) as u64,
        FieldKind::Flag | FieldKind::String => 1,
        FieldKind::Method | FieldKind::Class => FIRST_METHOD,
        FieldKind::Tid => 100,
        _ => 1 + index as u64,
    }
}

/// Records the events of one thread.
pub struct Recorder<'a> {
    thread: &'a mut ThreadScript,
    latest: &'a mut u64,
    at: u64,
}

impl Recorder<'_> {
    /// Goes on at `ns` after the script's time 0.
    pub fn at(&mut self, ns: u64) -> &mut Self {
        self.at = EPOCH + ns;
        *self.latest = self.at.max(*self.latest);
        self
    }

    /// Goes on `ns` later.
    pub fn after(&mut self, ns: u64) -> &mut Self {
        self.at(self.at - EPOCH + ns)
    }

    /// Enters the method at `address`, in the wide form if it needs it.
    pub fn enter(&mut self, address: u64) -> &mut Self {
        match u32::try_from(address) {
            Ok(narrow) => self.thread.slots.push(Slot::entry(narrow, self.at)),
            Err(_) => self
                .thread
                .slots
                .extend([Slot(address), Slot::wide_entry(self.at)]),
        }
        self
    }

    /// Leaves the innermost method.
    pub fn exit(&mut self) -> &mut Self {
        self.thread.slots.push(Slot::exit(self.at));
        self
    }

    /// Enters a method, and leaves it `ns` later.
    pub fn call(&mut self, address: u64, ns: u64) -> &mut Self {
        self.enter(address).after(ns).exit()
    }

    /// An extension event.
    ///
    /// # Panics
    /// If `payload` has not as many slots as the extension's number says.
    pub fn extension(&mut self, extension: Extension, payload: &[u64]) -> &mut Self {
        self.raw_extension(extension.number(), payload)
    }

    /// An extension event with these fields; all others are 0.
    ///
    /// # Panics
    /// If the event has no such field.
    pub fn event(&mut self, extension: Extension, fields: &[(&str, u64)]) -> &mut Self {
        let mut payload = [0; 7];
        let payload = &mut payload[..payload_slots(extension.number())];
        for (name, number) in fields {
            let field = extension.spec().field(name).expect("a field of the event");
            field.set(payload, *number);
        }
        self.extension(extension, payload)
    }

    /// The whole counter, after a pause since the event `before_ns` after time 0.
    pub fn full_time(&mut self, before_ns: u64) -> &mut Self {
        let payload = [EPOCH + before_ns, self.at];
        self.extension(Extension::FullTime, &payload)
    }

    /// One event of every kind in the catalogue, `ns` apart. Each field holds a number that fits.
    pub fn every_event(&mut self, ns: u64) -> &mut Self {
        for spec in CATALOGUE {
            let fields = spec.fields.iter().enumerate();
            let fields: Vec<_> = fields.map(|(i, f)| (f.name, number_for(f, i))).collect();
            match spec.extension {
                Extension::FullTime => self.full_time(self.now().saturating_sub(ns)),
                kind => self.event(kind, &fields),
            };
            self.after(ns);
        }
        self
    }

    /// An extension event that this version may not know.
    ///
    /// # Panics
    /// If the number of payload slots doesn't fit the extension's number.
    pub fn raw_extension(&mut self, number: u32, payload: &[u64]) -> &mut Self {
        assert_eq!(payload_slots(number), payload.len());
        self.thread.slots.extend(payload.iter().map(|&p| Slot(p)));
        self.thread.slots.push(Slot::new(number, self.at));
        self
    }

    /// An exception leaves `frames` methods.
    pub fn unwind(&mut self, frames: u64) -> &mut Self {
        self.extension(Extension::Unwound, &[frames])
    }

    /// The control thread samples counter and cursor.
    pub fn anchor(&mut self) -> &mut Self {
        self.thread.anchors.push(Anchor {
            counter: self.at,
            slots_written: self.thread.slots.len() as u64,
        });
        self
    }

    /// The time on the script's clock, ns.
    pub fn now(&self) -> u64 {
        self.at - EPOCH
    }
}
