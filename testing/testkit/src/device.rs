// SPDX-License-Identifier: Apache-2.0
//! Writes Perfetto traces with events of the scheduler and of binder, as `traced_probes` records them on a device. The numbers
//! of fields are those of Perfetto's schema, written apart from the reader's.

use crate::{EPOCH, REALTIME_OFFSET};

/// A thread goes to sleep (`TASK_INTERRUPTIBLE`): a state for [`DeviceTrace::switch`].
pub const SLEEPS: i64 = 1;
/// A thread waits, and no signal ends that (`TASK_UNINTERRUPTIBLE`).
pub const WAITS_FOR_DISK: i64 = 2;
/// The processor is taken from a thread (`TASK_REPORT_MAX`).
pub const PREEMPTED: i64 = 0x100;
/// A thread has ended (`EXIT_DEAD`).
pub const ENDS: i64 = 0x10;

/// Numbers of fields of FtraceEvent.
mod event {
    pub(super) const SCHED_SWITCH: u32 = 4;
    pub(super) const SCHED_WAKEUP: u32 = 17;
    pub(super) const SCHED_BLOCKED_REASON: u32 = 18;
    pub(super) const SCHED_WAKING: u32 = 20;
    pub(super) const BINDER_TRANSACTION: u32 = 50;
    pub(super) const BINDER_RECEIVED: u32 = 51;
    pub(super) const WAKEUP_NEW: u32 = 114;
    pub(super) const NEWTASK: u32 = 235;
    pub(super) const RENAME: u32 = 236;
}

/// Who wakes a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A thread, in a system call.
    Thread(u32),
    /// An interrupt, while this thread is on the processor.
    Interrupt(u32),
}

#[derive(Clone, Debug)]
enum What {
    Switch {
        prev: u32,
        state: i64,
        next: u32,
    },
    Waking {
        by: By,
        tid: u32,
    },
    Other {
        pid: u32,
        field: u32,
        body: Vec<u8>,
    },
    /// Events are missing before the next one.
    Lost,
}

#[derive(Clone, Debug)]
struct Happened {
    at_ns: u64,
    cpu: u32,
    what: What,
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Each event is a message of its own. The schema then has no place for whether an interrupt woke a thread.
    #[default]
    Events,
    /// Switches and wakings are columns (`compact_sched`).
    Compact,
}

/// The kernel's events of a device, and the Perfetto trace that is made of them. Times are ns after the scripts' time 0.
#[derive(Clone, Debug, Default)]
pub struct DeviceTrace {
    /// How it is written.
    pub layout: Layout,
    /// The clock of the events, as Perfetto numbers it; 0 is CLOCK_BOOTTIME.
    pub ftrace_clock: i32,
    /// No snapshot of the clocks is written.
    pub without_clocks: bool,
    /// Added to the time of day, ns.
    pub realtime_shift: i64,
    happened: Vec<Happened>,
    tree: Vec<u8>,
    transactions: u32,
}

impl DeviceTrace {
    /// Without events.
    pub fn new(layout: Layout) -> Self {
        DeviceTrace {
            layout,
            ..DeviceTrace::default()
        }
    }

    /// Names a process, and its main thread.
    pub fn process(&mut self, pid: u32, name: &str) -> &mut Self {
        let mut process = Vec::new();
        number(&mut process, 1, pid.into());
        bytes(&mut process, 3, name.as_bytes());
        bytes(&mut self.tree, 1, &process);
        self
    }

    /// Names a thread of a process.
    pub fn thread(&mut self, pid: u32, tid: u32, name: &str) -> &mut Self {
        let mut thread = Vec::new();
        number(&mut thread, 1, tid.into());
        bytes(&mut thread, 2, name.as_bytes());
        number(&mut thread, 3, pid.into());
        bytes(&mut self.tree, 2, &thread);
        self
    }

    fn add(&mut self, cpu: u32, at_ns: u64, what: What) -> &mut Self {
        let at_ns = EPOCH + at_ns;
        self.happened.push(Happened { at_ns, cpu, what });
        self
    }

    fn other(&mut self, cpu: u32, at_ns: u64, pid: u32, field: u32, body: Vec<u8>) -> &mut Self {
        self.add(cpu, at_ns, What::Other { pid, field, body })
    }

    /// A processor goes from one thread to another one; `state` is what the one that leaves does then, 0 if it could go on.
    pub fn switch(&mut self, cpu: u32, at_ns: u64, prev: u32, state: i64, next: u32) -> &mut Self {
        self.add(cpu, at_ns, What::Switch { prev, state, next })
    }

    /// A thread is woken.
    pub fn waking(&mut self, cpu: u32, at_ns: u64, by: By, tid: u32) -> &mut Self {
        self.add(cpu, at_ns, What::Waking { by, tid })
    }

    /// A thread was put where it waits for a processor.
    pub fn wakeup(&mut self, cpu: u32, at_ns: u64, on_cpu: u32, tid: u32) -> &mut Self {
        let mut body = Vec::new();
        number(&mut body, 2, tid.into());
        self.other(cpu, at_ns, on_cpu, event::SCHED_WAKEUP, body)
    }

    /// A thread's wait, which no signal would have ended, is over.
    pub fn blocked(&mut self, cpu: u32, at_ns: u64, tid: u32, is_io: bool) -> &mut Self {
        let mut body = Vec::new();
        number(&mut body, 1, tid.into());
        number(&mut body, 3, is_io.into());
        self.other(cpu, at_ns, tid, event::SCHED_BLOCKED_REASON, body)
    }

    /// A thread starts another one of its process.
    pub fn new_thread(&mut self, cpu: u32, at_ns: u64, by: u32, tid: u32, name: &str) -> &mut Self {
        const CLONE_THREAD: u64 = 0x10000;
        let mut body = Vec::new();
        number(&mut body, 1, tid.into());
        bytes(&mut body, 2, name.as_bytes());
        number(&mut body, 3, CLONE_THREAD);
        self.other(cpu, at_ns, by, event::NEWTASK, body);
        let mut body = Vec::new();
        number(&mut body, 2, tid.into());
        self.other(cpu, at_ns, by, event::WAKEUP_NEW, body)
    }

    /// A thread gets another name.
    pub fn rename(&mut self, cpu: u32, at_ns: u64, tid: u32, name: &str) -> &mut Self {
        let mut body = Vec::new();
        number(&mut body, 1, tid.into());
        bytes(&mut body, 3, name.as_bytes());
        self.other(cpu, at_ns, tid, event::RENAME, body)
    }

    /// A thread sends a transaction for whose reply it waits, and a thread of another process receives it.
    pub fn transaction(
        &mut self,
        cpu: u32,
        at_ns: u64,
        from: u32,
        received_ns: u64,
        by: u32,
    ) -> &mut Self {
        self.message(cpu, (at_ns, from), Some((received_ns, by)), 0)
    }

    /// A thread sends the reply to what it received, and the one that waits for it receives it.
    pub fn reply(
        &mut self,
        cpu: u32,
        at_ns: u64,
        from: u32,
        received_ns: u64,
        by: u32,
    ) -> &mut Self {
        self.message(cpu, (at_ns, from), Some((received_ns, by)), by)
    }

    fn message(
        &mut self,
        cpu: u32,
        (at_ns, from): (u64, u32),
        received: Option<(u64, u32)>,
        reply_to: u32,
    ) -> &mut Self {
        self.transactions += 1;
        let mut body = Vec::new();
        number(&mut body, 1, self.transactions.into());
        number(&mut body, 4, reply_to.into());
        number(&mut body, 5, u64::from(reply_to != 0));
        number(&mut body, 6, 3);
        number(&mut body, 7, 0x10);
        self.other(cpu, at_ns, from, event::BINDER_TRANSACTION, body);
        if let Some((at_ns, by)) = received {
            let mut body = Vec::new();
            number(&mut body, 1, self.transactions.into());
            self.other(cpu, at_ns, by, event::BINDER_RECEIVED, body);
        }
        self
    }

    /// Events of a processor are missing from here to its next event.
    pub fn lost(&mut self, cpu: u32, at_ns: u64) -> &mut Self {
        self.add(cpu, at_ns, What::Lost)
    }

    /// The bytes of the trace: the clocks, the process tree, and bundles of 64 events of one processor, one processor after the
    /// other.
    pub fn encode(&self) -> Vec<u8> {
        const BUNDLE: usize = 64;
        let mut trace = Vec::new();
        bytes(&mut trace, 1, &kernel());
        if !self.without_clocks {
            let packet = self.clock_snapshot();
            bytes(&mut trace, 1, &packet);
        }
        if !self.tree.is_empty() {
            let mut packet = Vec::new();
            bytes(&mut packet, 2, &self.tree);
            number(&mut packet, 8, EPOCH);
            bytes(&mut trace, 1, &packet);
        }
        let mut happened: Vec<&Happened> = self.happened.iter().collect();
        happened.sort_by_key(|h| (h.cpu, h.at_ns));
        for of_cpu in happened.chunk_by(|a, b| a.cpu == b.cpu) {
            let is_lost = |h: &&Happened| matches!(h.what, What::Lost);
            for (i, part) in of_cpu.split(is_lost).enumerate() {
                for (j, bundle) in part.chunks(BUNDLE).enumerate() {
                    let mut packet = Vec::new();
                    let is_lost = i > 0 && j == 0;
                    bytes(&mut packet, 1, &self.bundle(bundle, is_lost));
                    bytes(&mut trace, 1, &packet);
                }
            }
        }
        trace
    }

    fn clock_snapshot(&self) -> Vec<u8> {
        const REALTIME: u64 = 1;
        const MONOTONIC: u64 = 3;
        const BOOTTIME: u64 = 6;
        let realtime = (REALTIME_OFFSET + EPOCH).wrapping_add_signed(self.realtime_shift);
        let mut snapshot = Vec::new();
        for (clock, at) in [(REALTIME, realtime), (MONOTONIC, EPOCH), (BOOTTIME, EPOCH)] {
            let mut reading = Vec::new();
            number(&mut reading, 1, clock);
            number(&mut reading, 2, at);
            bytes(&mut snapshot, 1, &reading);
        }
        let mut packet = Vec::new();
        bytes(&mut packet, 6, &snapshot);
        packet
    }

    fn bundle(&self, events: &[&Happened], is_lost: bool) -> Vec<u8> {
        let mut bundle = Vec::new();
        number(&mut bundle, 1, events[0].cpu.into());
        let is_compact = |what: &What| matches!(what, What::Switch { .. } | What::Waking { .. });
        for event in events {
            if self.layout == Layout::Events || !is_compact(&event.what) {
                bytes(&mut bundle, 2, &message(event));
            }
        }
        if is_lost {
            number(&mut bundle, 3, 1);
        }
        if self.layout == Layout::Compact {
            let compact = compact(events);
            bytes(&mut bundle, 4, &compact);
        }
        if self.ftrace_clock != 0 {
            number(&mut bundle, 5, self.ftrace_clock as u64);
        }
        bundle
    }
}

/// A packet with the kernel's version, which says what its states of threads mean.
fn kernel() -> Vec<u8> {
    let mut names = Vec::new();
    bytes(&mut names, 1, b"Linux");
    bytes(&mut names, 3, b"5.10.43");
    let mut system = Vec::new();
    bytes(&mut system, 1, &names);
    let mut packet = Vec::new();
    bytes(&mut packet, 45, &system);
    packet
}

/// An event as a message.
fn message(event: &Happened) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, 1, event.at_ns);
    let mut body = Vec::new();
    let (pid, field) = match &event.what {
        What::Switch { prev, state, next } => {
            number(&mut body, 2, (*prev).into());
            number(&mut body, 4, *state as u64);
            bytes(&mut body, 5, format!("t{next}").as_bytes());
            number(&mut body, 6, (*next).into());
            (*prev, event::SCHED_SWITCH)
        }
        What::Waking { by, tid } => {
            number(&mut body, 2, (*tid).into());
            let (By::Thread(pid) | By::Interrupt(pid)) = by;
            (*pid, event::SCHED_WAKING)
        }
        What::Other {
            pid,
            field,
            body: own,
        } => {
            body.extend_from_slice(own);
            (*pid, *field)
        }
        What::Lost => return out,
    };
    number(&mut out, 2, pid.into());
    bytes(&mut out, field, &body);
    out
}

/// Switches and wakings as columns.
fn compact(events: &[&Happened]) -> Vec<u8> {
    const IN_HARD_INTERRUPT: u64 = 0x08;
    let mut columns: [Vec<u8>; 13] = Default::default();
    let (mut last_switch, mut last_waking) = (0, 0);
    for event in events {
        match &event.what {
            What::Switch { state, next, .. } => {
                varint(&mut columns[1], event.at_ns - last_switch);
                last_switch = event.at_ns;
                varint(&mut columns[2], *state as u64);
                varint(&mut columns[3], (*next).into());
                varint(&mut columns[4], 120);
                varint(&mut columns[6], 0);
            }
            What::Waking { by, tid } => {
                varint(&mut columns[7], event.at_ns - last_waking);
                last_waking = event.at_ns;
                varint(&mut columns[8], (*tid).into());
                varint(&mut columns[9], event.cpu.into());
                varint(&mut columns[10], 120);
                varint(&mut columns[11], 0);
                let flags = match by {
                    By::Thread(_) => 1,
                    By::Interrupt(_) => 1 | IN_HARD_INTERRUPT,
                };
                varint(&mut columns[12], flags);
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    bytes(&mut out, 5, b"");
    for (field, column) in columns.iter().enumerate().filter(|(_, c)| !c.is_empty()) {
        bytes(&mut out, field as u32, column);
    }
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field << 3));
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(out, u64::from(field << 3 | 2));
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}
