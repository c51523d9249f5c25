// SPDX-License-Identifier: Apache-2.0
//! A system trace, and what can be asked about its threads.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use bytes::Bytes;
use hashbrown::HashMap;
use prost::Message;

use crate::binder::{Transaction, Transactions};
use crate::clocks::Clocks;
use crate::error::Error;
use crate::ftrace::Reader;
use crate::packets::{unpack, Found, Packets};
use crate::records::Gap;
use crate::schedule::{Schedule, Slice};
use crate::schema::{Bundle, FtraceStats, ProcessTree, TracePacket};
use crate::state::State;

/// A thread of a system trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemThread {
    /// The kernel's thread id. Ids of ended threads are given to new ones.
    pub tid: u32,
    /// The id of its process; `None` if that is not recorded.
    pub pid: Option<u32>,
    /// Its name: the kernel keeps 15 bytes of it. Empty if it is not recorded.
    pub name: String,
    /// The first word of its process's command line; empty if that is not recorded.
    pub process: String,
    /// When it was first seen, CLOCK_BOOTTIME, ns.
    pub first_ns: u64,
    /// When it last did something else, CLOCK_BOOTTIME, ns.
    pub last_ns: u64,
}

/// How long a thread did what, ns. All of it adds up to the time that was asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// On a processor.
    pub running_ns: u64,
    /// Ready to run, without a processor.
    pub runnable_ns: u64,
    /// Asleep, so that a signal would end it.
    pub sleeping_ns: u64,
    /// Waiting for a disk.
    pub io_ns: u64,
    /// Waiting in the kernel, so that no signal ends it, and not for a disk, or it is not recorded for what.
    pub blocked_ns: u64,
    /// Stopped, or ended.
    pub stopped_ns: u64,
    /// Not recorded.
    pub unknown_ns: u64,
}

impl Times {
    /// Adds a stretch of time.
    pub fn add(&mut self, state: State, ns: u64) {
        *match state {
            State::Running => &mut self.running_ns,
            State::Runnable => &mut self.runnable_ns,
            State::Sleeping => &mut self.sleeping_ns,
            State::Io => &mut self.io_ns,
            State::Blocked | State::Uninterruptible => &mut self.blocked_ns,
            State::Stopped | State::Ended => &mut self.stopped_ns,
            State::Unknown => &mut self.unknown_ns,
        } += ns;
    }

    /// The sum, ns.
    pub fn total_ns(&self) -> u64 {
        self.running_ns
            + self.runnable_ns
            + self.sleeping_ns
            + self.io_ns
            + self.blocked_ns
            + self.stopped_ns
            + self.unknown_ns
    }
}

/// What could not be read, or was not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Stretches of time in which events of a processor are missing.
    pub gaps: Vec<Gap>,
    /// Events that the kernel overwrote or dropped, by its own count.
    pub overrun: u64,
    /// Packets, bundles and events that cannot be read.
    pub damaged: u64,
    /// Where the file ends within a packet, or where no packet begins that should: nothing after that byte was read.
    pub cut_at: Option<u64>,
    /// Wakings.
    pub wakings: u64,
    /// Wakings of which it is not recorded whether an interrupt made them.
    pub without_context: u64,
    /// Transactions of binder.
    pub transactions: usize,
    /// No process tree was recorded: threads have no processes.
    pub no_processes: bool,
    /// There were too many names: some threads have none.
    pub names_left_out: bool,
}

impl Missing {
    /// What is missing, one sentence each.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.gaps.is_empty() {
            let ns: u64 = self
                .gaps
                .iter()
                .map(|g| g.to_ns - g.from_ns)
                .max()
                .unwrap_or(0);
            words.push(format!(
                "events of a processor are missing {} times, the longest of {:.3} ms: threads that were not on a \
                 processor then may have done anything (record with a larger buffer_size_kb, or drain_period_ms of less)",
                self.gaps.len(),
                ns as f64 / 1e6
            ));
        }
        if self.overrun > 0 {
            words.push(format!(
                "the kernel lost {} events, by its own count",
                self.overrun
            ));
        }
        if self.damaged > 0 {
            words.push(format!(
                "{} packets or events are damaged and were passed over",
                self.damaged
            ));
        }
        if let Some(at) = self.cut_at {
            words.push(format!(
                "the file is cut off or damaged at byte {at}: nothing after that was read"
            ));
        }
        if self.wakings == 0 {
            words.push("who woke a thread is not recorded: record sched/sched_waking".to_owned());
        } else if self.without_context > 0 {
            words.push(format!(
                "of {} of {} wakings it is not recorded whether an interrupt made them, so that they name no one for certain: \
                 record with compact_sched {{ enabled: true }}",
                self.without_context, self.wakings
            ));
        }
        if self.no_processes {
            words.push(
                "names of processes are not recorded: record the data source linux.process_stats"
                    .to_owned(),
            );
        }
        if self.names_left_out {
            words.push("there are too many names of threads: some have none".to_owned());
        }
        words
    }
}

/// Scheduling and binder of a device.
#[derive(Debug)]
pub struct SystemTrace {
    threads: Vec<SystemThread>,
    /// By thread id, its threads, in the order of time.
    by_tid: HashMap<u32, Vec<u32>>,
    schedule: Schedule,
    transactions: Transactions,
    missing: Missing,
    boot_ns: u64,
    start_ns: u64,
    end_ns: u64,
}

impl SystemTrace {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, has no events of the scheduler, too many events, or none whose time is known.
    pub fn open(path: &Path) -> Result<SystemTrace, Error> {
        SystemTrace::read(BufReader::with_capacity(1 << 18, File::open(path)?))
    }

    /// Reads a trace.
    ///
    /// # Errors
    /// As [`SystemTrace::open`].
    pub fn read(input: impl Read) -> Result<SystemTrace, Error> {
        let mut loader = Loader::default();
        let mut packets = Packets::new(input);
        while let Some(found) = packets.next()? {
            match found {
                Found::Packet(packet) => loader.packet(packet)?,
                Found::TooLong => {}
                Found::Truncated | Found::Damaged => {
                    loader.missing.cut_at = Some(packets.position);
                }
            }
        }
        loader.finish()
    }

    /// All threads with their numbers, in the order in which they were first seen.
    pub fn threads(&self) -> impl ExactSizeIterator<Item = (u32, &SystemThread)> {
        self.threads.iter().enumerate().map(|(i, t)| (i as u32, t))
    }

    /// A thread.
    pub fn thread(&self, number: u32) -> Option<&SystemThread> {
        self.threads.get(number as usize)
    }

    /// The threads that had an id, in the order of time.
    pub fn with_tid(&self, tid: u32) -> &[u32] {
        self.by_tid.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// The thread that had an id at a time: the last one that had begun by then, else the first one.
    pub fn thread_at(&self, tid: u32, at_ns: u64) -> Option<u32> {
        let threads = self.with_tid(tid);
        let begun = threads.partition_point(|&t| self.threads[t as usize].first_ns <= at_ns);
        threads.get(begun.saturating_sub(1)).copied()
    }

    /// What a thread does from `from_ns` to `to_ns`: stretches that follow each other without gaps.
    pub fn slices(
        &self,
        thread: u32,
        from_ns: u64,
        to_ns: u64,
    ) -> impl Iterator<Item = Slice> + '_ {
        self.schedule.slices(thread, from_ns, to_ns)
    }

    /// How long a thread did what from `from_ns` to `to_ns`.
    pub fn times(&self, thread: u32, from_ns: u64, to_ns: u64) -> Times {
        let mut times = Times::default();
        for slice in self.slices(thread, from_ns, to_ns) {
            times.add(slice.state, slice.to_ns - slice.from_ns);
        }
        times
    }

    /// The transactions of binder for whose reply a thread waits, and that were under way from `from_ns` to `to_ns`, in the
    /// order of time.
    pub fn transactions(
        &self,
        tid: u32,
        from_ns: u64,
        to_ns: u64,
    ) -> impl Iterator<Item = &Transaction> + '_ {
        self.transactions.sent(tid, from_ns, to_ns)
    }

    /// What could not be read, or was not recorded.
    pub fn missing(&self) -> &Missing {
        &self.missing
    }

    /// How much of a stretch of time has missing events, ns.
    pub fn missing_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.schedule.missing_ns(from_ns, to_ns)
    }

    /// The time of day when CLOCK_BOOTTIME was 0, ns.
    pub fn boot_ns(&self) -> u64 {
        self.boot_ns
    }

    /// The first event, CLOCK_BOOTTIME, ns.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// The last event, CLOCK_BOOTTIME, ns.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }
}

/// Collects what the packets say.
#[derive(Default)]
struct Loader {
    clocks: Clocks,
    reader: Reader,
    missing: Missing,
    /// Events lost by the kernel's count, when recording began.
    overrun_before: u64,
}

impl Loader {
    fn packet(&mut self, packet: Bytes) -> Result<(), Error> {
        let Ok(packet) = TracePacket::decode(packet) else {
            self.missing.damaged += 1;
            return Ok(());
        };
        if let Some(compressed) = packet.compressed_packets.clone() {
            self.compressed(compressed)?;
        }
        self.of_packet(&packet)
    }

    /// One by one: together they may be a thousand times as long as in the file.
    fn compressed(&mut self, compressed: Bytes) -> Result<(), Error> {
        let mut inside = unpack(compressed);
        loop {
            let packet = match inside.next() {
                Ok(None) => return Ok(()),
                Ok(Some(Found::Packet(packet))) => packet,
                Ok(Some(Found::TooLong)) => continue,
                Ok(Some(Found::Truncated | Found::Damaged)) | Err(_) => {
                    self.missing.damaged += 1;
                    return Ok(());
                }
            };
            match TracePacket::decode(packet) {
                // Perfetto does not compress what is compressed.
                Ok(packet) => self.of_packet(&packet)?,
                Err(_) => self.missing.damaged += 1,
            }
        }
    }

    fn of_packet(&mut self, packet: &TracePacket) -> Result<(), Error> {
        if let Some(snapshot) = &packet.clock_snapshot {
            self.clocks.snapshot(snapshot);
        }
        if let Some(tree) = &packet.process_tree {
            self.process_tree(tree, packet.timestamp.unwrap_or(0));
        }
        if let Some(stats) = &packet.ftrace_stats {
            self.stats(stats);
        }
        let Some(bytes) = &packet.ftrace_events else {
            return Ok(());
        };
        let Ok(bundle) = Bundle::decode(bytes.clone()) else {
            self.missing.damaged += 1;
            return Ok(());
        };
        match self.clocks.offset(&bundle) {
            Some(offset_ns) => self.reader.bundle(&bundle, offset_ns),
            None => Ok(()),
        }
    }

    fn process_tree(&mut self, tree: &ProcessTree, at_ns: u64) {
        let names = &mut self.reader.names;
        for process in &tree.processes {
            let pid = process.pid.and_then(|pid| u32::try_from(pid).ok());
            if let (Some(pid), Some(name)) = (pid, process.cmdline.first()) {
                names.process(pid, at_ns, name);
                names.owner(pid, at_ns, pid);
            }
        }
        for thread in &tree.threads {
            let Some(tid) = thread.tid.and_then(|tid| u32::try_from(tid).ok()) else {
                continue;
            };
            if let Some(name) = &thread.name {
                names.thread(tid, at_ns, name);
            }
            if let Some(pid) = thread.tgid.and_then(|pid| u32::try_from(pid).ok()) {
                names.owner(tid, at_ns, pid);
            }
        }
    }

    fn stats(&mut self, stats: &FtraceStats) {
        const END: i32 = 2;
        let lost = |c: &crate::schema::FtraceCpuStats| {
            let dropped = c.dropped_events.unwrap_or(0);
            c.overrun.unwrap_or(0).saturating_add(dropped)
        };
        let lost = (stats.cpu_stats.iter().map(lost)).fold(0, u64::saturating_add);
        match stats.phase {
            Some(END) => self.missing.overrun = lost.saturating_sub(self.overrun_before),
            _ => self.overrun_before = lost,
        }
    }

    fn finish(self) -> Result<SystemTrace, Error> {
        let Loader {
            clocks,
            mut reader,
            mut missing,
            ..
        } = self;
        let is_empty = reader.records.sched.is_empty();
        if let Some(clock) = clocks.unrelated {
            return Err(Error::OtherClock { clock });
        }
        if is_empty {
            return Err(Error::NoEvents);
        }
        let boot_ns = clocks.boot()?;
        reader.records.sort();
        reader.names.sort();
        let records = &reader.records;
        let ends = |at: fn(&[u64; 2]) -> u64| {
            let sched = [records.sched.first(), records.sched.last()].map(|r| r.map(|r| r.at_ns));
            let binder =
                [records.binder.first(), records.binder.last()].map(|r| r.map(|r| r.at_ns));
            let of = |pair: [Option<u64>; 2]| Some([pair[0]?, pair[1]?]);
            [of(sched), of(binder)]
                .into_iter()
                .flatten()
                .map(move |p| at(&p))
        };
        let start_ns = ends(|p| p[0]).min().unwrap_or(0);
        let end_ns = ends(|p| p[1]).max().unwrap_or(0);
        let (seen, schedule) = Schedule::of(&records.sched, &records.gaps, end_ns);
        let mut by_tid: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut threads = Vec::with_capacity(seen.len());
        for (thread, number) in seen.iter().zip(0..) {
            by_tid.entry(thread.tid).or_default().push(number);
            let (names, last_ns) = (&reader.names, thread.last_ns);
            let pid = names.owner_of(thread.tid, last_ns);
            threads.push(SystemThread {
                tid: thread.tid,
                pid,
                name: names.of_thread(thread.tid, last_ns),
                process: pid.map_or(String::new(), |pid| names.of_process(pid, last_ns)),
                first_ns: schedule.first_ns(number).unwrap_or(thread.first_ns),
                last_ns,
            });
        }
        let transactions = Transactions::of(&records.binder);
        missing.damaged += reader.damaged;
        missing.wakings = reader.wakings;
        missing.without_context = reader.without_context;
        missing.no_processes = reader.names.has_no_processes();
        missing.names_left_out = reader.names.is_full;
        missing.transactions = transactions.len();
        missing.gaps = std::mem::take(&mut reader.records.gaps);
        Ok(SystemTrace {
            threads,
            by_tid,
            schedule,
            transactions,
            missing,
            boot_ns,
            start_ns,
            end_ns,
        })
    }
}
