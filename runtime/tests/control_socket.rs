// SPDX-License-Identifier: Apache-2.0
//! The control socket, as a client sees it.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{gettid, FakeHost, Managed, World};
use hindsight_runtime::{Recorder, Severity};
use hindsight_trace_format::container::Reader;

fn start(folder: &Path, more: &str) -> (Recorder, Arc<World>) {
    let world = Arc::new(World::default());
    let config = common::parse(&format!(
        "ring=12,dir={0},socket={0}/control{more}",
        folder.display()
    ));
    let host = Box::new(FakeHost(Arc::clone(&world)));
    (Recorder::start(config.unwrap(), host).unwrap(), world)
}

struct Client {
    answers: BufReader<UnixStream>,
}

impl Client {
    fn new(folder: &Path) -> Client {
        let stream = UnixStream::connect(folder.join("control")).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Client {
            answers: BufReader::new(stream),
        }
    }

    fn ask(&mut self, line: &str) -> String {
        self.answers.get_mut().write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert!(answer.ends_with('\n'), "{answer:?}");
        answer.trim_end().to_owned()
    }
}

#[test]
fn a_thread_is_started_in_a_snapshot_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(folder.path(), "");
    let mut client = Client::new(folder.path());
    Managed::run(&recorder, &world, |thread| {
        assert!(!thread.is_traced());
        let tid = gettid();
        assert_eq!(
            thread.native(|| client.ask(&format!("start {tid}\n"))),
            "ok"
        );
        assert!(thread.is_traced());
        let again = thread.native(|| client.ask(&format!("start {tid}\n")));
        assert_eq!(again, format!("error thread {tid} is traced already"));
        let status = thread.native(|| client.ask("status\n"));
        let expected = format!(
            r#"ok {{"pid":{},"threads":1,"traced":[{tid}],"ring_bytes":4096,"max_rings":2,"retired_rings":0,"#,
            std::process::id()
        );
        assert!(status.starts_with(&expected), "{status}");
        let held = r#""snapshots":0,"rewind":"off","held_ns":{"count":1,"#;
        assert!(status.contains(held), "{status}");

        thread.enter(0x1000);
        let answer = thread.native(|| client.ask("snapshot dropped frame\n"));
        let bytes = std::fs::read(answer.strip_prefix("ok ").unwrap()).unwrap();
        let reader = Reader::new(&bytes).unwrap();
        assert_eq!(reader.process().unwrap().reason, "dropped frame");
        let ring = reader.ring(0).unwrap().unwrap();
        let entered: Vec<_> = ring.slots().events().map(|e| e.entered_method()).collect();
        assert_eq!(
            entered,
            [Some(0x1000), None],
            "and before that, that tracing started"
        );
        let status = thread.native(|| client.ask("status\n"));
        assert!(
            status.contains(r#""snapshots":1,"rewind":"off","held_ns":{"count":2,"#),
            "{status}"
        );

        assert_eq!(thread.native(|| client.ask(&format!("stop {tid}\n"))), "ok");
        assert!(!thread.is_traced());
        let again = thread.native(|| client.ask(&format!("stop {tid}\n")));
        assert_eq!(again, format!("error thread {tid} is not traced"));
    });
    recorder.shutdown();
    assert!(!folder.path().join("control").exists());
    // A client that stays gets an error for a command that it has sent, and is cut off in any case.
    let mut rest = String::new();
    if client.answers.get_mut().write_all(b"status\n").is_ok() {
        let _ = client.answers.read_line(&mut rest);
    }
    assert!(
        rest.is_empty() || rest == "error tracing was shut down\n",
        "{rest:?}"
    );
    assert_eq!(client.answers.read_line(&mut String::new()).unwrap_or(0), 0);
}

#[test]
fn bad_input_is_answered_with_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let (_recorder, _world) = start(folder.path(), "");
    let mut client = Client::new(folder.path());
    for (line, answer) in [
        (
            "dance\n",
            "error unknown command 'dance' (known: snapshot, start, stop, foreground, rewind, events, rules, stack-interval, max-rings, trim, property, status)",
        ),
        (
            "\n",
            "error unknown command '' (known: snapshot, start, stop, foreground, rewind, events, rules, stack-interval, max-rings, trim, property, status)",
        ),
        (
            "start\n",
            "error '' is no thread id; an example: 'start 1234'",
        ),
        (
            "stop -1\n",
            "error '-1' is no thread id; an example: 'stop 1234'",
        ),
        (
            "start 1\n",
            "error no thread 1 is registered with the runtime",
        ),
        ("foreground x\n", "error 'x' is no thread id; an example: 'foreground 1234'"),
        ("max-rings 0\n", "error '0': max-rings takes 1 to 1024, or unlimited"),
        (
            "property x=y\n",
            "error 'x=y': the only property is dev.nanoscope=package:file, or dev.nanoscope=",
        ),
        (
            "property dev.nanoscope=test\n",
            "error 'test' is no value for dev.nanoscope: it takes package:file, or nothing",
        ),
        ("property dev.nanoscope=other.app:file\n", "ok"),
        ("property dev.nanoscope=\n", "ok"),
        ("snapshot\n", "error the reason is missing: snapshot REASON"),
        (
            "anomaly x\n",
            "error 'anomaly' is now called 'snapshot': snapshot REASON",
        ),
        (
            "snapshot x\n",
            "error nothing to write: no thread is traced (is trace=main or all?)",
        ),
    ] {
        assert_eq!(client.ask(line), answer);
    }
    let no_main = format!(
        "error no thread {} is registered with the runtime",
        std::process::id()
    );
    for _ in 0..2 {
        assert_eq!(client.ask("property dev.nanoscope=test:file\n"), no_main);
    }
    assert_eq!(client.ask("property dev.nanoscope=\n"), "ok", "not started");
    assert!(client
        .ask("\u{7f}\u{0}\n")
        .starts_with("error unknown command"));
    let too_long = "x".repeat(5000) + "\n";
    let answer = client.ask(&too_long[..4096]);
    assert!(answer.contains("longer than 4095 bytes"), "{answer}");
    // That client is cut off; the next one is served.
    assert!(Client::new(folder.path())
        .ask("status\n")
        .starts_with("ok {"));
}

#[test]
fn only_the_user_may_connect_and_an_abandoned_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    drop(UnixListener::bind(&path).unwrap());
    let (_recorder, world) = start(folder.path(), "");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(Client::new(folder.path())
        .ask("status\n")
        .starts_with("ok {"));
    assert!(!world.logged(Severity::Error, ""));
}

#[test]
fn what_is_in_use_or_no_socket_is_left_alone_and_tracing_goes_on_without() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let listener = UnixListener::bind(&path).unwrap();
    let (recorder, world) = start(folder.path(), ",trace=all");
    assert!(world.logged(Severity::Error, "another process listens there"));
    Managed::run(&recorder, &world, |thread| assert!(thread.is_traced()));
    drop(listener);

    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    let (_recorder, world) = start(folder.path(), "");
    assert!(world.logged(Severity::Error, "no socket"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_property_set_before_the_app_has_its_name_is_obeyed_in_the_foreground() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(folder.path(), "");
    *world.name.lock().unwrap() = Some("zygote64".into());
    let mut client = Client::new(folder.path());
    assert_eq!(client.ask("property dev.nanoscope=com.example:f\n"), "ok");
    // The reply comes after the command before it was executed.
    let mut come_to_foreground = || {
        recorder.thread_in_foreground(std::process::id());
        assert!(client.ask("status\n").starts_with("ok"));
    };
    // The main thread is not a managed one here, so the log tells that it was to be started.
    let started = format!("no thread {} is registered", std::process::id());
    come_to_foreground();
    assert!(!world.logged(Severity::Error, &started));
    *world.name.lock().unwrap() = Some("com.example".into());
    come_to_foreground();
    assert!(world.logged(Severity::Error, &started));
}

#[test]
fn values_of_fields_need_the_configurations_consent() {
    for (configuration, why) in [
        (
            "",
            Some("the configuration does not allow value=yes: start the process with values=yes"),
        ),
        (
            ",values=yes,consent=names",
            Some("value=yes needs consent=content"),
        ),
        (",values=yes", None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (recorder, _world) = start(folder.path(), &format!(",events=rules{configuration}"));
        let mut client = Client::new(folder.path());
        let mut load = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            let answer = client.ask(&format!("rules {}\n", file.display()));
            let in_force = client.ask("status\n");
            (
                answer,
                in_force.contains(&format!(r#""rules":{{"file":"{}""#, file.display())),
                file,
            )
        };
        let (answer, is_in_force, _) = load("without.txt", "field a.B.c\n");
        assert!(answer == "ok" && is_in_force, "{configuration}");
        let (answer, is_in_force, file) = load("with.txt", "field a.B.c\nfield a.B.d value=yes\n");
        match why {
            Some(why) => {
                assert_eq!(answer, format!("error {}:2: {why}", file.display()));
                assert!(!is_in_force);
            }
            None => assert!(answer == "ok" && is_in_force, "{answer}"),
        }
        recorder.shutdown();
    }
}
