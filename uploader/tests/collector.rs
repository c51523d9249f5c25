// SPDX-License-Identifier: Apache-2.0
//! The uploader against collectors, honest and hostile. hindsightd's side is a small stand-in; service/tests/upload.rs has the
//! real one.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hindsight_collector::{Collector, Mode};
use hindsight_uploader::{client, send, Conditions, Item, SendError, Sent, Service};

/// Longest test of something that must end.
const PATIENCE: Duration = Duration::from_secs(300);

struct Setup {
    folder: tempfile::TempDir,
    collector: Collector,
    conditions: Conditions,
    service: Service,
    /// So often the service says that the item may still leave.
    consents: Arc<AtomicU32>,
}

/// A stand-in for hindsightd that answers `still`, and says no when this number is used up.
fn consenting(path: &Path) -> Arc<AtomicU32> {
    let consents = Arc::new(AtomicU32::new(u32::MAX));
    let left = Arc::clone(&consents);
    let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            assert_eq!(line, "still 1 text\n");
            let order = Ordering::SeqCst;
            let may = left.fetch_update(order, order, |left| left.checked_sub(1));
            let answer: &[u8] = match may {
                Ok(_) => b"ok\nstill\n",
                Err(_) => b"ok\nnothing it may not leave any more\n",
            };
            let _ = stream.write_all(answer);
        }
    });
    consents
}

impl Setup {
    fn new(mode: Mode) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let collector = Collector::start(mode).unwrap();
        collector
            .write_authority(&folder.path().join("ca.pem"))
            .unwrap();
        let path = folder.path().join("conditions");
        let setup = Setup {
            conditions: Conditions::new(&path),
            service: Service::new(&folder.path().join("uploads")),
            consents: consenting(&folder.path().join("uploads")),
            folder,
            collector,
        };
        setup.set_conditions(true);
        setup
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set_conditions(&self, are_met: bool) {
        let text = format!("idle={}\ncharging=1\nunmetered=1\n", u8::from(are_met));
        fs::write(self.path("conditions"), text).unwrap();
    }

    fn item(&self, contents: &[u8]) -> Item {
        let path = self.path("item");
        fs::write(&path, contents).unwrap();
        Item {
            report: 1,
            kind: "text".into(),
            hash: sha256(&path),
            bytes: contents.len() as u64,
            file: File::open(&path).unwrap(),
        }
    }

    fn send_within(&self, item: &Item, deadline: Duration) -> Result<Sent, SendError> {
        let ca = self.path("ca.pem");
        let to = client(&ca, "localhost", self.collector.port(), deadline).unwrap();
        send(item, &self.service, &to, &self.conditions)
    }

    fn send(&self, item: &Item) -> Result<Sent, SendError> {
        self.send_within(item, PATIENCE)
    }
}

/// By another implementation than those of the service and the collector.
fn sha256(path: &Path) -> String {
    let output = std::process::Command::new("sha256sum")
        .arg(path)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

fn contents(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}

#[test]
fn items_arrive_once_and_whole() {
    let setup = Setup::new(Mode::Honest);
    for bytes in [0, 1, 256 << 10, (256 << 10) + 1, 1 << 20] {
        let contents = contents(bytes);
        let item = setup.item(&contents);
        for _ in 0..3 {
            assert_eq!(setup.send(&item).unwrap(), Sent::All);
        }
        let received = setup.collector.received();
        let received = &received[&item.hash];
        assert!(received.is_complete && received.bytes == contents);
        assert_eq!(received.completions, 1);
        assert_eq!(received.pieces as usize, bytes.div_ceil(256 << 10).max(1));
    }
}

#[test]
fn an_upload_goes_on_where_it_was_interrupted() {
    let setup = Setup::new(Mode::ForgetsToAnswer);
    let contents = contents(1 << 20);
    let item = setup.item(&contents);
    let mut failures = 0;
    while setup.send(&item).is_err() {
        failures += 1;
        assert!(failures < 10);
    }
    assert!(failures > 0);
    let received = &setup.collector.received()[&item.hash];
    assert!(received.is_complete && received.bytes == contents);
    // No byte was sent twice.
    assert_eq!((received.pieces, received.completions), (4, 1));
}

#[test]
fn an_upload_stops_when_the_conditions_are_not_met_any_more() {
    let setup = Setup::new(Mode::Honest);
    let item = setup.item(&contents(1 << 20));
    setup.set_conditions(false);
    assert_eq!(setup.send(&item).unwrap(), Sent::Conditions);
    assert!(setup.collector.received().is_empty());
    setup.set_conditions(true);
    assert_eq!(setup.send(&item).unwrap(), Sent::All);
}

#[test]
fn not_one_piece_leaves_after_the_service_says_no_or_nothing() {
    let mut setup = Setup::new(Mode::Honest);
    let item = setup.item(&contents(1 << 20));
    let pieces = |setup: &Setup| {
        let received = setup.collector.received();
        received.get(&item.hash).map_or(0, |item| item.pieces)
    };
    setup.consents.store(0, Ordering::SeqCst);
    assert_eq!(setup.send(&item).unwrap(), Sent::Withdrawn);
    assert_eq!(pieces(&setup), 0);
    setup.consents.store(2, Ordering::SeqCst);
    assert_eq!(setup.send(&item).unwrap(), Sent::Withdrawn);
    assert_eq!(pieces(&setup), 2);
    // Nobody answers, or with an error, or not to the question.
    let answers = ["", "error the service has a bug\n", "ok\n", "ok\nitem\n"];
    for (nth, answer) in answers.into_iter().enumerate() {
        let path = setup.path(&format!("answer{nth}"));
        answering(&path, answer, None);
        setup.service = Service::new(&path);
        let error = setup.send(&item).unwrap_err();
        assert!(matches!(error, SendError::Service(_)), "{answer}: {error}");
    }
    setup.service = Service::new(&setup.path("none"));
    assert!(setup.send(&item).is_err());
    assert_eq!(pieces(&setup), 2);
    setup.service = Service::new(&setup.path("uploads"));
    setup.consents.store(2, Ordering::SeqCst);
    assert_eq!(setup.send(&item).unwrap(), Sent::All);
}

/// Whatever the collector does: an error in time, and never the belief that the item has arrived.
#[test]
fn hostile_collectors_get_errors() {
    for mode in Mode::HOSTILE {
        let setup = Setup::new(mode);
        let item = setup.item(&contents(300 << 10));
        // Only these are ended by the clock.
        let waits = [Mode::Slow, Mode::Silent].contains(&mode);
        let deadline = if waits {
            Duration::from_millis(500)
        } else {
            PATIENCE
        };
        let begin = Instant::now();
        let result = setup.send_within(&item, deadline);
        assert!(result.is_err(), "{mode:?}: {result:?}");
        assert!(begin.elapsed() < PATIENCE, "{mode:?}");
        println!("{mode:?}: {}", result.unwrap_err());
        assert!(setup.collector.requests() < 10, "{mode:?}");
        if [Mode::WrongAuthority, Mode::WrongHost].contains(&mode) {
            assert_eq!(
                setup.collector.requests(),
                0,
                "{mode:?}: it was told something"
            );
        }
        // The same item arrives when the collector is honest again.
        setup.collector.set_mode(Mode::Honest);
        assert_eq!(setup.send(&item).unwrap(), Sent::All, "{mode:?}");
    }
}

#[test]
fn a_slow_collector_is_left_by_the_clock_although_bytes_come() {
    let setup = Setup::new(Mode::Slow);
    let item = setup.item(b"x");
    let error = setup
        .send_within(&item, Duration::from_millis(300))
        .unwrap_err();
    assert!(
        error.to_string().contains("time for a request is over"),
        "{error}"
    );
}

#[test]
fn an_endless_head_is_left_by_its_length() {
    for mode in [Mode::EndlessHead, Mode::EndlessLine] {
        let setup = Setup::new(mode);
        let error = setup.send(&setup.item(b"x")).unwrap_err();
        assert!(
            error.to_string().contains("head of the response"),
            "{mode:?}: {error}"
        );
    }
}

#[test]
fn an_unreachable_collector_is_an_error() {
    let setup = Setup::new(Mode::Honest);
    let item = setup.item(b"x");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let to = client(&setup.path("ca.pem"), "localhost", port, PATIENCE).unwrap();
    assert!(matches!(
        send(&item, &setup.service, &to, &setup.conditions),
        Err(SendError::Network(_))
    ));
}

#[test]
fn files_without_certificates_are_refused() {
    let setup = Setup::new(Mode::Honest);
    let empty = setup.path("empty");
    for text in [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        fs::write(&empty, text).unwrap();
        assert!(client(&empty, "localhost", 1, PATIENCE).is_err(), "{text}");
    }
    assert!(client(&setup.path("none"), "localhost", 1, PATIENCE).is_err());
}

/// A stand-in for hindsightd that answers with these bytes, and a descriptor.
fn answering(path: &Path, answer: &'static str, file: Option<File>) {
    let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 64]);
        if let Some(file) = &file {
            send_descriptor(&stream, file);
        }
        let _ = stream.write_all(answer.as_bytes());
    });
}

fn send_descriptor(stream: &std::os::unix::net::UnixStream, file: &File) {
    let mut byte = *b"o";
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut control = [0_u64; 4];
    // SAFETY: a header of zeros is an empty one; all pointers outlive the call, and the control buffer has room for a descriptor.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header)
            .cast::<i32>()
            .write_unaligned(file.as_raw_fd());
        assert_eq!(libc::sendmsg(stream.as_raw_fd(), &raw const message, 0), 1);
    }
}

#[test]
fn answers_of_the_service_are_items_or_errors() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, answer: &'static str, has_file: bool| {
        let path = folder.path().join(name);
        let file = has_file.then(|| File::open("/proc/self/exe").unwrap());
        answering(&path, answer, file);
        hindsight_uploader::Service::new(&path).next()
    };
    const GOOD: &str =
        "k\nitem 3 text 12 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";
    let item = of("good", GOOD, true).unwrap().unwrap();
    assert_eq!(
        (item.report, item.bytes, item.kind.as_str()),
        (3, 12, "text")
    );
    assert!(of("nothing", "ok\nnothing limit\n", false)
        .unwrap()
        .is_none());
    for (name, answer, has_file) in [
        ("no-file", "ok\nitem 3 text 12 00\n", false),
        ("no-hash", "k\nitem 3 text 12 00\n", true),
        ("no-kind", "k\nitem 3 movie 12 00\n", true),
        ("error", "error no\n", false),
        ("closed", "", false),
        ("short", "ok\n", false),
    ] {
        assert!(of(name, answer, has_file).is_err(), "{name}");
    }
    assert!(
        hindsight_uploader::Service::new(&folder.path().join("none"))
            .next()
            .is_err()
    );
}
