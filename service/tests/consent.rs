// SPDX-License-Identifier: Apache-2.0
//! Choices about consent at run time.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use common::{
    hello, image, join_and_wait, memory, signal, wait_for, Connection, Peer, Service, SmallDisk,
    POLICY,
};
use hindsight_trace_format::protocol::FromService;

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_joins_and_waits() {
    join_and_wait(10);
}

/// Nobody was asked, and an end user is asked first.
fn unasked() -> String {
    POLICY.replace("unasked = \"full\"", "unasked = \"none\"")
}

fn joined(service: &Service, name: &str) -> Peer {
    let mut peer = Peer::start("child_that_joins_and_waits", service.folder.path(), name);
    peer.wait_for("joined");
    wait_for("the engine knows it", || {
        let name = format!("\"{name}\"");
        service.ask("status")[1].contains(&name).then_some(())
    });
    peer
}

fn shown(service: &Service) -> serde_json::Value {
    let lines = service.ask("consent show");
    assert_eq!(lines[0], "ok");
    serde_json::from_str(&lines[1]).unwrap()
}

/// The level that holds after a command.
fn chosen(service: &Service, command: &str) -> String {
    let lines = service.ask(command);
    assert_eq!(lines[0], "ok", "{lines:?}");
    let answer: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
    answer["level"].as_str().unwrap().to_owned()
}

#[test]
fn a_choice_reaches_running_processes_and_a_withdrawal_removes_their_reports() {
    let service = Service::start(&unasked(), &[]);
    // SAFETY: no precondition.
    let uid = unsafe { libc::geteuid() };
    let user = (uid / 100_000).to_string();
    let memory = memory(&image("app", 10));
    let connection = Connection::join(service.folder.path(), &hello("app"), &memory);
    let configured = |is_on: bool| {
        connection.wait(|message| match message {
            FromService::Configure(c) => ((c.categories != 0) == is_on).then_some(()),
            _ => None,
        });
    };
    assert_eq!(shown(&service)["levels"][&user], "none");
    assert_eq!(chosen(&service, "consent set signatures"), "signatures");
    configured(true);
    let show = shown(&service);
    assert_eq!(show["choices"]["device"]["level"], "signatures");
    assert_eq!(show["choices"]["device"]["by"], uid);
    assert!(show["choices"]["device"]["at_s"].as_u64().unwrap() > 1_500_000_000);

    let other = joined(&service, "other");
    other.kill();
    let reports = service.wait_for_reports(1);
    assert_eq!(reports[0]["consent"], "names");
    // Less is allowed than the report has in it.
    assert_eq!(chosen(&service, "consent set summary"), "summary");
    assert_eq!(service.reports().len(), 0);
    joined(&service, "third").kill();
    service.wait_for_reports(1);
    // More is allowed: the report stays.
    assert_eq!(chosen(&service, "consent set full"), "full");
    assert_eq!(service.reports().len(), 1);

    assert_eq!(chosen(&service, "consent withdraw"), "none");
    connection.wait(|message| match message {
        FromService::Configure(c) => (c.categories == 0).then_some(()),
        _ => None,
    });
    assert_eq!(service.reports().len(), 0);
    let files = fs::read_dir(service.path("store")).unwrap();
    for file in files {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(name.ends_with(".state"), "{name} is left");
    }
}

#[test]
fn a_user_of_the_device_has_a_choice_of_its_own() {
    let mut service = Service::start(&unasked(), &[]);
    assert_eq!(chosen(&service, "consent set full"), "full");
    assert_eq!(chosen(&service, "consent withdraw user 10"), "none");
    assert_eq!(chosen(&service, "consent set summary user 11"), "summary");
    service.kill();
    service.start_again();
    let show = shown(&service);
    assert_eq!(show["others"], "full");
    let level = |user: &str| show["levels"][user].as_str().unwrap().to_owned();
    assert_eq!(
        [level("0"), level("10"), level("11")],
        ["full", "none", "summary"]
    );
    // For everybody: nobody's choice is left.
    assert_eq!(chosen(&service, "consent withdraw"), "none");
    let show = shown(&service);
    assert_eq!(show["choices"]["users"], serde_json::json!({}));
    assert_eq!(show["others"], "none");
    // The first user's own choice is not the others'.
    assert_eq!(chosen(&service, "consent set full user 0"), "full");
    let show = shown(&service);
    assert_eq!(
        (&show["levels"]["0"], &show["others"]),
        (&"full".into(), &"none".into())
    );
}

#[test]
fn the_choice_and_the_reports_of_a_removed_user_are_forgotten() {
    let mut service = Service::start(&unasked(), &["--user", "internal"]);
    // SAFETY: no precondition.
    let user = (unsafe { libc::geteuid() } / 100_000).to_string();
    let forget = |service: &Service| chosen(service, &format!("consent forget user {user}"));
    chosen(&service, "consent set summary");
    chosen(&service, &format!("consent set full user {user}"));
    chosen(&service, "consent set full user 12");
    joined(&service, "app").kill();
    service.wait_for_reports(1);
    assert_eq!(chosen(&service, "consent forget user 11"), "summary");
    assert_eq!(service.reports().len(), 1, "another user's");
    assert_eq!(forget(&service), "summary");
    assert_eq!(service.reports().len(), 0);
    let users = shown(&service)["choices"]["users"].clone();
    assert_eq!(
        users.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["12"]
    );
    service.kill();
    service.start_again();
    assert_eq!(shown(&service)["choices"]["users"], users);
    // Lost choices allow nothing, and are no reason to keep these reports.
    joined(&service, "app").kill();
    service.wait_for_reports(1);
    service.kill();
    fs::write(service.path("store").join("consent.state"), "").unwrap();
    service.start_again();
    assert_eq!(service.reports().len(), 1);
    assert_eq!(forget(&service), "none");
    assert_eq!(service.reports().len(), 0);
    assert_eq!(shown(&service)["choices"]["are_lost"], true);
    let refused = service.ask("consent forget user 42949");
    assert!(refused[0].contains("no Android user"), "{refused:?}");
}

#[test]
fn the_policy_limits_what_a_choice_allows() {
    let policy = unasked() + "[[consent.region]]\nregions = [\"DE\"]\nmost = \"summary\"\n";
    let service = Service::start(&policy, &["--region", "DE"]);
    assert_eq!(chosen(&service, "consent set full"), "summary");
    let service = Service::start(&policy, &["--region", "FR"]);
    assert_eq!(chosen(&service, "consent set full"), "full");
}

#[test]
fn choices_that_cannot_be_read_allow_nothing() {
    type Damage = fn(&std::path::Path);
    let damages: [Damage; 4] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::write(path, "").unwrap(),
        |path| {
            let text = fs::read_to_string(path).unwrap();
            fs::write(path, text.replace("full", "summary")).unwrap();
        },
        |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
    ];
    // The makers' own people are recorded as long as nobody asked them: not if their answer was lost.
    let mut service = Service::start(POLICY, &["--user", "internal"]);
    let saved = service.path("store").join("consent.state");
    let mut kept = 0;
    for damage in damages {
        assert_eq!(chosen(&service, "consent set full"), "full");
        joined(&service, "app").kill();
        kept += 1;
        service.wait_for_reports(kept);
        service.kill();
        damage(&saved);
        service.start_again();
        let show = shown(&service);
        assert_eq!(show["levels"]["0"], "none", "{show}");
        assert_eq!(show["choices"]["are_lost"], true);
        assert!(service.log().contains("'consent set LEVEL'"));
        // It is not known that anybody has withdrawn: reports wait for the next choice.
        assert_eq!(service.reports().len(), kept);
        if saved.is_dir() {
            fs::remove_dir(&saved).unwrap();
        }
    }
    assert_eq!(chosen(&service, "consent set none"), "none");
    assert_eq!(service.reports().len(), 0);
}

#[test]
fn a_choice_that_cannot_be_saved_allows_nothing() {
    let mut service = Service::start(POLICY, &["--user", "internal"]);
    let saved = service.path("store").join("consent.state");
    fs::remove_file(&saved).unwrap();
    fs::create_dir(&saved).unwrap();
    let lines = service.ask("consent set full");
    assert!(lines[0].contains("nothing is recorded until"), "{lines:?}");
    assert_eq!(shown(&service)["levels"]["0"], "none");
    service.kill();
    service.start_again();
    assert_eq!(shown(&service)["levels"]["0"], "none");
    fs::remove_dir(&saved).unwrap();
    assert_eq!(chosen(&service, "consent set full"), "full");
}

#[test]
fn on_a_disk_that_became_read_only_no_older_choice_is_in_force_again() {
    let Some(disk) = SmallDisk::new(1 << 20) else {
        return;
    };
    let store = disk.path().to_str().unwrap().to_owned();
    let mut service = Service::start(&unasked(), &["--store", &store]);
    assert_eq!(chosen(&service, "consent set full"), "full");
    disk.make_read_only();
    let lines = service.ask("consent withdraw");
    assert!(lines[0].contains("nothing is recorded until"), "{lines:?}");
    service.kill();
    service.start_again();
    assert_eq!(shown(&service)["levels"]["0"], "none");
    assert!(service.log().contains("a newer choice may be missing"));
}

#[test]
fn a_user_s_withdrawal_removes_the_reports_also_if_the_others_choices_are_lost() {
    let mut service = Service::start(&unasked(), &[]);
    // SAFETY: no precondition.
    let user = unsafe { libc::geteuid() } / 100_000;
    assert_eq!(chosen(&service, "consent set full"), "full");
    joined(&service, "app").kill();
    service.wait_for_reports(1);
    service.kill();
    fs::write(service.path("store").join("consent.state"), "").unwrap();
    service.start_again();
    // Another user's choice says nothing about this one's reports.
    chosen(&service, &format!("consent set full user {}", user + 1));
    assert_eq!(service.reports().len(), 1);
    chosen(&service, &format!("consent withdraw user {user}"));
    assert_eq!(service.reports().len(), 0);
    assert_eq!(shown(&service)["choices"]["are_lost"], true);
}

#[test]
fn a_choice_that_was_reported_as_failed_does_not_hold_later() {
    let Some(disk) = SmallDisk::new(64 << 10) else {
        return;
    };
    let store = disk.path().to_str().unwrap().to_owned();
    let service = Service::start(&unasked(), &["--store", &store]);
    fs::write(disk.path().join("filler"), vec![1; 1 << 20]).unwrap_err();
    // Both wait when the first one is given to the disk, which is full then. What fails gives its old file's room back.
    signal(service.pid(), libc::SIGSTOP);
    let ask = |command: &str| {
        let mut stream = service.commands().unwrap();
        writeln!(stream, "{command}").unwrap();
        stream
    };
    let streams = ["consent set full", "consent set none user 10"].map(ask);
    signal(service.pid(), libc::SIGCONT);
    let answers = streams.map(|mut stream| {
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        answer
    });
    assert!(answers[0].contains("cannot be saved"), "{answers:?}");
    assert!(answers[1].starts_with("ok\n"), "{answers:?}");
    let show = shown(&service);
    assert_eq!(show["choices"]["device"], serde_json::Value::Null, "{show}");
    assert_eq!(show["choices"]["are_lost"], true, "{show}");
    assert_eq!(show["levels"]["0"], "none", "{show}");
    assert_eq!(show["choices"]["users"]["10"]["level"], "none", "{show}");
    let saved = fs::read_to_string(disk.path().join("consent.state")).unwrap();
    assert!(!saved.contains("full"), "{saved}");
}

#[test]
fn a_service_killed_in_mid_choice_has_the_old_one_or_the_new_one() {
    let mut service = Service::start(&unasked(), &[]);
    let mut before = "none";
    assert_eq!(chosen(&service, "consent set none"), before);
    let (mut old, mut new) = (0, 0);
    for round in 0..60_u32 {
        let levels = ["full", "summary", "none", "signatures"];
        let wanted = levels[(round % 4) as usize];
        let mut stream = service.commands().unwrap();
        writeln!(stream, "consent set {wanted}").unwrap();
        for _ in 0..round % 20 * 50 {
            std::thread::yield_now();
        }
        service.kill();
        // What was written of the answer can still be read.
        let mut answer = String::new();
        let _ = std::io::Read::read_to_string(&mut stream, &mut answer);
        service.start_again();
        let show = shown(&service);
        assert_eq!(show["choices"]["are_lost"], false, "round {round}");
        let found = show["choices"]["device"]["level"].as_str().unwrap();
        if answer.starts_with("ok") {
            assert_eq!(found, wanted, "round {round}: it was answered");
        }
        match found == wanted {
            true => new += 1,
            false => {
                assert_eq!(found, before, "round {round}");
                old += 1;
            }
        }
        before = levels.into_iter().find(|level| *level == found).unwrap();
    }
    println!("killed in mid-choice: {old} times the old choice, {new} times the new one");
}

#[test]
fn reports_that_a_killed_service_did_not_remove_are_removed_by_the_next_one() {
    let mut service = Service::start(&unasked(), &[]);
    assert_eq!(chosen(&service, "consent set full"), "full");
    joined(&service, "app").kill();
    service.wait_for_reports(1);
    service.kill();
    // As if the service had been killed between the choice and the removal.
    let kept = service.path("kept");
    fs::create_dir(&kept).unwrap();
    let store = service.path("store");
    let reports = || {
        let files = fs::read_dir(&store).unwrap().map(|f| f.unwrap().path());
        let is_report = |p: &std::path::PathBuf| !p.to_str().unwrap().ends_with(".state");
        files.filter(is_report).collect::<Vec<_>>()
    };
    for path in reports() {
        fs::copy(&path, kept.join(path.file_name().unwrap())).unwrap();
    }
    service.start_again();
    assert_eq!(chosen(&service, "consent withdraw"), "none");
    service.kill();
    for file in fs::read_dir(&kept).unwrap() {
        let path = file.unwrap().path();
        let back = store.join(path.file_name().unwrap());
        fs::copy(&path, &back).unwrap();
        fs::set_permissions(&back, fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert_eq!(reports().len(), 3);
    service.start_again();
    wait_for("they are removed", || reports().is_empty().then_some(()));
}
