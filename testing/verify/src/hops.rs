// SPDX-License-Identifier: Apache-2.0
//! What the programs of `lab/causality/libraries` know of their callbacks: the marks `submit N`, `submitted N` and `run N` in their
//! recordings (`lab/causality/common/Hops.java`).

use std::collections::BTreeMap;

use anyhow::{bail, Result};
use hindsight_causality::{EventId, Session, ThreadId};
use hindsight_decoder::{Extension, ThreadEvent};

/// A callback of a program: where it was handed to the library, and where it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// The mark before the program handed it over, if that is recorded.
    pub submitted: Option<EventId>,
    /// Index of the event, of the same thread, before which it had been handed over: the next mark of the thread.
    pub until: u32,
    /// The mark with which it began, if that is recorded.
    pub ran: Option<EventId>,
}

/// A mark of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It is handed over next.
    Submit(u64),
    /// It has been handed over.
    Submitted(u64),
    /// It runs.
    Run(u64),
}

/// The callbacks of a session, by their numbers, and the marks of its threads.
#[derive(Debug, Default)]
pub struct Hops {
    /// By number.
    pub all: BTreeMap<u64, Hop>,
    /// By thread, the indices of the events that are marks.
    marks: Vec<Vec<(u32, Mark)>>,
}

impl Hops {
    /// The callbacks of all processes of a session.
    ///
    /// # Errors
    /// If a callback has two marks of one kind.
    pub fn of(session: &Session) -> Result<Hops> {
        let mut hops = Hops::default();
        for thread in session.thread_ids() {
            let events = &session.thread(thread).events;
            let marks = events.iter().zip(0..);
            let marks = marks.filter_map(|(e, i)| Some((i, mark(session, thread, e)?)));
            let marks: Vec<(u32, Mark)> = marks.collect();
            for (place, &(event, mark)) in marks.iter().enumerate() {
                let until = marks.get(place + 1).map_or(events.len() as u32, |m| m.0);
                hops.add(EventId { thread, event }, mark, until)?;
            }
            hops.marks.push(marks);
        }
        Ok(hops)
    }

    fn add(&mut self, at: EventId, mark: Mark, until: u32) -> Result<()> {
        let before = match mark {
            Mark::Submit(number) => {
                let hop = self.all.entry(number).or_default();
                hop.until = until;
                hop.submitted.replace(at)
            }
            Mark::Run(number) => self.all.entry(number).or_default().ran.replace(at),
            Mark::Submitted(_) => None,
        };
        match before {
            None => Ok(()),
            Some(_) => bail!("there are two marks {mark:?}"),
        }
    }

    /// The callback that a thread was handing over at an event.
    pub fn handed_over_at(&self, at: EventId) -> Option<u64> {
        let marks = self.marks_of(at.thread);
        let after = marks.partition_point(|(event, _)| *event <= at.event);
        match marks[..after].last() {
            Some((_, Mark::Submit(number))) => Some(*number),
            _ => None,
        }
    }

    /// The first callback that a thread runs at these events, and the event.
    pub fn first_run(&self, thread: ThreadId, events: std::ops::Range<u32>) -> Option<(u64, u32)> {
        let marks = self.marks_of(thread);
        let from = marks.partition_point(|(event, _)| *event < events.start);
        let within = marks[from..]
            .iter()
            .take_while(|(event, _)| *event < events.end);
        within
            .filter_map(|(event, mark)| match mark {
                Mark::Run(number) => Some((*number, *event)),
                _ => None,
            })
            .next()
    }

    fn marks_of(&self, thread: ThreadId) -> &[(u32, Mark)] {
        self.marks.get(thread.0 as usize).map_or(&[], Vec::as_slice)
    }
}

fn mark(session: &Session, thread: ThreadId, event: &ThreadEvent) -> Option<Mark> {
    if event.kind != Extension::UserMark {
        return None;
    }
    let name = session.mark(session.about(thread).trace(), event.get("name"));
    let (word, number) = session.string(name).split_once(' ')?;
    let number = number.parse().ok()?;
    match word {
        "submit" => Some(Mark::Submit(number)),
        "submitted" => Some(Mark::Submitted(number)),
        "run" => Some(Mark::Run(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::Trace;
    use hindsight_testkit::Script;

    #[test]
    fn marks_of_two_threads_make_a_callback() {
        let mut s = Script::new("p");
        let names = ["submit 1", "run 1", "submit 2", "submitted 2", "other"];
        let names = names.map(|name| s.string(name));
        let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
        let mark = |name| [("name", name)];
        s.at(a, 10)
            .event(Extension::UserMark, &mark(names[0]))
            .event(Extension::UserMark, &mark(names[4]))
            .event(Extension::UserMark, &mark(names[2]))
            .event(Extension::UserMark, &mark(names[3]))
            .event(Extension::UserMark, &mark(names[4]));
        s.at(b, 20).event(Extension::UserMark, &mark(names[1]));
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let session = Session::of(vec![("t".into(), trace.clone())]);
        let hops = Hops::of(&session).unwrap();
        let at = |thread, event| EventId {
            thread: ThreadId(thread),
            event,
        };
        let first = Hop {
            submitted: Some(at(0, 0)),
            until: 2,
            ran: Some(at(1, 0)),
        };
        assert_eq!(hops.all[&1], first);
        assert_eq!((hops.all[&2].until, hops.all[&2].ran), (3, None));
        let handed_over: Vec<_> = (0..5).map(|e| hops.handed_over_at(at(0, e))).collect();
        assert_eq!(handed_over, [Some(1), Some(1), Some(2), None, None]);
        assert_eq!(hops.first_run(ThreadId(1), 0..1), Some((1, 0)));
        assert_eq!(hops.first_run(ThreadId(1), 1..9), None);
        assert_eq!(hops.first_run(ThreadId(7), 0..1), None);
        // Of two processes with the same numbers, nothing can be said.
        let twice = Session::of(vec![("t".into(), trace.clone()), ("u".into(), trace)]);
        assert!(Hops::of(&twice).is_err());
    }
}
