// SPDX-License-Identifier: Apache-2.0
//! The answers, counted in one pass over the calls of each ring.

use std::collections::{HashMap, VecDeque};

use hindsight_trace_format::container::{Reader, RingMode, SymbolTable};

use crate::calls::{walk, Step, MAX_DEPTH};
use crate::causes::{causes, Cause};
use crate::chain::{Link, MAX_CHAIN};
use crate::rings::each_ring;
use crate::signature::{Found, Matched, Signature, MAX_SIGNATURES};

/// Longer files are refused, bytes.
pub const MAX_FILE_BYTES: u64 = 64 << 20;
/// Methods that are counted one by one; the rest is counted together.
pub const MAX_METHODS: usize = 4096;
/// The chain ends before a call with less than this part of its caller's time: it does not explain it.
const LEAST_PART: u64 = 20;

/// A file has no answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It is too long.
    #[error("the trace has {0} bytes; at most {MAX_FILE_BYTES} are read on a device")]
    TooLong(u64),
    /// It cannot be read.
    #[error("the trace cannot be read: {0}")]
    Damaged(String),
}

/// Calls of a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Method {
    /// Class and name; a method without a name has `<unnamed>`.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// Time in it without the methods that it called, ns.
    pub self_ns: u64,
    /// Time of its longest call, ns.
    pub longest_ns: u64,
}

/// Which threads were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Rings of calls.
    pub rings: u32,
    /// Rings that are damaged or too large, and were left out.
    pub left_out: u32,
    /// The time that the rings cover, added up, ns.
    pub span_ns: u64,
    /// Calls deeper than [`MAX_DEPTH`], which are not told apart.
    pub too_deep: u64,
    /// Calls that began before the trace.
    pub begun_before: u64,
}

/// The answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Which threads.
    pub threads: Threads,
    /// The methods with the longest self time first.
    pub methods: Vec<Method>,
    /// All other methods together; its name is empty.
    pub others: Method,
    /// The longest call of the thread that the trace is about, and in each call the longest one that it made.
    pub chain: Vec<Link>,
    /// What the last call of the chain waited for, if it waited: from thread to thread.
    pub causes: Vec<Cause>,
    /// All signatures that were looked for, in their order.
    pub signatures: Vec<Found>,
}

/// A call of a chain. Times are ticks.
#[derive(Clone, Copy, Debug)]
struct Spent {
    method: u32,
    at: u64,
    ticks: u64,
}

struct Frame {
    method: u32,
    at: u64,
    /// Time of the calls that it made.
    inner: u64,
    /// The longest of them, and the longest ones in that one; innermost first.
    longest: VecDeque<Spent>,
    matched: Vec<Matched>,
}

#[derive(Default)]
struct Counts {
    calls: u64,
    own: u64,
    longest: u64,
}

struct Counter<'a> {
    signatures: &'a [Signature],
    symbols: Option<&'a SymbolTable<'a>>,
    /// Number of each method by its address.
    numbers: HashMap<u64, u32>,
    names: Vec<String>,
    /// Bits of each signature for each method.
    bits: Vec<Vec<u64>>,
    counts: Vec<Counts>,
    found: Vec<(u64, u64, u64)>,
    stack: Vec<Frame>,
    /// Calls deeper than the stack.
    deeper: u64,
    threads: Threads,
    longest: VecDeque<Spent>,
    /// Time of all outermost calls that have ended.
    outermost: u64,
}

/// Number of all methods that are not counted one by one.
const OTHERS: u32 = 0;

fn time(step: Option<&Spent>) -> u64 {
    step.map_or(0, |spent| spent.ticks)
}

impl<'a> Counter<'a> {
    fn new(signatures: &'a [Signature], symbols: Option<&'a SymbolTable<'a>>) -> Self {
        Counter {
            signatures,
            symbols,
            numbers: HashMap::new(),
            names: vec![String::new()],
            bits: vec![vec![0; signatures.len()]],
            counts: vec![Counts::default()],
            found: vec![(0, 0, 0); signatures.len()],
            stack: Vec::new(),
            deeper: 0,
            threads: Threads::default(),
            longest: VecDeque::new(),
            outermost: 0,
        }
    }

    fn number(&mut self, address: u64, at: u64) -> u32 {
        if let Some(number) = self.numbers.get(&address) {
            return *number;
        }
        if self.names.len() > MAX_METHODS {
            return OTHERS;
        }
        let symbol = self.symbols.and_then(|table| table.lookup(address, at));
        let name = symbol.map(|symbol| format!("{}.{}", symbol.class, symbol.name));
        let name = name.unwrap_or_else(|| "<unnamed>".to_owned());
        let bits = self.signatures.iter().map(|s| s.matching(&name)).collect();
        let number = self.names.len() as u32;
        self.names.push(name);
        self.bits.push(bits);
        self.counts.push(Counts::default());
        self.numbers.insert(address, number);
        number
    }

    fn enter(&mut self, address: u64, at: u64) {
        if self.stack.len() >= MAX_DEPTH {
            self.deeper += 1;
            self.threads.too_deep += 1;
            return;
        }
        let method = self.number(address, at);
        let bits = &self.bits[method as usize];
        let caller = self.stack.last();
        let matched = self.signatures.iter().enumerate().map(|(i, signature)| {
            let caller = caller.map_or_else(Matched::default, |frame| frame.matched[i]);
            signature.enter(caller, bits[i])
        });
        let matched = matched.collect();
        self.stack.push(Frame {
            method,
            at,
            inner: 0,
            longest: VecDeque::new(),
            matched,
        });
    }

    /// What has ended so far was inside these calls.
    fn outside(&mut self, methods: &[u64], at: u64) {
        let inside = std::mem::take(&mut self.stack);
        let before = std::mem::take(&mut self.longest);
        let ended = std::mem::take(&mut self.outermost);
        let room = MAX_DEPTH - inside.len();
        methods
            .iter()
            .take(room)
            .for_each(|method| self.enter(*method, at));
        match self.stack.last_mut() {
            Some(innermost) => (innermost.longest, innermost.inner) = (before, ended),
            None => (self.longest, self.outermost) = (before, ended),
        }
        self.stack.extend(inside);
    }

    fn exit(&mut self, frames: u64, at: u64) {
        let deeper = self.deeper.min(frames);
        self.deeper -= deeper;
        let known = self.stack.len() as u64;
        let frames = frames - deeper;
        let before = frames.saturating_sub(known);
        self.threads.begun_before = self.threads.begun_before.saturating_add(before);
        for _ in 0..frames.min(known) {
            self.leave(at);
        }
    }

    fn leave(&mut self, at: u64) {
        let Some(frame) = self.stack.pop() else {
            return;
        };
        let ticks = at.saturating_sub(frame.at);
        let counts = &mut self.counts[frame.method as usize];
        counts.calls += 1;
        counts.own = counts.own.saturating_add(ticks.saturating_sub(frame.inner));
        counts.longest = counts.longest.max(ticks);
        for (i, signature) in self.signatures.iter().enumerate() {
            let above = self
                .stack
                .last()
                .map_or(0, |caller| caller.matched[i].above);
            // Recursion counts once.
            if signature.is_matched(frame.matched[i].here) && !signature.is_matched(above) {
                let (calls, total, longest) = &mut self.found[i];
                *calls += 1;
                *total = total.saturating_add(ticks);
                *longest = ticks.max(*longest);
            }
        }
        let best = match self.stack.last_mut() {
            Some(caller) => {
                caller.inner = caller.inner.saturating_add(ticks);
                &mut caller.longest
            }
            None => {
                self.outermost = self.outermost.saturating_add(ticks);
                &mut self.longest
            }
        };
        if ticks > time(best.back()) {
            let mut chain = frame.longest;
            chain.push_back(Spent {
                method: frame.method,
                at: frame.at,
                ticks,
            });
            if chain.len() > MAX_CHAIN {
                chain.pop_front();
            }
            *best = chain;
        }
    }

    /// All calls end.
    fn leave_all(&mut self, at: u64) {
        self.deeper = 0;
        while !self.stack.is_empty() {
            self.leave(at);
        }
    }

    /// Returns the longest call and its longest inner calls, outermost first.
    fn end(&mut self, at: u64) -> Vec<Spent> {
        self.leave_all(at);
        self.outermost = 0;
        std::mem::take(&mut self.longest)
            .into_iter()
            .rev()
            .collect()
    }
}

/// The part of a chain that explains it.
fn explained(mut chain: Vec<Spent>) -> Vec<Spent> {
    let pairs = chain.windows(2);
    let explained = pairs.take_while(|pair| pair[1].ticks >= pair[0].ticks / LEAST_PART);
    let length = explained.count() + 1;
    chain.truncate(length);
    chain
}

impl Answer {
    /// Reads a file. At most [`MAX_SIGNATURES`] signatures are looked for; `most_methods` are counted one by one.
    ///
    /// # Errors
    /// If the file is too long, or has no readable header. Damaged rings are left out.
    pub fn of(
        bytes: &[u8],
        signatures: &[Signature],
        most_methods: usize,
    ) -> Result<Self, QueryError> {
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(QueryError::TooLong(bytes.len() as u64));
        }
        let damaged = |e: &dyn std::fmt::Display| QueryError::Damaged(e.to_string());
        let signatures = &signatures[..signatures.len().min(MAX_SIGNATURES)];
        let reader = Reader::new(bytes).map_err(|e| damaged(&e))?;
        let process = reader.process().map_err(|e| damaged(&e))?;
        let clocks = reader.clocks().map_err(|e| damaged(&e))?;
        let symbols = reader.symbol_table().map_err(|e| damaged(&e))?;
        let to_ns = |ticks: u64| {
            let rate = u128::from(clocks.ticks_per_second.max(1));
            u64::try_from(u128::from(ticks) * 1_000_000_000 / rate).unwrap_or(u64::MAX)
        };
        // A watchdog, whose own thread is not recorded, looks after the main thread.
        let importance = |tid: u32| match tid {
            _ if tid == process.raised_by => 2,
            _ if tid == process.pid => 1,
            _ => 0,
        };
        let mut counter = Counter::new(signatures, symbols.as_ref());
        // The thread that the trace is about before all others, then the longest.
        let mut best = ((0, 0), 0, Vec::new());
        let left_out = each_ring(
            &reader,
            |_| true,
            |ring, beside| {
                if ring.header.mode != RingMode::Calls {
                    return;
                }
                counter.threads.rings += 1;
                let (oldest, end) = walk(ring, beside, |step| match step {
                    Step::Enter { method, at } => counter.enter(method, at),
                    Step::Exit { frames, at } => counter.exit(frames, at),
                    Step::Outside { methods, at } => counter.outside(methods, at),
                    Step::Started { at } => counter.leave_all(at),
                    Step::Other { .. } => {}
                });
                let chain = counter.end(end);
                let span_ns = to_ns(end.saturating_sub(oldest));
                let threads = &mut counter.threads;
                threads.span_ns = threads.span_ns.saturating_add(span_ns);
                let rank = (importance(ring.header.tid), time(chain.first()));
                if rank > best.0 {
                    best = (rank, ring.header.tid, chain);
                }
            },
        );
        counter.threads.left_out = left_out;
        let chain = explained(best.2);
        let last = chain
            .last()
            .map(|last| (last.at, last.at.saturating_add(last.ticks)));
        let causes = last.map_or_else(Vec::new, |within| {
            causes(&reader, symbols.as_ref(), u64::from(best.1), within, to_ns)
        });
        let answer = counter.answer(&chain, to_ns, most_methods);
        Ok(Answer { causes, ..answer })
    }
}

impl Counter<'_> {
    fn answer(self, chain: &[Spent], to_ns: impl Fn(u64) -> u64, most_methods: usize) -> Answer {
        let chain = chain.iter().map(|spent| Link {
            name: self.names[spent.method as usize].clone(),
            ns: to_ns(spent.ticks),
        });
        let chain = chain.collect();
        let found = self.signatures.iter().zip(&self.found);
        let found = found.map(|(signature, (calls, total, longest))| {
            let (total_ns, longest_ns) = (to_ns(*total), to_ns(*longest));
            let when = signature.condition;
            Found {
                name: signature.name.clone(),
                calls: *calls,
                total_ns,
                longest_ns,
                is_matched: *calls >= when.calls
                    && longest_ns >= when.longest_ns
                    && total_ns >= when.total_ns,
            }
        });
        let signatures = found.collect();
        // Overloads, and methods without names, have one line together.
        let mut by_name: HashMap<String, Method> = HashMap::new();
        for (name, counts) in self.names.into_iter().zip(self.counts) {
            let method = by_name.entry(name.clone()).or_insert_with(|| Method {
                name,
                ..Method::default()
            });
            method.calls += counts.calls;
            method.self_ns = method.self_ns.saturating_add(to_ns(counts.own));
            method.longest_ns = method.longest_ns.max(to_ns(counts.longest));
        }
        let mut others = by_name.remove("").unwrap_or_default();
        let mut methods: Vec<Method> = by_name.into_values().filter(|m| m.calls > 0).collect();
        methods.sort_by(|a, b| b.self_ns.cmp(&a.self_ns).then_with(|| a.name.cmp(&b.name)));
        for method in methods.split_off(most_methods.min(methods.len())) {
            others.calls += method.calls;
            others.self_ns = others.self_ns.saturating_add(method.self_ns);
            others.longest_ns = others.longest_ns.max(method.longest_ns);
        }
        Answer {
            threads: self.threads,
            methods,
            others,
            chain,
            causes: Vec::new(),
            signatures,
        }
    }
}
