// SPDX-License-Identifier: Apache-2.0
//! Which events and nodes a rule is for.

use hindsight_decoder::catalogue::{FieldKind, CATALOGUE};
use hindsight_decoder::{Extension, ThreadEvent};
use serde::Deserialize;
use wildmatch::WildMatch;

use crate::session::{EventId, Session, ThreadId};
use crate::strings::StringId;

/// The longest pattern, bytes.
pub(super) const LONGEST: usize = 512;
/// A stack follows the event that it is of, within this number of events.
const STACK_AFTER: usize = 3;

/// A pattern as in the file. In names, `*` stands for any text, `?` for one character.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    process: Option<String>,
    thread: Option<String>,
    event: Option<String>,
    class: Option<String>,
    name: Option<String>,
    stack: Option<String>,
}

/// Which events, or nodes, a rule is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pattern {
    process: Option<WildMatch>,
    thread: Option<WildMatch>,
    event: Option<Extension>,
    class: Option<WildMatch>,
    name: Option<WildMatch>,
    stack: Option<WildMatch>,
}

impl Pattern {
    pub(super) fn new(text: &Text) -> Result<Self, String> {
        let glob = |pattern: &Option<String>| match pattern {
            Some(p) if p.len() > LONGEST => Err(format!(
                "a pattern has more than {LONGEST} bytes: use * for parts of it"
            )),
            Some(p) => Ok(Some(WildMatch::new(p))),
            None => Ok(None),
        };
        let event = match &text.event {
            None => None,
            Some(name) => Some(event(name)?),
        };
        Ok(Pattern {
            process: glob(&text.process)?,
            thread: glob(&text.thread)?,
            event,
            class: glob(&text.class)?,
            name: glob(&text.name)?,
            stack: glob(&text.stack)?,
        })
    }

    /// Whether it names an event.
    pub(super) fn has_event(&self) -> bool {
        self.event.is_some()
    }

    /// Whether it only says which thread.
    pub(super) fn is_of_threads(&self) -> bool {
        self.is_of_nodes() && self.class.is_none()
    }

    /// Whether it only says which thread, and what the thread does.
    pub(super) fn is_of_nodes(&self) -> bool {
        self.event.is_none() && self.name.is_none() && self.stack.is_none()
    }

    /// Whether its rule may be for events of this thread.
    pub(crate) fn is_for_thread(&self, session: &Session, thread: ThreadId) -> bool {
        let fits = |glob: &Option<WildMatch>, text: &str| {
            glob.as_ref().is_none_or(|glob| glob.matches(text))
        };
        fits(&self.process, &session.trace_of(thread).process.name)
            && fits(&self.thread, session.thread_name(thread))
    }

    /// Whether its rule is for this event of a thread for which it is.
    pub(crate) fn is_for_event(&self, session: &Session, id: EventId) -> bool {
        let Some(event) = session.event(id) else {
            return false;
        };
        let trace = session.about(id.thread).trace();
        let fits = |glob: &Option<WildMatch>, text: StringId| {
            let text = session.string(text);
            glob.as_ref().is_none_or(|glob| glob.matches(text))
        };
        self.event.is_none_or(|kind| kind == event.kind)
            && (self.class.is_none() || fits(&self.class, session.class(trace, event.method)))
            && (self.name.is_none() || fits(&self.name, session.mark(trace, event.get("name"))))
            && self.is_for_stack(session, id)
    }

    /// Whether its rule is for a node of a thread for which it is: its kind of work is called `what`.
    pub(crate) fn is_for_work(&self, session: &Session, what: StringId) -> bool {
        let glob = self.class.as_ref();
        glob.is_none_or(|glob| glob.matches(session.string(what)))
    }

    fn is_for_stack(&self, session: &Session, id: EventId) -> bool {
        let Some(glob) = &self.stack else { return true };
        let trace = session.about(id.thread).trace();
        let events = &session.thread(id.thread).events;
        let near = events.iter().skip(id.event as usize).take(1 + STACK_AFTER);
        let Some(stack) = near.filter_map(ThreadEvent::stack).next() else {
            return false;
        };
        let mut frames = session.trace(trace).stacks.frames(stack);
        frames.any(|f| glob.matches(session.string(session.method(trace, f.method))))
    }
}

/// The identity that an event names; 0 if it names none.
pub(crate) fn identity(event: &ThreadEvent) -> u64 {
    let fields = event.spec().fields.iter();
    let mut identities = fields.filter(|f| f.kind == FieldKind::Identity);
    identities.next().map_or(0, |f| f.get(&event.payload))
}

/// The event of this name.
fn event(name: &str) -> Result<Extension, String> {
    let mut all = CATALOGUE.iter();
    let found = all.find(|spec| spec.name == name);
    found.map(|spec| spec.extension).ok_or_else(|| {
        let name: String = name.chars().take(64).collect();
        format!("there is no event \"{name}\": `hindsight events` shows the names, and docs/events.md lists them")
    })
}
