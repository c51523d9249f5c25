// SPDX-License-Identifier: Apache-2.0
//! Critical paths of random logs: many of them make no sense, and the sums hold all the same.

use hindsight_causality::transactions::{CriticalPath, Paths, Transactions};
use hindsight_causality::{Graph, Session};
use hindsight_decoder::catalogue::{FieldKind, CATALOGUE};
use hindsight_decoder::{Extension, Trace};
use hindsight_system_trace::SystemTrace;
use hindsight_testkit::device::{By, DeviceTrace, Layout};
use hindsight_testkit::Script;
use proptest::prelude::*;

const THREADS: u32 = 4;

/// An event on a thread, some time after the last one, with a few small numbers for its fields.
#[derive(Clone, Debug)]
struct Random {
    thread: usize,
    after_ns: u64,
    event: usize,
    numbers: [u64; 6],
}

fn random() -> impl Strategy<Value = Random> {
    use Extension::{
        BinderReply, BinderSend, BinderServe, BinderServed, CallbackPosted, CallbackRun,
        FrameBegin, FrameEnd, InputBegin, InputEnd, ItemPut, ItemTaken, LifecycleBegin,
        LifecycleEnd, MessageDispatched, MessageDone, MessageEnqueued, TaskBegin, TaskEnd,
        TaskSubmitted, TraversalBegin, TraversalEnd, TraversalScheduled, UserBegin, UserEnd,
        UserMark, UserPost, WaitBegin, WaitEnd, Wakes,
    };
    // Those that make transactions are more frequent than the others.
    const FREQUENT: [Extension; 30] = [
        BinderReply,
        BinderSend,
        BinderServe,
        BinderServed,
        CallbackPosted,
        CallbackRun,
        FrameBegin,
        FrameEnd,
        InputBegin,
        InputEnd,
        ItemPut,
        ItemTaken,
        LifecycleBegin,
        LifecycleEnd,
        MessageDispatched,
        MessageDone,
        MessageEnqueued,
        TaskBegin,
        TaskEnd,
        TaskSubmitted,
        TraversalBegin,
        TraversalEnd,
        TraversalScheduled,
        UserBegin,
        UserEnd,
        UserMark,
        UserPost,
        WaitBegin,
        WaitEnd,
        Wakes,
    ];
    let place = |e: Extension| CATALOGUE.iter().position(|s| s.extension == e).unwrap();
    let event = prop_oneof![
        9 => (0..FREQUENT.len()).prop_map(move |i| place(FREQUENT[i])),
        1 => 0..CATALOGUE.len(),
    ];
    let after = prop_oneof![Just(0), 0_u64..50, 0_u64..3_000_000];
    let thread = 0..THREADS as usize;
    (thread, after, event, proptest::array::uniform6(0_u64..4)).prop_map(
        |(thread, after_ns, event, numbers)| Random {
            thread,
            after_ns,
            event,
            numbers,
        },
    )
}

fn session(events: &[Random]) -> Session {
    let mut s = Script::new("p");
    let classes = ["a.A.run", "a.B.run", "a.C.run"].map(|m| s.method(m, "()V"));
    for name in ["input tap", "update", "network.get", "work"] {
        s.string(name);
    }
    let threads: Vec<_> = (0..THREADS)
        .map(|i| s.events_thread(100 + i, "t", u64::from(i) + 1))
        .collect();
    let mut at_ns = 0;
    for random in events {
        let spec = &CATALOGUE[random.event];
        // These say how the ring is to be read.
        if spec.category.name() == "recording" || spec.extension == Extension::PackedStack {
            continue;
        }
        at_ns += random.after_ns;
        let fields = spec.fields.iter().zip(random.numbers);
        let fields: Vec<_> = fields
            .map(|(field, n)| {
                let number = match field.kind {
                    FieldKind::Class | FieldKind::Method => {
                        classes.get(n as usize).copied().unwrap_or(0)
                    }
                    FieldKind::Tid => 99 + n,
                    FieldKind::String => n + 1,
                    FieldKind::Choice(_) => n.min(3),
                    _ => n,
                };
                (field.name, number)
            })
            .collect();
        s.at(threads[random.thread], at_ns)
            .event(spec.extension, &fields);
    }
    s.stop_at(at_ns + 10);
    let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
    Session::of(vec![("t".into(), trace)])
}

/// Its steps follow each other without gaps, and their shares add up to its length, to the nanosecond.
fn check(path: &CriticalPath) {
    let mut at_ns = path.begin_ns;
    for step in &path.steps {
        assert_eq!(step.begin_ns, at_ns, "{path:?}");
        assert!(step.end_ns > step.begin_ns, "{path:?}");
        assert_eq!(step.shares.total(), step.end_ns - step.begin_ns, "{step:?}");
        if let Some(by) = step.by {
            assert_eq!(by.did.total(), step.end_ns - step.begin_ns, "{step:?}");
        }
        at_ns = step.end_ns;
    }
    assert_eq!(at_ns, path.end_ns, "{path:?}");
    assert_eq!(path.shares().total(), path.duration_ns());
}

/// An event of the scheduler: after so many ns, on a processor, between two threads, of a sort.
type Scheduled = (u64, u32, u32, u32, u8);

/// A trace of a device with any events of the threads, and of others.
fn device(events: &[Scheduled]) -> Vec<u8> {
    let mut d = DeviceTrace::new(Layout::Compact);
    d.switch(0, 0, 0, 0, 100);
    let mut at_ns = 0;
    for &(after_ns, cpu, a, b, sort) in events {
        at_ns += after_ns;
        let tid = |n: u32| if n == 0 { 0 } else { 99 + n };
        let (a, b) = (tid(a), tid(b));
        match sort {
            0 => d.waking(cpu, at_ns, By::Thread(a), b),
            1 => d.waking(cpu, at_ns, By::Interrupt(a), b),
            2 => d.blocked(cpu, at_ns, a, b % 2 == 0),
            3 => d.lost(cpu, at_ns),
            4 => d.transaction(cpu, at_ns, a, at_ns + 10, b),
            5 => d.reply(cpu, at_ns, b, at_ns + 10, a),
            6 => d.new_thread(cpu, at_ns, a, b, "new"),
            state => d.switch(cpu, at_ns, a, [0, 1, 2, 0x10][usize::from(state % 4)], b),
        };
    }
    // Later than anything else.
    d.switch(3, 1_000_000_000, 0, 0, 0);
    d.encode()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn components_add_up_to_the_path(
        events in prop::collection::vec(random(), 0..120),
        scheduled in prop::option::of(
            prop::collection::vec((0_u64..3_000_000, 0_u32..3, 0_u32..7, 0_u32..7, 0_u8..16), 0..120)
        ),
    ) {
        let mut session = session(&events);
        if let Some(scheduled) = &scheduled {
            let system = SystemTrace::read(&device(scheduled)[..]).expect("a sound trace");
            prop_assert_eq!(session.refuses_system(&system), None);
            session = session.with_system("device".into(), system);
        }
        let graph = Graph::build(&session).unwrap();
        let found = Transactions::find(&session, &graph);
        let paths = Paths::new(&session, &graph, &found);
        for (id, transaction) in found.iter() {
            let path = paths.path(id).expect("each transaction has a path");
            check(&path);
            prop_assert!(path.begin_ns >= transaction.begin_ns);
            prop_assert!(path.end_ns <= transaction.end_ns);
            for update in 0..transaction.updates.len() {
                let path = paths.path_to(id, update).expect("each update has a path");
                check(&path);
                prop_assert_eq!(path.end_ns, transaction.updates[update].at_ns);
            }
            for (index, member) in found.members_of(id) {
                // Causes come before effects.
                prop_assert!(member.parent <= index);
                prop_assert!(member.begin_ns <= member.end_ns);
            }
        }
    }
}
