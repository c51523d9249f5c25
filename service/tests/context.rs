// SPDX-License-Identifier: Apache-2.0
//! What is kept and sent around a report: facts about the device, metrics, and lines of the process's log, from a logd of the test.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use common::{
    hello, image, join_and_wait, memory, stored_bytes, take_ring, wait_for, Connection, Peer,
    Service, POLICY,
};
use hindsight_service::context::{Context, Fact};
use hindsight_service::os::{accept, listen, receive_packet, send_packet, Packet, SocketKind};
use hindsight_trace_format::protocol::{FromProcess, FromService, TakeOutcome};

const FACTS: &str = "model = \"Phone 3\"\nbuild = \"maker/phone/phone:14/X1\"\nrelease = \"14\"\n\
                     kernel = \"6.1-mine\"\ncores = \"8\"\nmemory-mib = \"7700\"\n";
/// A line that a program has composed.
const SECRET: &str = "message from Alice";

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_joins_and_waits() {
    join_and_wait(10);
}

/// A logd that sends one line of each process that is asked for, and of the process with the next id. Counts questions.
struct Logd {
    asked: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

fn entry(pid: u32, seconds: u32, text: &str) -> Vec<u8> {
    // SAFETY: no precondition.
    let uid = unsafe { libc::geteuid() };
    let payload = format!("\x05Mail\0{text}\0");
    let mut bytes = (payload.len() as u16).to_le_bytes().to_vec();
    bytes.extend(28_u16.to_le_bytes());
    for number in [pid, pid, seconds, 0, 0, uid] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(payload.as_bytes());
    bytes
}

impl Logd {
    fn start(path: &Path) -> Self {
        let listener = listen(path, SocketKind::Packets, 0o666).unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let (count, end) = (Arc::clone(&asked), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let Ok(Some(connection)) = accept(listener.as_fd()) else {
                    std::thread::yield_now();
                    continue;
                };
                count.fetch_add(1, Ordering::Relaxed);
                let mut buffer = [0; 200];
                let length = wait_for("a question", || {
                    match receive_packet(connection.as_fd(), &mut buffer) {
                        Ok(Packet::Bytes { length, .. }) => Some(length),
                        _ => None,
                    }
                });
                let text = std::str::from_utf8(&buffer[..length]).unwrap();
                let pid: u32 = text.rsplit_once("pid=").unwrap().1.parse().unwrap();
                let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as u32;
                for (pid, seconds, text) in [
                    (pid, now - 3600, "an hour ago"),
                    (pid + 1, now, "of another process"),
                    (pid, now, SECRET),
                ] {
                    send_packet(connection.as_fd(), &entry(pid, seconds, text), None);
                }
            }
        });
        Logd {
            asked,
            is_over,
            thread: Some(thread),
        }
    }

    fn questions(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Logd {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Setup {
    service: Service,
    logd: Logd,
    folder: tempfile::TempDir,
}

impl Setup {
    fn new(policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("facts"), FACTS).unwrap();
        let logd = Logd::start(Path::new(&path("logdr")));
        let options = [
            "--uploads",
            &path("uploads"),
            "--device-facts",
            &path("facts"),
            "--log-socket",
            &path("logdr"),
        ];
        let service = Service::start(policy, &options);
        Setup {
            service,
            logd,
            folder,
        }
    }

    /// Kills a process; returns the number of its report.
    fn report(&self) -> String {
        let folder = self.service.folder.path();
        let mut peer = Peer::start("child_that_joins_and_waits", folder, "app");
        peer.wait_for("joined");
        peer.kill();
        let reports = self.service.wait_for_reports(1);
        reports.last().unwrap()["report"].to_string()
    }

    /// The text that leaves.
    fn uploaded(&self) -> String {
        let mut stream = UnixStream::connect(self.folder.path().join("uploads")).unwrap();
        writeln!(stream, "next").unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut buffer = [0; 4096];
        let file = wait_for("an answer", || {
            match receive_packet(stream.as_fd(), &mut buffer) {
                Ok(Packet::Bytes { descriptor, .. }) => Some(descriptor),
                _ => None,
            }
        });
        let mut text = String::new();
        let mut file = fs::File::from(file.expect("nothing leaves"));
        file.read_to_string(&mut text).unwrap();
        text
    }

    fn context(&self, report: &str) -> Context {
        let path = self.service.path("store").join(format!("{report}.context"));
        Context::from_toml(&fs::read_to_string(path).unwrap()).unwrap()
    }
}

fn policy(level: &str, log_kib: u32) -> String {
    let policy = POLICY.replace("unasked = \"full\"", &format!("unasked = \"{level}\""));
    policy.replace("queue = 64", &format!("queue = 64\nlog-kib = {log_kib}"))
}

#[test]
fn each_level_keeps_and_sends_what_it_allows() {
    let facts: [(&str, &[&str], bool); 3] = [
        ("summary", &["Phone 3", " 14\n", " 8\n", " 7936\n"], false),
        ("signatures", &["Phone 3", "maker/phone/phone:14/X1"], false),
        ("full", &["maker/phone/phone:14/X1", "6.1-mine"], true),
    ];
    for (level, there, has_log) in facts {
        let setup = Setup::new(&policy(level, 16));
        let report = setup.report();
        let context = setup.context(&report);
        let kept = context.to_toml();
        let text = setup.uploaded();
        let shown = setup.service.ask(&format!("preview {report}"));
        assert!(shown.join("\n").contains(text.trim_end()), "{shown:?}");
        for fact in there {
            assert!(text.contains(fact), "{level}: {fact}: {text}");
        }
        let is_full = level == "full";
        let is_summary = level == "summary";
        for (secret, is_there) in [
            ("maker/phone", !is_summary),
            ("6.1-mine", is_full),
            (SECRET, has_log),
        ] {
            assert_eq!(kept.contains(secret), is_there, "{level}: {kept}");
            assert_eq!(text.contains(secret), is_there, "{level}: {text}");
        }
        for never in ["an hour ago", "of another process"] {
            assert!(!kept.contains(never) && !text.contains(never), "{kept}");
        }
        assert_eq!(setup.logd.questions(), usize::from(has_log));
        let lines = setup.service.ask(&format!("context {report}"));
        assert_eq!(
            (lines[0].as_str(), lines[1..].join("\n") + "\n"),
            ("ok", kept)
        );
        // A lower level removes all of it.
        setup.service.ask("consent withdraw");
        let gone = setup
            .service
            .path("store")
            .join(format!("{report}.context"));
        assert!(!gone.exists());
        let answer = setup.service.ask(&format!("context {report}"));
        assert!(answer[0].contains("there is no report"), "{answer:?}");
    }
}

#[test]
fn without_the_key_no_log_is_read() {
    let setup = Setup::new(&policy("full", 0));
    let report = setup.report();
    assert_eq!(setup.logd.questions(), 0);
    assert!(setup.context(&report).log.lines.is_empty());
    assert_eq!(
        setup.context(&report).device.get(Fact::Model),
        Some("Phone 3")
    );
}

#[test]
fn the_model_of_the_device_decides_about_its_level() {
    let rule = |model: &str| {
        let rule = format!("[[consent.region]]\nmodels = [\"{model}\"]\nmost = \"summary\"\n");
        policy("full", 16) + &rule
    };
    for (model, is_full) in [("Phone*", false), ("Phone 4", true)] {
        let setup = Setup::new(&rule(model));
        setup.report();
        let text = setup.uploaded();
        assert_eq!(text.contains("\nlevel full\n"), is_full, "{text}");
        assert_eq!(text.contains(SECRET), is_full, "{text}");
    }
}

#[test]
fn files_of_contexts_are_counted_and_leftovers_removed() {
    let mut setup = Setup::new(&policy("full", 16));
    let report = setup.report();
    let store = setup.service.path("store");
    let counted = |service: &Service| service.status()["store"]["bytes"].as_u64().unwrap();
    wait_for("all bytes are counted", || {
        (counted(&setup.service) == stored_bytes(&store)).then_some(())
    });
    setup.service.kill();
    fs::write(store.join("4711.context"), "version = 1\n").unwrap();
    fs::write(store.join(".4712.context.tmp"), "version").unwrap();
    setup.service.start_again();
    assert!(!store.join("4711.context").exists());
    assert!(!store.join(".4712.context.tmp").exists());
    assert!(store.join(format!("{report}.context")).exists());
    wait_for("all bytes are counted again", || {
        (counted(&setup.service) == stored_bytes(&store)).then_some(())
    });
    // A damaged one costs itself only.
    fs::write(store.join(format!("{report}.context")), "?").unwrap();
    let shown = setup.service.ask(&format!("preview {report}"));
    assert_eq!(shown[0], "ok");
    assert!(!shown.join("\n").contains(SECRET));
    assert_eq!(setup.service.ask(&format!("remove {report}"))[0], "ok");
    assert!(!store.join(format!("{report}.context")).exists());
}

#[test]
fn a_report_has_metrics_of_the_time_before_it() {
    let service = Service::start(&policy("summary", 0), &[]);
    let mut bytes = image("app", 10);
    take_ring(&mut bytes, 0);
    // One frame so far: a process that counts nothing has no metrics of its own.
    bytes[hindsight_trace_format::shared::COUNTERS_OFFSET] = 1;
    let memory = memory(&bytes);
    let connection = Connection::join(service.folder.path(), &hello("app"), &memory);
    connection.wait_for_welcome();
    let folder = service.folder.path().to_owned();
    // Each report is a word of the process, and so a sample, at most one a second.
    let metrics = wait_for("a report has metrics", || {
        let asked = std::thread::spawn({
            let folder = folder.clone();
            move || {
                let mut stream = UnixStream::connect(folder.join("commands")).unwrap();
                writeln!(stream, "report app test").unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer
            }
        });
        let report = connection.wait(|message| match message {
            FromService::Take { report } => Some(*report),
            _ => None,
        });
        let outcome = TakeOutcome::Taken;
        assert!(connection.send(&FromProcess::Taken { report, outcome }));
        let answer = asked.join().unwrap();
        assert!(answer.starts_with("ok\n"), "{answer}");
        connection.wait(|message| matches!(message, FromService::Release { .. }).then_some(()));
        let path = service.path("store").join(format!("{report}.context"));
        let context = Context::from_toml(&fs::read_to_string(path).unwrap()).unwrap();
        (!context.metrics.samples.is_empty()).then_some(context.metrics)
    });
    assert!(metrics.names.iter().any(|name| name == "frames"));
    for sample in &metrics.samples {
        let [from, to] = sample.ms;
        assert!(from < to && to <= 1000, "{sample:?}");
        assert_eq!(sample.values.len(), metrics.names.len());
    }
}
