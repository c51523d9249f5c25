// SPDX-License-Identifier: Apache-2.0
//! Critical paths (P-9; AppInsight, OSDI 2012, § 6.2): from the last update of the screen back to what the user did, always to
//! what came last. Each nanosecond of a path is blamed on one component.

use hashbrown::HashSet;
use hindsight_analysis::SpanKind;

use super::by_kernel;
use super::component::{Component, Shares};
use super::find::Transactions;
use super::model::{Member, TransactionId, Update, Via};
use super::own_time::OwnTime;
use super::periodic::delay_ns;
use super::polling::{yielded, Polling, POLLS};
use crate::graph::{EdgeId, Graph, NodeId, Reason, Wait};
use crate::session::{EventId, Session, ThreadId};
use crate::strings::StringId;

/// A path has at most so many steps; the time before them is unknown.
const MOST_STEPS: usize = 1_000_000;

/// What passes the time in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// The thread works.
    Own,
    /// It waits. What ended the wait is no work of the transaction, or is not known.
    Wait(Wait),
    /// It was woken by the transaction, and does not run yet.
    Woken,
    /// Work was handed over, and has not begun.
    HandedOver(Reason),
    /// The touch, message … that begins the transaction has not been delivered yet.
    Delivery,
    /// The path is too long to be followed.
    Cut,
}

/// A thread that another one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By {
    /// The thread.
    pub thread: ThreadId,
    /// Its work when the wait ended, or was to end.
    pub node: Option<NodeId>,
    /// What it did meanwhile.
    pub did: Shares,
}

/// A step of a critical path: a stretch of time.
#[derive(Clone, Debug)]
pub struct Step {
    /// What passes the time.
    pub kind: StepKind,
    /// The thread that works or waits, or that the work is for.
    pub thread: ThreadId,
    /// Its work.
    pub node: NodeId,
    /// CLOCK_BOOTTIME, ns.
    pub begin_ns: u64,
    /// CLOCK_BOOTTIME, ns.
    pub end_ns: u64,
    /// On what the time is spent; they add up to it.
    pub shares: Shares,
    /// Of a wait: the owner of the lock, the signaller, the server. Of work in a queue: the thread that it is for.
    pub by: Option<By>,
    /// The edge along which the work was handed over, or the wait ended.
    pub edge: Option<EdgeId>,
    /// The native method that the thread waited in for the network or for files, if that is inferred: it is the only one whose
    /// return is recorded, and the thread waited in the kernel once.
    pub inferred: Option<StringId>,
}

/// The types of nodes of AppInsight's transaction graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Letter {
    /// The user does something.
    M,
    /// An upcall starts.
    S,
    /// An upcall ends.
    E,
    /// An asynchronous call.
    A,
    /// The screen was updated.
    L,
    /// A thread wakes another one up.
    F,
    /// A thread was woken up.
    W,
}

/// A node of the path in AppInsight's form: an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its type.
    pub letter: Letter,
    /// The event.
    pub event: EventId,
}

/// The path that decided how long a transaction took.
#[derive(Clone, Debug)]
pub struct CriticalPath {
    /// The transaction.
    pub transaction: TransactionId,
    /// The update of the screen that it leads to; `None` if it leads to the end of the transaction's last work.
    pub update: Option<Update>,
    /// CLOCK_BOOTTIME, ns.
    pub begin_ns: u64,
    /// CLOCK_BOOTTIME, ns.
    pub end_ns: u64,
    /// In the order of time, without gaps: each begins where the one before ends.
    pub steps: Vec<Step>,
    /// The path in AppInsight's form.
    pub points: Vec<Point>,
    /// What looks like polling.
    pub polling: Vec<Polling>,
}

impl CriticalPath {
    /// Its length, ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }

    /// What all of its time is spent on; they add up to its length.
    pub fn shares(&self) -> Shares {
        let mut all = Shares::default();
        for step in &self.steps {
            all.add_all(&step.shares);
        }
        all
    }
}

/// Finds critical paths. It keeps what it found out about threads.
pub struct Paths<'a> {
    session: &'a Session,
    graph: &'a Graph,
    transactions: &'a Transactions,
    own: OwnTime<'a>,
}

impl<'a> Paths<'a> {
    /// For the transactions of this session and graph.
    pub fn new(session: &'a Session, graph: &'a Graph, transactions: &'a Transactions) -> Self {
        Paths {
            session,
            graph,
            transactions,
            own: OwnTime::new(session, graph),
        }
    }

    /// The critical path of a transaction to its last update, or to its last work if it has no update. `None` if there is no
    /// such transaction.
    pub fn path(&self, id: TransactionId) -> Option<CriticalPath> {
        let transaction = self.transactions.get(id)?;
        match transaction.last_update() {
            Some(update) => Some(self.to_update(id, update)),
            None => self.to_end(id),
        }
    }

    /// The critical path to the update with this number, from 0 on.
    pub fn path_to(&self, id: TransactionId, update: usize) -> Option<CriticalPath> {
        let update = self.transactions.get(id)?.updates.get(update)?;
        Some(self.to_update(id, update))
    }

    /// What the work that only this transaction caused is spent on after a time, ns.
    pub fn used_after(&self, id: TransactionId, at_ns: u64) -> Shares {
        let mut all = Shares::default();
        for (_, member) in self.transactions.members_of(id) {
            if !member.is_shared && member.end_ns > at_ns {
                let thread = self.graph.node(member.node).thread;
                let from = member.begin_ns.max(at_ns);
                all.add_all(&self.own.all(thread, from, member.end_ns));
            }
        }
        all
    }

    fn to_update(&self, id: TransactionId, update: &Update) -> CriticalPath {
        let at = Cursor {
            member: update.member,
            event: update.event.event.saturating_add(1),
            at_ns: update.at_ns,
        };
        let mut walk = Walk::new(self, id, at);
        walk.point(Letter::L, update.event.event);
        walk.run();
        walk.finish(Some(*update))
    }

    /// To the end of the last work that only this transaction caused.
    fn to_end(&self, id: TransactionId) -> Option<CriticalPath> {
        let end_ns = self.transactions.get(id)?.end_ns;
        let members = self.transactions.members_of(id);
        let last = members.max_by_key(|(i, m)| (m.end_ns <= end_ns, m.end_ns, *i));
        let (member, about) = last?;
        Some(self.to_event(id, member, about.end_event, about.end_ns))
    }

    /// To an event of a member of the transaction; `event` is the index after it.
    pub(super) fn to_event(
        &self,
        id: TransactionId,
        member: u32,
        event: u32,
        at_ns: u64,
    ) -> CriticalPath {
        let mut walk = Walk::new(
            self,
            id,
            Cursor {
                member,
                event,
                at_ns,
            },
        );
        walk.point(Letter::E, event.saturating_sub(1));
        walk.run();
        walk.finish(None)
    }
}

/// A place on a path: before this event of a member, at this time.
#[derive(Clone, Copy)]
struct Cursor {
    member: u32,
    event: u32,
    at_ns: u64,
}

/// A walk from the end of a path to its beginning.
struct Walk<'p, 'a> {
    paths: &'p Paths<'a>,
    id: TransactionId,
    at: Cursor,
    end_ns: u64,
    /// From the end to the beginning.
    steps: Vec<Step>,
    points: Vec<Point>,
    polling: Vec<Polling>,
    /// How often the current work was seen to give up the processor, and the time of that, ns.
    yielded: (u32, u64),
    /// Waits that the path has left to their wakers.
    left: HashSet<(ThreadId, u32)>,
}

impl<'p, 'a> Walk<'p, 'a> {
    fn new(paths: &'p Paths<'a>, id: TransactionId, at: Cursor) -> Self {
        Walk {
            paths,
            id,
            at,
            end_ns: at.at_ns,
            steps: Vec::new(),
            points: Vec::new(),
            polling: Vec::new(),
            yielded: (0, 0),
            left: HashSet::new(),
        }
    }

    fn member(&self) -> Member {
        *self.paths.transactions.member(self.at.member)
    }

    fn thread(&self) -> ThreadId {
        self.paths.graph.node(self.member().node).thread
    }

    fn point(&mut self, letter: Letter, event: u32) {
        let event = EventId {
            thread: self.thread(),
            event,
        };
        let point = Point { letter, event };
        if self.points.last().is_none_or(|p| p.event != event) {
            self.points.push(point);
        }
    }

    /// Adds the stretch of time before the current one, from `from` on.
    fn step(
        &mut self,
        from: u64,
        kind: StepKind,
        shares: Shares,
        by: Option<By>,
        edge: Option<EdgeId>,
    ) {
        let from = from.min(self.at.at_ns);
        if from < self.at.at_ns {
            self.steps.push(Step {
                kind,
                thread: self.thread(),
                node: self.member().node,
                begin_ns: from,
                end_ns: self.at.at_ns,
                shares,
                by,
                edge,
                inferred: None,
            });
        }
        self.at.at_ns = from;
    }

    fn own(&mut self, from: u64) {
        let from = from.min(self.at.at_ns);
        let shares = self.paths.own.of(self.thread(), from, self.at.at_ns);
        let to = self.at.at_ns;
        if let Some((times, ns)) = yielded(self.paths.session, self.thread(), (from, to), &shares) {
            self.yielded.0 += times;
            self.yielded.1 += ns;
        }
        self.step(from, StepKind::Own, shares, None, None);
        let waited = [Component::Network, Component::Io].map(|c| shares[c]);
        let native = match waited == [0; 2] {
            true => None,
            false => self.paths.own.native(self.thread(), from, to),
        };
        let trace = self.paths.session.about(self.thread()).trace();
        let inferred = native.map(|(_, method)| self.paths.session.method(trace, method));
        if let Some(step) = self
            .steps
            .last_mut()
            .filter(|s| s.begin_ns == from && s.end_ns == to)
        {
            step.inferred = inferred;
        }
    }

    fn run(&mut self) {
        while self.steps.len() < MOST_STEPS && self.points.len() < MOST_STEPS {
            if self.through_member() {
                continue;
            }
            if !self.follow_cause() {
                return;
            }
        }
        let transaction = self.paths.transactions.get(self.id);
        let begin_ns = transaction.map_or(self.at.at_ns, |t| t.begin_ns);
        let begin_ns = begin_ns.min(self.at.at_ns);
        let shares = Shares::of(Component::Unknown, self.at.at_ns - begin_ns);
        self.step(begin_ns, StepKind::Cut, shares, None, None);
    }

    /// Goes back through a member to its beginning. Returns whether it went to the waker of a wait instead.
    fn through_member(&mut self) -> bool {
        let member = self.member();
        let paths = self.paths;
        let waits = paths.own.waits_before(self.thread(), self.at.at_ns);
        let (mut polls, mut polled_ns) = (0, 0);
        self.yielded = (0, 0);
        for wait in waits {
            // What comes before is of earlier work.
            if wait.begin_event < member.first_event || wait.end_ns <= member.begin_ns {
                break;
            }
            let wait = &wait;
            let is_whole = wait.end_ns <= self.at.at_ns && wait.end_event < self.at.event;
            self.own(wait.end_ns);
            if is_whole && self.follow_waker(wait, member.node) {
                return true;
            }
            let begin_ns = wait.begin_ns.max(member.begin_ns).min(self.at.at_ns);
            let length = self.at.at_ns - begin_ns;
            let component = OwnTime::of_wait(wait);
            if component == Component::Timer {
                polls += 1;
                polled_ns += length;
            }
            let (by, edge) = self.blocker(wait, member.node, begin_ns);
            let shares = paths.own.in_wait(wait, begin_ns, self.at.at_ns);
            self.step(begin_ns, StepKind::Wait(*wait), shares, by, edge);
        }
        self.own(member.begin_ns);
        let (seen, yielded_ns) = self.yielded;
        for (yields, least, times, ns) in [
            (false, POLLS, polls, polled_ns),
            (true, 1, seen, yielded_ns),
        ] {
            if times >= least {
                self.polling.push(Polling {
                    thread: self.thread(),
                    node: member.node,
                    yields,
                    times,
                    ns,
                });
            }
        }
        false
    }

    /// Goes to the work of the transaction that ended the wait, if there is any: to the latest (I-22).
    fn follow_waker(&mut self, wait: &Wait, node: NodeId) -> bool {
        if wait.end_event == Wait::NOT_RECORDED
            || !self.left.insert((wait.thread, wait.begin_event))
        {
            return false;
        }
        let (graph, transactions) = (self.paths.graph, self.paths.transactions);
        let ends_wait = |r: Reason| {
            matches!(
                r,
                Reason::Wake | Reason::Reply | Reason::Lock | Reason::Rule
            )
        };
        let wakers = transactions
            .flow()
            .into(node, wait.end_event)
            .filter_map(|id| {
                let edge = graph.edge(id);
                let member = transactions.member_at(edge.from, edge.from_event, self.id)?;
                ends_wait(edge.reason).then_some((edge.from_ns, id, member))
            });
        let Some((from_ns, id, member)) = wakers.max() else {
            return false;
        };
        let edge = graph.edge(id);
        self.point(Letter::W, wait.end_event);
        let from_ns = from_ns.min(self.at.at_ns);
        let component = match edge.reason {
            Reason::Reply => Component::Binder,
            _ => Component::Runnable,
        };
        let shares = Shares::of(component, self.at.at_ns - from_ns);
        self.step(from_ns, StepKind::Woken, shares, None, Some(id));
        self.at.member = member;
        self.at.event = edge.from_event;
        self.point(Letter::F, edge.from_event);
        true
    }

    /// Who ended a wait, held the lock, or serves the transaction, and what it did since `begin_ns`.
    fn blocker(&self, wait: &Wait, node: NodeId, begin_ns: u64) -> (Option<By>, Option<EdgeId>) {
        let graph = self.paths.graph;
        let flow = self.paths.transactions.flow();
        let causes = flow.into(node, wait.end_event);
        let to_end = causes
            .chain(flow.releases(node, wait.end_event))
            .filter(|&id| {
                let reason = graph.edge(id).reason;
                matches!(reason, Reason::Wake | Reason::Reply | Reason::Lock)
            });
        if let Some(id) = to_end.max_by_key(|&id| (graph.edge(id).from_ns, id)) {
            let edge = graph.edge(id);
            let thread = graph.node(edge.from).thread;
            return (Some(self.by(thread, Some(edge.from), begin_ns)), Some(id));
        }
        let mut sent = flow.out(node, wait.begin_event..wait.begin_event.saturating_add(1));
        let sent = sent.find(|&id| graph.edge(id).reason == Reason::Transaction);
        if let Some(id) = sent {
            let server = graph.edge(id).to;
            let thread = graph.node(server).thread;
            return (Some(self.by(thread, Some(server), begin_ns)), Some(id));
        }
        let owner = self.owner(wait, begin_ns).or_else(|| {
            let thread = by_kernel::blocker(self.paths.session, wait)?;
            let node = graph.node_at(thread, wait.end_ns);
            Some(self.by(thread, node, begin_ns))
        });
        (owner, None)
    }

    /// The owner of a lock that the wait is for, when the wait began.
    fn owner(&self, wait: &Wait, begin_ns: u64) -> Option<By> {
        use hindsight_decoder::Extension::LockWait;
        let session = self.paths.session;
        let events = &session.thread(wait.thread).events;
        let begin = wait.begin_event as usize;
        let near = events.get(begin.saturating_sub(2)..begin + 1)?;
        let named = near.iter().rev().find(|e| e.kind == LockWait);
        let tid = named
            .filter(|_| wait.kind == crate::graph::WaitKind::Lock)?
            .get("held by");
        let trace = session.about(wait.thread).trace();
        let thread = session.thread_at(trace, u32::try_from(tid).ok()?, wait.begin_ns)?;
        let node = self.paths.graph.node_at(thread, wait.begin_ns);
        Some(self.by(thread, node, begin_ns))
    }

    fn by(&self, thread: ThreadId, node: Option<NodeId>, begin_ns: u64) -> By {
        By {
            thread,
            node,
            did: self.paths.own.all(thread, begin_ns, self.at.at_ns),
        }
    }

    /// Goes from the beginning of a member to its cause. Returns whether there is one.
    fn follow_cause(&mut self) -> bool {
        let member = self.member();
        match member.via {
            Via::Root(root) => {
                self.nested(&member);
                let first = member.first_event;
                self.point(Letter::M, first);
                let from = root.origin_ns.min(self.at.at_ns);
                let shares = Shares::of(Component::Queue, self.at.at_ns - from);
                let by = Some(self.by(self.thread(), None, from));
                self.step(from, StepKind::Delivery, shares, by, root.sent_by);
                false
            }
            Via::Next => {
                let parent = *self.paths.transactions.member(member.parent);
                self.own(parent.end_ns);
                self.at.member = member.parent;
                self.at.event = parent.end_event;
                true
            }
            Via::Edge(id) => {
                self.along(id, &member);
                true
            }
        }
    }

    /// Goes back along an edge to the member that caused this one.
    fn along(&mut self, id: EdgeId, member: &Member) {
        let graph = self.paths.graph;
        let edge = graph.edge(id);
        let is_update = edge.reason == Reason::Traversal;
        if edge.reason == Reason::Wake {
            self.point(Letter::W, edge.to_event);
        } else if !is_update {
            self.nested(member);
            self.point(Letter::S, edge.to_event);
        }
        let from_ns = edge.from_ns.min(self.at.at_ns);
        let shares = self.handed_over(id, self.at.at_ns - from_ns);
        let by = match shares[Component::Queue] > 0 {
            true => Some(self.by(self.thread(), None, from_ns)),
            false => None,
        };
        let kind = match edge.reason {
            Reason::Wake => StepKind::Woken,
            reason => StepKind::HandedOver(reason),
        };
        self.step(from_ns, kind, shares, by, Some(id));
        self.at.member = member.parent;
        self.at.event = edge.from_event;
        match edge.reason {
            Reason::Wake => self.point(Letter::F, edge.from_event),
            // The update is of the upcall that asked for it, which ended before.
            Reason::Traversal => {
                let end = self.paths.graph.node(edge.from).end_event;
                self.point(Letter::E, end.saturating_sub(1));
            }
            _ => self.point(Letter::A, edge.from_event),
        }
    }

    /// On what the time between the two ends of an edge is spent.
    fn handed_over(&self, id: EdgeId, ns: u64) -> Shares {
        use Reason::{FrameCallback, Post, Reply, Timer, Transaction, Traversal, Wake};
        let edge = self.paths.graph.edge(id);
        let component = match edge.reason {
            Timer => {
                let delay = delay_ns(self.paths.session, self.paths.graph, &edge).min(ns);
                let mut shares = Shares::of(Component::Timer, delay);
                shares.add(Component::Queue, ns - delay);
                return shares;
            }
            FrameCallback | Traversal => Component::Frame,
            Transaction | Reply => Component::Binder,
            Wake => Component::Runnable,
            Reason::Field => Component::Wait,
            Post => {
                let what = self.paths.graph.node(edge.to).what;
                let name = self.paths.session.string(what);
                Component::of_name(name).unwrap_or(Component::Queue)
            }
            _ => Component::Queue,
        };
        Shares::of(component, ns)
    }

    /// An upcall inside the member that had begun when the path left it.
    fn nested(&mut self, member: &Member) {
        /// Spans that began earlier than so many others are not looked for.
        const MOST_INSIDE: usize = 64;
        let spans = &self.paths.own.spans(self.thread()).spans;
        let event = self.at.event as usize;
        let before = spans.partition_point(|s| s.begin < event);
        let is_upcall = |kind: SpanKind| {
            use SpanKind::{Marked, Message, Rule, Task};
            matches!(kind, Task | Message | Marked | Rule)
        };
        let mut near = spans[..before].iter().rev().take(MOST_INSIDE);
        let around = near.find(|s| {
            let is_inside = s.begin > member.first_event as usize;
            is_inside && is_upcall(s.kind) && s.end.is_none_or(|end| end >= event)
        });
        if let Some(span) = around {
            let begin = span.begin as u32;
            self.point(Letter::S, begin);
        }
    }

    fn finish(mut self, update: Option<Update>) -> CriticalPath {
        self.steps.reverse();
        self.points.reverse();
        self.polling.reverse();
        CriticalPath {
            transaction: self.id,
            update,
            begin_ns: self.at.at_ns,
            end_ns: self.end_ns,
            steps: self.steps,
            points: self.points,
            polling: self.polling,
        }
    }
}
