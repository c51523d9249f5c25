// SPDX-License-Identifier: Apache-2.0
//! Why the longest call took so long, if it waited: for what, and what the thread did that held the lock or ended the wait.
//!
//! A wait explains a piece of time if it takes at least half of it. The other thread's part of the wait is explained in the same
//! way, so a chain of locks is followed to the thread that waited for nobody.

use std::collections::VecDeque;

use hindsight_trace_format::container::{Reader, SymbolTable};

use crate::calls::{walk, Step, MAX_DEPTH};
use crate::chain::{Link, MAX_CHAIN};
use crate::rings::each_ring;
use crate::waits::{Tid, Wait, Waits};

/// The most waits that are followed from thread to thread.
pub const MAX_CAUSES: usize = 4;

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// A thread held the lock.
    HeldTheLock,
    /// A thread ended the wait.
    EndedTheWait,
    /// No thread is known: it slept, or the other end is not recorded.
    Unknown,
}

/// A wait, and what happened meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The kind of the wait, as the catalogue of events names it, such as `lock`.
    pub kind: &'static str,
    /// Its time, as far as it is within the call or the wait before, ns.
    pub ns: u64,
    /// Which thread it waited for.
    pub other: Other,
    /// What that thread did for most of this time: its longest call, and the longest one inside each. Empty if the thread has no
    /// calls in the trace.
    pub meanwhile: Vec<Link>,
}

/// Methods and times of their calls, ticks; innermost first.
type Chain = VecDeque<(u64, u64)>;

/// A call that has not ended.
struct Open {
    method: u64,
    entered: u64,
    /// The longest call that it made, and the longest ones inside.
    longest: Chain,
}

/// The calls of a thread within a time, as the longest one and the longest one inside each.
struct Meanwhile {
    within: (u64, u64),
    stack: Vec<Open>,
    deeper: u64,
    longest: Chain,
}

fn length(chain: &Chain) -> u64 {
    chain.back().map_or(0, |(_, ticks)| *ticks)
}

impl Meanwhile {
    fn new(within: (u64, u64)) -> Self {
        Meanwhile {
            within,
            stack: Vec::new(),
            deeper: 0,
            longest: VecDeque::new(),
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        match *step {
            Step::Enter { .. } if self.stack.len() >= MAX_DEPTH => self.deeper += 1,
            Step::Enter { method, at } => self.enter(method, at),
            Step::Exit { frames, at } => {
                let deeper = self.deeper.min(frames);
                self.deeper -= deeper;
                let known = (frames - deeper).min(self.stack.len() as u64);
                (0..known).for_each(|_| self.leave(at));
            }
            Step::Outside { methods, at } => self.outside(methods, at),
            Step::Started { at } => self.end(at),
            Step::Other { .. } => {}
        }
    }

    fn enter(&mut self, method: u64, entered: u64) {
        self.stack.push(Open {
            method,
            entered,
            longest: Chain::new(),
        });
    }

    /// What has ended so far was inside these calls.
    fn outside(&mut self, methods: &[u64], at: u64) {
        let inside = std::mem::take(&mut self.stack);
        let before = std::mem::take(&mut self.longest);
        let methods = methods.iter().take(MAX_DEPTH - inside.len());
        methods.for_each(|method| self.enter(*method, at));
        match self.stack.last_mut() {
            Some(innermost) => innermost.longest = before,
            None => self.longest = before,
        }
        self.stack.extend(inside);
    }

    fn leave(&mut self, at: u64) {
        let Some(call) = self.stack.pop() else {
            return;
        };
        let (from, to) = self.within;
        let ticks = at.min(to).saturating_sub(call.entered.max(from));
        let best = match self.stack.last_mut() {
            Some(caller) => &mut caller.longest,
            None => &mut self.longest,
        };
        if ticks > length(best) {
            let mut chain = call.longest;
            chain.push_back((call.method, ticks));
            if chain.len() > MAX_CHAIN {
                chain.pop_front();
            }
            *best = chain;
        }
    }

    fn end(&mut self, at: u64) {
        self.deeper = 0;
        while !self.stack.is_empty() {
            self.leave(at);
        }
    }
}

/// What a thread did within a time.
struct Looked {
    /// The longest wait; `None`: none takes half of the time.
    wait: Option<Wait>,
    /// Its calls, outermost first: addresses and ticks.
    chain: Vec<(u64, u64)>,
}

/// Looks at all rings of a thread.
fn look(reader: &Reader<'_>, tid: Tid, within: (u64, u64)) -> Looked {
    let mut longest: Option<Wait> = None;
    let mut meanwhile = Meanwhile::new(within);
    let is_it = |of: u32| Tid::from(of) == tid;
    each_ring(reader, is_it, |ring, beside| {
        let mut waits = Waits::default();
        let mut keep = |wait: Wait| {
            let least = longest.map_or(0, |best| best.within(within));
            if wait.within(within) > least {
                longest = Some(wait);
            }
        };
        let (_, end) = walk(ring, beside, |step| {
            if let Step::Started { at } = step {
                std::mem::take(&mut waits).end(at).for_each(&mut keep);
            }
            if let Some(wait) = waits.step(&step) {
                keep(wait);
            }
            meanwhile.step(&step);
        });
        waits.end(end).for_each(keep);
        meanwhile.end(end);
    });
    let half = within.1.saturating_sub(within.0) / 2;
    Looked {
        wait: longest.filter(|wait| wait.within(within) > half),
        chain: meanwhile.longest.into_iter().rev().collect(),
    }
}

/// Explains this time of a thread. `symbols` name the methods.
pub(crate) fn causes(
    reader: &Reader<'_>,
    symbols: Option<&SymbolTable<'_>>,
    tid: Tid,
    within: (u64, u64),
    to_ns: impl Fn(u64) -> u64,
) -> Vec<Cause> {
    let name = |method: u64| {
        let symbol = symbols.and_then(|table| table.lookup(method, within.1));
        symbol.map_or_else(
            || "<unnamed>".to_owned(),
            |symbol| format!("{}.{}", symbol.class, symbol.name),
        )
    };
    let mut causes = Vec::new();
    let mut seen = vec![tid];
    let mut wait = look(reader, tid, within).wait;
    let mut within = within;
    while let Some(one) = wait.take().filter(|_| causes.len() < MAX_CAUSES) {
        within = (one.from.max(within.0), one.to.min(within.1));
        let (other, who) = match (one.holder, one.woken_by) {
            (0, 0) => (Other::Unknown, 0),
            (0, who) => (Other::EndedTheWait, who),
            (who, _) => (Other::HeldTheLock, who),
        };
        let mut meanwhile = Vec::new();
        // Threads that wait for each other are told once.
        if who != 0 && !seen.contains(&who) {
            seen.push(who);
            let looked = look(reader, who, within);
            let links = looked.chain.into_iter();
            meanwhile = links
                .map(|(method, ticks)| Link {
                    name: name(method),
                    ns: to_ns(ticks),
                })
                .collect();
            wait = looked.wait;
        }
        causes.push(Cause {
            kind: kind(one.kind),
            ns: to_ns(within.1.saturating_sub(within.0)),
            other,
            meanwhile,
        });
    }
    causes
}

fn kind(number: u64) -> &'static str {
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    let kinds = hindsight_trace_format::catalogue::WAIT_KINDS;
    kinds.get(index).copied().unwrap_or("other")
}
