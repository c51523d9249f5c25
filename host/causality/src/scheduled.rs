// SPDX-License-Identifier: Apache-2.0
//! What a system trace says about the threads of a session.

use hindsight_system_trace::{Slice, State, Times, Waker};

use crate::session::{Session, ThreadId};

/// The part of a stretch of time, ns, that the system trace tells about a thread; `None` if it tells nothing.
pub fn known(session: &Session, thread: ThreadId, from: u64, to: u64) -> Option<(u64, u64)> {
    let system = session.system()?;
    let number = system.number_of(thread.0)?;
    let first_ns = system.trace().thread(number)?.first_ns;
    let (from, to) = (from.max(first_ns), to.min(system.trace().end_ns()));
    (from < to).then_some((from, to))
}

/// What a thread does from `from` to `to`, ns: stretches that follow each other without gaps; none without a system trace.
pub fn slices(
    session: &Session,
    thread: ThreadId,
    from: u64,
    to: u64,
) -> impl Iterator<Item = Slice> + '_ {
    let of = session
        .system()
        .and_then(|s| Some((s, s.number_of(thread.0)?)));
    let slices = of.map(|(system, number)| system.trace().slices(number, from, to));
    slices.into_iter().flatten()
}

/// How long a thread did what from `from` to `to`, ns; `None` if nothing of that is recorded.
pub fn times(session: &Session, thread: ThreadId, from: u64, to: u64) -> Option<Times> {
    session.system()?.times(thread.0, from, to)
}

/// How long a thread did what in stretches of time, CLOCK_BOOTTIME, ns. It adds up to them.
pub fn times_in(session: &Session, thread: ThreadId, spans: &[(u64, u64)]) -> Times {
    let mut sum = Times::default();
    for &(from, to) in spans {
        let mut known_ns = 0;
        for slice in slices(session, thread, from, to) {
            let ns = slice.to_ns - slice.from_ns;
            known_ns += ns;
            sum.add(slice.state, ns);
        }
        sum.add(State::Unknown, (to - from).saturating_sub(known_ns));
    }
    sum
}

/// The waits of a thread that one other thread ended, or an interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asleep {
    /// Who ended them: `None` for an interrupt.
    pub by: Option<ThreadId>,
    /// Whether it is recorded that no interrupt ended them.
    pub is_certain: bool,
    /// When it waited, CLOCK_BOOTTIME, ns.
    pub spans: Vec<(u64, u64)>,
    /// Their time, ns.
    pub ns: u64,
}

/// When a thread was asleep in a stretch of time, by who ended that: the longest time first. A wait whose end is later is
/// among them up to the end of the stretch. Waits that nobody ended, or whose end is not recorded, are in none.
pub fn by_waker(session: &Session, thread: ThreadId, spans: &[(u64, u64)]) -> Vec<Asleep> {
    let mut found: Vec<Asleep> = Vec::new();
    for &(from, to) in spans {
        let until = session.system().map_or(to, |s| s.trace().end_ns().max(to));
        for slice in slices(session, thread, from, until) {
            if slice.from_ns >= to {
                break;
            }
            if !matches!(
                slice.state,
                State::Sleeping | State::Blocked | State::Uninterruptible
            ) {
                continue;
            }
            let Some((by, is_certain)) = waker(session, &slice) else {
                continue;
            };
            let span = (slice.from_ns, slice.to_ns.min(to));
            let same = found
                .iter_mut()
                .find(|a| (a.by, a.is_certain) == (by, is_certain));
            let ns = span.1 - span.0;
            match same {
                Some(same) => {
                    same.spans.push(span);
                    same.ns += ns;
                }
                None => found.push(Asleep {
                    by,
                    is_certain,
                    spans: vec![span],
                    ns,
                }),
            }
        }
    }
    found.sort_by_key(|a| (std::cmp::Reverse(a.ns), a.by));
    found
}

/// The thread that ended the last time asleep of a thread from `from` to `to`, ns, and when, if that is recorded for certain. An
/// interrupt is no thread.
pub(crate) fn waker_of(
    session: &Session,
    thread: ThreadId,
    from: u64,
    to: u64,
) -> Option<(ThreadId, u64)> {
    let mut last = None;
    for slice in slices(session, thread, from, to) {
        // After what is not recorded, an earlier end is not the last one.
        if slice.state.is_wait() || slice.state == State::Unknown {
            last = Some(slice);
        }
    }
    let last = last.filter(|s| s.state.is_wait())?;
    let (waker, is_certain) = waker(session, &last)?;
    let waker = waker.filter(|&t| is_certain && t != thread)?;
    Some((waker, last.to_ns))
}

/// Who ended a wait: a thread or, as `None`, an interrupt; and whether that is certain.
fn waker(session: &Session, slice: &Slice) -> Option<(Option<ThreadId>, bool)> {
    let system = session.system()?;
    let thread = |number| Some(ThreadId(system.thread_of(number, slice.to_ns)?));
    match slice.ended_by {
        Waker::Interrupt => Some((None, true)),
        Waker::Thread(number) => Some((Some(thread(number)?), true)),
        Waker::Perhaps(number) => Some((Some(thread(number)?), false)),
        Waker::Unknown => None,
    }
}

/// Who served a transaction of binder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// The thread.
    pub thread: ThreadId,
    /// When the transaction was sent, and when the reply to it was, CLOCK_BOOTTIME, ns.
    pub span: (u64, u64),
}

/// Who served the transactions of a thread that were under way from `from` to `to`, ns, as the kernel recorded it.
pub fn servers_of(
    session: &Session,
    thread: ThreadId,
    from: u64,
    to: u64,
) -> impl Iterator<Item = Server> + '_ {
    let tid = session.about(thread).tid;
    // The ids of threads of another boot or device mean nothing here.
    let system = session.system().filter(|s| s.number_of(thread.0).is_some());
    let sent = system.map(|s| s.trace().transactions(tid, from, to).map(move |t| (s, t)));
    sent.into_iter().flatten().filter_map(|(system, sent)| {
        let number = system.trace().thread_at(sent.by?, sent.received_ns)?;
        Some(Server {
            thread: ThreadId(system.thread_of(number, sent.received_ns)?),
            span: (sent.sent_ns, sent.replied_ns),
        })
    })
}

/// The thread that had an id at a time, as the system trace has it: it must be of this process, or of an unknown one.
pub(crate) fn thread_with_id(
    session: &Session,
    pid: u32,
    tid: u32,
    at_ns: u64,
) -> Option<ThreadId> {
    let system = session.system()?;
    let number = system.trace().thread_at(tid, at_ns)?;
    let about = system.trace().thread(number)?;
    let is_own = about.pid.is_none_or(|own| own == pid);
    let thread = system.thread_of(number, at_ns).filter(|_| is_own)?;
    Some(ThreadId(thread))
}
