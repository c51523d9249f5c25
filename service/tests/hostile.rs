// SPDX-License-Identifier: Apache-2.0
//! Processes that break every rule: the service cuts them off, serves all others, and keeps nothing open.

mod common;

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use common::{
    as_child, as_root, hello, image, memory, parents_line, read_trace, say, wait_for, Connection,
    Peer, Service, POLICY,
};
use hindsight_service::os::{send_packet, Sent};
use hindsight_trace_format::container::Reader;
use hindsight_trace_format::protocol::{FromProcess, FromService, TakeOutcome, Trigger};

const CALLS: u64 = 50;

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_joins_and_waits() {
    let Some((folder, more)) = as_child() else {
        return;
    };
    let (name, uid) = more.split_once(' ').unwrap_or((&more, ""));
    if let Ok(uid) = uid.parse() {
        // SAFETY: takes a number; the child does nothing as another user than this one.
        assert_eq!(unsafe { libc::setuid(uid) }, 0);
    }
    let memory = memory(&image(name, CALLS));
    let connection = Connection::join(&folder, &hello(name), &memory);
    connection.wait_for_welcome();
    say("joined");
    parents_line();
}

/// A well-behaved process is served, and the service has no more descriptors than before.
fn check(service: &mut Service, name: &str, descriptors: usize) {
    service.assert_runs();
    // A process that another test starts has copies of this test's connections, until it executes its own program.
    wait_for("everything is closed", || {
        (service.descriptors() <= descriptors).then_some(())
    });
    let before = service.reports().len();
    let folder = service.folder.path();
    let mut peer = Peer::start("child_that_joins_and_waits", folder, name);
    peer.wait_for("joined");
    peer.kill();
    let reports = service.wait_for_reports(before + 1);
    assert_eq!(reports.last().unwrap()["process"], name);
    wait_for("everything is closed again", || {
        (service.descriptors() <= descriptors).then_some(())
    });
}

fn garbage(length: usize, seed: u64) -> Vec<u8> {
    let mut random = seed | 1;
    let next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn packets_that_are_none_end_the_connection() {
    let mut service = Service::start(POLICY, &[]);
    let descriptors = service.descriptors();
    let folder = service.folder.path().to_owned();
    let memory = memory(&image("x", 1));
    let hello = FromProcess::Hello(hello("x")).encode();
    let mut packets: Vec<Vec<u8>> = (1..60).map(|n| garbage(n * 7, n as u64)).collect();
    packets.push(garbage(4096, 1));
    packets.push(garbage(4097, 2));
    packets.push(garbage(100_000, 3));
    packets.extend((0..hello.len()).map(|length| hello[..length].to_vec()));
    // A cut message whose kind is right, a message before the hello, a second hello, a hello without memory.
    packets.push(FromProcess::Farewell.encode());
    packets.push(FromProcess::Held { rings: 1 }.encode());
    packets.push(hello.clone());
    for packet in packets.iter().filter(|packet| !packet.is_empty()) {
        let connection = Connection::new(&folder);
        let sent = send_packet(connection.0.as_fd(), packet, None);
        assert_eq!(sent, Sent::Bytes(packet.len()));
        // An unknown kind of message is ignored: then this is the end.
        let _ = send_packet(connection.0.as_fd(), &FromProcess::Farewell.encode(), None);
        connection.wait_for_end();
    }
    let connection = Connection::new(&folder);
    for _ in 0..2 {
        let _ = send_packet(connection.0.as_fd(), &hello, Some(memory.as_fd()));
    }
    connection.wait_for_end();
    let connection = Connection::new(&folder);
    let _ = send_packet(connection.0.as_fd(), &hello, Some(memory.as_fd()));
    connection.wait_for_welcome();
    let _ = send_packet(connection.0.as_fd(), &garbage(30, 9)[..3], None);
    connection.wait_for_end();
    drop(connection);
    // This process lives, so that its memory is still of interest; the last two joined.
    check(&mut service, "good", descriptors + 2 * 2);
}

#[test]
fn memory_that_is_none_is_refused_with_a_reason() {
    let mut service = Service::start(POLICY, &[]);
    let descriptors = service.descriptors();
    let folder = service.folder.path().to_owned();
    fs::write(folder.join("file"), image("x", 1)).unwrap();
    let (pipe, _other) = std::io::pipe().unwrap();
    let files: [OwnedFd; 6] = [
        File::open("/dev/zero").unwrap().into(),
        File::open(folder.join("file")).unwrap().into(),
        File::open("/").unwrap().into(),
        pipe.into(),
        memory(b"short").into(),
        Connection::new(&folder).0,
    ];
    for file in files {
        let connection = Connection::join(&folder, &hello("x"), &file.into());
        let reason = connection.wait(|message| match message {
            FromService::Refused { reason } => Some(reason.clone()),
            _ => None,
        });
        assert!(reason.contains("shared memory"), "{reason}");
        connection.wait_for_end();
    }
    check(&mut service, "good", descriptors);
}

/// Sends a packet with many descriptors.
fn flood(connection: &Connection, packet: &[u8], file: &File, count: usize) -> bool {
    let mut part = libc::iovec {
        iov_base: packet.as_ptr().cast_mut().cast(),
        iov_len: packet.len(),
    };
    let numbers = vec![file.as_raw_fd(); count];
    let bytes = std::mem::size_of_val(&numbers[..]) as u32;
    let mut control = vec![0_u64; 512];
    // SAFETY: the control data has room for all numbers (at most 253), and is aligned for its header.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(bytes) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
        std::ptr::copy_nonoverlapping(
            numbers.as_ptr().cast(),
            libc::CMSG_DATA(header),
            bytes as usize,
        );
        libc::sendmsg(connection.0.as_raw_fd(), &message, libc::MSG_NOSIGNAL) >= 0
    }
}

#[test]
fn floods_of_descriptors_are_closed() {
    let mut service = Service::start(POLICY, &[]);
    let descriptors = service.descriptors();
    let folder = service.folder.path().to_owned();
    let memory = memory(&image("x", 1));
    let hello = FromProcess::Hello(hello("x")).encode();
    for count in [2, 16, 253] {
        let connection = Connection::new(&folder);
        assert!(flood(&connection, &hello, &memory, count));
        connection.wait_for_end();
    }
    // One is received, with the hello, and none of later messages.
    let connection = Connection::new(&folder);
    assert!(flood(&connection, &hello, &memory, 1));
    connection.wait_for_welcome();
    let foreground = |is_foreground| FromProcess::Foreground {
        is_foreground,
        tid: 0,
    };
    for n in 0..100 {
        assert!(flood(
            &connection,
            &foreground(n % 2 == 0).encode(),
            &memory,
            4
        ));
    }
    // Socket, process and memory.
    wait_for("there are no others", || {
        (service.descriptors() == descriptors + 3).then_some(())
    });
    assert!(service.ask("status")[0] == "ok");
    drop(connection);
    check(&mut service, "good", descriptors + 2);
}

#[test]
fn a_thousand_connections_of_one_user_leave_room_for_others() {
    let mut service = Service::start(POLICY, &[]);
    let folder = service.folder.path().to_owned();
    let descriptors = service.descriptors();
    let mut connections = Vec::new();
    for _ in 0..1000 {
        connections.push(Connection::new(&folder));
    }
    service.assert_runs();
    let processes = wait_for("all are accepted or refused", || {
        let is_closed = |c: &Connection| {
            let mut poll = libc::pollfd {
                fd: c.0.as_raw_fd(),
                events: 0,
                revents: 0,
            };
            // SAFETY: one valid entry; the call does not wait.
            unsafe { libc::poll(&mut poll, 1, 0) };
            poll.revents & libc::POLLHUP != 0
        };
        let open = connections.iter().filter(|c| !is_closed(c)).count();
        (open <= 64).then_some(open)
    });
    assert!(processes <= 64);
    if as_root() {
        let mut peer = Peer::start("child_that_joins_and_waits", &folder, "other 10123");
        peer.wait_for("joined");
        peer.kill();
        assert_eq!(service.wait_for_reports(1)[0]["uid"], 10_123);
    }
    drop(connections);
    check(&mut service, "good", descriptors);
}

#[test]
fn who_says_nothing_or_half_closes_is_cut_off() {
    let mut service = Service::start(POLICY, &[]);
    let descriptors = service.descriptors();
    let folder = service.folder.path().to_owned();
    let silent: Vec<Connection> = (0..10).map(|_| Connection::new(&folder)).collect();
    let half = Connection::new(&folder);
    // SAFETY: takes numbers; the descriptor is open.
    unsafe { libc::shutdown(half.0.as_raw_fd(), libc::SHUT_WR) };
    half.wait_for_end();
    let memory = memory(&image("x", 1));
    let half = Connection::join(&folder, &hello("half"), &memory);
    half.wait_for_welcome();
    // SAFETY: takes numbers; the descriptor is open.
    unsafe { libc::shutdown(half.0.as_raw_fd(), libc::SHUT_WR) };
    half.wait_for_end();
    let lost = |service: &Service| {
        let status = service.status();
        let processes = status["engine"]["processes"].as_array().unwrap();
        let half = processes.iter().find(|p| p["name"] == "half").unwrap();
        half["connection"] == "lost"
    };
    wait_for("the engine knows", || lost(&service).then_some(()));
    silent.iter().for_each(Connection::wait_for_end);
    assert!(service.log().contains("it does not say hello"));
    check(&mut service, "good", descriptors + 2);
}

#[test]
fn who_does_not_read_is_disconnected() {
    let mut service = Service::start(POLICY, &[]);
    let folder = service.folder.path().to_owned();
    let memory = memory(&image("x", 1));
    let connection = Connection::join(&folder, &hello("x"), &memory);
    connection.wait_for_welcome();
    let mut revision = 1;
    wait_for("its buffer is full", || {
        let categories = ["[\"waits\"]", "[\"tasks\"]"][revision % 2];
        revision += 1;
        let policy = format!("{POLICY}[record]\ncategories = {categories}\n");
        let answer = service.ask(&format!("policy -\n{policy}"));
        assert_eq!(answer[0], "ok");
        // The log may have left out the line that says so.
        (service.status()["connected"] == 0).then_some(())
    });
    service.assert_runs();
    drop(connection);
}

#[test]
fn too_many_packets_end_the_connection() {
    let mut service = Service::start(POLICY, &[]);
    let folder = service.folder.path().to_owned();
    let memory = memory(&image("x", 1));
    let connection = Connection::join(&folder, &hello("x"), &memory);
    connection.wait_for_welcome();
    let trigger = FromProcess::Trigger(Trigger::default());
    wait_for("nothing more can be sent", || {
        (!connection.send(&trigger)).then_some(())
    });
    connection.wait_for_end();
    assert!(service.log().contains("it sends too many packets"));
    service.assert_runs();
}

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_sends_the_memory_of_another() {
    let Some((folder, path)) = as_child() else {
        return;
    };
    let other = File::options().read(true).write(true).open(path).unwrap();
    let connection = Connection::join(&folder, &hello("thief"), &other);
    connection.wait_for_welcome();
    say("joined");
    parents_line();
}

#[test]
fn a_report_has_the_kernels_account_of_the_process() {
    let service = Service::start(POLICY, &[]);
    // Its memory says that it belongs to this process.
    let victims = memory(&image("victim", CALLS));
    let path = format!("/proc/{}/fd/{}", std::process::id(), victims.as_raw_fd());
    let folder = service.folder.path();
    let mut thief = Peer::start("child_that_sends_the_memory_of_another", folder, &path);
    thief.wait_for("joined");
    let pid = thief.pid();
    thief.kill();
    let reports = service.wait_for_reports(1);
    assert_eq!(reports[0]["pid"], pid);
    let trace = service.trace(&reports[0]);
    assert_eq!(read_trace(&trace).0, pid);
    let losses = Reader::new(&trace).unwrap().losses().unwrap().counts;
    assert!(losses
        .iter()
        .any(|(what, _)| what.contains("names another process")));
}

#[test]
fn reports_of_other_users_carry_their_user() {
    if !as_root() {
        return;
    }
    let service = Service::start(POLICY, &[]);
    let folder = service.folder.path();
    let mut peer = Peer::start("child_that_joins_and_waits", folder, "other 10123");
    peer.wait_for("joined");
    peer.kill();
    let reports = service.wait_for_reports(1);
    assert_eq!(reports[0]["uid"], 10_123);
    assert_eq!(read_trace(&service.trace(&reports[0])).1, 10_123);
}

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_changes_its_memory_all_the_time() {
    let Some((folder, seed)) = as_child() else {
        return;
    };
    let image = image("changing", CALLS);
    let shared = memory(&image);
    let connection = Connection::join(&folder, &hello("changing"), &shared);
    connection.wait_for_welcome();
    say("joined");
    let file = shared.try_clone().unwrap();
    let mut seed: u64 = seed.parse().unwrap();
    // Dies with the process.
    std::thread::spawn(move || loop {
        // The header's first bytes stay, so that the reader goes on.
        let noise = garbage(64, seed);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = 16 + (seed >> 20) % (image.len() as u64 - 80);
        // Mostly the header, and the controls of the rings behind it.
        let at = if seed >> 62 == 0 {
            at
        } else {
            16 + at % 12_000
        };
        file.write_all_at(&noise, at).unwrap();
        if seed >> 58 == 0 {
            file.write_all_at(&image, 0).unwrap();
        }
    });
    loop {
        let report = connection.wait(|message| match message {
            FromService::Take { report } => Some(*report),
            _ => None,
        });
        let outcome = TakeOutcome::Taken;
        connection.send(&FromProcess::Taken { report, outcome });
    }
}

#[test]
fn memory_that_changes_while_it_is_read_is_read_or_refused() {
    let mut service = Service::start(POLICY, &[]);
    let descriptors = service.descriptors();
    let mut answers = (0, 0);
    for seed in 1..5 {
        let folder = service.folder.path();
        let test = "child_that_changes_its_memory_all_the_time";
        let mut peer = Peer::start(test, folder, &seed.to_string());
        peer.wait_for("joined");
        let command = format!("report {} a reason", peer.pid());
        for _ in 0..25 {
            match service.ask(&command)[0].as_str() {
                "ok" => answers.0 += 1,
                _ => answers.1 += 1,
            }
        }
        peer.kill();
    }
    println!("{answers:?} written and refused");
    for report in service.reports() {
        let trace = service.trace(&report);
        let reader = Reader::new(&trace).unwrap();
        reader.verify_all().unwrap();
        assert_eq!(
            u64::from(reader.process().unwrap().pid),
            report["pid"].as_u64().unwrap()
        );
    }
    check(&mut service, "good", descriptors);
}
