// SPDX-License-Identifier: Apache-2.0
//! Reads the shared memory of a process that has ended, or of one whose rings were taken.

use std::collections::HashSet;
use std::io;
use std::mem::offset_of;
use std::time::Duration;

use crate::container::{ClockSample, StackGeneration, StackNode, Stacks, Strings, Symbol};
use crate::methods::MethodAddresses;

use super::boot_image::{BootNames, Naming};
use super::ended_ring::{EndedRing, Found, RingFilter};
use super::journal::{Entries, Entry};
use super::layout::{
    Header, RingControl, RingState, StackArena, HEADER_BYTES, MAX_RINGS, MAX_SHARED_BYTES,
    SHARED_MAGIC, SHARED_VERSION,
};
use super::losses::Loss;
use super::source::{journal_of, read_vec, Copied, ReadAt, ReadLimits, SharedError};

/// Bytes of names that are read at most: a hostile process could name millions of methods with the longest strings.
const MAX_NAME_BYTES: usize = 1 << 26;
/// Bytes of one generation of stacks that are read at most: half of the largest table that `stack-table=` makes.
const MAX_GENERATION_BYTES: u64 = 1 << 27;
/// A loss.
const NO_MEMORY: &str = "rings of the ended process: no memory to read them";
/// Bytes of a node of stacks.
const NODE_BYTES: usize = 16;

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

/// Reads everything but what nobody needs any more. Of rings that are together longer than `max_ring_bytes` the later ones are
/// left out, and counted.
///
/// # Errors
/// If the memory cannot be read, or its header is not one.
pub fn read(memory: &(impl ReadAt + ?Sized), max_ring_bytes: u64) -> Result<Ended, SharedError> {
    let limits = ReadLimits::of_rings(max_ring_bytes);
    let mut reader = SharedReader::new(memory, RingFilter::All, limits)?;
    let rings = 0..reader.ring_count();
    let rings: Vec<EndedRing> = rings.filter_map(|index| reader.ring(index)).collect();
    let mut addresses = MethodAddresses::default();
    rings
        .iter()
        .for_each(|ring| ring.add_methods(&mut addresses));
    let mut ended = reader.finish(addresses)?;
    ended.rings = rings;
    Ok(ended)
}

/// The memory of a process, which is read part by part: only one ring at a time needs room.
pub struct SharedReader<'a, M: ?Sized> {
    memory: &'a M,
    header: Vec<u8>,
    limits: ReadLimits,
    /// The description of each ring, its bytes, and where it stands in the memory.
    rings: Vec<(Found, Vec<u8>, u64)>,
    damaged: u64,
    /// Rings for which the system had no memory.
    unread: u64,
    boot_names: Option<BootNames>,
    pub(super) ended: Ended,
}

impl<'a, M: ReadAt + ?Sized> SharedReader<'a, M> {
    /// Reads facts about the process, and which rings there are.
    ///
    /// # Errors
    /// If the memory cannot be read, or its header is not one.
    pub fn new(memory: &'a M, filter: RingFilter, limits: ReadLimits) -> Result<Self, SharedError> {
        let length = memory.length()?;
        if length < HEADER_BYTES as u64 || length > MAX_SHARED_BYTES {
            return Err(SharedError::Unknown("its length"));
        }
        let mut header = vec![0; size_of::<Header>()];
        memory.read_at(0, &mut header)?;
        if !header.starts_with(&SHARED_MAGIC) {
            return Err(SharedError::Unknown(
                "it does not begin as one, or is not ready",
            ));
        }
        if Copied(&header).u32(offset_of!(Header, version)) != SHARED_VERSION {
            return Err(SharedError::Unknown("its version is another one"));
        }
        let mut reader = SharedReader {
            memory,
            ended: facts(&Copied(&header)),
            header,
            limits,
            rings: Vec::new(),
            damaged: 0,
            unread: 0,
            boot_names: None,
        };
        reader.find_rings(filter)?;
        Ok(reader)
    }

    fn find_rings(&mut self, filter: RingFilter) -> Result<(), SharedError> {
        const CONTROL_BYTES: usize = size_of::<RingControl>();
        let (offset, bytes) = Copied(&self.header).region(offset_of!(Header, controls));
        let length = self.memory.length()?;
        let count = (bytes / CONTROL_BYTES as u64).min(u64::from(MAX_RINGS));
        let mut controls = vec![0; count as usize * CONTROL_BYTES];
        self.memory.read_at(offset, &mut controls)?;
        // Rings do not overlap, so that they are not longer than the memory, unless the process is hostile.
        let (mut left, mut omitted) = (self.limits.all_rings.min(length), 0);
        for (index, bytes) in (0..).zip(controls.chunks_exact(CONTROL_BYTES)) {
            let control = Copied(bytes);
            if !filter.keeps(control.u32(offset_of!(RingControl, state))) {
                continue;
            }
            match Found::new(&control, length) {
                None => self.damaged += 1,
                Some(found) => match found.geometry.bytes() as u64 {
                    bytes if bytes > left || bytes > self.limits.ring => omitted += 1,
                    ring_bytes => {
                        left -= ring_bytes;
                        let at = offset.saturating_add(index * CONTROL_BYTES as u64);
                        self.rings.push((found, bytes.to_vec(), at));
                    }
                },
            }
        }
        self.lose(NO_MEMORY, omitted);
        Ok(())
    }

    fn lose(&mut self, what: &str, count: u64) {
        if count != 0 {
            self.ended.losses.push((what.into(), count));
        }
    }

    /// The counter's name, as in `Clocks::source`.
    pub fn source(&self) -> &str {
        &self.ended.source
    }

    /// How long after `now` the counter's rate can be told, at most 20 ms: see [`Ended::time_to_rate`].
    pub fn time_to_rate(&self, now: &ClockSample) -> Duration {
        self.ended.time_to_rate(now)
    }

    /// What the kernel says about the process counts, not the process's own account.
    pub fn set_process(&mut self, pid: u32, uid: u32) {
        if (self.ended.pid, self.ended.uid) != (pid, uid) {
            self.lose(
                "the memory names another process or user; the kernel's account is used",
                1,
            );
            (self.ended.pid, self.ended.uid) = (pid, uid);
        }
    }

    /// Methods of the boot image that the process has not named get these names, if they are of its image.
    pub fn set_boot_names(&mut self, names: Option<BootNames>) {
        self.boot_names = names;
    }

    /// How many rings there are.
    pub fn ring_count(&self) -> usize {
        self.rings.len()
    }

    /// The rings in the order in which readers shall show them: first the thread `raised_by`, then the main thread.
    pub(super) fn order(&self, raised_by: u32) -> Vec<usize> {
        let key = |index: &usize| {
            let control = Copied(&self.rings[*index].1);
            let tid = control.u32(offset_of!(RingControl, tid));
            let thread = control.u64(offset_of!(RingControl, thread));
            let part = control.u32(offset_of!(RingControl, part));
            (tid != raised_by, tid != self.ended.pid, tid, thread, part)
        };
        let mut order: Vec<usize> = (0..self.rings.len()).collect();
        order.sort_by_key(key);
        order
    }

    /// Reads one ring. `None`: it cannot be read any more, which is counted; or the process lives, and uses it for something else.
    pub fn ring(&mut self, index: usize) -> Option<EndedRing> {
        let (found, control, at) = self.rings.get(index)?;
        let control = Copied(control);
        let ring = found.read(self.memory, &control);
        if is_used_again(self.memory, *at, &control) {
            return None;
        }
        match ring {
            Err(e) if e.kind() == io::ErrorKind::OutOfMemory => self.unread += 1,
            Err(_) => self.damaged += 1,
            Ok(ring) => return Some(ring),
        }
        None
    }

    /// Up to `most` bytes of the journal.
    fn journal(&self, most: u64) -> io::Result<Vec<u8>> {
        journal_of(self.memory, &Copied(&self.header), most)
    }

    /// Reads the process's name and facts about it, without names of methods.
    pub(super) fn read_process(&mut self) -> Result<(), SharedError> {
        let journal = self.journal(self.limits.other)?;
        for entry in Entries::new(&journal, Some(&[]), MAX_NAME_BYTES) {
            if let Entry::Process { name, extra } = entry {
                (self.ended.name, self.ended.extra) = (name, extra);
            }
        }
        Ok(())
    }

    /// Reads all but the rings: stacks, and the names of these methods and of those in the stacks.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn finish(mut self, mut addresses: MethodAddresses) -> Result<Ended, SharedError> {
        let damaged = self.damaged;
        self.lose(
            "rings of the ended process: their description is damaged",
            damaged,
        );
        self.lose(NO_MEMORY, self.unread);
        let mut left = self.limits.other;
        let (stacks, unread) = read_stacks(self.memory, &Copied(&self.header), &mut left)?;
        self.lose(
            "generations of stacks of the ended process: no memory to read them",
            unread,
        );
        let nodes = stacks.generations.iter().flat_map(|g| &g.nodes);
        nodes.for_each(|node| addresses.add(node.method));
        self.ended.stacks = stacks;
        let journal = match self.journal(left) {
            Err(e) if e.kind() == io::ErrorKind::OutOfMemory => {
                self.lose("names of the ended process: no memory to read them", 1);
                Vec::new()
            }
            journal => journal?,
        };
        let header = Copied(&self.header);
        let names = self.boot_names.as_ref();
        read_journal(
            &journal,
            &header,
            &addresses.sorted(),
            names,
            &mut self.ended,
        );
        Ok(self.ended)
    }
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

/// The facts in the header.
fn facts(header: &Copied<'_>) -> Ended {
    let started = |i: usize| header.u64(offset_of!(Header, started) + 8 * i);
    Ended {
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
    }
}

/// The stacks, up to `left` bytes of them, and how many generations the system had no memory for.
fn read_stacks(
    memory: &(impl ReadAt + ?Sized),
    header: &Copied<'_>,
    left: &mut u64,
) -> io::Result<(Stacks, u64)> {
    let (offset, bytes) = header.region(offset_of!(Header, stacks));
    let half = bytes / 2;
    let (mut stacks, mut unread) = (Stacks::default(), 0);
    for index in 0..2_u64 {
        let arena = offset_of!(Header, arenas) + index as usize * size_of::<StackArena>();
        let number = (header.u64(arena + offset_of!(StackArena, state)) >> 32) as u32;
        let used = u64::from(header.u32(arena + offset_of!(StackArena, used)));
        // Not used yet, or being cleared.
        if number == 0 || number == u32::MAX || used == 0 {
            continue;
        }
        let bytes = (used * NODE_BYTES as u64).min(half);
        let bytes = bytes
            .min(MAX_GENERATION_BYTES.min(*left))
            .min(memory.length()?);
        let mut nodes = Vec::new();
        let reserved = nodes.try_reserve_exact(bytes as usize / NODE_BYTES);
        let raw = match read_vec(memory, offset.saturating_add(index * half), bytes) {
            Ok(raw) if reserved.is_ok() => raw,
            Err(e) if e.kind() != io::ErrorKind::OutOfMemory => return Err(e),
            _ => {
                unread += 1;
                continue;
            }
        };
        *left -= bytes;
        let parsed = (1..)
            .zip(raw.chunks_exact(NODE_BYTES))
            .map(|(number, node)| {
                let (method, rest) = (Copied(node).u64(0), Copied(node).u64(8));
                let parent = (rest >> 32) as u32;
                StackNode {
                    method,
                    parent: if parent < number { parent } else { 0 },
                    dex_pc: rest as u32,
                }
            });
        nodes.extend(parsed);
        stacks.generations.push(StackGeneration { number, nodes });
    }
    stacks
        .generations
        .sort_by_key(|generation| generation.number);
    Ok((stacks, unread))
}

/// Reads the journal, and the names of these methods, which are sorted.
fn read_journal(
    journal: &[u8],
    header: &Copied<'_>,
    addresses: &[u64],
    boot_names: Option<&BootNames>,
    ended: &mut Ended,
) {
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
    let mut entries = Entries::new(journal, Some(addresses), MAX_NAME_BYTES);
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
    if let Some(names) = boot_names {
        // Not those that the process has named itself, also if it says that they have no certain name.
        let known: HashSet<u64> = ended.symbols.iter().map(|symbol| symbol.address).collect();
        let unknown = addresses.iter().filter(|a| !known.contains(a));
        let unknown: Vec<u64> = unknown.copied().collect();
        let given = names.symbols(&Naming::of(header).image, &unknown);
        ended.symbols.extend(given);
    }
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
}

impl Ended {
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
