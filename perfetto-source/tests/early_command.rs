// SPDX-License-Identifier: Apache-2.0
//! traced starts the data source in a running session while it is being registered: the command is not lost, and nobody sleeps over it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use hindsight_perfetto_source::ipc::{Command, Producer};
use hindsight_perfetto_source::proto::{Fields, Message};

const METHODS: [&str; 3] = [
    "InitializeConnection",
    "RegisterDataSource",
    "GetAsyncCommand",
];

fn read(stream: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut frame = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut frame).unwrap();
    frame
}

fn number(bytes: &[u8], field: u32) -> u64 {
    Fields::get(bytes, field).map_or(0, |v| v.number())
}

fn reply(request: u64, answer: &Message) -> Vec<u8> {
    let mut reply = Message::new();
    reply.varint(1, 1).message(3, answer);
    let mut frame = Message::new();
    frame.varint(2, request).message(6, &reply);
    with_length(&frame)
}

fn with_length(frame: &Message) -> Vec<u8> {
    let mut bytes = (frame.as_bytes().len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(frame.as_bytes());
    bytes
}

/// Serves one producer; as traced, it drops commands while nobody has asked for them.
fn traced(stream: &mut UnixStream) {
    read(stream);
    let mut bound = Message::new();
    bound.varint(1, 1).varint(2, 1);
    for (i, name) in METHODS.iter().enumerate() {
        let mut method = Message::new();
        method.varint(1, i as u64 + 1).string(2, name);
        bound.message(3, &method);
    }
    let mut frame = Message::new();
    frame.varint(2, 0).message(4, &bound);
    stream.write_all(&with_length(&frame)).unwrap();
    let mut commands = None;
    loop {
        let frame = read(stream);
        let (request, invoke) = (number(&frame, 2), Fields::get(&frame, 5).unwrap().bytes());
        match number(invoke, 2) {
            1 => {
                let mut answer = Message::new();
                answer.varint(1, 1);
                stream.write_all(&reply(request, &answer)).unwrap();
            }
            2 => {
                let mut start = Message::new();
                start.varint(1, 77);
                let mut command = Message::new();
                command.message(1, &start);
                // One write: both are read at once.
                let mut bytes = Vec::new();
                if let Some(commands) = commands {
                    bytes = reply(commands, &command);
                }
                bytes.extend(reply(request, &Message::new()));
                return stream.write_all(&bytes).unwrap();
            }
            _ => commands = Some(request),
        }
    }
}

#[test]
fn a_command_that_comes_before_the_answer_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("traced");
    let listener = UnixListener::bind(&path).unwrap();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        traced(&mut stream);
        stream
    });
    let mut producer = Producer::connect(&path, "dev.hindsight").unwrap();
    let stream = other.join().unwrap();
    assert!(producer.has_read_ahead().unwrap());
    let command = producer.next_command().unwrap();
    assert!(
        matches!(command, Some(Command::Start { instance: 77, .. })),
        "{command:?}"
    );
    assert!(!producer.has_read_ahead().unwrap());
    drop(stream);
}
