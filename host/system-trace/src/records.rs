// SPDX-License-Identifier: Apache-2.0
//! Events as they are kept until all of them are read: rows of a fixed size.

use crate::error::Error;

/// The most events of one sort.
pub(crate) const MOST: usize = 1 << 25;
/// A thread that is not known. No thread has this id.
pub(crate) const NOBODY: u32 = u32::MAX;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Events of a processor are missing from here on.
    Lost,
    /// Thread `a` was started.
    New,
    /// Thread `a` was woken, while `b` was on the processor; `detail` is a [`Context`].
    Waking,
    /// Thread `a` became ready to run.
    Wakeup,
    /// The processor went from thread `a` to thread `b`; `detail` is what `a` does then, a [`State`](crate::State).
    Switch,
    /// Thread `a` had been blocked; `detail` is 1 if for a disk.
    Blocked,
}

/// What a processor did when a thread was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Context {
    /// It ran a thread's own system call.
    Thread,
    /// It handled an interrupt.
    Interrupt,
    /// It is not recorded whether it handled an interrupt.
    Unknown,
}

/// An event of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// CLOCK_BOOTTIME, ns.
    pub(crate) at_ns: u64,
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) cpu: u16,
    pub(crate) kind: Kind,
    pub(crate) detail: u8,
}

/// An event of binder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BinderRecord {
    /// CLOCK_BOOTTIME, ns.
    pub(crate) at_ns: u64,
    /// The thread that was on the processor: it sent or received.
    pub(crate) tid: u32,
    /// Number of the transaction, or of the reply.
    pub(crate) id: u32,
    pub(crate) sent: Option<Sent>,
}

/// A transaction or reply that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The thread that it is for; 0 if any thread of a process is to take it.
    pub(crate) to_thread: u32,
    pub(crate) code: u32,
    pub(crate) is_reply: bool,
    /// Nobody waits for a reply.
    pub(crate) is_one_way: bool,
}

/// A stretch of time in which events of a processor are missing, CLOCK_BOOTTIME, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// The last event before it.
    pub from_ns: u64,
    /// The first event after it.
    pub to_ns: u64,
    /// The processor.
    pub cpu: u16,
}

/// All events that were read.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) sched: Vec<Record>,
    pub(crate) binder: Vec<BinderRecord>,
    pub(crate) gaps: Vec<Gap>,
}

impl Records {
    pub(crate) fn add(&mut self, record: Record) -> Result<(), Error> {
        push(&mut self.sched, record)
    }

    pub(crate) fn add_binder(&mut self, record: BinderRecord) -> Result<(), Error> {
        push(&mut self.binder, record)
    }

    /// Notes that events of a processor are missing between two times.
    pub(crate) fn lost(&mut self, gap: Gap) -> Result<(), Error> {
        push(&mut self.gaps, gap)?;
        self.add(Record {
            at_ns: gap.from_ns,
            a: NOBODY,
            b: NOBODY,
            cpu: gap.cpu,
            kind: Kind::Lost,
            detail: 0,
        })
    }

    /// Puts the events in the order of time. Those of one processor at one time stay in their order.
    pub(crate) fn sort(&mut self) {
        // The events of a processor are in order already, for the most part: a sort that finds runs takes little time.
        self.sched.sort_by_key(|r| r.at_ns);
        self.binder.sort_by_key(|r| r.at_ns);
        self.gaps.sort_unstable();
    }
}

fn push<T>(column: &mut Vec<T>, row: T) -> Result<(), Error> {
    if column.len() >= MOST {
        return Err(Error::TooMany { most: MOST });
    }
    column.push(row);
    Ok(())
}
