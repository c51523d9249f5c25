// SPDX-License-Identifier: Apache-2.0
//! Services of older and newer builds. What they say is written here byte by byte, and never changes.

mod common;

use common::service::{until, FakeService, Peer};
use common::workers::{numbers, waits, Process, Task, Worker};
use hindsight_runtime::Severity;
use hindsight_trace_format::protocol::FromProcess;

/// Version 1 is spoken.
const WELCOME_1: [u8; 8] = [1, 0, 0, 0, 1, 0, 0, 0];
/// Revision 1, two rings of calls, no event, `consent=names`.
const CONFIGURE_1: [u8; 29] = [
    3, 0, 0, 0, // configure
    1, 0, 0, 0, 0, 0, 0, 0, // revision
    2, 0, 0, 0, // rings of calls
    0, 0, 0, 0, // categories
    5, 0, 0, 0, b'n', b'a', b'm', b'e', b's',
];
const TAKE_1: [u8; 12] = [4, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
const RELEASE_1: [u8; 12] = [5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];

fn held(peer: &mut Peer) -> u32 {
    loop {
        match peer.next() {
            Some(FromProcess::Held { rings }) => return rings,
            Some(_) => {}
            None => panic!("the process has ended the connection"),
        }
    }
}

#[test]
fn an_old_service_is_obeyed_and_a_newer_one_of_the_same_version_too() {
    for more in [&[][..], &[1, 2, 3, 4, 5, 6, 7, 8]] {
        let (process, service) = Process::start("trace=all,ring=16", FakeService::at);
        std::thread::scope(|scope| {
            let worker = Worker::start(scope, &process);
            let (mut peer, hello) = service.accept();
            assert_eq!((hello.versions, hello.memory_version), ((1, 2), 1));
            // A newer service's packets are longer, and some are unknown.
            let say = |peer: &Peer, packet: &[u8]| {
                if !more.is_empty() {
                    peer.send_raw(&[99, 0, 0, 0, 1], None);
                }
                assert!(peer.send_raw(&[packet, more].concat(), None));
            };
            say(&peer, &WELCOME_1);
            say(&peer, &CONFIGURE_1);
            assert_eq!(held(&mut peer), 1);
            until("it is traced", || worker.is_traced());
            worker.record(100);
            say(&peer, &TAKE_1);
            loop {
                match peer.next() {
                    Some(FromProcess::Taken { report, .. }) => break assert_eq!(report, 7),
                    Some(_) => {}
                    None => panic!("the process has ended the connection"),
                }
            }
            assert_eq!(numbers(&peer.read().rings), (1..=100).collect::<Vec<_>>());
            say(&peer, &RELEASE_1);
            assert_eq!(peer.configure(2, waits()), 1);
        });
        process.recorder.shutdown();
    }
}

#[test]
fn a_process_without_a_common_version_records_nothing_until_another_service_configures_it() {
    /// `too new`, as any build says it.
    const REFUSED: [u8; 15] = [
        2, 0, 0, 0, 7, 0, 0, 0, b't', b'o', b'o', b' ', b'n', b'e', b'w',
    ];
    const WELCOME_3: [u8; 8] = [1, 0, 0, 0, 3, 0, 0, 0];
    for (says, logged) in [
        (&REFUSED[..], "does not want this process: too new"),
        (&WELCOME_3[..], "the service speaks version 3"),
    ] {
        let options = "trace=all,ring=16,events=waits";
        let (process, service) = Process::start(options, FakeService::at);
        std::thread::scope(|scope| {
            let worker = Worker::start(scope, &process);
            let (mut peer, _) = service.accept();
            worker.record(10);
            assert_ne!(peer.read().rings, [], "events, until the service answers");
            assert!(peer.send_raw(says, None));
            assert!(peer.ends());
            until("what it has recorded is gone", || {
                peer.read().rings.is_empty()
            });
            let (is_traced, events) = worker.ask(Task::Look);
            assert!(!is_traced && events & waits() == 0, "{events:#x}");
            worker.record(10);
            assert_eq!(peer.read().rings, []);
            assert!(process.world.logged(Severity::Warning, logged));
            drop((peer, service));
            // No service at all: still nothing.
            std::fs::remove_file(process.socket()).unwrap();
            process.recorder.thread_in_foreground(worker.tid);
            process.settle();
            assert!(!worker.is_traced());
            let service = FakeService::at(&process.socket());
            let (peer, _, held) = service.welcome(2, waits());
            assert_eq!(held, 1);
            worker.record(10);
            assert_eq!(numbers(&peer.read().rings), (21..=30).collect::<Vec<_>>());
        });
        process.recorder.shutdown();
    }
}
