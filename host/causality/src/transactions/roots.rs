// SPDX-License-Identifier: Apache-2.0
//! Where transactions may begin (AppInsight, OSDI 2012, § 5.1 and § 6.2).

use hashbrown::HashMap;
use hindsight_analysis::spans;
use hindsight_decoder::{Extension, ThreadEvent};

use super::flow::Flow;
use super::model::{Root, RootKind};
use super::periodic::Firing;
use crate::clocks::Disagreement;
use crate::graph::{EdgeId, Graph, NodeId, NodeKind, Reason};
use crate::session::{EventId, Session, ThreadId};
use crate::strings::StringId;

/// A touch older than its delivery by more than this is not believed, ns.
const OLDEST_TOUCH_NS: u64 = 60_000_000_000;
/// Actions of input events, as in `android.view.MotionEvent` and `KeyEvent`.
const DOWN: u64 = 0;
const UP: u64 = 1;
const CANCEL: u64 = 3;
/// Steps in the lifecycle of an activity that show it: create, start and resume.
const LAST_SHOWING_STEP: u64 = 2;

/// Where a transaction begins, if nothing else claims its work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) node: NodeId,
    pub(super) root: Root,
    /// Index after the last event that is of it at once.
    pub(super) end_event: u32,
    /// CLOCK_BOOTTIME of its first event, ns.
    pub(super) at_ns: u64,
    pub(super) kind: RootKind,
    pub(super) what: StringId,
    /// Whether it begins a transaction even if its work was caused by another one.
    pub(super) is_forced: bool,
    /// Of input events: those of one touch have the same number.
    pub(super) touch: Option<u32>,
}

/// The word that begins the names of marks that stand for input and for updates of the screen.
pub(super) fn is_mark(
    session: &Session,
    thread: ThreadId,
    event: &ThreadEvent,
    word: &str,
) -> bool {
    if event.kind != Extension::UserMark {
        return false;
    }
    let trace = session.about(thread).trace();
    let name = session.string(session.mark(trace, event.get("name")));
    let Some(rest) = name.get(..word.len()).map(|_| &name[word.len()..]) else {
        return false;
    };
    let begins = name.as_bytes()[..word.len()].eq_ignore_ascii_case(word.as_bytes());
    begins && !rest.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// The word of marks that stand for input.
const INPUT_MARK: &str = "input";

/// All places where transactions may begin, in the order of time.
pub(super) fn candidates(
    session: &Session,
    graph: &Graph,
    flow: &Flow,
    firings: &[Firing],
) -> Vec<Candidate> {
    let mut finder = Finder {
        session,
        graph,
        flow,
        found: Vec::new(),
        touches: 0,
    };
    for thread in session.thread_ids() {
        finder.of_events(thread);
    }
    finder.of_nodes();
    finder.of_timers(firings);
    let mut found = finder.found;
    found.retain(|c| !is_repeated(session, c));
    // Of two at one place, the certain one comes first.
    found.sort_by_key(|c| (c.at_ns, c.root.event, !c.is_forced));
    found.dedup_by_key(|c| c.root.event);
    found
}

/// Whether a later snapshot of the same process has the same time.
fn is_repeated(session: &Session, candidate: &Candidate) -> bool {
    let trace = session.about(candidate.root.event.thread).trace();
    match session.apart(trace) {
        Some(&Disagreement::Earlier { later }) if later < session.traces().len() => {
            candidate.at_ns >= session.trace(later).start_ns()
        }
        _ => false,
    }
}

struct Finder<'a> {
    session: &'a Session,
    graph: &'a Graph,
    flow: &'a Flow,
    found: Vec<Candidate>,
    /// Number of touches so far.
    touches: u32,
}

impl Finder<'_> {
    /// Input events, marks and steps of activities.
    fn of_events(&mut self, thread: ThreadId) {
        let events = &self.session.thread(thread).events;
        let is_of_root = |e: &ThreadEvent| {
            use Extension::{InputBegin, LifecycleBegin, UserMark};
            matches!(e.kind, InputBegin | LifecycleBegin | UserMark)
        };
        if !events.iter().any(is_of_root) {
            return;
        }
        let spans = spans(self.session.thread(thread));
        // The number of the touch that goes on, by the type of input.
        let mut touching: HashMap<u64, u32> = HashMap::new();
        for (index, event) in events.iter().enumerate() {
            let at = EventId {
                thread,
                event: index as u32,
            };
            let end = || {
                let span = spans.begun_by(index)?;
                span.end.map(|end| end as u32 + 1)
            };
            match event.kind {
                Extension::InputBegin => {
                    let touch = self.touch(event, &mut touching);
                    self.input(at, event, end(), touch);
                }
                Extension::LifecycleBegin if event.get("step") <= LAST_SHOWING_STEP => {
                    self.step(at, event);
                }
                Extension::UserMark if is_mark(self.session, thread, event, INPUT_MARK) => {
                    self.mark(at, event);
                }
                _ => {}
            }
        }
    }

    /// The number of the touch, from down to up, that an input event belongs to.
    fn touch(&mut self, event: &ThreadEvent, touching: &mut HashMap<u64, u32>) -> u32 {
        let (sort, action) = (event.get("type"), event.get("action") & 0xff);
        let goes_on = touching.get(&sort).copied().filter(|_| action != DOWN);
        let touch = goes_on.unwrap_or_else(|| {
            self.touches += 1;
            self.touches
        });
        match action {
            UP | CANCEL => touching.remove(&sort),
            _ => touching.insert(sort, touch),
        };
        touch
    }

    fn input(&mut self, at: EventId, event: &ThreadEvent, end: Option<u32>, touch: u32) {
        let Some(node) = self.graph.node_of(at) else {
            return;
        };
        let about = self.graph.node(node);
        let trace = self.session.trace_of(at.thread);
        let clock = trace.clock.reference();
        let offset = clock.boottime_ns.wrapping_sub(clock.monotonic_ns);
        let touched_ns = event.get("at").wrapping_add(offset);
        let is_credible = event.get("at") != 0
            && touched_ns <= event.at_ns
            && event.at_ns - touched_ns <= OLDEST_TOUCH_NS;
        self.found.push(Candidate {
            node,
            root: Root {
                event: at,
                origin_ns: if is_credible { touched_ns } else { event.at_ns },
                sent_by: None,
            },
            end_event: end
                .unwrap_or(about.end_event)
                .clamp(at.event + 1, about.end_event),
            at_ns: event.at_ns,
            kind: RootKind::Input,
            what: self.class(at, event),
            is_forced: true,
            touch: Some(touch),
        });
    }

    fn mark(&mut self, at: EventId, event: &ThreadEvent) {
        let Some(node) = self.graph.node_of(at) else {
            return;
        };
        let trace = self.session.about(at.thread).trace();
        self.found.push(Candidate {
            node,
            root: Root {
                event: at,
                origin_ns: event.at_ns,
                sent_by: None,
            },
            end_event: self.graph.node(node).end_event,
            at_ns: event.at_ns,
            kind: RootKind::Mark,
            what: self.session.mark(trace, event.get("name")),
            is_forced: true,
            touch: None,
        });
    }

    /// A step of an activity: all of the work around it.
    fn step(&mut self, at: EventId, event: &ThreadEvent) {
        let Some(node) = self.graph.node_of(at) else {
            return;
        };
        let about = self.graph.node(node);
        let is_work = !matches!(about.kind, NodeKind::Run | NodeKind::Wait | NodeKind::Idle);
        let first = if is_work { about.first_event } else { at.event };
        let root = EventId { event: first, ..at };
        let at_ns = self.session.event(root).map_or(event.at_ns, |e| e.at_ns);
        let (origin_ns, sent_by) = self.sent(node, first, at_ns);
        self.found.push(Candidate {
            node,
            root: Root {
                event: root,
                origin_ns,
                sent_by,
            },
            end_event: about.end_event,
            at_ns,
            kind: RootKind::Activity,
            what: self.class(at, event),
            is_forced: false,
            touch: None,
        });
    }

    fn class(&self, at: EventId, event: &ThreadEvent) -> StringId {
        let trace = self.session.about(at.thread).trace();
        self.session.class(trace, event.method)
    }

    /// When the work that begins with this event was handed over, and by which edge.
    fn sent(&self, node: NodeId, event: u32, at_ns: u64) -> (u64, Option<EdgeId>) {
        let mut incoming = self.flow.into(node, event);
        let sent = incoming.find(|&id| is_handed_over(self.graph.edge(id).reason));
        (sent.map_or(at_ns, |id| self.graph.edge(id).from_ns), sent)
    }

    /// Work whose cause may be in no transaction.
    fn of_nodes(&mut self) {
        for node in self.graph.node_ids() {
            let about = self.graph.node(node);
            let Some(kind) = kind_of(about.kind) else {
                continue;
            };
            if about.first_event >= about.end_event || self.is_frame(&about.what) {
                continue;
            }
            let event = EventId {
                thread: about.thread,
                event: about.first_event,
            };
            let (origin_ns, sent_by) = self.sent(node, about.first_event, about.begin_ns);
            self.found.push(Candidate {
                node,
                root: Root {
                    event,
                    origin_ns,
                    sent_by,
                },
                end_event: about.end_event,
                at_ns: about.begin_ns,
                kind,
                what: about.what,
                is_forced: false,
                touch: None,
            });
        }
    }

    /// Whether a message only runs the callbacks of a frame: these have causes of their own.
    fn is_frame(&self, what: &StringId) -> bool {
        let class = self.session.string(*what);
        class.starts_with("android.view.Choreographer")
    }

    fn of_timers(&mut self, firings: &[Firing]) {
        for firing in firings {
            self.found.push(Candidate {
                node: firing.node,
                root: Root {
                    event: firing.event,
                    origin_ns: firing.due_ns,
                    sent_by: None,
                },
                end_event: firing.end_event,
                at_ns: firing.at_ns,
                kind: RootKind::Timer,
                what: firing.what,
                is_forced: true,
                touch: None,
            });
        }
    }
}

/// Whether an edge hands work over, which begins with its effect.
fn is_handed_over(reason: Reason) -> bool {
    use Reason::{Message, Post, Task, Timer, Transaction};
    matches!(reason, Message | Post | Task | Timer | Transaction)
}

/// What a transaction is called that begins with a node of this kind; `None` if none does.
fn kind_of(kind: NodeKind) -> Option<RootKind> {
    use NodeKind::{
        Frame, Idle, Input, Lifecycle, Maintenance, Marked, Message, Rule, Run, Service, Task,
        Traversal, Wait,
    };
    match kind {
        Service => Some(RootKind::Binder),
        Message | Task | Marked | Rule | Lifecycle | Input => Some(RootKind::Other),
        Run | Frame | Traversal | Wait | Idle | Maintenance => None,
    }
}
