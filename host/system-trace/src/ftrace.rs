// SPDX-License-Identifier: Apache-2.0
//! From Perfetto's bundles of the kernel's events to records.

use bytes::Bytes;
use prost::Message;

use crate::error::Error;
use crate::names::Names;
use crate::records::{BinderRecord, Context, Gap, Kind, Record, Records, Sent, NOBODY};
use crate::schema::{
    BinderTransaction, Bundle, CompactSched, Event, SchedSwitch, SchedWaking, TaskNewtask,
};
use crate::state::State;

/// Processors with higher numbers are not believed.
const MOST_CPUS: u32 = 4096;
/// Flags of an event: the processor handled an interrupt, or a deferred part of one (`TRACE_FLAG_HARDIRQ`,
/// `TRACE_FLAG_SOFTIRQ`, `TRACE_FLAG_NMI`).
const IN_INTERRUPT: u32 = 0x08 | 0x10 | 0x40;
/// A binder transaction for whose reply nobody waits (`TF_ONE_WAY`).
const ONE_WAY: u32 = 1;
/// A new task is a thread of the same process (`CLONE_THREAD`).
const CLONE_THREAD: u64 = 0x10000;

/// A processor, while its bundles are read.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// The time of its last event, CLOCK_BOOTTIME, ns; 0 if there was none.
    last_ns: u64,
}

/// Reads bundles.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pub(crate) records: Records,
    pub(crate) names: Names,
    cpus: Vec<Cpu>,
    /// Parts of bundles that cannot be read.
    pub(crate) damaged: u64,
    /// Wakings of which it is not recorded whether an interrupt made them.
    pub(crate) without_context: u64,
    /// Wakings.
    pub(crate) wakings: u64,
}

/// The facts of a bundle.
#[derive(Clone, Copy)]
struct Of {
    cpu: u16,
    /// What is added to its times to get CLOCK_BOOTTIME, ns.
    offset_ns: i64,
}

impl Of {
    fn ns(self, at: u64) -> u64 {
        at.saturating_add_signed(self.offset_ns)
    }
}

/// A thread id; `None` if there cannot be one with this number.
fn id(pid: Option<i32>) -> Option<u32> {
    u32::try_from(pid.unwrap_or(0)).ok()
}

impl Reader {
    /// Reads a bundle whose times plus `offset_ns` are CLOCK_BOOTTIME.
    pub(crate) fn bundle(&mut self, bundle: &Bundle, offset_ns: i64) -> Result<(), Error> {
        let cpu = bundle.cpu.unwrap_or(0);
        if cpu >= MOST_CPUS {
            self.damaged += 1;
            return Ok(());
        }
        let of = Of {
            cpu: cpu as u16,
            offset_ns,
        };
        if self.cpus.len() <= cpu as usize {
            self.cpus.resize(cpu as usize + 1, Cpu::default());
        }
        let first_record = self.records.sched.len();
        let (mut first_ns, mut last_ns) = (u64::MAX, 0);
        let mut seen = |at_ns: u64| {
            first_ns = first_ns.min(at_ns);
            last_ns = last_ns.max(at_ns);
        };
        for event in &bundle.event {
            match Event::decode(event.clone()) {
                Ok(event) => {
                    if let Some(at) = event.timestamp {
                        seen(of.ns(at));
                        self.event(of, of.ns(at), &event)?;
                    }
                }
                Err(_) => self.damaged += 1,
            }
        }
        if let Some(compact) = &bundle.compact_sched {
            self.compact(of, compact, &mut seen)?;
        }
        let records = &mut self.records.sched[first_record..];
        // Compact events are two rows of columns, and the other ones are a third: one after the other.
        if !records.is_sorted_by_key(|r| r.at_ns) {
            records.sort_by_key(|r| r.at_ns);
        }
        self.gap(of, bundle, first_ns)?;
        let own = &mut self.cpus[cpu as usize];
        own.last_ns = own.last_ns.max(last_ns);
        Ok(())
    }

    /// Notes what is missing before a bundle whose first event is at `first_ns`.
    fn gap(&mut self, of: Of, bundle: &Bundle, first_ns: u64) -> Result<(), Error> {
        let last_ns = self.cpus[usize::from(of.cpu)].last_ns;
        let before = bundle.previous_bundle_end_timestamp.map(|ns| of.ns(ns));
        let is_lost = bundle.lost_events == Some(true);
        // The bundle before this one is missing, if it ended later than what was read of this processor.
        let gap_end = match (is_lost, before) {
            (true, _) => Some(first_ns).filter(|&ns| ns != u64::MAX),
            (false, Some(before)) if before > last_ns => Some(before),
            _ => None,
        };
        let Some(to_ns) = gap_end.filter(|&to| to > last_ns) else {
            return Ok(());
        };
        self.records.lost(Gap {
            from_ns: last_ns,
            to_ns,
            cpu: of.cpu,
        })
    }

    fn event(&mut self, of: Of, at_ns: u64, event: &Event) -> Result<(), Error> {
        let on_cpu = event.pid.unwrap_or(0);
        if let Some(switch) = &event.sched_switch {
            return self.switch(of, at_ns, switch);
        }
        if let Some(waking) = &event.sched_waking {
            let context = context(event.common_flags, on_cpu);
            return self.waking(of, at_ns, waking, (on_cpu, context));
        }
        if let Some(waking) = &event.sched_wakeup_new {
            // Only a thread itself starts another one.
            return self.waking(of, at_ns, waking, (on_cpu, Context::Thread));
        }
        if let Some(wakeup) = &event.sched_wakeup {
            return self.of_thread(of, at_ns, Kind::Wakeup, wakeup.pid, 0);
        }
        if let Some(reason) = &event.sched_blocked_reason {
            let is_io = u8::from(reason.io_wait.unwrap_or(0) != 0);
            return self.of_thread(of, at_ns, Kind::Blocked, reason.pid, is_io);
        }
        if let Some(new) = &event.task_newtask {
            return self.new_task(of, at_ns, on_cpu, new);
        }
        if let Some(rename) = &event.task_rename {
            if let (Some(tid), Some(name)) = (id(rename.pid), &rename.newcomm) {
                self.names.thread(tid, at_ns, name);
            }
        }
        if let Some(sent) = &event.binder_transaction {
            return self.binder(at_ns, on_cpu, sent.debug_id, Some(sent));
        }
        if let Some(received) = &event.binder_transaction_received {
            return self.binder(at_ns, on_cpu, received.debug_id, None);
        }
        Ok(())
    }

    fn switch(&mut self, of: Of, at_ns: u64, switch: &SchedSwitch) -> Result<(), Error> {
        let (Some(prev), Some(next)) = (id(switch.prev_pid), id(switch.next_pid)) else {
            self.damaged += 1;
            return Ok(());
        };
        if let Some(name) = &switch.next_comm {
            self.names.thread(next, at_ns, name);
        }
        let state = State::of_kernel(switch.prev_state.unwrap_or(0));
        self.add(of, at_ns, Kind::Switch, (prev, next), state as u8)
    }

    fn waking(
        &mut self,
        of: Of,
        at_ns: u64,
        waking: &SchedWaking,
        (by, context): (u32, Context),
    ) -> Result<(), Error> {
        let Some(tid) = id(waking.pid) else {
            self.damaged += 1;
            return Ok(());
        };
        if let Some(name) = &waking.comm {
            self.names.thread(tid, at_ns, name);
        }
        self.count_waking(context);
        self.add(of, at_ns, Kind::Waking, (tid, by), context as u8)
    }

    fn count_waking(&mut self, context: Context) {
        self.wakings += 1;
        self.without_context += u64::from(context == Context::Unknown);
    }

    fn new_task(&mut self, of: Of, at_ns: u64, by: u32, new: &TaskNewtask) -> Result<(), Error> {
        let Some(tid) = id(new.pid) else {
            self.damaged += 1;
            return Ok(());
        };
        if let Some(name) = &new.comm {
            self.names.thread(tid, at_ns, name);
        }
        match new.clone_flags.unwrap_or(0) & CLONE_THREAD {
            0 => self.names.owner(tid, at_ns, tid),
            _ => {
                if let Some(process) = self.names.owner_of(by, at_ns) {
                    self.names.owner(tid, at_ns, process);
                }
            }
        }
        self.add(of, at_ns, Kind::New, (tid, by), 0)
    }

    fn of_thread(
        &mut self,
        of: Of,
        at_ns: u64,
        kind: Kind,
        pid: Option<i32>,
        detail: u8,
    ) -> Result<(), Error> {
        match id(pid) {
            Some(tid) => self.add(of, at_ns, kind, (tid, NOBODY), detail),
            None => {
                self.damaged += 1;
                Ok(())
            }
        }
    }

    fn add(
        &mut self,
        of: Of,
        at_ns: u64,
        kind: Kind,
        (a, b): (u32, u32),
        detail: u8,
    ) -> Result<(), Error> {
        self.records.add(Record {
            at_ns,
            a,
            b,
            cpu: of.cpu,
            kind,
            detail,
        })
    }

    fn binder(
        &mut self,
        at_ns: u64,
        tid: u32,
        number: Option<i32>,
        sent: Option<&BinderTransaction>,
    ) -> Result<(), Error> {
        let sent = sent.map(|s| Sent {
            to_thread: id(s.to_thread).unwrap_or(0),
            code: s.code.unwrap_or(0),
            is_reply: s.reply.unwrap_or(0) != 0,
            is_one_way: s.flags.unwrap_or(0) & ONE_WAY != 0,
        });
        self.records.add_binder(BinderRecord {
            at_ns,
            tid,
            id: number.unwrap_or(0) as u32,
            sent,
        })
    }

    /// Reads events that are columns. Their times are differences from the time before.
    fn compact(
        &mut self,
        of: Of,
        compact: &CompactSched,
        seen: &mut impl FnMut(u64),
    ) -> Result<(), Error> {
        let name = |index: Option<&u32>| {
            let index = usize::try_from(*index?).ok()?;
            compact.intern_table.get(index)
        };
        let mut at = 0_u64;
        let columns = compact
            .switch_timestamp
            .iter()
            .zip(&compact.switch_prev_state)
            .zip(&compact.switch_next_pid);
        let whole = columns.len();
        for (i, ((delta, &state), &next)) in columns.enumerate() {
            at = at.saturating_add(*delta);
            let (Some(next), at_ns) = (id(Some(next)), of.ns(at)) else {
                self.damaged += 1;
                continue;
            };
            seen(at_ns);
            self.named(next, at_ns, name(compact.switch_next_comm_index.get(i)));
            let state = State::of_kernel(state) as u8;
            self.add(of, at_ns, Kind::Switch, (NOBODY, next), state)?;
        }
        self.damaged += (compact.switch_timestamp.len() - whole) as u64;
        let mut at = 0_u64;
        let columns = compact.waking_timestamp.iter().zip(&compact.waking_pid);
        let whole = columns.len();
        for (i, (delta, &tid)) in columns.enumerate() {
            at = at.saturating_add(*delta);
            let (Some(tid), at_ns) = (id(Some(tid)), of.ns(at)) else {
                self.damaged += 1;
                continue;
            };
            seen(at_ns);
            self.named(tid, at_ns, name(compact.waking_comm_index.get(i)));
            let context = context(compact.waking_common_flags.get(i).copied(), NOBODY);
            self.count_waking(context);
            self.add(of, at_ns, Kind::Waking, (tid, NOBODY), context as u8)?;
        }
        self.damaged += (compact.waking_timestamp.len() - whole) as u64;
        Ok(())
    }

    fn named(&mut self, tid: u32, at_ns: u64, name: Option<&Bytes>) {
        if let Some(name) = name {
            self.names.thread(tid, at_ns, name);
        }
    }
}

/// What a processor did when it woke a thread, by the flags of the event and the thread that was on it.
fn context(flags: Option<u32>, on_cpu: u32) -> Context {
    match (flags, on_cpu) {
        (Some(flags), _) if flags & IN_INTERRUPT != 0 => Context::Interrupt,
        (Some(_), _) => Context::Thread,
        // The idle task wakes nobody.
        (None, 0) => Context::Interrupt,
        (None, _) => Context::Unknown,
    }
}
