// SPDX-License-Identifier: Apache-2.0
//! The stall of the main thread: which message held it up, where in it the time went, and which other
//! thread it most likely waited for.
//!
//! ```no_run
//! let trace = hindsight_decoder::Trace::open("demo.hindsight".as_ref())?;
//! match hindsight_analysis::stall::find(&trace) {
//!     Some(stall) => println!("{stall}"),
//!     None => println!("the trace holds no message of the main thread"),
//! }
//! # Ok::<(), hindsight_decoder::Error>(())
//! ```
//!
//! Times of calls are all that is known: locks, and whether a thread ran or slept, are not recorded
//! yet. What can be seen is a call that takes long by itself, and a call of another thread that covers the
//! same time and ends just before it. [`Blocker`] is that coincidence, and says so.

use std::fmt;

use hindsight_decoder::{Flags, MethodId, Slice, Thread, Trace};

/// The class and method that runs a looper's messages.
const LOOP: (&str, &str) = ("android.os.Looper", "loop");
/// Where a looper without messages waits.
const IDLE: (&str, &str) = ("android.os.MessageQueue", "next");
/// A callee that takes at least this part of its caller's time is where the time went.
const DOMINANT: f64 = 0.5;
/// A blocker covers at least this part of the time in which it is said to have blocked.
const COVERED: f64 = 0.9;
/// How far apart the end of the stall and the end of the call that it waited for may be: a woken thread has to
/// be scheduled first, and on a busy machine the other one may be held up between unlocking and returning.
const WAKE_UP_NS: u64 = 20_000_000;

/// A call of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `android.os.Looper`, or empty if the trace has no name.
    pub class: String,
    /// `android.os.Looper.loop`, or what is said when the trace has no name.
    pub name: String,
    /// When it began, CLOCK_BOOTTIME, ns.
    pub start_ns: u64,
    /// How long it took, ns.
    pub duration_ns: u64,
    /// How much of that it spent in itself, ns.
    pub self_ns: u64,
    /// Whether it was seen to end; if not, it took longer than `duration_ns`.
    pub ended: bool,
}

/// What the main thread was held up by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Name of the thread that was held up.
    pub thread: String,
    /// Why the trace was saved, in the words of whoever did; may be empty.
    pub reason: String,
    /// The longest message: its outermost call first, then in each call the one that took most of the
    /// time, down to the one that spent it.
    pub chain: Vec<Call>,
    /// The thread that it most likely waited for.
    pub blocker: Option<Blocker>,
}

/// Calls of another thread during the stall, one of which ended when the stall did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// Name of the thread.
    pub thread: String,
    /// The outermost call that ended with the stall or before, down to the innermost that covers it.
    pub chain: Vec<Call>,
    /// Index in `chain` of the call that ended with the stall: the outermost to the class whose method the
    /// main thread was in, if there is one, or else the innermost of all.
    pub released: usize,
    /// Whether that is a call to the same class: then it most likely held the lock that was waited for.
    pub same_class: bool,
    /// How long after that call's end the main thread went on, ns; below 0 if it was seen to end later.
    pub gap_ns: i64,
}

/// Finds the longest message of the main thread. `None` if the trace has none.
pub fn find(trace: &Trace) -> Option<Stall> {
    let main = trace
        .threads
        .iter()
        .find(|thread| thread.tid == trace.process.pid)
        .or_else(|| trace.threads.first())?;
    let view = View::new(trace, main);
    let message = view.longest_message()?;
    let chain = view.descend(message);
    let &leaf = chain.last()?;
    let calls: Vec<Call> = chain.iter().map(|&i| view.call(i)).collect();
    let blocker = trace
        .threads
        .iter()
        .filter(|thread| thread.tid != main.tid)
        .filter_map(|thread| View::new(trace, thread).blocker(&main.slices.get(leaf), calls.last()?))
        .max_by_key(|blocker| (blocker.same_class, std::cmp::Reverse(blocker.gap_ns.abs())));
    Some(Stall {
        thread: main.name.clone(),
        reason: trace.process.reason.clone(),
        chain: calls,
        blocker,
    })
}

/// A thread, with what is often asked of it.
struct View<'a> {
    trace: &'a Trace,
    thread: &'a Thread,
    self_ns: Vec<u64>,
    looping: Option<MethodId>,
    idle: Option<MethodId>,
}

impl<'a> View<'a> {
    fn new(trace: &'a Trace, thread: &'a Thread) -> Self {
        let id_of = |(class, name): (&str, &str)| {
            trace.methods.iter().find(|(_, m)| m.class == class && m.name == name).map(|(id, _)| id)
        };
        View {
            trace,
            thread,
            self_ns: thread.slices.self_ns(),
            looping: id_of(LOOP),
            idle: id_of(IDLE),
        }
    }

    fn call(&self, index: usize) -> Call {
        let slice = self.thread.slices.get(index);
        Call {
            class: self.trace.methods.get(slice.method).map(|m| m.class.clone()).unwrap_or_default(),
            name: self.trace.methods.name(slice.method).into_owned(),
            start_ns: slice.start_ns,
            duration_ns: slice.duration_ns(),
            self_ns: self.self_ns[index],
            ended: !slice.flags.contains(Flags::OPEN_END),
        }
    }

    /// The longest of the calls that a looper makes. In a ring that has wrapped around, the looper itself is
    /// not known any more: then they are the outermost calls.
    fn longest_message(&self) -> Option<usize> {
        let slices = &self.thread.slices;
        let mut is_looper = vec![false; slices.len()];
        let mut above_looper = vec![false; slices.len()];
        for (i, &method) in slices.method.iter().enumerate() {
            if Some(method) == self.looping {
                is_looper[i] = true;
                for above in slices.path_to(i) {
                    above_looper[above] = true;
                }
            }
        }
        (0..slices.len())
            .filter(|&i| !above_looper[i] && Some(slices.method[i]) != self.idle)
            .filter(|&i| slices.parent_of(i).is_none_or(|parent| is_looper[parent]))
            .max_by_key(|&i| slices.get(i).duration_ns())
    }

    /// From a call down, as long as one of its callees took most of its time.
    fn descend(&self, from: usize) -> Vec<usize> {
        let slices = &self.thread.slices;
        let mut chain = vec![from];
        let mut current = from;
        loop {
            let longest = (current + 1..slices.subtree_end(current))
                .filter(|&i| slices.parent_of(i) == Some(current))
                .max_by_key(|&i| slices.get(i).duration_ns());
            let Some(callee) = longest else { return chain };
            let part = slices.get(callee).duration_ns() as f64;
            if part < DOMINANT * slices.get(current).duration_ns() as f64 {
                return chain;
            }
            chain.push(callee);
            current = callee;
        }
    }

    /// This thread's calls that cover `wait` and ended with it.
    fn blocker(&self, wait: &Slice, waiting: &Call) -> Option<Blocker> {
        let slices = &self.thread.slices;
        let covers = |call: &Slice| {
            let from = call.start_ns.max(wait.start_ns);
            let to = call.end_ns.min(wait.end_ns);
            to.saturating_sub(from) as f64 >= COVERED * wait.duration_ns() as f64
        };
        // The innermost call that covers the wait.
        let innermost = (0..slices.len())
            .take_while(|&i| slices.start_ns[i] < wait.end_ns)
            .filter(|&i| covers(&slices.get(i)))
            .max_by_key(|&i| slices.depth[i])?;
        let ended = slices.get(innermost);
        if ended.flags.contains(Flags::OPEN_END) || Some(ended.method) == self.idle {
            return None;
        }
        // It came first: whoever is woken by the stalled thread ends later, and is no cause.
        if ended.end_ns > wait.end_ns {
            return None;
        }
        let path = slices.path_to(innermost);
        let may_have_ended_it = |i: usize| {
            let call = slices.get(i);
            !call.flags.contains(Flags::OPEN_END) && call.end_ns <= wait.end_ns + WAKE_UP_NS
        };
        let chain: Vec<Call> =
            path.into_iter().filter(|&i| may_have_ended_it(i)).map(|i| self.call(i)).collect();
        let same_class =
            chain.iter().position(|call| !call.class.is_empty() && call.class == waiting.class);
        let released = same_class.unwrap_or(chain.len() - 1);
        let gap_ns = wait.end_ns as i64 - chain[released].end_ns() as i64;
        (gap_ns <= WAKE_UP_NS as i64).then(|| Blocker {
            thread: self.thread.name.clone(),
            chain,
            released,
            same_class: same_class.is_some(),
            gap_ns,
        })
    }
}

impl Call {
    fn end_ns(&self) -> u64 {
        self.start_ns + self.duration_ns
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, last)) = self.chain.first().zip(self.chain.last()) else {
            return Ok(());
        };
        if !self.reason.is_empty() {
            writeln!(f, "Saved because: {}", self.reason)?;
            writeln!(f)?;
        }
        writeln!(
            f,
            "The thread \"{}\" was held up for {}{} by one message:",
            self.thread,
            if first.ended { "" } else { "at least " },
            millis(first.duration_ns)
        )?;
        write_chain(f, &self.chain)?;
        writeln!(f)?;
        let Some(blocker) = &self.blocker else {
            return write!(
                f,
                "{} spent {} in itself. No other thread's call ended when it did, so it was busy, \
                 or it waited for something that is not traced.",
                last.name,
                millis(last.self_ns)
            );
        };
        let (Some(released), Some(innermost)) =
            (blocker.chain.get(blocker.released), blocker.chain.last())
        else {
            return Ok(());
        };
        writeln!(f, "Meanwhile the thread \"{}\" was in these calls:", blocker.thread)?;
        write_chain(f, &blocker.chain)?;
        writeln!(f)?;
        writeln!(
            f,
            "{} ended {} {} {} did.",
            released.name,
            millis(blocker.gap_ns.unsigned_abs()),
            if blocker.gap_ns < 0 { "after" } else { "before" },
            last.name
        )?;
        if blocker.same_class {
            write!(
                f,
                "Most likely {} waited for a lock that {} held for {}",
                last.name,
                released.name,
                millis(released.duration_ns)
            )?;
        } else {
            write!(f, "Most likely {} waited for it", last.name)?;
        }
        // The library's method that took the time says little without the program's that called it.
        let caller = blocker.chain.iter().rev().find(|call| call.class != innermost.class);
        match caller {
            Some(caller) if caller.name != released.name || blocker.same_class => write!(
                f,
                ", {} of them in {}, which {} called.",
                millis(innermost.self_ns),
                innermost.name,
                caller.name
            ),
            _ => write!(f, "."),
        }
    }
}

/// One call a line, indented by depth, times in a column of their own.
fn write_chain(f: &mut fmt::Formatter<'_>, chain: &[Call]) -> fmt::Result {
    let width = chain.iter().enumerate().map(|(i, call)| 2 * i + call.name.len()).max().unwrap_or(0);
    for (i, call) in chain.iter().enumerate() {
        let name = format!("{:1$}{2}", "", 2 * i, call.name);
        write!(f, "    {name:width$}  {:>11}", millis(call.duration_ns))?;
        if i + 1 == chain.len() {
            write!(f, ", of which {} in itself", millis(call.self_ns))?;
        }
        writeln!(f)?;
    }
    Ok(())
}

fn millis(ns: u64) -> String {
    if ns < 1_000_000 {
        format!("{:.3} ms", ns as f64 / 1e6)
    } else {
        format!("{:.1} ms", ns as f64 / 1e6)
    }
}
