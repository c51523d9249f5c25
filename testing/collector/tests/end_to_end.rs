// SPDX-License-Identifier: Apache-2.0
//! hindsightd, the uploader and a collector, each in a process of its own; the uploader is killed again and again.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hindsight_collector::{Collector, Mode};
use hindsight_service::store::Entry;
use hindsight_testkit::Script;

const FOLDER: &str = "HINDSIGHT_TEST_FOLDER";
const PORT: &str = "HINDSIGHT_TEST_PORT";
const PATIENCE: Duration = Duration::from_secs(300);

fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begin.elapsed() < PATIENCE, "it does not happen: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[ignore = "runs only as a child of the test below"]
fn child_hindsightd() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let arguments = [
        ("--socket", path("socket")),
        ("--commands", path("commands")),
        ("--uploads", path("uploads")),
        ("--store", path("store")),
        ("--free-mib", "0".to_owned()),
    ];
    let arguments = arguments
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value]);
    let arguments = std::iter::once("hindsightd".to_owned()).chain(arguments);
    std::process::exit(hindsight_service::run(arguments.map(Into::into)));
}

#[test]
#[ignore = "runs only as a child of the test below"]
fn child_uploader() {
    let (Some(folder), Ok(port)) = (std::env::var_os(FOLDER), std::env::var(PORT)) else {
        return;
    };
    let path = |name: &str| Path::new(&folder).join(name).to_str().unwrap().to_owned();
    let arguments = [
        "--service".to_owned(),
        path("uploads"),
        "--collector".to_owned(),
        format!("localhost:{port}"),
        "--ca".to_owned(),
        path("ca.pem"),
        "--conditions".to_owned(),
        path("conditions"),
        "--once".to_owned(),
    ];
    let options = hindsight_uploader::parse(arguments.into_iter());
    let options = options.unwrap().unwrap();
    let to = hindsight_uploader::client(&options.ca, &options.host, options.port, options.deadline);
    let ended = hindsight_uploader::run_once(&options, &to.unwrap());
    println!("{ended:?}");
    std::process::exit(i32::from(ended.is_err()));
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(test: &str, folder: &Path, port: u16) -> Killed {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", test])
        .env(FOLDER, folder)
        .env(PORT, port.to_string())
        .stdout(Stdio::null())
        .spawn();
    Killed(child.unwrap())
}

fn try_ask(folder: &Path, command: &str) -> Option<String> {
    let mut stream = UnixStream::connect(folder.join("commands")).ok()?;
    writeln!(stream, "{command}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("ok\n").then_some(answer)
}

fn service(folder: &Path) -> Killed {
    let service = start("child_hindsightd", folder, 0);
    wait_for("hindsightd answers", || try_ask(folder, "status"));
    service
}

/// A report whose trace needs several requests.
fn write_report(folder: &Path, number: u64) -> Vec<u8> {
    let mut script = Script::new("com.example");
    script.ring_log2_bytes(22);
    let work = script.method("com.example.Main.work", "()V");
    let main = script.thread(1, "main");
    // Times that do not repeat, so that they take space.
    let mut random = number;
    let mut at = script.at(main, 0);
    for _ in 0..250_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        at.after(random >> 54).call(work, (random >> 40) & 0xfff);
    }
    let trace = script.encode();
    let entry = Entry {
        report: number,
        severity: "fatal".into(),
        detector: "killed".into(),
        process: "com.example".into(),
        uid: 10_001,
        consent: "content".into(),
        bytes: trace.len() as u64,
        ..Entry::default()
    };
    let text = entry.to_toml();
    for (name, bytes) in [("toml", text.as_bytes()), ("hindsight", &*trace)] {
        let path = folder.join("store").join(format!("{number}.{name}"));
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    trace
}

#[test]
fn items_arrive_once_although_the_uploader_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let collector = Collector::start(Mode::Honest).unwrap();
    collector.write_authority(&folder.join("ca.pem")).unwrap();
    let conditions = "idle=1\ncharging=1\nunmetered=1\n";
    fs::write(folder.join("conditions"), conditions).unwrap();
    let mut hindsightd = service(folder);
    assert!(try_ask(folder, "consent set full").is_some());
    drop(hindsightd);
    let traces = [1, 2].map(|number| write_report(folder, number));
    hindsightd = service(folder);

    let mut kills = 0;
    loop {
        let mut uploader = start("child_uploader", folder, collector.port());
        // Killed as soon as the collector has read so many more requests.
        let target = collector.requests() + 2 + kills % 2;
        let ended = wait_for("a request, or the end", || {
            let status = uploader.0.try_wait().unwrap();
            let is_due = collector.requests() >= target;
            (status.is_some() || is_due).then_some(status)
        });
        if let Some(status) = ended {
            assert!(status.success(), "{status}");
            break;
        }
        drop(uploader);
        kills += 1;
        if kills % 4 == 0 {
            // As if the device were restarted.
            drop(hindsightd);
            hindsightd = service(folder);
        }
        assert!(kills < 200, "it makes no progress");
    }
    // The last uploader found nothing more to send.
    let received = collector.received();
    assert_eq!(received.len(), 4, "a text and a trace of two reports");
    for item in received.values() {
        assert!(item.is_complete && item.completions == 1, "{}", item.kind);
    }
    for trace in &traces {
        assert!(trace.len() > 256 << 10, "{}", trace.len());
        assert!(received.values().any(|item| item.bytes == *trace));
    }
    let status = try_ask(folder, "status").unwrap();
    assert!(status.contains("\"uploads\":2,"), "{status}");
    println!("the uploader was killed {kills} times");
    assert!(kills > 3, "{kills}");
    drop(hindsightd);
}
