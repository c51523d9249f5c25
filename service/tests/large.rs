// SPDX-License-Identifier: Apache-2.0
//! How much memory the service takes for large rings, and while it does nothing.

mod common;

use std::fs;

use common::{
    as_child, bomb, hello, memory, parents_line, read_trace, say, Bomb, Connection, Peer, Service,
    POLICY,
};
use hindsight_testkit::Script;
use hindsight_trace_format::container::Reader;
use hindsight_trace_format::shared::ReadLimits;

const RING_LOG2: u32 = 25;
const MIB: u64 = 1 << 20;

/// A number in kB of the service's status, in bytes.
fn status_of(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() << 10
}

/// Two full rings, with calls that LZ4 cannot shorten much.
fn large_image(name: &str) -> Vec<u8> {
    let mut script = Script::new(name);
    script.process.pid = std::process::id();
    script.ring_log2_bytes(RING_LOG2);
    let methods: Vec<u64> = (0..1000)
        .map(|n| script.method(&format!("com.example.C{n}.work"), "()V"))
        .collect();
    let mut random = 1_u64;
    for tid in [std::process::id(), std::process::id() + 1] {
        let thread = script.thread(tid, "worker");
        let slots = 1_u64 << (RING_LOG2 - 3);
        let mut at = 10;
        for _ in 0..slots * 9 / 20 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let method = methods[(random >> 33) as usize % methods.len()];
            at += 2 + (random >> 50);
            script.at(thread, at).call(method, 1);
        }
    }
    script.shared_memory()
}

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_with_large_rings() {
    let Some((folder, name)) = as_child() else {
        return;
    };
    let memory = memory(&large_image(&name));
    let mut hello = hello(&name);
    hello.ring_bytes = 1 << RING_LOG2;
    hello.other_bytes = 1 << 20;
    let connection = Connection::join(&folder, &hello, &memory);
    connection.wait_for_welcome();
    say("joined");
    parents_line();
}

/// What a hostile process has of names and stacks, and what it was given for them, bytes.
const BOMB_BYTES: usize = 24 << 20;

#[test]
#[ignore = "runs only as a child of the test below"]
fn child_with_many_methods() {
    let Some((folder, name)) = as_child() else {
        return;
    };
    let memory = memory(&bomb(Bomb::OwnNames, BOMB_BYTES));
    let mut hello = hello(&name);
    hello.other_bytes = BOMB_BYTES as u64;
    let connection = Connection::join(&folder, &hello, &memory);
    connection.wait_for_welcome();
    say("joined");
    parents_line();
}

#[test]
fn many_methods_take_no_more_memory_than_the_budget_counts() {
    let service = Service::start(POLICY, &["--keep-mib", "1024"]);
    let mut peer = Peer::start("child_with_many_methods", service.folder.path(), "bomb");
    peer.wait_for("joined");
    let before = status_of(service.pid(), "VmRSS");
    peer.kill();
    let reports = service.wait_for_reports(1);
    let peak = status_of(service.pid(), "VmHWM");
    let trace = service.trace(&reports[0]);
    let reader = Reader::new(&trace).unwrap();
    assert!(!reader.symbols().unwrap().symbols.is_empty());
    let losses = reader.losses().unwrap().counts;
    let is_left_out = |what: &str| losses.iter().any(|(loss, _)| loss.contains(what));
    assert!(is_left_out("too many"), "{losses:?}");
    let counted = ReadLimits::granted(1, 1 << 16, BOMB_BYTES as u64).memory;
    println!(
        "{} MiB counted for one report; {} MiB before it, {} MiB at most",
        counted / MIB,
        before / MIB,
        peak / MIB
    );
    assert!(peak < before + counted + 4 * MIB, "{peak}, {before}");
}

#[test]
fn one_ring_at_a_time_is_in_memory() {
    // The service reads as many rings as it has given.
    let policy = POLICY.replace("call-rings = 64", "call-rings = 64\nrings-per-process = 2");
    let service = Service::start(&policy, &["--keep-mib", "1024"]);
    let mut peer = Peer::start("child_with_large_rings", service.folder.path(), "large");
    peer.wait_for("joined");
    let before = status_of(service.pid(), "VmRSS");
    peer.kill();
    let reports = service.wait_for_reports(1);
    let peak = status_of(service.pid(), "VmHWM");
    let after = status_of(service.pid(), "VmRSS");
    let trace = service.trace(&reports[0]);
    let (.., entries) = read_trace(&trace);
    assert!(entries > 1 << 20, "{entries}");
    assert_eq!(Reader::new(&trace).unwrap().ring_indices().count(), 2);
    println!(
        "two rings of {} MiB: {} MiB before, {} MiB at most, {} MiB after; a file of {} MiB",
        (1 << RING_LOG2) / MIB,
        before / MIB,
        peak / MIB,
        after / MIB,
        trace.len() as u64 / MIB
    );
    let ring = 1 << RING_LOG2;
    assert!(peak < before + ring + 12 * MIB, "{peak}, {before}");
    assert!(after < before + 8 * MIB, "{after}, {before}");
}
