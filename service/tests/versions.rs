// SPDX-License-Identifier: Apache-2.0
//! Processes of older and newer builds. What an old build says is written here byte by byte, and never changes: what it said then
//! is what its processes say today.

mod common;

use std::mem::offset_of;
use std::os::fd::AsFd;

use common::{
    as_child, image, memory, parents_line, read_trace, say, wait_for, Connection, Peer, Service,
    POLICY,
};
use hindsight_service::os::{receive_packet, send_packet, Packet, Sent};
use hindsight_trace_format::protocol::FromService;
use hindsight_trace_format::shared::Header;

const CALLS: u64 = 50;

/// The hello of version 1 of the protocol: of the process `old`, in the foreground, with rings of 64 KiB, and 64 KiB for all else.
const HELLO_1: [u8; 55] = [
    1, 0, 0, 0, // hello
    1, 0, 0, 0, 1, 0, 0, 0, // versions 1 to 1
    1, 0, 0, 0, // memory of version 1
    3, 0, 0, 0, b'o', b'l', b'd', // name
    0, 0, 1, 0, 0, 0, 0, 0, // bytes of a ring
    0, 0, 1, 0, 0, 0, 0, 0, // bytes of all else
    0, 0, 0, 0, // no ring is held
    1, 0, 0, 0, // foreground
    0, 0, 0, 0, 0, 0, 0, 0, // no report is under way
];
/// Where the newest version, and the memory's version, are in it.
const NEWEST: usize = 8;
const MEMORY: usize = 12;

/// A hello of a build that speaks other versions, or has memory of another one.
fn hello(versions: (u8, u8), memory_version: u8, more: &[u8]) -> Vec<u8> {
    let mut hello = HELLO_1.to_vec();
    (hello[NEWEST - 4], hello[NEWEST]) = versions;
    hello[MEMORY] = memory_version;
    hello.extend(more);
    hello
}

/// Memory whose header has this version.
fn memory_of(version: u32) -> std::fs::File {
    let mut image = image("old", CALLS);
    let at = offset_of!(Header, version);
    image[at..at + 4].copy_from_slice(&version.to_le_bytes());
    memory(&image)
}

fn send(connection: &Connection, packet: &[u8], memory: Option<&std::fs::File>) {
    let sent = send_packet(connection.0.as_fd(), packet, memory.map(AsFd::as_fd));
    assert_eq!(sent, Sent::Bytes(packet.len()));
}

/// The bytes of the next packet.
fn receive(connection: &Connection) -> Vec<u8> {
    wait_for("the service says something", || {
        let mut buffer = [0; 4096];
        match receive_packet(connection.0.as_fd(), &mut buffer).unwrap() {
            Packet::Nothing => None,
            Packet::End => panic!("the connection was closed"),
            Packet::Bytes { length, .. } => Some(buffer[..length].to_vec()),
        }
    })
}

/// Joins, and is killed. Its parent says how old it is.
#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_of_another_build() {
    let Some((folder, build)) = as_child() else {
        return;
    };
    let connection = Connection::new(&folder);
    let (hello, version, memory) = match build.as_str() {
        "old" => (HELLO_1.to_vec(), 1, memory_of(1)),
        "new" => (hello((2, 9), 1, &[7; 12]), 2, memory_of(1)),
        "newer memory" => (HELLO_1.to_vec(), 1, memory_of(2)),
        _ => (HELLO_1.to_vec(), 1, memory_of(0)),
    };
    send(&connection, &hello, Some(&memory));
    assert_eq!(receive(&connection), [1, 0, 0, 0, version, 0, 0, 0]);
    // Version 1 has no `Room` (7). `Detectors` (20) is ignored by builds that do not know it.
    let configure = loop {
        let packet = receive(&connection);
        match packet[0] {
            3 => break packet,
            kind => assert!(kind == 20 || version > 1, "message {kind}"),
        }
    };
    // What a build of version 1 reads: revision, rings of calls, categories, level of consent.
    assert_eq!((configure[12], &configure[24..]), (1, &b"content"[..]));
    if version == 1 {
        send(&connection, &[3, 0, 0, 0, 0, 0, 0, 0], None);
    } else {
        // A message that only newer services know.
        send(&connection, &[99, 0, 0, 0, 1, 2, 3], None);
    }
    say("joined");
    parents_line();
}

fn killed(service: &Service, build: &str) -> u32 {
    let mut peer = Peer::start("child_of_another_build", service.folder.path(), build);
    peer.wait_for("joined");
    let pid = peer.pid();
    peer.kill();
    pid
}

#[test]
fn processes_of_older_and_newer_builds_leave_reports() {
    let service = Service::start(POLICY, &[]);
    for (nth, build) in ["old", "new"].into_iter().enumerate() {
        let pid = killed(&service, build);
        let reports = service.wait_for_reports(nth + 1);
        let read = read_trace(&service.trace(&reports[nth]));
        assert_eq!((read.0, read.3), (pid, CALLS as usize), "{build}");
    }
    assert!(
        !service.log().contains("is disconnected"),
        "{}",
        service.log()
    );
}

#[test]
fn what_has_no_common_version_is_refused_with_a_reason_and_harms_nobody() {
    let mut service = Service::start(POLICY, &[]);
    for (hello, reason) in [
        (hello((3, 4), 1, &[]), "versions 1 to 2 of the protocol"),
        (hello((0, 0), 1, &[]), "versions 1 to 2 of the protocol"),
        (
            hello((1, 2), 0, &[]),
            "the memory is of version 0, the service reads 1",
        ),
        (
            hello((1, 2), 2, &[]),
            "the memory is of version 2, the service reads 1",
        ),
    ] {
        let connection = Connection::new(service.folder.path());
        send(&connection, &hello, Some(&memory_of(1)));
        let said = FromService::decode(&receive(&connection)).unwrap();
        assert!(
            matches!(&said, Some(FromService::Refused { reason: why }) if why.contains(reason)),
            "{said:?}"
        );
        connection.wait_for_end();
    }
    service.assert_runs();
    killed(&service, "old");
    assert_eq!(service.wait_for_reports(1)[0]["process"], "old");
}

#[test]
fn memory_that_is_not_of_the_version_that_the_hello_says_is_not_read() {
    let mut service = Service::start(POLICY, &[]);
    for build in ["newer memory", "older memory"] {
        killed(&service, build);
        wait_for("the report fails", || {
            let log = service.log();
            let mut failed = log.lines().filter(|line| line.contains("of version 1"));
            failed.find(|line| line.contains("shared memory")).map(drop)
        });
        assert_eq!(service.reports(), [] as [serde_json::Value; 0]);
        service.assert_runs();
    }
    killed(&service, "old");
    assert_eq!(service.wait_for_reports(1).len(), 1);
}
