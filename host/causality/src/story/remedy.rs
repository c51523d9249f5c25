// SPDX-License-Identifier: Apache-2.0
//! Why a culprit is not known, what would have to be recorded to know it, and what to record next of one that is known.

use hindsight_analysis::{duration, is_platform_class};

use super::report::{ThreadName, UnknownReport};
use crate::diagnosis::{
    place_of_wait, Absent, Activity, Diagnosis, End, EventsMissing, Kind, Unknown, WaitsMissing,
};
use crate::graph::{Graph, NodeKind, Wait, WaitResult};
use crate::session::{EventId, Session, ThreadId};

/// What to do about a damaged file.
const COPY_AGAIN: &str = "Copy the file again.";

/// Why there is no culprit, and the next step.
pub(super) fn unknown(session: &Session, graph: &Graph, diagnosis: &Diagnosis) -> UnknownReport {
    if diagnosis.reading.kind == Kind::Yield {
        return of_loop(session, diagnosis);
    }
    let (unknown, why, remedy) = match &diagnosis.chain.end {
        End::Unknown {
            thread, wait, why, ..
        } => {
            let (text, remedy) = of_wait(session, graph, *thread, wait.as_ref(), why);
            (Some(why.clone()), text, remedy)
        }
        End::Idle(thread) => (
            None,
            format!(
                "{} waited for work, and no event tells who should have sent it",
                name(session, *thread)
            ),
            vec!["Record the process that sends it, and name its file too.".to_owned()],
        ),
        End::NotRecorded { thread, missing } => of_missing_events(session, *thread, *missing),
        End::WaitsMissing { thread, why } => of_missing_waits(session, *thread, *why),
        End::Several(thread) => (
            None,
            format!(
                "{} did several things, none of which took most of the time",
                name(session, *thread)
            ),
            vec![format!(
                "hindsight events FILE --thread {} lists them.",
                session.about(*thread).tid
            )],
        ),
        End::TooLong => (None, "the chain of waits is too long".to_owned(), Vec::new()),
        // Its CPU time is known: the processor was taken from it, and no stack tells whether it called `Thread.yield`.
        End::Did(did) if did.activity == Activity::Ran && did.cpu_ns.is_some() => {
            of_kept_waiting(session, diagnosis, did.thread)
        }
        End::Did(did) if diagnosis.verdict.suspect.is_none() => (
            None,
            match diagnosis.chain.hops.is_empty() {
                true => format!(
                    "neither a wait nor the CPU time of {} explains most of the time",
                    name(session, did.thread)
                ),
                false => format!(
                    "{} did it, and its events do not tell in which code",
                    name(session, did.thread)
                ),
            },
            vec![
                "Record waits, CPU time and stacks: events=waits+tasks+messages+resources+stacks, or all."
                    .to_owned(),
            ],
        ),
        _ => (
            None,
            "a step is inferred, not recorded".to_owned(),
            of_inferred(diagnosis),
        ),
    };
    let mut remedy = remedy;
    let thread = session.thread(diagnosis.found.stretch.thread);
    if diagnosis.verdict.suspect.is_none() && !thread.calls.exact().is_empty() {
        remedy.push(
            "hindsight why FILE explains the calls of this thread, without other threads' events."
                .to_owned(),
        );
    }
    UnknownReport {
        unknown,
        why,
        remedy,
    }
}

/// Of a thread that has no events of that time.
fn of_missing_events(
    session: &Session,
    thread: ThreadId,
    missing: Option<EventsMissing>,
) -> (Option<Unknown>, String, Vec<String>) {
    let name = name(session, thread);
    let (text, remedy) = match missing {
        Some(EventsMissing::Damaged) => (
            format!("the ring of {name} is damaged, and what it did then is not in the part that could be read"),
            COPY_AGAIN,
        ),
        Some(EventsMissing::Overwritten) => (
            format!("what {name} did then is not recorded"),
            "Its older events were overwritten: record with larger rings (events-ring), or take the snapshot sooner.",
        ),
        None => (
            format!("what {name} did then is not recorded"),
            "Record events of all threads: events=all.",
        ),
    };
    (None, text, vec![remedy.to_owned()])
}

/// Of a thread that used little CPU time, as far as that is known, and whose waits may be missing.
fn of_missing_waits(
    session: &Session,
    thread: ThreadId,
    why: WaitsMissing,
) -> (Option<Unknown>, String, Vec<String>) {
    let name = name(session, thread);
    let (text, remedy) = match why {
        WaitsMissing::Damaged => (
            format!("its ring is damaged, so that it is not known whether {name} waited for another thread"),
            COPY_AGAIN,
        ),
        WaitsMissing::NotRecorded => (
            format!("no waits of its process are recorded, so that it is not known whether {name} waited for another thread"),
            "Record waits, CPU time and stacks: events=waits+tasks+messages+resources+stacks, or all.",
        ),
    };
    (None, text, vec![remedy.to_owned()])
}

/// Of a thread that was ready to run, and of which no stack tells where it was.
fn of_kept_waiting(
    session: &Session,
    diagnosis: &Diagnosis,
    thread: ThreadId,
) -> (Option<Unknown>, String, Vec<String>) {
    let name = name(session, thread);
    let is_stuck = thread == diagnosis.found.stretch.thread;
    let taken = diagnosis.reading.switches.filter(|_| is_stuck);
    let times = taken.map_or(String::new(), |(_, taken)| format!(" {taken} times"));
    (
        None,
        format!(
            "{name} was ready to run: the processor was taken from it{times}, and no stack tells in which code it was"
        ),
        vec![
            "Record it with fewer other programs running, or its calls, too (trace=main, trace=all)."
                .to_owned(),
            "A Perfetto trace of the whole device, named beside the files, tells when it had a processor."
                .to_owned(),
        ],
    )
}

/// What to record to know more of a culprit that computed: what its code did there.
pub(super) fn next(session: &Session, diagnosis: &Diagnosis) -> Vec<String> {
    /// Most methods of the stack that are named, the innermost ones.
    const MOST_METHODS: usize = 3;
    let End::Did(did) = &diagnosis.chain.end else {
        return Vec::new();
    };
    // Of a thread that is in the system trace only, the text says that its process is to be recorded.
    if did.activity != Activity::Computed || session.is_outside(did.thread) {
        return Vec::new();
    }
    let Some(place) = &did.place else {
        // Of a process that only the kernel recorded there are no stacks to record.
        return Vec::new();
    };
    let is_own = |call: &&String| {
        let class = call.rsplit_once('.').map_or("", |(class, _)| class);
        !class.is_empty() && !is_platform_class(class)
    };
    let mut methods: Vec<&str> = Vec::new();
    for call in place.calls.iter().rev().filter(is_own) {
        if !methods.contains(&call.as_str()) && methods.len() < MOST_METHODS {
            methods.push(call);
        }
    }
    let branches: String = methods.iter().map(|m| format!(" --branches {m}")).collect();
    let main = session.main_thread(session.about(did.thread).trace());
    let trace = if main == Some(did.thread) {
        "main"
    } else {
        "all"
    };
    let mut next: Vec<String> = without_processor(diagnosis).into_iter().collect();
    if !methods.is_empty() {
        next.push(format!(
            "To learn which loop it was in, let it happen again, and meanwhile: hindsight watch --lab SOCKET{branches} --dex APP \
             --time 5s."
        ));
    }
    next.push(format!(
        "To learn which calls took the time, record them, too: trace={trace}, and ask hindsight why and hindsight top."
    ));
    next
}

/// That most of the time is the machine's load, not the code's: of a stuck thread that computed, and had no processor for most
/// of the time.
fn without_processor(diagnosis: &Diagnosis) -> Option<String> {
    let reading = &diagnosis.reading;
    let cpu_ns = reading.cpu_ns.filter(|_| diagnosis.chain.hops.is_empty())?;
    let is_most = cpu_ns < reading.span_ns / 2 && reading.scheduled.is_none();
    is_most.then(|| {
        format!(
            "Its code used {} of the {}; for most of the rest it had no processor [inferred]. A Perfetto trace of the whole \
             device, named beside the files, tells who had it.",
            duration(cpu_ns),
            duration(reading.span_ns)
        )
    })
}

fn of_inferred(diagnosis: &Diagnosis) -> Vec<String> {
    let open = diagnosis
        .chain
        .hops
        .iter()
        .find(|h| !h.certainty.is_recorded());
    let is_timed = open.and_then(|h| h.wait).is_some();
    match is_timed {
        true => vec![
            "Who should have ended the wait is recorded only when it happens: a snapshot after the wait has ended well \
             shows it."
                .to_owned(),
        ],
        false => Vec::new(),
    }
}

fn name(session: &Session, thread: ThreadId) -> String {
    let name = ThreadName::of(session, thread);
    format!("thread \"{}\" (tid {})", name.thread, name.tid)
}

fn of_wait(
    session: &Session,
    graph: &Graph,
    thread: ThreadId,
    wait: Option<&Wait>,
    why: &Unknown,
) -> (String, Vec<String>) {
    let waiter = name(session, thread);
    match why {
        Unknown::OwnerNotRecorded => (
            format!("{waiter} waited for a lock, and the event that names its owner is missing"),
            vec!["Record waits of all threads: events=waits, or all.".to_owned()],
        ),
        Unknown::LockChangedHands => (
            format!(
                "{waiter} waited for a lock that was released meanwhile, and no thread is known to have held it for most \
                 of the time"
            ),
            vec!["Record waits of all threads: events=waits, or all.".to_owned()],
        ),
        Unknown::ThreadNotRecorded { tid, absent, .. } => (
            format!("{waiter} waited for thread {tid}, {}", absent_words(*absent)),
            match absent {
                Absent::Several => Vec::new(),
                Absent::FileDamaged => vec![COPY_AGAIN.to_owned()],
                _ => vec![format!(
                    "Record events of all threads (events=all), so that thread {tid} has a ring, or larger rings, so that its \
                     events are not overwritten."
                )],
            },
        ),
        Unknown::NobodyEndedIt => of_nobody(session, graph, &waiter, wait),
        Unknown::WakerNotRecorded => (
            format!("the wait of {waiter} ended, and no event tells by whom"),
            vec!["Record waits of all threads: events=waits, or all.".to_owned()],
        ),
        Unknown::ServerNotRecorded { code } => (
            format!(
                "{waiter} waited for the reply to transaction {code}, and the process that serves it is not among the files, \
                 or does not know the transaction's identity"
            ),
            vec!["Record the serving process with events=all, and name its file too.".to_owned()],
        ),
        Unknown::Collection => (
            format!("{waiter} waited for a garbage collection"),
            vec!["Record the category runtime, which has the collections' pauses.".to_owned()],
        ),
    }
}

/// Of a wait that nobody ended. If its time was over, that may be what it is for.
fn of_nobody(
    session: &Session,
    graph: &Graph,
    waiter: &str,
    wait: Option<&Wait>,
) -> (String, Vec<String>) {
    let timeout = wait.map_or(0, |w| timeout_ns(session, w));
    let ended = match timeout {
        0 => "nothing ended its wait".to_owned(),
        ns => format!(
            "nothing ended its wait before its time of {} was over",
            duration(ns)
        ),
    };
    let place = wait.and_then(|w| place_of_wait(session, graph, w));
    let place = place.map_or(String::new(), |p| format!(" in {}", p.method));
    let mut remedy = vec![
        "Record the same action once when it goes well, and name both files: hindsight diagnose BAD GOOD."
            .to_owned(),
        "If the other side is another process, record that, too, and name its file.".to_owned(),
    ];
    if wait.is_some_and(|w| w.result == WaitResult::TimedOut) {
        let text = "If nobody is to end the wait, it is a pause, and its timeout is the cause.";
        remedy.push(text.to_owned());
    }
    let is_open = |w: &Wait| w.result == WaitResult::NotRecorded && timeout == 0;
    if wait.is_some_and(|w| is_open(w) && !is_in_work(graph, w)) {
        let text = "The thread waited in no message or task: it may wait for work, as a server's main thread does, and hold \
                    nobody up.";
        remedy.push(text.to_owned());
    }
    (
        format!("{waiter} waited{place}, {ended}, and no similar wait tells who should have"),
        remedy,
    )
}

/// Whether a wait is in work that the thread was given.
fn is_in_work(graph: &Graph, wait: &Wait) -> bool {
    let begin = EventId {
        thread: wait.thread,
        event: wait.begin_event,
    };
    let kind = graph.node_of(begin).map(|n| graph.node(n).kind);
    kind.is_some_and(|k| !matches!(k, NodeKind::Run | NodeKind::Wait | NodeKind::Idle))
}

fn absent_words(absent: Absent) -> &'static str {
    match absent {
        Absent::NotRecorded => "which is not recorded",
        Absent::FileDamaged => {
            "which is not in the part of the file that could be read: the file is damaged"
        }
        Absent::Several => {
            "an id that several recorded threads had: it is not certain which one is meant"
        }
        Absent::BeganLater => "of whose id only a later thread is recorded",
    }
}

fn timeout_ns(session: &Session, wait: &Wait) -> u64 {
    let begin = session.event(EventId {
        thread: wait.thread,
        event: wait.begin_event,
    });
    begin.map_or(0, |e| e.get("timeout"))
}

/// What to record to find out what a yield loop looks at.
fn of_loop(session: &Session, diagnosis: &Diagnosis) -> UnknownReport {
    let thread = diagnosis.found.stretch.thread;
    let waiter = name(session, thread);
    let place = diagnosis.place.as_ref().map(|p| &p.method);
    if let Some(field) = diagnosis.fields.first() {
        let field = session.string(field.name);
        return UnknownReport {
            unknown: None,
            why: match diagnosis.verdict.suspect {
                Some(_) => "that this thread should have written the field is inferred".to_owned(),
                None => format!("{waiter} reads {field} again and again, and no other thread writes it in this recording"),
            },
            remedy: vec![
                "Let it happen once when it goes well, with the same rules file: the write of the field is recorded then."
                    .to_owned(),
            ],
        };
    }
    let reads = match place {
        Some(method) => format!("{method} looks at something between its pauses"),
        None => {
            "it looks at something between its pauses, and its stacks are not recorded".to_owned()
        }
    };
    let mut remedy = Vec::new();
    match place {
        Some(method) => remedy.push(format!(
            "While it loops, find the field that keeps it going: hindsight watch --lab SOCKET --branches {method} --dex APP \
             --time 2s."
        )),
        None => remedy.push("Record stacks, too: events=all.".to_owned()),
    }
    remedy.push(
        "Record who writes that field: hindsight watch --lab SOCKET CLASS.FIELD --time 10s -o flag.hindsight; let it happen \
         again meanwhile, and then: hindsight diagnose flag.hindsight."
            .to_owned(),
    );
    UnknownReport {
        unknown: None,
        why: format!("{waiter} waits in a loop, and {reads}"),
        remedy,
    }
}
