// SPDX-License-Identifier: Apache-2.0
//! A logd that is honest, silent, endless or hostile.

use std::os::fd::OwnedFd;
use std::thread;

use super::super::{accept, listen, SocketKind};
use super::*;

const WANTED: LogRequest = LogRequest {
    pid: 7,
    uid: 10_001,
    report_ns: 10_000_000_000,
    since_ns: 0,
    bytes: 64 << 10,
};
/// Long enough for each test's logd to be heard.
const LONG: Duration = Duration::from_secs(60);

fn packet(pid: u32, text: &str) -> Vec<u8> {
    let payload = format!("\x04Tag\0{text}\0");
    let mut bytes = (payload.len() as u16).to_le_bytes().to_vec();
    bytes.extend(28_u16.to_le_bytes());
    for number in [pid, pid, 9, 0, 0, 10_001_u32] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(payload.as_bytes());
    bytes
}

/// A logd; `serve` gets the connection and what it was asked.
fn with_logd(
    serve: impl FnOnce(OwnedFd, String) + Send + 'static,
    patience: Duration,
) -> io::Result<LogExcerpt> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logdr");
    let listener = listen(&path, SocketKind::Packets, 0o600).unwrap();
    let logd = thread::spawn(move || {
        let connection = loop {
            if let Some(connection) = accept(listener.as_fd()).unwrap() {
                break connection;
            }
            thread::yield_now();
        };
        let mut asked = [0; 200];
        let length = loop {
            match receive_packet(connection.as_fd(), &mut asked).unwrap() {
                Packet::Bytes { length, .. } => break length,
                Packet::Nothing => thread::yield_now(),
                Packet::End => panic!("nothing was asked"),
            }
        };
        let asked = String::from_utf8(asked[..length].to_vec()).unwrap();
        serve(connection, asked);
    });
    let result = read(&path, WANTED, patience);
    logd.join().unwrap();
    result
}

/// Sends until the other side does not listen any more, or has it all.
fn send(connection: &OwnedFd, packets: impl IntoIterator<Item = Vec<u8>>) {
    for packet in packets {
        loop {
            match send_packet(connection.as_fd(), &packet, None) {
                Sent::Bytes(_) => break,
                Sent::Full => thread::yield_now(),
                Sent::Gone => return,
            }
        }
    }
}

#[test]
fn lines_of_the_process_are_read_until_logd_closes() {
    let serve = |connection: OwnedFd, asked: String| {
        assert_eq!(asked, "dumpAndClose lids=0,3,4 pid=7");
        send(
            &connection,
            [packet(7, "one"), packet(8, "other"), packet(7, "two")],
        );
    };
    let excerpt = with_logd(serve, LONG).unwrap();
    assert_eq!(excerpt.lines, ["-1.000 I/Tag: one", "-1.000 I/Tag: two"]);
}

#[test]
fn damaged_packets_are_skipped() {
    let serve = |connection: OwnedFd, _| {
        let good = packet(7, "good");
        let mut giant = good.clone();
        giant[..4].copy_from_slice(&[0xff; 4]);
        let half = good[..good.len() / 2].to_vec();
        let long = vec![7; MAX_PACKET + 1];
        send(&connection, [giant, half, long, vec![0], good]);
    };
    let excerpt = with_logd(serve, LONG).unwrap();
    assert_eq!(excerpt.lines, ["-1.000 I/Tag: good"]);
}

#[test]
fn a_logd_that_does_not_trust_the_service_is_an_error() {
    let serve = |connection: OwnedFd, _| {
        let mut version_3 = packet(7, "x");
        version_3[2] = 24;
        send(&connection, [version_3]);
    };
    let problem = with_logd(serve, LONG).unwrap_err().to_string();
    assert!(problem.contains("group log"), "{problem}");
    let missing = read(Path::new("/nonexistent/logdr"), WANTED, LONG);
    assert!(missing.is_err());
}

#[test]
fn a_silent_logd_ends_with_the_patience() {
    let serve = |connection: OwnedFd, _| {
        // Until the reader has gone.
        let mut byte = [0];
        while !matches!(
            receive_packet(connection.as_fd(), &mut byte),
            Ok(Packet::End) | Err(_)
        ) {
            thread::yield_now();
        }
    };
    let excerpt = with_logd(serve, Duration::from_millis(20)).unwrap();
    assert_eq!(excerpt, LogExcerpt::default());
}

#[test]
fn an_endless_logd_ends_with_the_patience_in_bounded_memory() {
    let serve = |connection: OwnedFd, _| {
        let line = packet(7, &"x".repeat(1000));
        send(&connection, std::iter::repeat(line));
    };
    let excerpt = with_logd(serve, Duration::from_millis(100)).unwrap();
    let bytes: usize = excerpt.lines.iter().map(String::len).sum();
    assert!(bytes > 0 && bytes <= WANTED.bytes, "{bytes}");
}
