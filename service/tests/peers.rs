// SPDX-License-Identifier: Apache-2.0
//! A process that another one waited for leaves a report of the same group.

mod common;

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use hindsight_service::os::{Real, System};
use hindsight_trace_format::protocol::{FromProcess, FromService, TakeOutcome};
use hindsight_trace_format::shared::{Header, Serving};

use common::{
    hello, image, join_and_wait, memory, read_trace, take_ring, Connection, Peer, Service, POLICY,
};

const SECOND: u64 = 1_000_000_000;

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_joins_and_waits() {
    join_and_wait(100);
}

/// Notes in this process's memory that it has served a transaction of that process for so long, and still does.
fn serve(memory: &File, pid: u32, ns: u64) {
    // SAFETY: no precondition.
    let uid = unsafe { libc::geteuid() };
    let place = Serving {
        from: (u64::from(pid) << 32 | u64::from(uid)).into(),
        thread: 77.into(),
        began_ns: (Real::default().now().boottime_ns - ns).into(),
        ended_ns: 0.into(),
    };
    let words = [place.from, place.thread, place.began_ns, place.ended_ns];
    let bytes: Vec<u8> = words
        .into_iter()
        .flat_map(|word| word.into_inner().to_le_bytes())
        .collect();
    let at = offset_of!(Header, serving) + 3 * size_of::<Serving>();
    memory.write_all_at(&bytes, at as u64).unwrap();
}

/// A process waits for the server and is killed. Returns its id and both reports.
fn kill_a_client(
    service: &Service,
    server: &Connection,
    memory: &File,
) -> (u32, [serde_json::Value; 2]) {
    let before = service.reports().len();
    let name = "com.example.killed";
    let mut client = Peer::start("child_that_joins_and_waits", service.folder.path(), name);
    client.wait_for("joined");
    let pid = client.pid();
    serve(memory, pid, SECOND);
    client.kill();
    let report = server.wait(|message| match message {
        FromService::Take { report } => Some(*report),
        _ => None,
    });
    let outcome = TakeOutcome::Taken;
    assert!(server.send(&FromProcess::Taken { report, outcome }));
    let mut reports = service
        .wait_for_reports(before + 2)
        .into_iter()
        .skip(before);
    let both = [reports.next().unwrap(), reports.next().unwrap()];
    assert_eq!(reports.next(), None);
    (pid, both)
}

#[test]
fn a_process_that_a_killed_one_waited_for_leaves_a_report_of_the_same_group() {
    let service = Service::start(POLICY, &[]);
    let folder = service.folder.path();
    let shared = |name: &str| {
        let mut bytes = image(name, 50);
        take_ring(&mut bytes, 0);
        memory(&bytes)
    };
    let [of_server, of_other] = ["com.example.server", "com.example.other"].map(shared);
    let server = Connection::join(folder, &hello("com.example.server"), &of_server);
    server.wait_for_welcome();
    // This one serves a process that has no report.
    let mut other = Peer::start("child_that_joins_and_waits", folder, "com.example.other");
    other.wait_for("joined");
    serve(&of_other, std::process::id(), SECOND);

    let (pid, [first, peer]) = kill_a_client(&service, &server, &of_server);
    assert_eq!(
        (&first["pid"], &first["detector"]),
        (&pid.into(), &"killed".into())
    );
    assert_eq!(first["group"], first["report"]);
    assert_eq!(peer["process"], "com.example.server");
    assert_eq!(
        (&peer["detector"], &peer["tid"]),
        (&"waited-for".into(), &77.into())
    );
    assert_eq!(peer["severity"], "stuck");
    assert_eq!(peer["group"], first["report"]);
    let reason = peer["reason"].as_str().unwrap();
    let said = format!("process {pid} (report {})", first["report"]);
    assert!(reason.starts_with(&said), "{reason}");
    assert_eq!(read_trace(&service.trace(&peer)).3, 50);
    let limits = service.status()["engine"]["limits"]["reports"].clone();
    assert_eq!(limits, 1, "a group counts once");

    // One of a group goes alone, the first one takes the others along.
    assert_eq!(service.ask(&format!("remove {}", peer["report"]))[0], "ok");
    assert_eq!(service.reports(), std::slice::from_ref(&first));
    let (_, [second, _]) = kill_a_client(&service, &server, &of_server);
    assert_eq!(
        service.ask(&format!("remove {}", second["report"]))[0],
        "ok"
    );
    assert_eq!(service.reports(), [first]);
}
