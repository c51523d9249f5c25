// SPDX-License-Identifier: Apache-2.0
//! The service ends, is killed, and starts again; and it does nothing while nothing happens.

mod common;

use std::collections::BTreeSet;
use std::fs;

use common::{
    as_child, hello, image, memory, parents_line, read_trace, say, signal, wait_for, Connection,
    Peer, Service, SmallDisk, POLICY,
};
use hindsight_trace_format::container::Reader;

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_joins_again_and_again() {
    let Some((folder, name)) = as_child() else {
        return;
    };
    let memory = memory(&image(&name, 100));
    std::thread::spawn(|| {
        parents_line();
        std::process::exit(0);
    });
    let mut hello = hello(&name);
    hello.is_foreground = !name.starts_with("background");
    loop {
        let connection = Connection::join(&folder, &hello, &memory);
        say("joined");
        connection.wait_for_end();
        say("lost");
        // It goes on with the ring that it has.
        hello.held = 1;
    }
}

fn joined(service: &Service, name: &str) -> Peer {
    let folder = service.folder.path();
    let mut peer = Peer::start("child_that_joins_again_and_again", folder, name);
    peer.wait_for("joined");
    wait_for("the engine knows it", || {
        let status = service.try_ask("status")?;
        status
            .get(1)?
            .contains(&format!("\"{name}\""))
            .then_some(())
    });
    peer
}

/// All reports can be read, and nothing else is in the folder.
fn check_store(service: &Service) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    for report in service.reports() {
        let trace = service.trace(&report);
        Reader::new(&trace).unwrap().verify_all().unwrap();
        assert_eq!(read_trace(&trace).3, 100);
        assert!(numbers.insert(report["report"].as_u64().unwrap()));
    }
    let files = fs::read_dir(service.path("store")).unwrap();
    for file in files {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(!name.starts_with('.'), "{name} is left behind");
    }
    numbers
}

#[test]
fn a_service_that_is_killed_at_any_moment_goes_on() {
    let mut service = Service::start(POLICY, &[]);
    let mut highest = 0;
    for round in 0..20_u64 {
        let peers: Vec<Peer> = (0..4)
            .map(|n| joined(&service, &format!("app{round}.{n}")))
            .collect();
        let mut peers = peers.into_iter();
        let mut survivor = peers.next().unwrap();
        peers.for_each(Peer::kill);
        // The three reports are being decided on, written or published.
        for _ in 0..round * 997 {
            std::thread::yield_now();
        }
        service.kill();
        service.start_again();
        survivor.wait_for("lost");
        survivor.wait_for("joined");
        let name = format!("app{round}.0");
        wait_for("it is back", || {
            service.ask("status")[1].contains(&name).then_some(())
        });
        let pid = survivor.pid();
        survivor.kill();
        let report = wait_for("the survivor's report", || {
            let mut reports = service.reports().into_iter();
            reports.find(|report| report["pid"] == pid && report["process"] == *name)
        });
        let number = report["report"].as_u64().unwrap();
        assert!(number > highest, "{number} after {highest}");
        highest = *check_store(&service).last().unwrap();
    }
}

#[test]
fn sigterm_ends_it_when_all_is_written() {
    let mut service = Service::start(POLICY, &[]);
    let peers: Vec<Peer> = (0..8)
        .map(|n| joined(&service, &format!("app{n}")))
        .collect();
    peers.into_iter().for_each(Peer::kill);
    wait_for("the ends are noticed", || {
        let status = service.status();
        let processes = status["engine"]["processes"].as_array().unwrap();
        let is_connected = |p: &serde_json::Value| p["connection"] != "ended";
        (!processes.iter().any(is_connected)).then_some(())
    });
    service.end();
    assert!(!service.path("socket").exists() && !service.path("commands").exists());
    assert!(service.log().contains("asked to end"));
    service.start_again();
    assert_eq!(check_store(&service).len(), 8);
}

#[test]
fn limits_hold_over_restarts_and_close_when_they_are_lost() {
    let policy = POLICY.replace("per-uid = 1000", "per-uid = 3");
    let mut service = Service::start(&policy, &[]);
    let refused = |service: &Service, outcome: &str| {
        service.status()["engine"]["reports"][outcome].as_u64() == Some(1)
    };
    for n in 0..3 {
        joined(&service, &format!("app{n}")).kill();
        service.wait_for_reports(n + 1);
        service.kill();
        service.start_again();
    }
    joined(&service, "more").kill();
    wait_for("the limit", || refused(&service, "uid-limit").then_some(()));
    let limits = service.path("store").join("limits.state");
    type Damage = fn(&std::path::Path);
    let damages: [Damage; 3] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::write(path, "").unwrap(),
        |path| {
            let text = fs::read_to_string(path).unwrap();
            fs::write(path, text.replacen("report", "upload", 1)).unwrap();
        },
    ];
    for damage in damages {
        service.kill();
        damage(&limits);
        service.start_again();
        assert!(service.log().contains("the list of admitted reports: "));
        joined(&service, "more").kill();
        wait_for("nothing is admitted", || {
            refused(&service, "limits-closed").then_some(())
        });
    }
    assert_eq!(service.reports().len(), 3);
}

#[test]
fn a_full_disk_does_not_stop_the_service() {
    let Some(disk) = SmallDisk::new(64 << 10) else {
        return;
    };
    let store = disk.path().to_str().unwrap().to_owned();
    let service = Service::start(POLICY, &["--store", &store]);
    joined(&service, "first").kill();
    service.wait_for_reports(1);
    fs::write(disk.path().join("filler"), vec![1; 1 << 20]).unwrap_err();
    joined(&service, "second").kill();
    wait_for("the report is refused", || {
        let reports = &service.status()["engine"]["reports"];
        (reports["not-written"] == 1).then_some(())
    });
    assert!(
        service.log().contains("cannot be saved"),
        "{}",
        service.log()
    );
    assert_eq!(service.reports().len(), 1);
    fs::remove_file(disk.path().join("filler")).unwrap();
    joined(&service, "third").kill();
    let reports = service.wait_for_reports(2);
    assert_eq!(reports[1]["process"], "third");
}

#[test]
fn nothing_wakes_an_idle_service() {
    let service = Service::start(POLICY, &[]);
    let peers: Vec<Peer> = (0..20)
        .map(|n| joined(&service, &format!("background{n}")))
        .collect();
    // The clients that asked are gone, and all processes have said hello: no timer is set.
    let folder = format!("/proc/{}/fdinfo", service.pid());
    wait_for("no timer is set", || {
        let files = fs::read_dir(&folder).unwrap();
        let texts = files.filter_map(|file| fs::read_to_string(file.ok()?.path()).ok());
        let timer = texts.into_iter().find(|text| text.contains("it_value"));
        let timer = timer.expect("the service has a timer");
        timer.contains("it_value: (0, 0)").then_some(())
    });
    drop(peers);
}

#[test]
fn two_services_do_not_share_sockets_or_folders() {
    let service = Service::start(POLICY, &[]);
    let run = |arguments: &[&std::ffi::OsStr]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hindsightd"));
        let output = command.args(arguments).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let [socket, store, other, text] =
        ["socket", "store", "other", "policy.toml"].map(|name| service.path(name));
    let second = run(&[
        "--socket".as_ref(),
        socket.as_ref(),
        "--store".as_ref(),
        other.as_ref(),
    ]);
    assert!(second.contains("another process listens"), "{second}");
    let second = run(&[
        "--socket".as_ref(),
        other.as_ref(),
        "--store".as_ref(),
        store.as_ref(),
    ]);
    assert!(second.contains("another hindsightd uses"), "{second}");
    let second = run(&[
        "--socket".as_ref(),
        text.as_ref(),
        "--store".as_ref(),
        other.as_ref(),
    ]);
    assert!(second.contains("is no socket"), "{second}");
    let second = run(&[
        "--socket-fd".as_ref(),
        "99".as_ref(),
        "--store".as_ref(),
        other.as_ref(),
    ]);
    assert!(second.contains("descriptor 99"), "{second}");
    signal(service.pid(), libc::SIGCONT);
    assert_eq!(service.ask("reports"), ["ok"]);
}
