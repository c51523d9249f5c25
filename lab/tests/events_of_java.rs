// SPDX-License-Identifier: Apache-2.0
//! The events that libcore, the framework and programs record: each kind of work is done a known number of times, and
//! both ends of each are in the trace, with one identity. Run with `--ignored` after `cargo xtask lab build`.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;

use hindsight_lab::{App, Execution, Framework, Isa, Lab, Parts, Release, Variant};
use hindsight_trace_format::catalogue::{
    FieldKind, Spec, LIFECYCLE_STEPS, STACK_REASONS, TASK_KINDS,
};
use hindsight_trace_format::container::Reader;
use hindsight_trace_format::slot::Event;

/// As in `EventsTest.java`.
const TASKS: usize = 20;
const MESSAGES: usize = 10;

/// An event: the thread's name, and its fields; those that name a class or a string have it in `names`.
#[derive(Clone, Debug, Default)]
struct Recorded {
    thread: String,
    event: &'static str,
    fields: BTreeMap<&'static str, u64>,
    names: BTreeMap<&'static str, String>,
}

impl Recorded {
    fn field(&self, name: &str) -> u64 {
        self.fields[name]
    }

    fn name(&self, field: &str) -> &str {
        self.names.get(field).map_or("", String::as_str)
    }
}

/// All events of a file but those of method calls.
struct Events(Vec<Recorded>);

impl Events {
    fn read(file: &Path) -> Events {
        let bytes = std::fs::read(file).unwrap();
        let reader = Reader::new(&bytes).unwrap();
        let symbols = reader.symbol_table().unwrap().unwrap();
        let classes: BTreeMap<u64, String> = symbols
            .iter()
            .map(|symbol| (symbol.address, symbol.class.to_string()))
            .collect();
        let strings = reader.strings().unwrap_or_default();
        let mut all = Vec::new();
        for index in reader.ring_indices() {
            let ring = reader.ring(index).unwrap().unwrap();
            // Newest first.
            let start = all.len();
            for event in ring.slots().events() {
                let Event::Extension { number } = event.event() else {
                    continue;
                };
                let spec = Spec::from_number(number).unwrap();
                let payload: Vec<u64> = event.payloads().collect();
                let mut recorded = Recorded {
                    thread: ring.header.name.clone(),
                    event: spec.identifier,
                    ..Recorded::default()
                };
                for field in spec.fields {
                    let value = field.get(&payload);
                    recorded.fields.insert(field.name, value);
                    let name = match field.kind {
                        FieldKind::Class => classes.get(&value).cloned(),
                        FieldKind::String => strings.get(value).map(str::to_owned),
                        _ => None,
                    };
                    recorded.names.extend(name.map(|n| (field.name, n)));
                }
                all.push(recorded);
            }
            all[start..].reverse();
        }
        Events(all)
    }

    fn of(&self, event: &str) -> Vec<&Recorded> {
        self.0.iter().filter(|e| e.event == event).collect()
    }

    /// Where stacks were taken.
    fn reasons_of_stacks(&self) -> BTreeSet<&'static str> {
        let stacks = self.of("PackedStack").into_iter();
        stacks
            .map(|stack| STACK_REASONS[stack.field("reason") as usize])
            .collect()
    }

    /// The events of this name whose class is this one of the test's.
    fn of_class(&self, event: &str, class: &str) -> Vec<&Recorded> {
        let class = format!("EventsTest${class}");
        let mut events = self.of(event);
        events.retain(|e| e.name("class").replace('/', ".").ends_with(&class));
        events
    }

    /// The tasks of this class: all were submitted, begun and ended `count` times, and each begin has one submission.
    /// Returns the submissions.
    fn tasks(&self, class: &str, count: usize) -> Vec<&Recorded> {
        let submitted = self.of_class("TaskSubmitted", class);
        let begun = self.of_class("TaskBegin", class);
        assert_eq!(submitted.len(), count, "{class}: {submitted:#?}");
        assert_eq!(begun.len(), count, "{class}: {begun:#?}");
        for begin in &begun {
            let id = begin.field("task");
            assert_ne!(id, 0, "{class}");
            let same =
                |e: &&&Recorded| e.field("task") == id && e.field("kind") == begin.field("kind");
            assert_eq!(submitted.iter().filter(same).count(), 1, "{class}");
            let ends = self.of("TaskEnd");
            let ends: Vec<_> = ends.iter().filter(same).collect();
            assert_eq!(ends.len(), 1, "{class}");
            assert_eq!(ends[0].thread, begin.thread, "{class}");
        }
        submitted
    }
}

fn run(framework: &Framework, app: &App, execution: Execution, traced: &str) -> Events {
    let folder = tempfile::tempdir().unwrap();
    let output = framework
        .app_command(app, "EventsTest", execution)
        .env(
            "HINDSIGHT",
            format!(
                "rewind=off,{traced},events=all,dir={}",
                folder.path().display()
            ),
        )
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{execution:?}: {text}\n{error}");
    Events::read(Path::new(text.trim()))
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn each_kind_of_work_has_both_ends() {
    let (framework, app) = built();
    for execution in [Execution::Interpreter, Execution::Jit, Execution::Aot] {
        for traced in ["trace=off", "trace=main"] {
            let events = run(framework, app, execution, traced);
            check_tasks(&events);
            check_messages(&events);
            check_input(&events);
            check_frames(&events);
            check_lifecycle(&events);
            check_program(&events);
        }
    }
}

/// As in `BinderTest.java`.
const CALLS: usize = 10;

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_transaction_has_one_identity_in_both_processes() {
    let (framework, app) = built();
    let folder = tempfile::tempdir().unwrap();
    let start = |arguments: &[&str]| {
        framework
            .app_command(app, "BinderTest", Execution::Jit)
            .args(arguments)
            .env(
                "HINDSIGHT",
                format!(
                    "trace=off,events=binder+stacks,stack-interval=0,dir={}",
                    folder.path().display()
                ),
            )
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut server = start(&["serve"]);
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let port = lines.next().unwrap().unwrap();
    let client = start(&["call", &port]);
    let client_pid = u64::from(client.id());
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success());
    let client = Events::read(Path::new(String::from_utf8_lossy(&output.stdout).trim()));
    let server_file = lines.next().unwrap().unwrap();
    assert!(server.wait().unwrap().success());
    let server = Events::read(Path::new(&server_file));

    let sent = client.of("BinderSend");
    let returned = client.of("BinderReply");
    let served = server.of("BinderServe");
    let done = server.of("BinderServed");
    for events in [&sent, &returned, &served, &done] {
        assert_eq!(events.len(), CALLS);
    }
    for (i, send) in sent.iter().enumerate() {
        let transaction = send.field("transaction");
        assert_ne!(transaction, 0);
        assert_eq!(send.field("code"), 100 + i as u64);
        assert_eq!(send.field("one-way"), u64::from(i % 5 == 4));
        for other in [returned[i], served[i], done[i]] {
            assert_eq!(other.field("transaction"), transaction);
        }
        assert_eq!(served[i].field("code"), send.field("code"));
        assert_eq!(served[i].field("one-way"), send.field("one-way"));
        assert_eq!(served[i].field("from process"), client_pid);
    }
    assert!(client.reasons_of_stacks().contains("transaction"));
    assert!(server.reasons_of_stacks().contains("transaction"));
}

/// The test of `events.rs` has the places without the framework.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn stacks_are_taken_of_messages_and_for_programs() {
    let (framework, app) = built();
    let traced = "trace=off,stack-interval=0,event-spool=26";
    let reasons = run(framework, app, Execution::Jit, traced).reasons_of_stacks();
    for reason in ["message", "program"] {
        assert!(reasons.contains(reason), "{reason}: {reasons:?}");
    }
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_program_may_record_events_where_nothing_is_recorded() {
    let (framework, app) = built();
    let folder = tempfile::tempdir().unwrap();
    let off = format!("trace=main,events=off,dir={}", folder.path().display());
    // Without a configuration, no native method is linked, as on an ART without Hindsight.
    for (configuration, expected) in [("", "0 0\n"), (off.as_str(), "1 2\n")] {
        let output = framework
            .app_command(app, "OffTest", Execution::Jit)
            .env("HINDSIGHT", configuration)
            .output()
            .unwrap();
        assert!(output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}

/// The framework and the test's programs, built once.
fn built() -> &'static (Framework, App) {
    static BUILT: OnceLock<(Framework, App)> = OnceLock::new();
    BUILT.get_or_init(|| {
        let lab = Lab::open_parts(
            Release::Android10,
            Isa::X86_64,
            Variant::Hindsight,
            Parts::Programs,
        );
        let framework = Framework::build(&lab.unwrap(), &|_| ()).unwrap();
        let sources = common::tests_folder().join("java/events");
        let app = framework.compile_app("events-test", &sources).unwrap();
        (framework, app)
    })
}

fn check_tasks(events: &Events) {
    // Java has its own constants of the kinds.
    for (class, kind) in [
        ("Work", "executor"),
        ("ThreadWork", "thread"),
        ("Sum", "fork-join"),
        ("Alarm", "timer"),
        ("Background", "async task"),
    ] {
        let kind = TASK_KINDS.iter().position(|k| *k == kind).unwrap() as u64;
        let tasks = events.of_class("TaskBegin", class);
        assert!(tasks.iter().all(|t| t.field("kind") == kind), "{class}");
    }
    events.tasks("Work", TASKS);
    events.tasks("Held", 1);
    let delayed = events.tasks("Delayed", 1);
    assert!((1..=20).contains(&delayed[0].field("delay")));
    let removed = events.of_class("TaskSubmitted", "Removed");
    assert_eq!(removed.len(), 1);
    assert!(events.of_class("TaskBegin", "Removed").is_empty());
    let cancelled = events.of("Cancelled");
    let is_cancelled = |task: &Recorded| {
        cancelled
            .iter()
            .any(|c| c.field("task") == task.field("task"))
    };
    assert!(is_cancelled(removed[0]));
    // A task that runs goes on.
    let late = events.tasks("CancelledLate", 1);
    assert!(!is_cancelled(late[0]));
    let early = events.of_class("TaskSubmitted", "CancelledEarly");
    assert!(is_cancelled(early[0]));

    // The first alarm is cancelled.
    let alarms = events.of_class("TaskSubmitted", "Alarm");
    assert_eq!(alarms.len(), 2);
    assert!(is_cancelled(alarms[0]) && !is_cancelled(alarms[1]));
    let begun = events.of_class("TaskBegin", "Alarm");
    assert_eq!(begun.len(), 1);
    assert_eq!(begun[0].field("task"), alarms[1].field("task"));
    assert_eq!(begun[0].thread, "timer");

    events.tasks("ThreadWork", TASKS);
    events.tasks("Background", 2);
    let uncaught = events.of("Uncaught");
    assert_eq!(uncaught.len(), 1);
    assert!(uncaught[0].name("class").ends_with("IllegalStateException"));

    // One of two halves is handed over; the other is run by the same task.
    let sums = events.of_class("TaskSubmitted", "Sum");
    assert_eq!(sums.len(), TASKS);
    let begun = events.of_class("TaskBegin", "Sum");
    for sum in sums {
        let pairs = begun
            .iter()
            .filter(|b| b.field("task") == sum.field("task"));
        assert_eq!(pairs.count(), 1);
    }
}

fn check_messages(events: &Events) {
    let on_looper = |event: &str| -> Vec<&Recorded> {
        let mut events = events.of(event);
        events.retain(|e| e.thread == "looper");
        events
    };
    let begun = on_looper("MessageDispatched");
    let received: Vec<&&Recorded> = begun
        .iter()
        .filter(|e| e.name("class").ends_with("EventsTest$Receiver"))
        .collect();
    assert_eq!(received.len(), MESSAGES + 1);
    let ends = on_looper("MessageDone");
    let sent = events.of("MessageEnqueued");
    for (i, message) in received.iter().enumerate() {
        let what = if i == MESSAGES { 200 } else { 100 + i as u64 };
        assert_eq!(message.field("what"), what);
        let same = |e: &&&Recorded| e.field("message") == message.field("message");
        assert_eq!(ends.iter().filter(same).count(), 1);
        let sent: Vec<_> = sent.iter().filter(same).collect();
        assert_eq!(sent.len(), 1);
        assert_ne!(sent[0].thread, "looper");
        assert_eq!(sent[0].field("delay") > 0, what == 200);
    }
    let removed = events.of("MessageRemoved");
    assert!(removed.iter().any(|r| {
        (sent.iter())
            .any(|s| s.field("message") == r.field("message") && s.field("delay") > 900_000)
    }));
    // A poll is a wait, with an end of the same number.
    let poll = |e: &&&Recorded| e.field("kind") == 5;
    let begins = on_looper("WaitBegin");
    let polls: Vec<_> = begins.iter().filter(poll).collect();
    assert!(!polls.is_empty());
    let wait_ends = on_looper("WaitEnd");
    for begin in &polls {
        let same = |e: &&&Recorded| e.field("number") == begin.field("number");
        assert_eq!(wait_ends.iter().filter(same).count(), 1);
    }
}

fn check_input(events: &Events) {
    let begins = events.of("InputBegin");
    assert_eq!(begins.len(), MESSAGES);
    let ends = events.of("InputEnd");
    assert_eq!(ends.len(), MESSAGES);
    for (i, (begin, end)) in begins.iter().zip(&ends).enumerate() {
        assert_eq!(begin.thread, "input");
        assert_eq!(begin.field("sequence"), i as u64 + 1);
        assert_eq!(begin.field("action"), i as u64 % 3);
        assert_eq!(begin.field("type"), 1 + u64::from(i >= MESSAGES / 2));
        assert!(begin.name("class").ends_with("EventsTest$Window"));
        assert_ne!(begin.field("at"), 0);
        assert_eq!(end.field("sequence"), begin.field("sequence"));
        assert_eq!(end.field("handled"), i as u64 % 2);
    }
    // The looper polls while it delivers input, but does not wait.
    let mut waits = false;
    for event in events.0.iter().filter(|e| e.thread == "input") {
        match event.event {
            "WaitBegin" => waits = true,
            "WaitEnd" => waits = false,
            "InputBegin" => assert!(!waits),
            _ => {}
        }
    }
}

fn check_frames(events: &Events) {
    let begins = events.of("FrameBegin");
    let ends = events.of("FrameEnd");
    assert!(!begins.is_empty());
    assert_eq!(begins.len(), ends.len());
    assert_eq!(begins[0].field("vsync"), ends[0].field("vsync"));
    // Animation, the type of postFrameCallback().
    assert!(events
        .of("FrameCallbacks")
        .iter()
        .any(|e| e.field("type") == 1));
    // A callback of each of these types was posted once, and run or removed once.
    let ends = |event: &str, field: &str, id: u64| {
        let mut ends = events.of(event);
        ends.retain(|e| e.field(field) == id);
        ends.iter().map(|e| (*e).clone()).collect::<Vec<Recorded>>()
    };
    let posted = |class: &str| {
        let posted = events.of_class("CallbackPosted", class);
        assert_eq!(posted.len(), 1, "{class}");
        (posted[0].field("callback"), posted[0].field("delay"))
    };
    let (id, delay) = posted("Drawing");
    assert_eq!(delay, 0);
    let run = ends("CallbackRun", "callback", id);
    assert_eq!(run.len(), 1);
    assert_eq!(run[0].field("type"), 3);
    assert!(ends("Cancelled", "task", id).is_empty());
    let (id, delay) = posted("Never");
    assert!(delay > 900_000);
    assert!(ends("CallbackRun", "callback", id).is_empty());
    assert_eq!(ends("Cancelled", "task", id).len(), 1);
}

fn check_lifecycle(events: &Events) {
    let begun = events.of("LifecycleBegin");
    assert!(begun.iter().all(|e| e.name("class").ends_with("$Page")));
    let steps: Vec<(&str, u64)> = (events.0.iter())
        .filter(|e| e.event.starts_with("Lifecycle"))
        .map(|e| (&e.event["Lifecycle".len()..], e.field("step")))
        .collect();
    let mut expected = Vec::new();
    for step in 0..LIFECYCLE_STEPS.len() as u64 {
        expected.push(("Begin", step));
        if LIFECYCLE_STEPS[step as usize] == "resume" {
            expected.extend([("Begin", 1), ("End", 1)]);
        }
        expected.push(("End", step));
    }
    assert_eq!(steps, expected);
    for event in ["LifecycleBegin", "LifecycleEnd"] {
        let activity = begun[0].field("activity");
        assert_ne!(activity, 0);
        let all = events.of(event);
        assert!(all.iter().all(|e| e.field("activity") == activity));
    }
}

fn check_program(events: &Events) {
    for event in ["UserMark", "UserPost", "UserBegin", "UserEnd"] {
        let found = events.of(event);
        assert_eq!(found.len(), 1, "{event}");
        assert_eq!(found[0].name("name"), "a mark");
    }
    assert_eq!(events.of("UserBegin")[0].field("id"), 7);
    // Events.sample(), with reason "program".
    assert!(events.reasons_of_stacks().contains("program"));
}
