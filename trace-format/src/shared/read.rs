// SPDX-License-Identifier: Apache-2.0
//! Reads the shared memory of a process that has ended, or of one whose rings were taken.

use std::io;
use std::mem::offset_of;
use std::time::Duration;

use crate::container::{ClockSample, RingHeader, Stacks, Strings, Symbol};
use crate::methods::MethodAddresses;

use super::boot_image::BootNames;
use super::ended_names::{add_losses, Names};
use super::ended_ring::{EndedRing, Found, RingFilter};
use super::ended_stacks::read_stacks;
use super::entries::Entries;
use super::journal::Entry;
use super::layout::{
    Header, RingControl, RingState, HEADER_BYTES, MAX_RINGS, MAX_SHARED_BYTES, SHARED_MAGIC,
    SHARED_VERSION,
};
use super::source::{journal_of, read_vec, Copied, ReadAt, ReadLimits, SharedError};

/// Memory for facts about the process, bytes.
const PROCESS_BYTES: usize = 1 << 18;
/// Memory for all that has a bounded size: buffers, facts about the process, the first addresses of methods; bytes.
const FIXED_BYTES: u64 = 1 << 20;
/// Memory for the description of a ring, and its sections' places in the file, bytes.
const RING_BYTES: u64 = 640;
/// A loss.
const NO_MEMORY: &str = "rings of the ended process: no memory to read them";

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
    let mut addresses = reader.addresses();
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
        let controls = read_vec(self.memory, offset, count * CONTROL_BYTES as u64)?;
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

    /// Memory that it may use, bytes.
    pub(super) fn memory_limit(&self) -> u64 {
        self.limits.memory
    }

    /// So many bytes of the memory that it may use are used by something else.
    pub(super) fn reserve(&mut self, bytes: u64) {
        self.limits.memory = self.limits.memory.saturating_sub(bytes);
    }

    /// Memory for all but what has a bounded size, bytes.
    fn room(&self) -> u64 {
        let fixed = RING_BYTES * self.rings.len() as u64 + FIXED_BYTES;
        self.limits.memory.saturating_sub(fixed)
    }

    /// Memory for the addresses of methods beside a ring, bytes.
    fn room_for_addresses(&self) -> u64 {
        let rings = self.rings.iter();
        let largest = rings.map(|(found, ..)| found.geometry.bytes() as u64).max();
        let room = self.room();
        room.saturating_sub(largest.unwrap_or(0)).min(room / 4)
    }

    /// For the addresses of the methods in its rings and stacks.
    pub(super) fn addresses(&self) -> MethodAddresses {
        MethodAddresses::within(self.room_for_addresses())
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
            Ok(mut ring) => {
                let all = ring.under_way.take();
                ring.under_way = all.map(|all| match self.has_ring_before(&ring.header) {
                    true => all.beside_ring_before(),
                    false => all,
                });
                return Some(ring);
            }
        }
        None
    }

    /// Whether the ring that the thread had before this one is there, too: it has the events of what was under way.
    fn has_ring_before(&self, header: &RingHeader) -> bool {
        let is_before = |control: &Copied<'_>| {
            control.u64(offset_of!(RingControl, thread)) == header.thread
                && control.u32(offset_of!(RingControl, tid)) == header.tid
                && Some(control.u32(offset_of!(RingControl, part))) == header.part.checked_sub(1)
        };
        let mut controls = self.rings.iter().map(|(_, control, _)| Copied(control));
        controls.any(|control| is_before(&control))
    }

    /// Up to `most` bytes of the journal.
    fn journal(&self, most: u64) -> io::Result<Vec<u8>> {
        journal_of(self.memory, &Copied(&self.header), most)
    }

    /// Reads the process's name and facts about it, without names of methods.
    pub(super) fn read_process(&mut self) -> Result<(), SharedError> {
        let journal = self.journal(self.limits.other)?;
        for entry in Entries::of_process(&journal, PROCESS_BYTES) {
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
        let header = Copied(&self.header);
        let most = self.limits.other;
        let room = self.room().saturating_sub(self.room_for_addresses());
        let (stacks, bytes, unread) = read_stacks(self.memory, &header, most, room)?;
        self.lose(
            "generations of stacks of the ended process: no memory to read all of them",
            unread,
        );
        let nodes = stacks.generations.iter().flat_map(|g| &g.nodes);
        nodes.for_each(|node| addresses.add(node.method));
        self.lose(
            "places of methods without a name: too many methods",
            addresses.left_out(),
        );
        let addresses = addresses.sorted();
        let room = self.room().saturating_sub(bytes);
        let mut room = room.saturating_sub(8 * addresses.capacity() as u64);
        let journal = match self.journal((most - bytes).min(room)) {
            Err(e) if e.kind() == io::ErrorKind::OutOfMemory => {
                self.lose("names of the ended process: no memory to read them", 1);
                Vec::new()
            }
            journal => journal?,
        };
        room -= journal.len() as u64;
        let header = Copied(&self.header);
        let names = self.boot_names.as_ref();
        if names.is_some() {
            // Their list of methods that are looked for.
            room = room.saturating_sub(size_of_val(&addresses[..]) as u64 * 2);
        }
        let mut ended = self.ended;
        add_losses(&header, &mut ended.losses);
        let (are_named, losses) = (ended.are_named, &mut ended.losses);
        let names = Names::read(
            &journal, &header, &addresses, names, room, are_named, losses,
        );
        if let Some(process) = names.process {
            (ended.name, ended.extra) = process;
        }
        (ended.strings, ended.symbols, ended.stacks) = (names.strings, names.symbols, stacks);
        Ok(ended)
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
