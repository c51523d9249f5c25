// SPDX-License-Identifier: Apache-2.0
//! Waits for the answers to requests, which nobody ended.

mod common;

use common::stuck::*;
use common::{Logs, MS};
use hindsight_causality::diagnosis::{CircleKind, Role};
use hindsight_decoder::Extension as E;
use hindsight_testkit::Recorder;

/// What is different in the log of [`asks`].
#[derive(Clone, Copy, Default)]
struct Asked {
    /// How often it went well before.
    before: u64,
    /// Another thread ended such a wait, for another reason.
    other_end: bool,
    /// The renderer's main thread dealt with the request at once, and nothing came of it.
    dealt_with: bool,
    /// The message in the renderer was taken out of its queue.
    removed: bool,
    /// The recording goes on until the renderer dispatches the message.
    late: bool,
}

/// The browser's main thread sends requests, and waits 1,500 ms for the answer of the renderer's main thread: "child" takes the
/// request and sends a message to that one, which answers by a transaction to "io". At last the renderer's script waits for
/// "sync", which waits for the browser's main thread.
fn asks(asked: Asked) -> Logs {
    let mut browser = App::new(100, "browser");
    let key = browser.script.method("browser.Key.handle", "()V");
    let io = browser.thread(101, "io");
    let sync = browser.thread(102, "sync");
    let timer = browser.thread(103, "timer");
    let mut renderer = App::new(200, "renderer");
    let place = renderer.script.method("renderer.Place.handle", "()V");
    let script = renderer.script.method("renderer.Script.handle", "()V");
    let child = renderer.thread(201, "child");
    let request = |n: u64| [("transaction", n), ("code", 1), ("one-way", 1)];
    let message = |n: u64| [("message", n), ("for thread", 200)];
    let ask = |r: &mut Recorder<'_>, n: u64, until_ms: u64, result: u64| {
        r.event(E::BinderSend, &request(n));
        let of = [("kind", OBJECT), ("number", n), ("object", 0x55)];
        let timeout = ("timeout", 1_500 * MS);
        r.event(E::WaitBegin, &[of[0], of[1], of[2], timeout])
            .at(until_ms * MS)
            .event(E::WaitEnd, &[of[0], of[1], ("result", result)]);
    };
    for n in 1..=asked.before {
        let at = n * 20;
        browser.message((n, key), at, at + 11, |r| ask(r, n, at + 10, SIGNALLED));
        (renderer.script.at(child, (at + 1) * MS))
            .event(E::BinderServe, &request(n))
            .event(E::MessageEnqueued, &message(n))
            .event(E::BinderServed, &request(n)[..1]);
        renderer.message((n, place), at + 2, at + 4, |r| {
            r.at((at + 3) * MS).event(E::BinderSend, &request(100 + n));
        });
        (browser.script.at(io, (at + 5) * MS))
            .event(E::BinderServe, &request(100 + n))
            .at((at + 9) * MS)
            .event(E::Wakes, &[("thread", 100), ("wait", n)])
            .event(E::BinderServed, &request(100 + n)[..1]);
    }
    if asked.other_end {
        browser.message((50, key), 200, 211, |r| ask(r, 50, 210, SIGNALLED));
        let wakes = [("thread", 100), ("wait", 50)];
        (browser.script.at(timer, 209 * MS)).event(E::Wakes, &wakes);
    }
    // It does not go well.
    let n = asked.before + 1;
    let help = [("transaction", 300), ("code", 2)];
    browser.message((60, key), 300, 1_810, |r| {
        ask(r, 60, 1_801, TIMED_OUT);
        (r.at(1_802 * MS)).event(E::Wakes, &[("thread", 102), ("wait", 1)]);
    });
    let sent = message(n);
    (renderer.script.at(child, 301 * MS))
        .event(E::BinderServe, &request(60))
        .event(E::MessageEnqueued, &sent)
        .event(E::BinderServed, &request(60)[..1]);
    if asked.removed {
        (renderer.script.at(child, 302 * MS)).event(E::MessageRemoved, &sent[..1]);
    }
    if asked.dealt_with {
        renderer.message((n, place), 303, 304, |_| {});
    }
    renderer.message((90, script), 305, 1_820, |r| {
        r.event(E::BinderSend, &help)
            .at(1_805 * MS)
            .event(E::BinderReply, &help[..1]);
    });
    if asked.late {
        renderer.message((n, place), 1_821, 1_825, |r| {
            r.event(E::BinderSend, &request(160));
        });
        (browser.script.at(io, 1_823 * MS))
            .event(E::BinderServe, &request(160))
            .event(E::BinderServed, &request(160)[..1]);
    }
    let mut r = browser.script.at(sync, 306 * MS);
    r.event(E::BinderServe, &help);
    wait(&mut r, PARK, 1, 0x66, 1_803, SIGNALLED);
    r.event(E::BinderServed, &help[..1]);
    browser.script.stop_at(1_900 * MS);
    renderer.script.stop_at(1_900 * MS);
    Logs::of(&[&browser.script, &renderer.script])
}

#[test]
fn who_had_the_request_when_all_earlier_answers_ended_such_a_wait_is_a_recorded_fact() {
    for late in [false, true] {
        let logs = asks(Asked {
            before: 2,
            late,
            ..Asked::default()
        });
        let report = logs.report_of("browser/main");
        let hops = [
            "main HadRequest main",
            "main Served sync",
            "sync EndedWait main",
        ];
        assert_eq!(chain(&report), hops);
        let role = Role::Circle {
            circle: CircleKind::Livelock,
            timeout_ns: 1_500 * MS,
        };
        assert_eq!(report.culprit.as_ref().unwrap().role, role);
        assert_eq!(report.culprit.unwrap().threads.len(), 3);
        let other = logs.report_of("renderer/main");
        assert_eq!(other.culprit.unwrap().threads.len(), 3);
    }
}

#[test]
fn of_a_request_that_does_not_tell_for_certain_nobody_is_the_culprit() {
    let sure = Asked {
        before: 2,
        ..Asked::default()
    };
    let all = [
        Asked { before: 1, ..sure },
        Asked {
            other_end: true,
            ..sure
        },
        Asked {
            dealt_with: true,
            ..sure
        },
        Asked {
            removed: true,
            ..sure
        },
    ];
    for (i, asked) in all.into_iter().enumerate() {
        let report = asks(asked).report_of("browser/main");
        assert_eq!(culprit(&report), [""; 0], "{i}");
        let hops = chain(&report);
        assert!(hops.iter().all(|h| !h.contains("HadRequest")), "{hops:?}");
    }
}
