// SPDX-License-Identifier: Apache-2.0
//! A traced that says anything: the connection ends with an error, and nothing else happens.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;

use hindsight_perfetto_source::ipc::Producer;

/// Connects to a socket whose other side answers the first frame by these bytes and then closes.
fn meets(answer: &[u8]) -> std::io::Error {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("traced");
    let listener = UnixListener::bind(&path).unwrap();
    let answer = answer.to_vec();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(&answer);
    });
    let result = Producer::connect(&path, "dev.hindsight");
    other.join().unwrap();
    result.expect_err("this is no traced")
}

#[test]
fn hostile_answers_end_the_connection() {
    let cut = "unexpected end of file";
    for (answer, text) in [
        (&[][..], cut),
        (&[0xff; 8], "too long"),
        // A field that ends beyond the frame, and a frame of another kind.
        (&[2, 0, 0, 0, 0x22, 0x7f], "none of traced"),
        (&[2, 0, 0, 0, 0x10, 1], "none of traced"),
        (&[4, 0, 0, 0, 0x22, 2], cut),
        // Bound, without a method.
        (&[2, 0, 0, 0, 0x22, 0], "no method InitializeConnection"),
    ] {
        let error = meets(answer).to_string();
        assert!(error.contains(text), "{answer:?}: {error}");
    }
}
