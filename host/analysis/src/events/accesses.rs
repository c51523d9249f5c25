// SPDX-License-Identifier: Apache-2.0
//! Accesses to a field that a rule names: which threads read and wrote it, and who did so last.

use std::borrow::Cow;

use hindsight_decoder::catalogue::NO_DEX_PC;
use hindsight_decoder::{Calls, Extension, Thread, ThreadEvent, ThreadKey, Trace};
use serde::Serialize;

use super::fields::value_text;

/// Whether a field was read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessKind {
    /// Written.
    Written,
    /// Read.
    Read,
}

/// The accesses of one kind by one recording of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Accesses {
    /// Read or written.
    pub kind: AccessKind,
    /// The thread's identity.
    #[serde(skip)]
    pub key: ThreadKey,
    /// The kernel's thread id.
    pub tid: u32,
    /// The thread's name.
    pub thread: String,
    /// How often.
    pub count: u64,
    /// When for the last time, CLOCK_BOOTTIME, ns.
    pub last_at_ns: u64,
    /// The identity of the object whose field was accessed last; 0: the field is static, or the identity is not known.
    pub object: u64,
    /// The method of the last access; `None` if it was not recorded.
    pub method: Option<String>,
    /// The instruction of the last access in the method's dex code, in units of 16 bits.
    pub dex_pc: Option<u32>,
    /// The value of the last access, if values were recorded.
    pub value: Option<String>,
    /// The methods that were running at the last access, innermost first: all of them if the thread recorded its calls,
    /// else only `method`.
    pub stack: Vec<String>,
}

/// The accesses to the field whose rule has this name, from `from_ns` on (CLOCK_BOOTTIME): writes first, each kind with the
/// newest access first.
pub fn accesses(trace: &Trace, rule: &str, from_ns: u64) -> Vec<Accesses> {
    let mut found = Vec::new();
    for thread in &trace.threads {
        for kind in [AccessKind::Written, AccessKind::Read] {
            let is_wanted = |event: &&ThreadEvent| {
                kind_of(event) == Some(kind)
                    && event.at_ns >= from_ns
                    && trace.strings.get(event.get("name")) == Some(rule)
            };
            let mut of_kind = thread.events.iter().filter(is_wanted);
            let Some(last) = of_kind.next_back() else {
                continue;
            };
            let method = trace.methods.get(last.method);
            let method = method.map(|_| trace.methods.name(last.method).into_owned());
            let dex_pc = Some(last.get("dex pc")).filter(|&pc| pc != NO_DEX_PC);
            found.push(Accesses {
                kind,
                key: thread.key,
                tid: thread.tid,
                thread: thread.name.clone(),
                count: 1 + of_kind.count() as u64,
                last_at_ns: last.at_ns,
                object: last.get("object"),
                dex_pc: dex_pc.and_then(|pc| u32::try_from(pc).ok()),
                value: value_text(last.get("type"), last.get("value")),
                stack: stack_of(stack_at(trace, thread, last.at_ns), method.as_deref()),
                method,
            });
        }
    }
    found.sort_by_key(|a| (a.kind, std::cmp::Reverse(a.last_at_ns)));
    found
}

fn kind_of(event: &ThreadEvent) -> Option<AccessKind> {
    match event.kind {
        Extension::FieldRead => Some(AccessKind::Read),
        Extension::FieldWritten => Some(AccessKind::Written),
        _ => None,
    }
}

/// The stack of an access by a method, if that is known. The calls are only of the same time: of two that begin or end
/// then, they may have the wrong one.
fn stack_of(calls: Vec<String>, method: Option<&str>) -> Vec<String> {
    match method {
        Some(method) if calls.first().is_none_or(|first| first != method) => {
            vec![method.to_owned()]
        }
        _ => calls,
    }
}

/// The methods of the calls that were recorded as running at this time, innermost first.
fn stack_at(trace: &Trace, thread: &Thread, at_ns: u64) -> Vec<String> {
    let calls: Cow<'_, Calls> = thread.calls.exact();
    let started = calls.start_ns.partition_point(|&start| start <= at_ns);
    let last = started.checked_sub(1);
    // Calls that ended before are below the ones that were running.
    let mut running = std::iter::successors(last, |&i| calls.parent_of(i));
    let innermost = running.find(|&i| calls.end_ns[i] >= at_ns);
    let path = std::iter::successors(innermost, |&i| calls.parent_of(i));
    path.map(|i| trace.methods.name(calls.method[i]).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_testkit::Script;

    /// `writer` (with calls) writes at 20 and 60, `reader` (events only) reads at 30, 40 and 50; another field is written
    /// at 70.
    fn trace() -> Trace {
        let mut s = Script::new("p");
        let (done, other) = (s.string("Flag.done"), s.string("other"));
        let run = s.method("a.Worker.run", "()V");
        let set = s.method("a.Flag.set", "()V");
        let get = s.method("a.Flag.get", "()V");
        let writer = s.thread(10, "writer");
        let written = [("name", done), ("object", 7)];
        s.at(writer, 0)
            .enter(run)
            .at(10)
            .enter(get)
            .at(15)
            .exit()
            .at(20)
            .event(Extension::FieldWritten, &written)
            .at(55)
            .enter(set)
            .at(60)
            .event(Extension::FieldWritten, &written)
            .at(65)
            .exit()
            .at(70)
            .event(Extension::FieldWritten, &[("name", other), ("object", 7)])
            .at(80)
            .exit();
        let reader = s.events_thread(20, "reader", 1);
        let read = [
            ("name", done),
            ("object", 8),
            ("method", get),
            ("dex pc", 3),
            ("type", 1),
            ("value", 1),
        ];
        s.at(reader, 30)
            .event(Extension::FieldRead, &read)
            .at(40)
            .event(Extension::FieldRead, &read)
            .at(50)
            .event(Extension::FieldRead, &read);
        Trace::decode("t".as_ref(), &s.encode()).unwrap()
    }

    #[test]
    fn the_last_access_of_each_thread_has_its_object_and_stack() {
        let trace = trace();
        let start = trace.start_ns();
        let facts = |from| -> Vec<_> {
            let found = accesses(&trace, "Flag.done", from);
            let fact = |a: Accesses| {
                (
                    a.kind,
                    a.thread,
                    a.count,
                    a.last_at_ns - start,
                    a.object,
                    a.stack,
                )
            };
            found.into_iter().map(fact).collect()
        };
        let written = |count| {
            let stack = vec!["a.Flag.set".to_owned(), "a.Worker.run".to_owned()];
            (AccessKind::Written, "writer".into(), count, 60, 7, stack)
        };
        let read = |count| {
            let stack = vec!["a.Flag.get".to_owned()];
            (AccessKind::Read, "reader".into(), count, 50, 8, stack)
        };
        assert_eq!(facts(0), [written(2), read(3)]);
        assert_eq!(facts(start + 40), [written(1), read(2)]);
        assert_eq!(facts(start + 61), []);
        let read = &accesses(&trace, "Flag.done", 0)[1];
        assert_eq!(
            (read.method.as_deref(), read.dex_pc, read.value.as_deref()),
            (Some("a.Flag.get"), Some(3), Some("true"))
        );
    }

    #[test]
    fn a_call_that_has_ended_is_not_in_the_stack() {
        let trace = trace();
        let stack = |after| stack_at(&trace, &trace.threads[0], trace.start_ns() + after);
        assert_eq!(stack(12), ["a.Flag.get", "a.Worker.run"]);
        assert_eq!(stack(20), ["a.Worker.run"]);
        assert!(stack(90).is_empty());
    }
}
