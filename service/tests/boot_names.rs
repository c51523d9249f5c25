// SPDX-License-Identifier: Apache-2.0
//! One process names the boot image's methods for those that are killed before they have written their names.

mod common;

use std::fs;
use std::mem::offset_of;

use hindsight_testkit::{Script, FIRST_METHOD};
use hindsight_trace_format::container::Reader;
use hindsight_trace_format::protocol::FromProcess;
use hindsight_trace_format::shared::Header;

use common::{
    as_child, as_root, hello, memory, parents_line, say, wait_for, Connection, Peer, Service,
    POLICY,
};

/// From the image's begin to the method.
const PLACE: u64 = 0x1000;

/// What a child does.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// It writes the names of its classes, and says so.
    Gives,
    /// It is killed before.
    IsEarly,
    /// As it, with its boot image at another address.
    IsEarlyElsewhere,
    /// As it, with another boot image.
    IsEarlyWithAnotherImage,
}

const PARTS: [(&str, Part); 4] = [
    ("gives", Part::Gives),
    ("early", Part::IsEarly),
    ("elsewhere", Part::IsEarlyElsewhere),
    ("another", Part::IsEarlyWithAnotherImage),
];

fn put(image: &mut [u8], at: usize, value: u64) {
    image[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The memory of a process that has run one method of the boot image.
fn image_of(part: Part) -> Vec<u8> {
    let mut script = Script::new("com.example");
    script.process.pid = std::process::id();
    script.ring_log2_bytes(16);
    let mut method = FIRST_METHOD;
    let others = if part == Part::IsEarlyElsewhere { 3 } else { 0 };
    for _ in 0..others {
        script.method("com.example.Other.other", "()V");
    }
    method += 40 * others;
    assert_eq!(script.method("java.lang.Boot.work", "(I)V"), method);
    let thread = script.thread(std::process::id(), "main");
    script.at(thread, 100).call(method, 50);
    let mut image = script.shared_memory();
    let checksum = if part == Part::IsEarlyWithAnotherImage {
        8
    } else {
        7
    };
    let facts = [checksum, method - PLACE, 2 * PLACE];
    for (number, value) in facts.into_iter().enumerate() {
        put(
            &mut image,
            offset_of!(Header, boot_image) + 8 * number,
            value,
        );
    }
    if part != Part::Gives {
        put(&mut image, offset_of!(Header, are_named), 0);
        put(&mut image, offset_of!(Header, committed), 0);
    }
    image
}

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_has_a_boot_image() {
    let Some((folder, more)) = as_child() else {
        return;
    };
    let (part, uid) = more.split_once(' ').unwrap();
    let part = PARTS.iter().find(|(name, _)| *name == part).unwrap().1;
    if let Ok(uid) = uid.parse::<u32>() {
        // SAFETY: takes numbers.
        assert_eq!(unsafe { libc::setresuid(uid, uid, uid) }, 0);
    }
    let memory = memory(&image_of(part));
    let connection = Connection::join(&folder, &hello("com.example"), &memory);
    connection.wait_for_welcome();
    if part == Part::Gives {
        assert!(connection.send(&FromProcess::Named));
    }
    say("joined");
    parents_line();
}

fn start(service: &Service, more: &str) -> Peer {
    let test = "child_that_has_a_boot_image";
    let mut peer = Peer::start(test, service.folder.path(), more);
    peer.wait_for("joined");
    peer
}

/// A process gives its names; waits until the service has them. Its own end is the first report.
fn give(service: &Service) {
    let peer = start(service, "gives same");
    wait_for("the names are kept", || {
        service.log().contains("1 methods").then_some(())
    });
    peer.kill();
    service.wait_for_reports(1);
}

/// The names in the report of a process that is killed before it has named anything, and what its losses say.
fn names_of(service: &Service, part: &str) -> (Vec<String>, u64) {
    let before = service.reports().len();
    start(service, &format!("{part} same")).kill();
    let reports = service.wait_for_reports(before + 1);
    let trace = service.trace(reports.last().unwrap());
    let reader = Reader::new(&trace).unwrap();
    let symbols = reader.symbols().unwrap().symbols;
    let names = symbols
        .iter()
        .map(|s| format!("{}.{}{}", s.class, s.name, s.signature));
    let losses = reader.losses().unwrap().counts;
    let unnamed = losses
        .iter()
        .filter(|(what, _)| what.starts_with("methods without a name"));
    (names.collect(), unnamed.map(|(_, count)| count).sum())
}

fn named() -> (Vec<String>, u64) {
    (vec!["java.lang.Boot.work(I)V".to_owned()], 0)
}

fn nothing() -> (Vec<String>, u64) {
    (Vec::new(), 1)
}

#[test]
fn a_process_that_is_killed_before_it_has_names_gets_those_of_the_boot_image() {
    let mut service = Service::start(POLICY, &[]);
    assert_eq!(names_of(&service, "early"), nothing());
    give(&service);
    assert_eq!(names_of(&service, "early"), named());
    assert_eq!(names_of(&service, "elsewhere"), named());
    assert_eq!(names_of(&service, "another"), nothing());
    service.end();
    service.start_again();
    assert_eq!(names_of(&service, "elsewhere"), named());
}

#[test]
fn damaged_names_are_not_used_and_are_replaced() {
    let service = Service::start(POLICY, &[]);
    give(&service);
    let path = service.path("store").join("names-64.state");
    let good = fs::read(&path).unwrap();
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    for bytes in [&bad[..], &good[..good.len() / 2], b""] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(names_of(&service, "early"), nothing());
    }
    let peer = start(&service, "gives same");
    wait_for("the names are kept again", || {
        (fs::read(&path).unwrap() == good).then_some(())
    });
    assert_eq!(names_of(&service, "early"), named());
    drop(peer);
}

#[test]
fn an_app_gives_no_names_to_others() {
    if !as_root() {
        return;
    }
    let service = Service::start(POLICY, &[]);
    start(&service, "gives 10123").kill();
    // Its names would have been kept before this report, which waits for the disk after them.
    service.wait_for_reports(1);
    assert!(!service.path("store").join("names-64.state").exists());
    assert_eq!(names_of(&service, "early"), nothing());
    start(&service, "gives 1000").kill();
    service.wait_for_reports(3);
    assert_eq!(names_of(&service, "early"), named());
}
