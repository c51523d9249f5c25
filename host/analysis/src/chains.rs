// SPDX-License-Identifier: Apache-2.0
//! Chains of calls that held a thread up, and what other threads did meanwhile.

use std::cmp::Reverse;
use std::collections::HashMap;

use hindsight_decoder::{Calls, Extension, Flags, Method, MethodId, Thread, Trace};
use serde::Serialize;

use crate::{known, Window};

/// A chain goes on into a call that takes at least this part of the whole.
const DOMINANT: f64 = 0.5;
/// Stalls that ended so long before the thread's ring was taken are listed after those that ended later:
/// a trace is persisted right after its anomaly.
const RECENT_NS: u64 = 2_000_000_000;
/// Shorter chains are no stalls: a message that took less didn't cost more than a few frames.
const STALL_NS: u64 = 100_000_000;
/// A call covers at least this part of a wait that it is said to have caused.
const COVERED: f64 = 0.9;
/// How far apart the end of a wait and the end of the call that caused it may be: a woken thread has to be
/// scheduled first, and on a busy machine the other one may be held up between unlocking and returning.
const WAKE_UP_NS: u64 = 20_000_000;
/// Where no call dominates, callees are listed that took at least this part of the whole,
const WORTH_TELLING: f64 = 0.05;
/// at most so many of one caller,
const MAX_CALLEES: usize = 5;
/// and so many levels of them.
const MAX_LEVELS: usize = 6;

/// A chain of calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chain {
    /// Thread id.
    pub tid: u32,
    /// Thread name.
    pub thread: String,
    /// When the time that the chain explains began, CLOCK_BOOTTIME, ns.
    pub start_ns: u64,
    /// How long it held the thread, ns.
    pub held_ns: u64,
    /// Whether it still held the thread when the ring was taken.
    pub still_running: bool,
    /// How long before the ring was taken it ended, ns.
    pub ended_before_ns: u64,
    /// What called the head, outermost first.
    pub callers: Vec<String>,
    /// The head (the dispatch of a message, or an outermost call), …, the call where the time went.
    #[serde(rename = "links")]
    pub calls: Vec<ChainCall>,
    /// What the last call did with the time.
    #[serde(rename = "rest")]
    pub last: LastCall,
    /// Who owned the lock that the last call waited for, if the trace says so.
    pub lock_owner: Option<LockOwner>,
    /// What other threads did while the last call was waiting or busy; most telling first.
    pub evidence: Vec<Evidence>,
    /// The method that is to blame as far as the trace shows, and its thread.
    pub culprit: Option<(String, String)>,
}

/// A call in a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainCall {
    /// `class.name`.
    pub method: String,
    /// Source file, or empty.
    pub source_file: String,
    /// How much of the time in question it covers, with what it called, ns.
    pub ns: u64,
    /// Time in itself, ns.
    pub self_ns: u64,
    /// Whether it is the program's own, not the platform's or the language's.
    pub own: bool,
    /// Methods that R8 inlined into it, as far as a mapping says so: their time is part of its self time.
    pub inlined: Vec<String>,
}

/// What the last call of a chain did with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastCall {
    /// Its longest stretch without a traced call, ns: there it waited, or computed.
    pub longest_gap_ns: u64,
    /// Whether the method is one that sleeps or waits.
    pub sleeps: bool,
    /// What it called, if that is where the time went; longest first.
    pub callees: Vec<Callee>,
    /// What it called besides.
    pub others: Others,
}

/// Calls of one method by another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Callee {
    /// `class.name`.
    pub method: String,
    /// How often.
    pub calls: u64,
    /// How long, together, ns.
    pub ns: u64,
    /// What it called in turn, cut to what took a good part of the whole; longest first.
    pub callees: Vec<Callee>,
    /// What it called besides.
    pub others: Others,
}

/// Calls that each took too little of the time to be listed one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Others {
    /// Of how many methods.
    pub methods: u64,
    /// How many.
    pub calls: u64,
    /// How long, together, ns.
    pub ns: u64,
}

/// Who owned a lock that was waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockOwner {
    /// Thread id.
    pub tid: u32,
    /// Its name, if its ring is in the trace.
    pub thread: Option<String>,
    /// Identity of the lock.
    pub lock: u64,
}

/// What another thread did while the chain's last call was waiting or busy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Thread id.
    pub tid: u32,
    /// Thread name.
    pub thread: String,
    /// What called the first call and went on after the wait, outermost first.
    pub callers: Vec<String>,
    /// Its chain of calls; times are those inside the wait.
    #[serde(rename = "links")]
    pub calls: Vec<ChainCall>,
    /// The part of the wait that the last one covers, 0 ..= 1.
    pub share: f64,
    /// Whether the last one sleeps or waits.
    pub sleeps: bool,
    /// Index of a call that ended together with the wait: it may have released what was waited for.
    pub ended_together: Option<usize>,
    /// How long after that call the wait ended, ns; below 0 if it was seen to end before.
    pub end_gap_ns: i64,
    /// Whether that call is of the same class as the one that waited.
    pub same_class: bool,
    /// Whether the trace says that this thread owned the lock.
    pub owns_lock: bool,
}

/// The chains that held `thread` up longest, at most `limit`, the most telling one first: that is the
/// longest stall that ended just before the ring was taken, or was still going on.
///
/// Where the thread has a looper, a chain begins at a message; otherwise at an outermost call.
pub fn chains(trace: &Trace, thread: &Thread, limit: usize) -> Vec<Chain> {
    chains_in(trace, thread, None, limit)
}

/// As [`chains`], but only of what ran in the `window`. Chains that reach out of it are listed as a whole.
pub fn chains_in(
    trace: &Trace,
    thread: &Thread,
    window: Option<Window>,
    limit: usize,
) -> Vec<Chain> {
    let calls = &thread.calls;
    let mut heads = heads(trace, calls);
    if let Some(window) = window {
        heads.retain(|&i| window.meets(calls.start_ns[i], calls.end_ns[i]));
    }
    heads.sort_by_key(|&i| {
        let ns = calls.end_ns[i] - calls.start_ns[i];
        let recent = thread.end_ns - calls.end_ns[i] <= RECENT_NS;
        Reverse((recent && ns >= STALL_NS, ns))
    });
    heads.truncate(limit);
    let self_ns = calls.self_ns();
    heads
        .into_iter()
        .map(|head| chain(trace, thread, &self_ns, head))
        .collect()
}

/// The calls that chains may begin with: messages, or else outermost calls.
///
/// A looper runs messages through `Handler.dispatchMessage`, which may have been inlined into it: so they
/// are all the calls it makes, but for the wait for the next one. In a ring that has wrapped around, the
/// looper itself isn't known any more: then they are the outermost calls.
fn heads(trace: &Trace, calls: &Calls) -> Vec<usize> {
    let marked = |is: fn(&Method) -> bool| -> Vec<bool> {
        trace.methods.iter().map(|(_, m)| is(m)).collect()
    };
    let (looper, idle) = (
        marked(known::is_message_loop),
        marked(known::waits_for_work),
    );
    let has = |marks: &[bool], i: usize| {
        marks
            .get(calls.method[i].0 as usize)
            .copied()
            .unwrap_or(false)
    };
    // Loopers can be nested; what is above one isn't a message.
    let mut above_looper = vec![false; calls.len()];
    for i in (0..calls.len()).filter(|&i| has(&looper, i)) {
        let mut above = Some(i);
        while let Some(caller) = above.filter(|&caller| !above_looper[caller]) {
            above_looper[caller] = true;
            above = calls.parent_of(caller);
        }
    }
    let is_head = |i: usize| {
        let called_by_looper = calls.parent_of(i).is_none_or(|parent| has(&looper, parent));
        called_by_looper && !above_looper[i] && !has(&idle, i)
    };
    (0..calls.len()).filter(|&i| is_head(i)).collect()
}

fn chain(trace: &Trace, thread: &Thread, self_ns: &[u64], head: usize) -> Chain {
    let calls = &thread.calls;
    let whole = (calls.start_ns[head], calls.end_ns[head]);
    let path = heaviest_path(calls, head, whole);
    let last = path[path.len() - 1];
    let gap = longest_gap(calls, last);
    let call = |&i: &usize| chain_call(trace, calls, self_ns, i, whole);
    let last_method = trace.methods.get(calls.method[last]);
    let lock_owner = lock_owner(trace, thread, gap);
    let evidence = evidence(trace, thread, gap, last_method, lock_owner.as_ref());
    let mut path_to_head = calls.path_to(head);
    path_to_head.pop();
    let chain_calls: Vec<ChainCall> = path.iter().map(call).collect();
    let (callees, others) = callees(trace, calls, self_ns, last, whole.1 - whole.0);
    let culprit = culprit(&chain_calls, &thread.name, &evidence);
    Chain {
        tid: thread.tid,
        thread: thread.name.clone(),
        start_ns: whole.0,
        held_ns: whole.1 - whole.0,
        still_running: calls.flags[head].contains(Flags::OPEN_END),
        ended_before_ns: thread.end_ns - whole.1,
        callers: path_to_head
            .into_iter()
            .map(|i| trace.methods.name(calls.method[i]).into_owned())
            .collect(),
        last: LastCall {
            longest_gap_ns: gap.1 - gap.0,
            sleeps: last_method.is_some_and(known::sleeps_or_waits),
            callees,
            others,
        },
        lock_owner,
        calls: chain_calls,
        evidence,
        culprit,
    }
}

/// How much of `span` a call covers, ns.
fn overlap(calls: &Calls, i: usize, span: (u64, u64)) -> u64 {
    calls.end_ns[i]
        .min(span.1)
        .saturating_sub(calls.start_ns[i].max(span.0))
}

/// `head`, then always the callee that covers most of `span`, as long as that is the better part.
fn heaviest_path(calls: &Calls, head: usize, span: (u64, u64)) -> Vec<usize> {
    let dominant = ((span.1 - span.0) as f64 * DOMINANT) as u64;
    let end = calls.subtree_end(head);
    let mut path = vec![head];
    // Children follow their parent, so one pass finds each call; a later child that covers more than
    // half cannot exist beside one that does.
    for i in head + 1..end {
        let last = path[path.len() - 1];
        if calls.parent[i] as usize == last && overlap(calls, i, span) > dominant {
            path.push(i);
        }
    }
    path
}

/// The longest stretch of a call in which it called nothing.
fn longest_gap(calls: &Calls, i: usize) -> (u64, u64) {
    let (start, end) = (calls.start_ns[i], calls.end_ns[i]);
    let children = (i + 1..calls.subtree_end(i)).filter(|&c| calls.parent[c] as usize == i);
    let mut longest = (start, start);
    let mut from = start;
    let edges = children.map(|c| (calls.start_ns[c], calls.end_ns[c]));
    for (child_start, child_end) in edges.chain([(end, end)]) {
        if child_start - from > longest.1 - longest.0 {
            longest = (from, child_start);
        }
        from = child_end;
    }
    longest
}

fn chain_call(
    trace: &Trace,
    calls: &Calls,
    self_ns: &[u64],
    i: usize,
    span: (u64, u64),
) -> ChainCall {
    let method = trace.methods.get(calls.method[i]);
    ChainCall {
        method: trace.methods.name(calls.method[i]).into_owned(),
        source_file: method.map_or_else(String::new, |m| m.source_file.clone()),
        ns: overlap(calls, i, span),
        self_ns: self_ns[i],
        own: method.is_some_and(|m| m.is_named() && !known::is_platform(m)),
        inlined: method.map_or_else(Vec::new, |m| m.inlined.clone()),
    }
}

/// What `last` called, added up by method, if its time went there.
fn callees(
    trace: &Trace,
    calls: &Calls,
    self_ns: &[u64],
    last: usize,
    whole_ns: u64,
) -> (Vec<Callee>, Others) {
    let duration = calls.end_ns[last] - calls.start_ns[last];
    if self_ns[last] as f64 > duration as f64 * DOMINANT {
        return Default::default();
    }
    let mut nodes = vec![Node::default()];
    let mut places: HashMap<(usize, MethodId), usize> = HashMap::new();
    // The nodes of the callers of the call that is looked at, the root first.
    let mut callers = vec![0];
    let base = calls.depth[last] as usize + 1;
    for i in last + 1..calls.subtree_end(last) {
        let level = calls.depth[i] as usize - base;
        if level >= MAX_LEVELS {
            continue;
        }
        callers.truncate(level + 1);
        let Some(&caller) = callers.get(level) else {
            continue;
        };
        let method = calls.method[i];
        let node = *places.entry((caller, method)).or_insert_with(|| {
            nodes.push(Node {
                method: Some(method),
                ..Node::default()
            });
            let new = nodes.len() - 1;
            nodes[caller].callees.push(new);
            new
        });
        nodes[node].calls += 1;
        nodes[node].ns += calls.end_ns[i] - calls.start_ns[i];
        callers.push(node);
    }
    largest_callees(trace, &nodes, 0, whole_ns)
}

/// The calls of one method on one way down.
#[derive(Default)]
struct Node {
    method: Option<MethodId>,
    calls: u64,
    ns: u64,
    callees: Vec<usize>,
}

/// The callees of a node that are worth telling, and the sum of the others.
fn largest_callees(
    trace: &Trace,
    nodes: &[Node],
    node: usize,
    whole_ns: u64,
) -> (Vec<Callee>, Others) {
    let least = (whole_ns as f64 * WORTH_TELLING) as u64;
    let mut order: Vec<&usize> = nodes[node].callees.iter().collect();
    order.sort_by_key(|&&n| Reverse(nodes[n].ns));
    let worth = order.iter().take_while(|&&&n| nodes[n].ns >= least).count();
    let (worth, others) = order.split_at(worth.min(MAX_CALLEES));
    let worth = worth
        .iter()
        .map(|&&n| {
            let (callees, others) = largest_callees(trace, nodes, n, whole_ns);
            let method = nodes[n].method.unwrap_or(MethodId::NOT_RECORDED);
            Callee {
                method: trace.methods.name(method).into_owned(),
                calls: nodes[n].calls,
                ns: nodes[n].ns,
                callees,
                others,
            }
        })
        .collect();
    let others = Others {
        methods: others.len() as u64,
        calls: others.iter().map(|&&n| nodes[n].calls).sum(),
        ns: others.iter().map(|&&n| nodes[n].ns).sum(),
    };
    (worth, others)
}

/// Who owned the lock that was waited for during `gap`, by the thread's own events.
fn lock_owner(trace: &Trace, thread: &Thread, gap: (u64, u64)) -> Option<LockOwner> {
    let event = thread
        .events
        .iter()
        .find(|e| e.kind == Extension::LockWait && gap.0 <= e.at_ns && e.at_ns <= gap.1)?;
    let tid = u32::try_from(event.payload[0])
        .ok()
        .filter(|&tid| tid != 0)?;
    Some(LockOwner {
        tid,
        thread: trace
            .threads
            .iter()
            .find(|t| t.tid == tid)
            .map(|t| t.name.clone()),
        lock: event.payload[1],
    })
}

fn evidence(
    trace: &Trace,
    waiting: &Thread,
    gap: (u64, u64),
    waited_in: Option<&Method>,
    owner: Option<&LockOwner>,
) -> Vec<Evidence> {
    if gap.1 == gap.0 {
        return Vec::new();
    }
    let mut found: Vec<Evidence> = trace
        .threads
        .iter()
        .filter(|t| t.tid != waiting.tid && t.tid != trace.process.raised_by)
        .filter_map(|t| evidence_of(trace, t, gap, waited_in, owner))
        .collect();
    found.sort_by(|a, b| {
        let rank = |e: &Evidence| (e.owns_lock, e.same_class, e.ended_together.is_some());
        rank(b).cmp(&rank(a)).then(b.share.total_cmp(&a.share))
    });
    found
}

fn evidence_of(
    trace: &Trace,
    thread: &Thread,
    gap: (u64, u64),
    waited_in: Option<&Method>,
    owner: Option<&LockOwner>,
) -> Option<Evidence> {
    let calls = &thread.calls;
    let owns_lock = owner.is_some_and(|o| o.tid == thread.tid);
    let length = gap.1 - gap.0;
    let outermost = (0..calls.len())
        .filter(|&i| calls.depth[i] == 0)
        .max_by_key(|&i| overlap(calls, i, gap))?;
    if (overlap(calls, outermost, gap) as f64) < length as f64 * DOMINANT {
        return None;
    }
    let path = heaviest_path(calls, outermost, gap);
    let method = |i: usize| trace.methods.get(calls.method[i]);
    if !owns_lock
        && path
            .iter()
            .any(|&i| method(i).is_some_and(known::waits_for_work))
    {
        return None;
    }
    let last = path[path.len() - 1];
    // Calls that went on after the wait are context.
    let ended = |i: usize| {
        !calls.flags[i].contains(Flags::OPEN_END) && calls.end_ns[i] <= gap.1 + WAKE_UP_NS
    };
    let context = path
        .iter()
        .position(|&i| ended(i))
        .unwrap_or(path.len() - 1);
    let (callers, path) = path.split_at(context);

    let distance = |p: usize| calls.end_ns[path[p]].abs_diff(gap.1);
    let may_have_caused_it = |p: &usize| {
        let i = path[*p];
        let covered = overlap(calls, i, gap) as f64 >= COVERED * length as f64;
        ended(i) && covered && distance(*p) <= WAKE_UP_NS
    };
    let is_same_class = |p: &usize| match (waited_in, method(path[*p])) {
        (Some(a), Some(b)) => {
            a.is_named() && known::outer_class(&a.class) == known::outer_class(&b.class)
        }
        _ => false,
    };
    // A method that synchronizes on an object of the same class is the best guess, the outermost one if
    // there are several: it released the lock last. Otherwise it is the call whose end is nearest, which
    // must not have ended later: it may just as well have been woken by the one who waited.
    let same_class = (0..path.len())
        .filter(may_have_caused_it)
        .find(is_same_class);
    let ended_together = same_class.or_else(|| {
        let ended_first = |p: &usize| calls.end_ns[path[*p]] <= gap.1;
        (0..path.len())
            .filter(may_have_caused_it)
            .filter(ended_first)
            .min_by_key(|&p| distance(p))
    });
    let self_ns = calls.self_ns();
    Some(Evidence {
        tid: thread.tid,
        thread: thread.name.clone(),
        callers: callers
            .iter()
            .map(|&i| trace.methods.name(calls.method[i]).into_owned())
            .collect(),
        calls: path
            .iter()
            .map(|&i| chain_call(trace, calls, &self_ns, i, gap))
            .collect(),
        share: overlap(calls, last, gap) as f64 / length as f64,
        sleeps: method(last).is_some_and(known::sleeps_or_waits),
        ended_together,
        end_gap_ns: ended_together.map_or(0, |p| gap.1 as i64 - calls.end_ns[path[p]] as i64),
        same_class: same_class.is_some(),
        owns_lock,
    })
}

/// The innermost method of the program itself, in the thread that was waited for, or else in the chain.
fn culprit(calls: &[ChainCall], thread: &str, evidence: &[Evidence]) -> Option<(String, String)> {
    let innermost = |calls: &[ChainCall]| {
        let own = calls.iter().rev().find(|l| l.own);
        own.or(calls.last()).map(|l| l.method.clone())
    };
    match evidence.first() {
        Some(e) if e.owns_lock || e.ended_together.is_some() => {
            Some((innermost(&e.calls)?, e.thread.clone()))
        }
        _ => Some((innermost(calls)?, thread.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_testkit::{stall, Script, ThreadIndex, STALL_NS as WAIT_NS};

    fn decode(script: &Script) -> Trace {
        Trace::decode("test".as_ref(), &script.encode()).unwrap()
    }

    fn first(trace: &Trace) -> Chain {
        chains(trace, trace.main_thread().unwrap(), 1).remove(0)
    }

    fn names(calls: &[ChainCall]) -> Vec<&str> {
        calls
            .iter()
            .map(|l| l.method.rsplit_once("notes.").map_or(&*l.method, |m| m.1))
            .collect()
    }

    #[test]
    fn the_chain_that_waited_and_the_method_that_slept_are_found() {
        let trace = decode(&stall());
        let chain = first(&trace);
        assert_eq!(
            names(&chain.calls),
            [
                "android.os.Handler.dispatchMessage",
                "NoteListScreen.handleMessage",
                "NoteListScreen.openNote",
                "NoteStore.find"
            ]
        );
        assert!(chain.held_ns > WAIT_NS && chain.held_ns < WAIT_NS + 2_000_000);
        assert_eq!(chain.last.longest_gap_ns, WAIT_NS);
        assert!(!chain.still_running);
        assert_eq!(
            chain.callers,
            ["com.example.notes.NotesApp.main", "android.os.Looper.loop"]
        );

        let evidence = &chain.evidence[0];
        assert_eq!(evidence.thread, "notes-sync");
        assert_eq!(
            names(&evidence.calls),
            [
                "android.os.Handler.dispatchMessage",
                "SyncWorker.handleMessage",
                "SyncWorker.save",
                "NoteStore.saveAll",
                "NoteFile.writeAll",
                "NoteFile.syncToFlash",
                "java.lang.Thread.sleep"
            ]
        );
        assert!(evidence.share > 0.98 && evidence.sleeps && evidence.same_class);
        let together = &evidence.calls[evidence.ended_together.unwrap()];
        assert_eq!(together.method, "com.example.notes.NoteStore.saveAll");
        assert_eq!(
            chain.culprit,
            Some((
                "com.example.notes.NoteFile.syncToFlash".into(),
                "notes-sync".into()
            ))
        );
        assert_eq!(chain.lock_owner, None);
    }

    /// Main waits 500 ms in a.Main.need; a worker does `other` meanwhile.
    fn waits(record: impl FnOnce(&mut Script)) -> Trace {
        let mut s = Script::new("p");
        let dispatch = s.method("android.os.Handler.dispatchMessage", "()V");
        let need = s.method("a.Main.need", "()V");
        let main = s.thread(1, "main");
        s.at(main, 0).enter(dispatch).after(10).enter(need);
        record(&mut s);
        s.at(main, 500_000_010).exit().after(5).exit();
        decode(&s)
    }

    #[test]
    fn the_owner_of_the_lock_outranks_what_merely_happened_meanwhile() {
        let trace = waits(|s| {
            let busy = s.method("b.Busy.run", "()V");
            let idle = s.method("java.lang.Object.wait", "()V");
            let other = s.thread(2, "busy");
            let owner = s.thread(3, "owner");
            s.at(other, 0).call(busy, 500_000_010);
            s.at(owner, 0).enter(idle);
            s.at(ThreadIndex::FIRST, 20)
                .extension(Extension::LockWait, &[3, 0xabc]);
        });
        let chain = first(&trace);
        assert_eq!(
            chain.lock_owner,
            Some(LockOwner {
                tid: 3,
                thread: Some("owner".into()),
                lock: 0xabc
            })
        );
        assert_eq!(chain.evidence[0].thread, "owner");
        assert!(chain.evidence[0].owns_lock);
        assert_eq!(chain.evidence[1].thread, "busy");
        assert_eq!(
            chain.culprit,
            Some(("java.lang.Object.wait".into(), "owner".into()))
        );
    }

    #[test]
    fn threads_that_wait_for_work_are_no_evidence() {
        let trace = waits(|s| {
            let idle = s.method("android.os.MessageQueue.next", "()V");
            let other = s.thread(2, "idle");
            s.at(other, 0).call(idle, 500_000_010);
        });
        let chain = first(&trace);
        assert_eq!(chain.evidence, []);
        assert_eq!(chain.culprit, Some(("a.Main.need".into(), "main".into())));
    }

    #[test]
    fn a_stall_that_goes_on_is_told_although_an_older_one_was_longer() {
        let mut s = Script::new("p");
        let dispatch = s.method("android.os.Handler.dispatchMessage", "()V");
        let main = s.thread(1, "main");
        s.at(main, 0)
            .call(dispatch, 900_000_000)
            .after(8_000_000_000)
            .enter(dispatch);
        s.stop_at(9_400_000_000);
        let trace = decode(&s);
        let all = chains(&trace, trace.main_thread().unwrap(), 5);
        assert_eq!(all.len(), 2);
        assert!(all[0].still_running);
        assert_eq!(all[0].held_ns, 500_000_000);
        assert_eq!(all[1].held_ns, 900_000_000);
    }

    /// Main waits from 1000 to 1500 ms in a.Store.find; a worker in a.Store.save until `end_ms`, of which
    /// it sleeps until `slept_ms`.
    fn saves(class: &str, slept_ms: u64, end_ms: u64) -> Chain {
        let mut s = Script::new("p");
        let looper = s.method("android.os.Looper.loop", "()V");
        let next = s.method("android.os.MessageQueue.next", "()V");
        let open = s.method("a.Screen.open", "()V");
        let find = s.method("a.Store.find", "()V");
        let run = s.method("a.Worker.run", "()V");
        let save = s.method(&format!("{class}.save"), "()V");
        let sleep = s.method("java.lang.Thread.sleep", "(J)V");
        let main = s.thread(1, "main");
        let worker = s.thread(2, "worker");
        const MS: u64 = 1_000_000;
        let mut r = s.at(main, 0);
        // Longer than the stall, but no message.
        r.enter(looper)
            .call(next, 900 * MS)
            .at(999 * MS)
            .enter(open)
            .at(1_000 * MS);
        r.call(find, 500 * MS).after(MS).exit().enter(next);
        let mut r = s.at(worker, 0);
        r.enter(run)
            .at(990 * MS)
            .enter(save)
            .call(sleep, (slept_ms - 990) * MS);
        r.at(end_ms * MS).exit();
        s.stop_at(3_000 * MS);
        first(&decode(&s))
    }

    #[test]
    fn a_looper_into_which_dispatch_was_inlined_still_runs_messages() {
        let chain = saves("a.Store", 1_498, 1_499);
        assert_eq!(names(&chain.calls), ["a.Screen.open", "a.Store.find"]);
        let evidence = &chain.evidence[0];
        // What goes on afterwards is context.
        assert_eq!(evidence.callers, ["a.Worker.run"]);
        assert_eq!(
            names(&evidence.calls),
            ["a.Store.save", "java.lang.Thread.sleep"]
        );
        assert_eq!(
            (evidence.ended_together, evidence.same_class),
            (Some(0), true)
        );
        assert_eq!(
            chain.culprit,
            Some(("a.Store.save".into(), "worker".into()))
        );
    }

    #[test]
    fn slow_work_after_the_sleep_does_not_hide_the_lock_holder() {
        assert!(saves("a.Store", 1_459, 1_499).evidence[0].same_class);
    }

    #[test]
    fn between_unlocking_and_returning_the_holder_may_be_held_up_itself() {
        assert!(saves("a.Store", 1_490, 1_504).evidence[0].same_class);
    }

    #[test]
    fn without_a_common_class_a_call_that_ended_later_is_no_cause() {
        let later = saves("a.Other", 1_503, 1_504);
        assert_eq!(later.evidence[0].ended_together, None);
        assert_eq!(later.culprit, Some(("a.Store.find".into(), "main".into())));
        let earlier = saves("a.Other", 1_498, 1_499);
        assert_eq!(earlier.evidence[0].ended_together, Some(0));
    }

    #[test]
    fn a_call_that_ended_long_before_is_no_cause() {
        assert!(saves("a.Store", 1_400, 1_401)
            .evidence
            .iter()
            .all(|e| e.ended_together.is_none()));
    }

    #[test]
    fn in_a_ring_that_lost_the_looper_messages_are_outermost_calls() {
        let mut s = Script::new("p");
        let next = s.method("android.os.MessageQueue.next", "()V");
        let open = s.method("a.Screen.open", "()V");
        let main = s.thread(1, "main");
        s.at(main, 0)
            .call(next, 900)
            .after(1)
            .call(open, 500)
            .after(1)
            .enter(next);
        assert_eq!(names(&first(&decode(&s)).calls), ["a.Screen.open"]);
    }

    #[test]
    fn where_no_call_dominates_the_callees_are_summed_up() {
        let mut s = Script::new("p");
        let (main_method, a, b) = (
            s.method("C.main", "()V"),
            s.method("C.a", "()V"),
            s.method("C.b", "()V"),
        );
        let main = s.thread(1, "main");
        let mut r = s.at(main, 0);
        r.enter(main_method);
        for _ in 0..10 {
            r.call(a, 3_000).call(b, 2_000);
        }
        r.exit();
        let trace = decode(&s);
        let chain = first(&trace);
        assert_eq!(chain.calls.len(), 1);
        let callee = |method: &str, ns| Callee {
            method: method.into(),
            calls: 10,
            ns,
            ..Callee::default()
        };
        assert_eq!(
            chain.last.callees,
            [callee("C.a", 30_000), callee("C.b", 20_000)]
        );
    }

    #[test]
    fn callees_are_told_as_a_tree_cut_to_what_took_the_time() {
        let mut s = Script::new("p");
        let names = ["C.main", "C.a", "C.b", "C.c", "C.small"];
        let [main_method, a, b, c, small] = names.map(|n| s.method(n, "()V"));
        let main = s.thread(1, "main");
        let mut r = s.at(main, 0);
        r.enter(main_method);
        for _ in 0..10 {
            r.enter(a).call(c, 2_000).call(small, 1).exit();
            r.enter(b).after(1_000).call(c, 1_000).exit();
            r.call(small, 1);
        }
        r.exit();
        let chain = first(&decode(&s));
        let small = Others {
            methods: 1,
            calls: 10,
            ns: 10,
        };
        let c = |ns| Callee {
            method: "C.c".into(),
            calls: 10,
            ns,
            ..Callee::default()
        };
        let with = |method: &str, ns, callee, others| Callee {
            method: method.into(),
            calls: 10,
            ns,
            callees: vec![callee],
            others,
        };
        let expected = [
            with("C.a", 20_010, c(20_000), small),
            with("C.b", 20_000, c(10_000), Others::default()),
        ];
        assert_eq!(chain.last.callees, expected);
        assert_eq!(chain.last.others, small);
    }

    #[test]
    fn only_chains_in_the_window_are_told_but_they_are_told_whole() {
        let mut s = Script::new("p");
        let (a, b) = (s.method("C.a", "()V"), s.method("C.b", "()V"));
        let main = s.thread(1, "main");
        s.at(main, 0).call(a, 900_000_000).after(10).call(b, 500);
        let trace = decode(&s);
        let thread = trace.main_thread().unwrap();
        let held = |from, to| -> Vec<u64> {
            let window = Window {
                from_ns: thread.start_ns + from,
                to_ns: thread.start_ns + to,
            };
            let found = chains_in(&trace, thread, Some(window), 9);
            found.iter().map(|c| c.held_ns).collect()
        };
        assert_eq!(held(0, 10), [900_000_000]);
        assert_eq!(held(900_000_000, 900_000_010), [0u64; 0]);
        assert_eq!(held(900_000_001, 900_000_020), [500]);
    }
}
