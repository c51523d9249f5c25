// SPDX-License-Identifier: Apache-2.0
//! A process that is killed leaves a report behind.

mod common;

use std::os::unix::fs::FileExt;

use hindsight_service::os::{Real, System};
use hindsight_trace_format::protocol::{FromProcess, Hello};
use hindsight_trace_format::shared::{Crash, CrashKind, CrashNote, Header};

use common::{
    as_child, hello, image, memory, parents_line, read_trace, say, signal, wait_for, Connection,
    Peer, Service, POLICY,
};

const CALLS: u64 = 100;

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_joins_and_waits() {
    let Some((folder, name)) = as_child() else {
        return;
    };
    let memory = memory(&image(&name, CALLS));
    let connection = Connection::join(&folder, &hello(&name), &memory);
    connection.wait_for_welcome();
    say("joined");
    if parents_line().contains("farewell") {
        assert!(connection.send(&FromProcess::Farewell));
    }
}

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_introduces_itself() {
    let Some((folder, name)) = as_child() else {
        return;
    };
    let memory = memory(&image(&name, CALLS));
    let _connection = Connection::join(&folder, &hello(&name), &memory);
    say("introduced");
    parents_line();
}

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_crashes_before_it_is_accepted() {
    let Some((folder, name)) = as_child() else {
        return;
    };
    let memory = memory(&image(&name, CALLS));
    let _connection = Connection::join(&folder, &hello(&name), &memory);
    let crash = CrashNote::default();
    let at_boottime_ns = Real::default().now().boottime_ns;
    crash.note(&Crash {
        kind: CrashKind::Signal(11),
        tid: 5,
        at_boottime_ns,
    });
    let words = [crash.what.into_inner(), at_boottime_ns].map(u64::to_le_bytes);
    let at = std::mem::offset_of!(Header, crash) as u64;
    memory.write_all_at(&words.concat(), at).unwrap();
    say("introduced");
    parents_line();
}

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_leaves_without_a_connection() {
    let Some((folder, name)) = as_child() else {
        return;
    };
    let memory = memory(&image(&name, CALLS));
    let connection = Connection::join(&folder, &hello(&name), &memory);
    connection.wait_for_welcome();
    drop(connection);
    if parents_line().contains("farewell") {
        let at = std::mem::offset_of!(Header, has_left) as u64;
        memory.write_all_at(&1_u64.to_le_bytes(), at).unwrap();
    }
}

fn joined(service: &Service, name: &str) -> Peer {
    let mut peer = Peer::start("child_that_joins_and_waits", service.folder.path(), name);
    peer.wait_for("joined");
    peer
}

#[test]
fn a_killed_process_leaves_a_report() {
    let service = Service::start(POLICY, &[]);
    let peer = joined(&service, "com.example.killed");
    let pid = peer.pid();
    peer.kill();
    let reports = service.wait_for_reports(1);
    assert_eq!(reports[0]["pid"], pid);
    assert_eq!(reports[0]["process"], "com.example.killed");
    assert_eq!(reports[0]["severity"], "fatal");
    assert_eq!(reports[0]["detector"], "killed");
    assert_eq!(reports[0]["has_ended"], true);
    let trace = service.trace(&reports[0]);
    assert_eq!(reports[0]["bytes"], trace.len());
    // SAFETY: no precondition.
    let uid = unsafe { libc::geteuid() };
    let expected = (pid, uid, "com.example.killed".to_owned(), CALLS as usize);
    assert_eq!(read_trace(&trace), expected);
}

#[test]
fn a_farewell_is_heard_though_the_process_was_told_something_meanwhile() {
    let service = Service::start(&POLICY.replace("call-rings = 64", "call-rings = 1"), &[]);
    let folder = service.folder.path();
    let memory = memory(&image("com.example.next", CALLS));
    let background = Hello {
        is_foreground: false,
        ..hello("com.example.next")
    };
    let next = Connection::join(folder, &background, &memory);
    next.wait_for_welcome();
    let mut peer = joined(&service, "com.example.left");
    let pid = peer.pid();
    let rings_of_peer = || {
        let status = service.status();
        let all = status["engine"]["processes"].as_array()?.clone();
        let peer = all.into_iter().find(|process| process["pid"] == pid)?;
        peer["rings_granted"].as_u64()
    };
    wait_for("the process has a ring", || {
        rings_of_peer().filter(|n| *n == 1)
    });
    signal(service.pid(), libc::SIGSTOP);
    // First: the service takes the ring of the process back, before it reads what that one has said.
    assert!(next.send(&FromProcess::Foreground {
        is_foreground: true,
        tid: 1,
    }));
    peer.tell("farewell");
    assert!(peer.wait());
    signal(service.pid(), libc::SIGCONT);
    wait_for("the process is forgotten", || match rings_of_peer() {
        None => Some(()),
        Some(_) => None,
    });
    let reports = service.reports();
    assert!(
        reports.iter().all(|report| report["pid"] != pid),
        "{reports:?}"
    );
}

#[test]
fn a_process_without_a_connection_notes_that_it_ends_by_itself() {
    let service = Service::start(POLICY, &[]);
    let test = "child_that_leaves_without_a_connection";
    let start = |name| Peer::start(test, service.folder.path(), name);
    let (mut left, mut other) = (start("com.example.left"), start("com.example.other"));
    left.tell("farewell");
    assert!(left.wait());
    other.tell("nothing");
    assert!(other.wait());
    // The ends are looked at in their order.
    let reports = service.wait_for_reports(1);
    let names: Vec<_> = reports.iter().map(|report| &report["process"]).collect();
    assert_eq!(names, ["com.example.other"]);
}

#[test]
fn a_process_that_is_killed_before_its_connection_is_accepted_leaves_a_report() {
    let service = Service::start(POLICY, &[]);
    // It cannot accept anything now; the system takes connections and packets for it.
    signal(service.pid(), libc::SIGSTOP);
    let name = "com.example.early";
    let test = "child_that_introduces_itself";
    let mut peer = Peer::start(test, service.folder.path(), name);
    peer.wait_for("introduced");
    let pid = peer.pid();
    peer.kill();
    signal(service.pid(), libc::SIGCONT);
    let reports = service.wait_for_reports(1);
    assert_eq!(reports[0]["pid"], pid);
    assert_eq!(reports[0]["detector"], "killed");
    let read = read_trace(&service.trace(&reports[0]));
    assert_eq!((read.0, read.3), (pid, CALLS as usize));
}

#[test]
fn a_crash_that_nobody_was_told_of_is_found_in_the_memory() {
    let service = Service::start(POLICY, &[]);
    signal(service.pid(), libc::SIGSTOP);
    let test = "child_that_crashes_before_it_is_accepted";
    let mut peer = Peer::start(test, service.folder.path(), "com.example.crash");
    peer.wait_for("introduced");
    peer.kill();
    signal(service.pid(), libc::SIGCONT);
    let reports = service.wait_for_reports(1);
    assert_eq!(reports[0]["detector"], "native-crash");
    assert_eq!(reports[0]["tid"], 5);
}

#[test]
fn no_more_reports_are_kept_than_may_be() {
    let service = Service::start(POLICY, &["--keep-reports", "2"]);
    let mut last = 0;
    for name in [
        "com.example.a",
        "com.example.b",
        "com.example.c",
        "com.example.d",
    ] {
        let peer = joined(&service, name);
        last = peer.pid();
        peer.kill();
        common::wait_for("the report is written", || {
            let reports = service.reports();
            reports.iter().any(|r| r["pid"] == last).then_some(())
        });
    }
    let reports = service.reports();
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[1]["pid"], last);
}
