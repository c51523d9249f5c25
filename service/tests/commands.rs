// SPDX-License-Identifier: Apache-2.0
//! The socket for people and tools.

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use common::{
    as_child, as_root, hello, image, join_and_wait, memory, parents_line, read_trace, say,
    take_ring, wait_for, Connection, Peer, Service, POLICY,
};
use hindsight_service::os::{receive_packet, Packet};
use hindsight_trace_format::protocol::{FromProcess, FromService, TakeOutcome};

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_joins_and_waits() {
    join_and_wait(10);
}

fn with_report(policy: &str) -> Service {
    let service = Service::start(policy, &[]);
    let folder = service.folder.path();
    let mut peer = Peer::start("child_that_joins_and_waits", folder, "app");
    peer.wait_for("joined");
    peer.kill();
    service.wait_for_reports(1);
    service
}

/// The descriptor and the text of an answer.
fn get(service: &Service, command: &str) -> (String, Option<File>) {
    let mut stream = service.commands().unwrap();
    stream.write_all(command.as_bytes()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut buffer = [0; 8192];
    let (length, descriptor) = wait_for("an answer", || {
        match receive_packet(stream.as_fd(), &mut buffer).unwrap() {
            Packet::Nothing => None,
            Packet::End => Some((0, None)),
            Packet::Bytes {
                length, descriptor, ..
            } => Some((length, descriptor)),
        }
    });
    let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
    (text, descriptor.map(File::from))
}

#[test]
fn reports_are_listed_handed_out_and_removed() {
    let service = with_report(POLICY);
    let reports = service.reports();
    let id = reports[0]["report"].as_u64().unwrap();
    let (text, file) = get(&service, &format!("get {id}\n"));
    assert!(text.starts_with("ok\n{"), "{text}");
    let mut file = file.unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, service.trace(&reports[0]));
    assert_eq!(read_trace(&bytes).3, 10);
    assert!((&file).write_all(b"x").is_err(), "it is to be read only");
    let path = service.path("store").join(format!("{id}.hindsight"));
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (text, file) = get(&service, "get 99\n");
    assert!(text.starts_with("error there is no report 99"), "{text}");
    assert!(file.is_none());
    assert_eq!(service.ask(&format!("remove {id}")), ["ok"]);
    assert_eq!(service.ask("reports"), ["ok"]);
    assert!(!path.exists());
    assert!(service.ask(&format!("remove {id}"))[0].starts_with("error"));
    assert_eq!(service.status()["store"]["reports"], 0);
}

#[test]
fn a_bad_policy_is_refused_with_its_line_and_the_old_one_stays() {
    let mut service = Service::start(POLICY, &[]);
    let enabled = |service: &Service| service.status()["engine"]["enabled"] == true;
    assert!(enabled(&service));
    for bad in ["version = 1\nenabled = 3\n", "version = 9\n", "nonsense"] {
        let answer = service.ask(&format!("policy -\n{bad}"));
        assert!(answer[0].starts_with("error"), "{answer:?}");
        assert_eq!(answer.len(), 1);
    }
    let answer = service.ask("policy -\nversion = 1\nenabled = 3\n");
    assert!(answer[0].contains("line 2"), "{answer:?}");
    let path = service.path("off.toml");
    fs::write(&path, "version = 1\nenabled = false\n").unwrap();
    let path = format!("policy {}", path.display());
    assert_eq!(service.ask(&path), ["ok"]);
    assert!(!enabled(&service));
    // Also after a kill of the service.
    service.kill();
    service.start_again();
    assert!(!enabled(&service));
    assert_eq!(service.ask("policy default"), ["ok"]);
    assert!(enabled(&service));
    service.kill();
    service.start_again();
    assert!(enabled(&service));
    for path in ["/dev/zero", "/no/such/file", "/"] {
        let answer = service.ask(&format!("policy {path}"));
        assert!(
            answer[0].starts_with(&format!("error {path}: ")),
            "{answer:?}"
        );
    }
    let fifo = std::ffi::CString::new(service.path("fifo").to_str().unwrap()).unwrap();
    // SAFETY: the text ends with 0.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let answer = service.ask(&format!("policy {}", service.path("fifo").display()));
    assert!(answer[0].starts_with("error"), "{answer:?}");
}

#[test]
fn a_report_of_a_living_process_has_its_taken_rings() {
    let service = Service::start(POLICY, &[]);
    let mut image = image("alive", 10);
    take_ring(&mut image, 0);
    let memory = memory(&image);
    let connection = Connection::join(service.folder.path(), &hello("alive"), &memory);
    connection.wait_for_welcome();
    let command = format!("report {} I want it", std::process::id());
    let mut client = service.commands().unwrap();
    client.write_all(format!("{command}\n").as_bytes()).unwrap();
    let report = connection.wait(|message| match message {
        FromService::Take { report } => Some(*report),
        _ => None,
    });
    let outcome = TakeOutcome::Taken;
    connection.send(&FromProcess::Taken { report, outcome });
    let released = connection.wait(|message| match message {
        FromService::Release { report } => Some(*report),
        _ => None,
    });
    assert_eq!(released, report);
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("ok\n"), "{answer}");
    let reports = service.reports();
    assert_eq!(reports[0]["has_ended"], false);
    assert_eq!(reports[0]["reason"], "I want it");
    assert_eq!(read_trace(&service.trace(&reports[0])).3, 10);
    let answer = service.ask("report no.such.app x");
    assert!(answer[0].starts_with("error"), "{answer:?}");
}

#[test]
fn bad_lines_have_errors_and_none_stops_the_service() {
    let mut service = Service::start(POLICY, &[]);
    for (line, part) in [
        ("", "there is no command"),
        ("get x", "'reports' lists them"),
        ("status\nstatus", "only one command"),
        (&"x".repeat(5000), "longer than"),
        (&"get 1 ".repeat(50_000), "longer than"),
    ] {
        // The service may answer and close before it has all.
        if let Some(answer) = service.try_ask(line) {
            assert!(answer[0].starts_with("error "), "{answer:?}");
            assert!(answer[0].contains(part), "{answer:?}");
            assert_eq!(answer.len(), 1);
        }
    }
    let mut stream = service.commands().unwrap();
    stream.write_all(b"status").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("error the line has no end"), "{answer}");
    let mut stream = service.commands().unwrap();
    stream.write_all(b"\xff\xfe\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("error "), "{answer}");
    service.assert_runs();
}

#[test]
fn clients_that_say_nothing_do_not_keep_others_out() {
    let mut service = Service::start(POLICY, &[]);
    let descriptors = service.descriptors();
    let silent: Vec<UnixStream> = (0..100).map(|_| service.commands().unwrap()).collect();
    // Those that are not served are closed at once; the others when their time is over, or they go.
    wait_for("the others are closed", || {
        (service.descriptors() <= descriptors + 8).then_some(())
    });
    let mut half = &silent[0];
    let _ = half.write_all(b"policy -\nversion");
    drop(silent);
    wait_for("there is room again", || service.try_ask("status"));
    wait_for("all are closed", || {
        (service.descriptors() <= descriptors).then_some(())
    });
    service.assert_runs();
}

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_asks_as_another_user() {
    let Some((folder, uid)) = as_child() else {
        return;
    };
    // SAFETY: takes a number; the child does nothing as another user than this one.
    assert_eq!(unsafe { libc::setuid(uid.parse().unwrap()) }, 0);
    let commands = [
        "status\n",
        "reports\n",
        "get 1\n",
        "remove 1\n",
        "consent set none\n",
        "consent set none user 11\n",
        "consent withdraw\n",
        "consent show\n",
        "policy -\nversion = 1\n",
        "consent withdraw user 10\n",
    ];
    for command in commands {
        let mut stream = UnixStream::connect(folder.join("commands")).unwrap();
        let _ = stream.write_all(command.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut answer);
        let has_got = if answer.starts_with(b"ok\n") {
            "got"
        } else {
            "no"
        };
        say(&format!("answer of {} bytes, {has_got}", answer.len()));
    }
    parents_line();
}

#[test]
fn other_users_get_nothing() {
    if !as_root() {
        return;
    }
    let service = with_report(POLICY);
    // Which commands are answered at all, and which are carried out.
    let ask_as = |uid: &str| {
        let folder = service.folder.path();
        let mut peer = Peer::start("child_that_asks_as_another_user", folder, uid);
        let answers: Vec<String> = (0..10).map(|_| peer.wait_for("answer of")).collect();
        let count = |is_it: fn(&str) -> bool| answers.iter().filter(|a| is_it(a)).count();
        let answered = count(|answer| !answer.contains(" 0 bytes"));
        (answered, count(|answer| answer.contains(", got")))
    };
    for uid in [
        "10123", "65534", "2001", "1", "1000000", "1002000", "1010123",
    ] {
        assert_eq!(ask_as(uid), (0, 0), "{uid}");
    }
    // Settings of another Android user: the choice of this user, and nothing else.
    let show = || service.ask("consent show")[1].clone();
    let before = show();
    assert_eq!(ask_as("1101000"), (10, 1), "user 11 chooses for itself");
    assert!(show().contains(r#""users":{"11":{"level":"none","by":1101000"#));
    service.ask("consent forget user 11");
    assert_eq!(show(), before);
    assert_eq!(ask_as("1001000"), (10, 1));
    assert!(show().contains(r#""users":{"10":{"level":"none","by":1001000"#));
    // The report is about a process of the system, for which the lowest choice of all users holds.
    assert_eq!(service.reports().len(), 0);
    for uid in ["2000", "1000"] {
        assert_eq!(ask_as(uid).0, 10, "{uid}");
    }
}

#[test]
fn the_kill_switch_holds_over_restarts_and_policies() {
    let mut service = Service::start(POLICY, &[]);
    let enabled = |service: &Service| service.status()["engine"]["enabled"] == true;
    assert_eq!(service.ask("switch off"), ["ok"]);
    assert!(!enabled(&service));
    assert_eq!(service.ask("policy -\nversion = 1\n"), ["ok"]);
    assert!(!enabled(&service), "no policy switches it on");
    service.kill();
    service.start_again();
    assert!(!enabled(&service));
    assert!(service.ask("record com.example 5")[0].contains("switch on"));
    assert_eq!(service.ask("switch on"), ["ok"]);
    assert!(enabled(&service));
    service.kill();
    service.start_again();
    assert!(enabled(&service));
}

#[test]
fn nothing_is_recorded_while_the_loaded_policy_is_lost() {
    let mut service = Service::start(POLICY, &[]);
    let enabled = |service: &Service| service.status()["engine"]["enabled"] == true;
    let state = service.path("store").join("policy.state");
    let ask = |service: &Service| service.ask("policy -\nversion = 1\nrevision = 7\n");
    for remedy in ["policy default", "policy -\nversion = 1\nrevision = 8\n"] {
        assert_eq!(ask(&service), ["ok"]);
        service.kill();
        let text = fs::read_to_string(&state).unwrap();
        fs::write(&state, text.replacen('7', "9", 1)).unwrap();
        service.start_again();
        assert!(!enabled(&service));
        assert!(
            service.log().contains("policy default"),
            "{}",
            service.log()
        );
        // Also at the next start.
        service.kill();
        service.start_again();
        assert!(!enabled(&service));
        assert_eq!(service.ask(remedy), ["ok"]);
        assert!(enabled(&service));
    }
}

#[test]
fn a_policy_or_switch_that_cannot_be_saved_leaves_no_old_one() {
    for (before, command, name) in [
        (
            "policy -\nversion = 1\nrevision = 7\n",
            "policy -\nversion = 1\nenabled = false\n",
            "policy",
        ),
        ("switch on", "switch off", "switch"),
    ] {
        let mut service = Service::start(POLICY, &[]);
        assert_eq!(service.ask(before), ["ok"]);
        // Where the new text would be written stands a folder.
        let temporary = service.path("store").join(format!(".{name}.state.tmp"));
        fs::create_dir_all(temporary.join("x")).unwrap();
        let answer = service.ask(command);
        assert!(answer[0].contains("records nothing until"), "{answer:?}");
        service.kill();
        fs::remove_dir_all(&temporary).unwrap();
        service.start_again();
        assert!(service.status()["engine"]["enabled"] == false, "{name}");
    }
}

#[test]
fn a_policy_is_shown_and_checked_without_being_loaded() {
    let service = Service::start(POLICY, &[]);
    let shown = service.ask("policy show").join("\n");
    assert_eq!(shown.strip_prefix("ok\n").unwrap().trim(), POLICY.trim());
    assert_eq!(
        service.ask("policy check -\nversion = 1\nrevision = 7\n"),
        ["ok"]
    );
    let answer = service.ask("policy check -\nversion = 1\nenabled = 3\n");
    assert!(answer[0].contains("line 2"), "{answer:?}");
    assert_eq!(
        service.ask("policy show").join("\n").trim_end(),
        format!("ok\n{}", POLICY.trim_end())
    );
}

#[test]
fn the_programs_own_client_prints_answers_and_reports() {
    let service = with_report(POLICY);
    let id = service.reports()[0]["report"].as_u64().unwrap();
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hindsightd"));
        command
            .args(["--command", "--at"])
            .arg(service.path("commands"));
        command
            .args(words)
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap()
    };
    let dump = run(&["dump"]);
    let text = String::from_utf8(dump.stdout).unwrap();
    for line in [
        "hindsightd ",
        "memory: ",
        "processes: 0",
        "reports since the start: 1 written",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let trace = service.trace(&service.reports()[0]);
    assert_eq!(run(&["get", &id.to_string()]).stdout, trace);
    let framed = run(&["--framed", "get", &id.to_string()]).stdout;
    assert!(framed.starts_with(b"ok\n{") && framed.ends_with(&trace));
    let wrong = run(&["get", "99"]);
    assert!(!wrong.status.success() && wrong.stdout.is_empty());
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("there is no report 99"));
}

#[test]
fn the_state_is_in_the_log_without_names() {
    let service = with_report(POLICY);
    let log = fs::read_to_string(service.path("log")).unwrap();
    let state = log.lines().filter(|line| line.contains(": state: "));
    let state: Vec<&str> = state.collect();
    for part in ["policy: revision 0", "processes: ", "store: "] {
        assert!(state.iter().any(|line| line.contains(part)), "{state:?}");
    }
    assert!(state.iter().all(|line| !line.contains("app")), "{state:?}");
    assert!(state.len() <= 40, "{state:?}");
}
