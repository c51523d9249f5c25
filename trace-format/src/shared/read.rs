// SPDX-License-Identifier: Apache-2.0
//! Reads the shared memory of a process that has ended, or of one whose rings were taken.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use crate::container::{
    Anchor, ClockSample, Epochs, OpenCalls, RingHeader, RingMode, StackGeneration, StackNode,
    Stacks, Strings, Symbol,
};
use crate::ring::{Geometry, Position};
use crate::slot::{payload_slots, Extension, Slot, CLEARED, PAYLOAD_MASK, SLOT_BYTES};

use super::journal::{Entries, Entry, MAX_JOURNAL_BYTES};
use super::layout::{
    Header, OpenCallsPage, Region, RingControl, RingState, StackArena, FLAG_EPOCHS_MARKED,
    HEADER_BYTES, MAX_RINGS, MAX_SHARED_BYTES, NAME_BYTES, OPEN_CALLS_BYTES, OPEN_CALLS_NAMED,
    SHARED_MAGIC, SHARED_VERSION,
};
use super::losses::Loss;
use super::newest::newest_in_segment;
use crate::reverse::Slots;

/// Bytes of names that are read at most: a hostile process could name millions of methods with the longest strings.
const MAX_NAME_BYTES: usize = 1 << 26;
/// Bytes of one generation of stacks that are read at most: half of the largest table that `stack-table=` makes.
const MAX_GENERATION_BYTES: u64 = 1 << 27;
/// Bytes of a node of stacks.
const NODE_BYTES: usize = 16;

/// Why memory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// Reading failed.
    #[error("the shared memory cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is not a process's shared memory, is not ready, or belongs to another version.
    #[error("not a process's shared memory of version {SHARED_VERSION}: {0}")]
    Unknown(&'static str),
}

/// Something that can be read at any offset.
pub trait ReadAt {
    /// Its length, bytes.
    ///
    /// # Errors
    /// If it cannot be determined.
    fn length(&self) -> io::Result<u64>;
    /// Reads exactly as many bytes as `into` has.
    ///
    /// # Errors
    /// If there are not so many, or they cannot be read.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, offset)
    }
}

impl ReadAt for [u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok();
        let bytes = from
            .and_then(|from| self.get(from..)?.get(..into.len()))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}

/// A ring as it was when the process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRing {
    /// Its thread, and the position of its newest slot.
    pub header: RingHeader,
    /// Binds the newest slot to the counter.
    pub anchor: Anchor,
    /// The calls that were open at the start of its newest segment.
    pub open_calls: Option<OpenCalls>,
    /// The ring's memory from its start: `RingHeader::stored_bytes` of it.
    pub raw: Vec<u8>,
}

impl EndedRing {
    /// The slots recorded, oldest first.
    pub fn slots(&self) -> Slots<'_> {
        Slots::new(&self.raw, self.header.position)
    }
}

/// What the shared memory of a process says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Kernel id of the process, by its own account.
    pub pid: u32,
    /// User id, by its own account.
    pub uid: u32,
    /// Process or package name.
    pub name: String,
    /// The instruction set.
    pub isa: String,
    /// Facts about the process.
    pub extra: Vec<(String, String)>,
    /// The counter's name.
    pub source: String,
    /// The counter's rate, ticks per second; 0 if the process did not know it.
    pub ticks_per_second: u64,
    /// Whether reading the counter traps.
    pub read_traps: bool,
    /// When recording started.
    pub started: ClockSample,
    /// The rings.
    pub rings: Vec<EndedRing>,
    /// The stacks that events name.
    pub stacks: Stacks,
    /// Names of the program's events.
    pub strings: Strings,
    /// Names of methods in the rings and stacks, of classes that are in the journal.
    pub symbols: Vec<Symbol>,
    /// The journal has the names of all classes that were linked before recording started.
    pub are_named: bool,
    /// What is missing, with its number.
    pub losses: Vec<(String, u64)>,
}

/// Fields of a struct that was copied out of the memory.
struct Copied<'a>(&'a [u8]);

impl Copied<'_> {
    fn u32(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn u64(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn text(&self, at: usize, bytes: usize) -> String {
        let bytes = self.0.get(at..at + bytes).unwrap_or_default();
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    fn region(&self, at: usize) -> (u64, u64) {
        (
            self.u64(at + offset_of!(Region, offset)),
            self.u64(at + offset_of!(Region, bytes)),
        )
    }
}

/// Reads everything but what nobody needs any more. Of rings that are together longer than `max_ring_bytes` the later ones are
/// left out, and counted.
///
/// # Errors
/// If the memory cannot be read, or its header is not one.
pub fn read(memory: &(impl ReadAt + ?Sized), max_ring_bytes: u64) -> Result<Ended, SharedError> {
    let length = memory.length()?;
    if length < HEADER_BYTES as u64 || length > MAX_SHARED_BYTES {
        return Err(SharedError::Unknown("its length"));
    }
    let mut bytes = vec![0; size_of::<Header>()];
    memory.read_at(0, &mut bytes)?;
    if !bytes.starts_with(&SHARED_MAGIC) {
        return Err(SharedError::Unknown(
            "it does not begin as one, or is not ready",
        ));
    }
    let header = Copied(&bytes);
    if header.u32(offset_of!(Header, version)) != SHARED_VERSION {
        return Err(SharedError::Unknown("its version is another one"));
    }
    let started = |i: usize| header.u64(offset_of!(Header, started) + 8 * i);
    let mut ended = Ended {
        pid: header.u32(offset_of!(Header, pid)),
        uid: header.u32(offset_of!(Header, uid)),
        isa: header.text(offset_of!(Header, isa), 16),
        source: header.text(offset_of!(Header, source), 16),
        ticks_per_second: header.u64(offset_of!(Header, ticks_per_second)),
        read_traps: header.u32(offset_of!(Header, read_traps)) != 0,
        are_named: header.u64(offset_of!(Header, are_named)) != 0,
        started: ClockSample {
            counter: started(0),
            monotonic_ns: started(1),
            boottime_ns: started(2),
            realtime_ns: started(3),
        },
        ..Ended::default()
    };
    read_rings(memory, &header, max_ring_bytes, &mut ended)?;
    ended.stacks = read_stacks(memory, &header)?;
    read_journal(memory, &header, &mut ended)?;
    Ok(ended)
}

fn read_rings(
    memory: &(impl ReadAt + ?Sized),
    header: &Copied<'_>,
    max_ring_bytes: u64,
    ended: &mut Ended,
) -> Result<(), SharedError> {
    const CONTROL_BYTES: usize = size_of::<RingControl>();
    let (offset, bytes) = header.region(offset_of!(Header, controls));
    let length = memory.length()?;
    let count = (bytes / CONTROL_BYTES as u64).min(u64::from(MAX_RINGS));
    let mut controls = vec![0; count as usize * CONTROL_BYTES];
    memory.read_at(offset, &mut controls)?;
    // Rings do not overlap, so that they are not longer than the memory, unless the process is hostile.
    let (mut left, mut omitted, mut damaged) = (max_ring_bytes.min(length), 0, 0);
    for (index, control) in (0..).zip(controls.chunks_exact(CONTROL_BYTES)) {
        let control = Copied(control);
        let state = control.u32(offset_of!(RingControl, state));
        if state != RECORDING && state != TAKEN {
            continue;
        }
        match Found::new(&control, length) {
            None => damaged += 1,
            Some(found) if found.geometry.bytes() as u64 > left => omitted += 1,
            Some(found) => {
                left -= found.geometry.bytes() as u64;
                let read = found.read(memory, &control);
                let at = offset.saturating_add(index * CONTROL_BYTES as u64);
                match read {
                    // A process that lives may use a ring again, but not one that was taken for its reader.
                    _ if is_used_again(memory, at, &control) => {}
                    Ok(ring) => ended.rings.push(ring),
                    Err(_) => damaged += 1,
                }
            }
        }
    }
    for (what, count) in [
        (
            "rings of the ended process: no memory to read them",
            omitted,
        ),
        (
            "rings of the ended process: their description is damaged",
            damaged,
        ),
    ] {
        if count != 0 {
            ended.losses.push((what.into(), count));
        }
    }
    Ok(())
}

/// Whether the ring whose control stands at this offset has been used for something else since the control was copied.
fn is_used_again(memory: &(impl ReadAt + ?Sized), at: u64, before: &Copied<'_>) -> bool {
    let mut now = vec![0; size_of::<RingControl>()];
    if memory.read_at(at, &mut now).is_err() {
        return false;
    }
    let now = Copied(&now);
    let thread = offset_of!(RingControl, thread);
    let started = offset_of!(RingControl, started_counter);
    let part = offset_of!(RingControl, part);
    let is_free = now.u32(offset_of!(RingControl, state)) == RingState::Free as u32;
    is_free
        || now.u32(part) != before.u32(part)
        || [thread, started]
            .iter()
            .any(|field| now.u64(*field) != before.u64(*field))
}

const RECORDING: u32 = RingState::Recording as u32;
const TAKEN: u32 = RingState::Taken as u32;

/// A ring whose description makes sense.
struct Found {
    geometry: Geometry,
    segments: u64,
    slots: u64,
    mode: RingMode,
}

impl Found {
    /// Of memory of this length, bytes.
    fn new(control: &Copied<'_>, length: u64) -> Option<Self> {
        let geometry = Geometry::new(control.u32(offset_of!(RingControl, log2_bytes)))?;
        let segments = u64::from(control.u32(offset_of!(RingControl, segments)));
        let found = Found {
            geometry,
            segments,
            slots: control.u64(offset_of!(RingControl, slots)),
            mode: RingMode::from_number(control.u32(offset_of!(RingControl, mode))),
        };
        let is_sound = segments.is_power_of_two() && segments <= geometry.slots() as u64;
        let end = found.slots.checked_add(geometry.bytes() as u64)?;
        let is_inside = found.slots >= OPEN_CALLS_BYTES as u64 && end <= length;
        (is_sound && is_inside).then_some(found)
    }

    fn segment_slots(&self) -> u64 {
        self.geometry.slots() as u64 / self.segments
    }

    fn position(&self, slots_written: u64) -> Position {
        let slots = self.geometry.slots() as u64;
        Position {
            laps: slots_written / slots,
            offset: slots_written % slots * SLOT_BYTES as u64,
        }
    }

    /// Reads the ring, and finds its newest slot.
    fn read(&self, memory: &(impl ReadAt + ?Sized), control: &Copied<'_>) -> io::Result<EndedRing> {
        let mut raw = vec![0; self.geometry.bytes()];
        memory.read_at(self.slots, &mut raw)?;
        let is_taken = control.u32(offset_of!(RingControl, state)) == TAKEN;
        let newest = match is_taken || self.mode == RingMode::Events {
            true => Newest::stated(control),
            false => self.find_newest(control, &mut raw),
        };
        let position = self.position(newest.slots_written);
        // A thread that goes on at the start of the ring's memory notes that before it writes there.
        let has_wrapped = control.u64(offset_of!(RingControl, segments_done)) != 0;
        if self.mode == RingMode::Events && !is_taken && position.laps != 0 && has_wrapped {
            clear_unfinished(&mut raw, position);
        }
        let started = control.u64(offset_of!(RingControl, started_counter));
        let flags = control.u32(offset_of!(RingControl, flags));
        let is_exact = self.mode == RingMode::Calls && flags & FLAG_EPOCHS_MARKED != 0;
        let header = RingHeader {
            tid: control.u32(offset_of!(RingControl, tid)),
            name: self.name(control),
            geometry: self.geometry,
            position,
            started_counter: started,
            stopped_counter: newest.counter.max(started),
            thread: control.u64(offset_of!(RingControl, thread)),
            part: control.u32(offset_of!(RingControl, part)),
            mode: self.mode,
            epochs: is_exact.then(|| Epochs {
                rewind_below: control.u32(offset_of!(RingControl, rewind_below)),
                taken_back: control.u64(offset_of!(RingControl, taken_back)),
                epoch: newest.epoch,
            }),
        };
        raw.truncate(header.stored_bytes());
        let done = control.u64(offset_of!(RingControl, segments_done));
        Ok(EndedRing {
            anchor: Anchor {
                counter: header.stopped_counter,
                slots_written: newest.slots_written,
            },
            open_calls: match self.mode {
                RingMode::Calls => self.open_calls(memory, done),
                RingMode::Events => None,
            },
            header,
            raw,
        })
    }

    fn name(&self, control: &Copied<'_>) -> String {
        control.text(offset_of!(RingControl, name), NAME_BYTES)
    }

    /// The newest slot of a ring of calls, which its thread was recording into. Clears the rest of its segment.
    fn find_newest(&self, control: &Copied<'_>, raw: &mut [u8]) -> Newest {
        let done = control.u64(offset_of!(RingControl, segments_done));
        let segment_slots = self.segment_slots();
        let segment_bytes = segment_slots as usize * SLOT_BYTES;
        let start = (done % self.segments) as usize * segment_bytes;
        let segment = &mut raw[start..start + segment_bytes];
        let before = done.saturating_mul(segment_slots);
        let in_segment = newest_in_segment(segment) / SLOT_BYTES;
        let mut slots_written = before.saturating_add(in_segment as u64);
        let pending = control.u64(offset_of!(RingControl, pending));
        if let Some(event) = pending.checked_sub(1) {
            // An event has at most so many slots.
            if (slots_written.saturating_sub(8)..=slots_written).contains(&event) {
                slots_written = event;
            }
        }
        let kept = slots_written.saturating_sub(before) as usize * SLOT_BYTES;
        clear(&mut segment[kept.min(segment_bytes)..]);
        // The event began in the segment before: its slots are no event, and readers find the oldest slot behind those that are
        // cleared.
        for slot in slots_written..before {
            let at = (slot % self.geometry.slots() as u64) as usize * SLOT_BYTES;
            clear(&mut raw[at..at + SLOT_BYTES]);
        }
        let mut newest = Newest {
            slots_written,
            counter: 0,
            epoch: control.u32(offset_of!(RingControl, epoch)),
        };
        let segment_counter = control.u64(offset_of!(RingControl, segment_counter));
        newest.find_time(
            Slots::new(raw, self.position(slots_written)),
            segment_slots,
            segment_counter,
        );
        newest
    }

    /// The open calls that were noted when so many segments were complete.
    fn open_calls(&self, memory: &(impl ReadAt + ?Sized), done: u64) -> Option<OpenCalls> {
        if done == 0 {
            return None;
        }
        let mut bytes = vec![0; size_of::<OpenCallsPage>()];
        let at = self.slots - OPEN_CALLS_BYTES as u64;
        memory.read_at(at, &mut bytes).ok()?;
        let page = Copied(&bytes);
        let count = page.u64(offset_of!(OpenCallsPage, count));
        let named = count.min(OPEN_CALLS_NAMED as u64) as usize;
        let method = |i: usize| page.u64(offset_of!(OpenCallsPage, methods) + 8 * i);
        (page.u64(offset_of!(OpenCallsPage, laps)) == done).then(|| OpenCalls {
            slots_written: done.saturating_mul(self.segment_slots()),
            count,
            methods: (0..named).map(method).collect(),
        })
    }
}

/// Clears the oldest slots of a ring of events that has wrapped: its thread may have overwritten some of them with an event that
/// it did not complete, so that the oldest event would have a wrong payload.
fn clear_unfinished(raw: &mut [u8], position: Position) {
    /// Of an event and the `FullTime` before it.
    const MAX_SLOTS: usize =
        PAYLOAD_MASK as usize + 1 + payload_slots(Extension::FullTime.number()) + 1;
    let start = (position.offset as usize).min(raw.len());
    let end = raw.len().min(start + MAX_SLOTS * SLOT_BYTES);
    clear(&mut raw[start..end]);
}

/// Fills slots with ones that readers skip.
fn clear(slots: &mut [u8]) {
    for slot in slots.chunks_exact_mut(SLOT_BYTES) {
        slot.copy_from_slice(&CLEARED.0.to_le_bytes());
    }
}

/// The newest slot of a ring.
struct Newest {
    slots_written: u64,
    /// No slot is newer, ticks.
    counter: u64,
    /// The upper half of the counter at the newest slot.
    epoch: u32,
}

impl Newest {
    /// As the ring's control says.
    fn stated(control: &Copied<'_>) -> Self {
        Newest {
            slots_written: control.u64(offset_of!(RingControl, slots_written)),
            counter: control.u64(offset_of!(RingControl, newest_counter)),
            epoch: control.u32(offset_of!(RingControl, epoch)),
        }
    }

    /// The time of the newest of these slots: of the last `segment_slots` one may change the upper half of the counter, which is
    /// `epoch` before.
    fn find_time(&mut self, slots: Slots<'_>, segment_slots: u64, segment_counter: u64) {
        let first = slots.len().saturating_sub(segment_slots as usize);
        let mut events = slots.events();
        let newest = events.clone().next().map(|event| event.slot);
        let full_time = events
            .find(|event| event.slot.low() == Extension::FullTime.number() || event.index < first);
        if let Some(event) = full_time.filter(|e| e.slot.low() == Extension::FullTime.number()) {
            let counter = event.payload(FULL_TIME_COUNTER).unwrap_or_default();
            self.epoch = self.epoch.max((counter >> 32) as u32);
        }
        let low = newest.map_or(0, Slot::counter);
        let counter = u64::from(self.epoch) << 32 | u64::from(low);
        self.counter = counter.max(segment_counter);
    }
}

/// Index of the whole counter among the payload of `FullTime`.
const FULL_TIME_COUNTER: usize = 1;
const _: () = assert!(payload_slots(Extension::FullTime.number()) == 2);

fn read_stacks(
    memory: &(impl ReadAt + ?Sized),
    header: &Copied<'_>,
) -> Result<Stacks, SharedError> {
    let (offset, bytes) = header.region(offset_of!(Header, stacks));
    let half = bytes / 2;
    let mut stacks = Stacks::default();
    for index in 0..2_u64 {
        let arena = offset_of!(Header, arenas) + index as usize * size_of::<StackArena>();
        let number = (header.u64(arena + offset_of!(StackArena, state)) >> 32) as u32;
        let used = u64::from(header.u32(arena + offset_of!(StackArena, used)));
        // Not used yet, or being cleared.
        if number == 0 || number == u32::MAX || used == 0 {
            continue;
        }
        let bytes = (used * NODE_BYTES as u64).min(half);
        let bytes = bytes.min(MAX_GENERATION_BYTES).min(memory.length()?);
        let mut nodes = vec![0; bytes as usize];
        memory.read_at(offset.saturating_add(index * half), &mut nodes)?;
        let nodes = (1..)
            .zip(nodes.chunks_exact(NODE_BYTES))
            .map(|(number, node)| {
                let (method, rest) = (Copied(node).u64(0), Copied(node).u64(8));
                let parent = (rest >> 32) as u32;
                StackNode {
                    method,
                    parent: if parent < number { parent } else { 0 },
                    dex_pc: rest as u32,
                }
            });
        let nodes = nodes.collect();
        stacks.generations.push(StackGeneration { number, nodes });
    }
    stacks
        .generations
        .sort_by_key(|generation| generation.number);
    Ok(stacks)
}

fn read_journal(
    memory: &(impl ReadAt + ?Sized),
    header: &Copied<'_>,
    ended: &mut Ended,
) -> Result<(), SharedError> {
    let (offset, bytes) = header.region(offset_of!(Header, journal));
    let committed = header.u64(offset_of!(Header, committed));
    let bytes = committed.min(bytes).min(memory.length()?);
    let mut journal = vec![0; bytes.min(MAX_JOURNAL_BYTES) as usize];
    memory.read_at(offset, &mut journal)?;
    for (at, what) in [
        (
            offset_of!(Header, dropped),
            "names of classes: no room in the journal",
        ),
        (
            offset_of!(Header, outside),
            "rings that were not in the shared memory: no room there",
        ),
    ] {
        let count = header.u64(at);
        if count != 0 {
            ended.losses.push((what.into(), count));
        }
    }
    for loss in Loss::ALL {
        let at = offset_of!(Header, losses) + loss as usize * size_of::<u64>();
        let count = header.u64(at);
        if count != 0 {
            ended.losses.push((loss.text().into(), count));
        }
    }
    let mut addresses = ended.method_addresses();
    addresses.retain(|address| *address != 0);
    let mut entries = Entries::new(&journal, Some(&addresses), MAX_NAME_BYTES);
    for entry in entries.by_ref() {
        match entry {
            Entry::Process { name, extra } => (ended.name, ended.extra) = (name, extra),
            Entry::EventName(name) => ended.strings.strings.push(name),
            Entry::Class(class) => {
                for method in class.methods {
                    ended.symbols.push(Symbol {
                        address: method.address,
                        valid_from: class.counter,
                        class: class.class.clone(),
                        name: method.name,
                        signature: method.signature,
                        source_file: class.source_file.clone(),
                        dex_checksum: class.dex_checksum,
                        dex_method_index: method.dex_method_index,
                    });
                }
            }
        }
    }
    let left_out = entries.left_out();
    ended.settle_names();
    let named: HashSet<u64> = ended.symbols.iter().map(|symbol| symbol.address).collect();
    let unnamed = addresses
        .iter()
        .filter(|address| !named.contains(address))
        .count();
    if unnamed != 0 {
        let what = match ended.are_named {
            true => "methods without a name",
            false => "methods without a name: the process ended before the names of its first classes were written",
        };
        ended.losses.push((what.into(), unnamed as u64));
    }
    if left_out != 0 {
        let what = "names of the ended process: too many, or too long".into();
        ended.losses.push((what, left_out));
    }
    Ok(())
}

impl Ended {
    /// The addresses of all methods in the rings and stacks, sorted, without duplicates.
    fn method_addresses(&self) -> Vec<u64> {
        let mut addresses = crate::methods::MethodAddresses::default();
        for ring in &self.rings {
            addresses.add_slots(ring.slots());
            let open = ring.open_calls.iter().flat_map(|open| &open.methods);
            open.for_each(|method| addresses.add(*method));
        }
        let nodes = self.stacks.generations.iter().flat_map(|g| &g.nodes);
        nodes.for_each(|node| addresses.add(node.method));
        addresses.sorted()
    }

    /// Puts the names in order: the first of an address was its name since ever, and names that do not change count once.
    fn settle_names(&mut self) {
        // Several methods may have been recorded with these addresses.
        let unnamed = self.symbols.iter().filter(|symbol| symbol.name.is_empty());
        let ambiguous: HashSet<u64> = unnamed.map(|symbol| symbol.address).collect();
        self.symbols
            .retain(|symbol| !ambiguous.contains(&symbol.address));
        self.symbols
            .sort_by_key(|symbol| (symbol.address, symbol.valid_from));
        self.symbols.dedup_by(|later, earlier| {
            let is_same = (later.address, &later.class, &later.name, &later.signature)
                == (
                    earlier.address,
                    &earlier.class,
                    &earlier.name,
                    &earlier.signature,
                );
            let is_replaced =
                later.address == earlier.address && later.valid_from == earlier.valid_from;
            if is_replaced && !is_same {
                std::mem::swap(later, earlier);
            }
            is_same || is_replaced
        });
        let mut before = 0;
        for symbol in &mut self.symbols {
            if symbol.address != before {
                symbol.valid_from = 0;
            }
            before = symbol.address;
        }
    }
}
