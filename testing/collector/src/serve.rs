// SPDX-License-Identifier: Apache-2.0
//! One connection with one request.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustls::{ServerConnection, Stream};
use sha2::{Digest as _, Sha256};

use crate::model::{locked, Configs, Mode, Received, Shared};

/// Longest head and longest item that are taken.
const MAX_HEAD: usize = 8 << 10;
const MAX_ITEM: u64 = 64 << 20;

struct Request {
    is_put: bool,
    hash: String,
    offset: u64,
    total: u64,
    length: u64,
    kind: String,
    body: Vec<u8>,
}

fn wrong(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}

/// Reads a request's head, and what has come of its body.
fn read_head(stream: &mut impl Read) -> io::Result<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer)?;
        if count == 0 || bytes.len() > MAX_HEAD {
            return Err(wrong("no head"));
        }
        bytes.extend_from_slice(&buffer[..count]);
    };
    let text = std::str::from_utf8(&bytes[..end]).map_err(io::Error::other)?;
    let mut lines = text.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or("").split(' ').collect();
    let [method @ ("GET" | "PUT"), path, "HTTP/1.1"] = words[..] else {
        return Err(wrong("no request"));
    };
    let hash = path.strip_prefix("/v1/items/").unwrap_or("");
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if hash.len() != 64 || !hash.bytes().all(is_hex) {
        return Err(wrong("no hash"));
    }
    let mut request = Request {
        is_put: method == "PUT",
        hash: hash.to_owned(),
        offset: 0,
        total: 0,
        length: 0,
        kind: String::new(),
        body: bytes[end + 4..].to_vec(),
    };
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        let number = || value.parse::<u64>().map_err(io::Error::other);
        match name {
            "upload-offset" => request.offset = number()?,
            "upload-length" => request.total = number()?,
            "content-length" => request.length = number()?,
            "hindsight-kind" => request.kind = value.to_owned(),
            _ => {}
        }
    }
    Ok(request)
}

impl Request {
    fn read_body(&mut self, stream: &mut impl Read) -> io::Result<()> {
        if self.length > MAX_ITEM || self.total > MAX_ITEM {
            return Err(wrong("too long"));
        }
        let mut buffer = [0; 16 << 10];
        while (self.body.len() as u64) < self.length {
            let count = stream.read(&mut buffer)?;
            if count == 0 {
                return Err(wrong("the body was cut off"));
            }
            self.body.extend_from_slice(&buffer[..count]);
        }
        self.body.truncate(self.length as usize);
        Ok(())
    }

    /// Status and offset of an honest answer.
    fn take(&self, item: &mut Received) -> (u16, u64) {
        let has = item.bytes.len() as u64;
        if item.is_complete {
            return (201, has);
        }
        if !self.is_put {
            return (200, has);
        }
        if self.offset != has {
            return (409, has);
        }
        item.kind.clone_from(&self.kind);
        item.bytes.extend_from_slice(&self.body);
        item.pieces += 1;
        let has = item.bytes.len() as u64;
        if has < self.total {
            return (200, has);
        }
        let hash: String = Sha256::digest(&item.bytes)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        if has > self.total || hash != self.hash {
            *item = Received::default();
            return (422, 0);
        }
        item.is_complete = true;
        item.completions += 1;
        (201, has)
    }
}

fn answer(status: u16, offset: &str) -> String {
    format!("HTTP/1.1 {status} x\r\nupload-offset: {offset}\r\ncontent-length: 0\r\n\r\n")
}

/// Serves one request; errors end the connection.
pub(crate) fn connection(stream: &TcpStream, shared: &Shared, configs: &Configs) {
    let mode = *locked(&shared.mode);
    let _ = serve(stream, mode, shared, configs);
}

fn serve(mut tcp: &TcpStream, mode: Mode, shared: &Shared, configs: &Configs) -> io::Result<()> {
    match mode {
        Mode::Plain => {
            let _ = tcp.read(&mut [0; 1024])?;
            return tcp.write_all(answer(201, "0").as_bytes());
        }
        Mode::Silent => {
            // Until the client gives up.
            while tcp.read(&mut [0; 1024])? > 0 {}
            return Ok(());
        }
        _ => {}
    }
    let mut tls = ServerConnection::new(configs.of(mode)).map_err(io::Error::other)?;
    let mut stream = Stream::new(&mut tls, &mut tcp);
    let mut request = read_head(&mut stream)?;
    *locked(&shared.requests) += 1;
    if mode == Mode::RefusesEarly {
        stream.write_all(answer(413, "0").as_bytes())?;
        stream.conn.send_close_notify();
        stream.flush()?;
        // A reset would take the answer away.
        while stream.sock.read(&mut [0; 4096])? > 0 {}
        return Ok(());
    }
    request.read_body(&mut stream)?;
    // Hostile ones know nothing of the item until bytes were sent.
    if !request.is_put && hostile_after_put(mode) {
        stream.write_all(answer(404, "0").as_bytes())?;
        stream.conn.send_close_notify();
        return stream.flush();
    }
    let text = match mode {
        Mode::Honest | Mode::ForgetsToAnswer => {
            let mut items = locked(&shared.items);
            let is_known = items.contains_key(&request.hash);
            if !request.is_put && !is_known {
                answer(404, "0")
            } else {
                let item = items.entry(request.hash.clone()).or_default();
                let (status, offset) = request.take(item);
                let is_forgotten = request.is_put && item.pieces % 2 == 1;
                if mode == Mode::ForgetsToAnswer && is_forgotten {
                    return Err(wrong("forgotten"));
                }
                answer(status, &offset.to_string())
            }
        }
        Mode::Slow => return endless(&mut stream, b"x", 5, shared),
        Mode::EndlessLine => return endless(&mut stream, &[b'x'; 512], 0, shared),
        Mode::EndlessHead => return endless(&mut stream, b"a: b\r\n", 0, shared),
        Mode::Redirect => "HTTP/1.1 301 x\r\nlocation: https://example.com/\r\n\r\n".into(),
        Mode::CutsTheHead => {
            stream.write_all(b"HTTP/1.1 201 x\r\nupload-of")?;
            stream.flush()?;
            return tcp.shutdown(std::net::Shutdown::Both);
        }
        Mode::OffsetAfterTheEnd => answer(200, &(request.total + 1).to_string()),
        Mode::OffsetStays => answer(200, "0"),
        Mode::NoOffset => "HTTP/1.1 201 x\r\n\r\n".into(),
        Mode::TwoOffsets => {
            let total = request.total;
            format!("HTTP/1.1 201 x\r\nupload-offset: {total}\r\nupload-offset: {total}\r\n\r\n")
        }
        Mode::OffsetIsNoNumber => answer(201, "all"),
        Mode::CompleteWithoutBytes => answer(201, "0"),
        Mode::AlwaysElsewhere => answer(409, "1"),
        Mode::Fails => answer(500, "0"),
        Mode::OtherProtocol => "220 mail ESMTP\r\n\r\n".into(),
        Mode::NoStatus => "HTTP/1.1 \r\n\r\n".into(),
        Mode::Plain | Mode::Silent | Mode::RefusesEarly => return Ok(()),
        // The client should not come here.
        Mode::WrongAuthority | Mode::WrongHost => answer(201, &request.total.to_string()),
    };
    stream.write_all(text.as_bytes())?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// Whether the mode tells its lie about bytes that it was sent.
fn hostile_after_put(mode: Mode) -> bool {
    use Mode::{
        AlwaysElsewhere, CompleteWithoutBytes, NoOffset, OffsetAfterTheEnd, OffsetIsNoNumber,
        OffsetStays, TwoOffsets,
    };
    let modes = [
        AlwaysElsewhere,
        CompleteWithoutBytes,
        NoOffset,
        OffsetAfterTheEnd,
        OffsetIsNoNumber,
        OffsetStays,
        TwoOffsets,
    ];
    modes.contains(&mode)
}

/// Begins a head, and sends the same bytes again and again until the client has gone.
fn endless(stream: &mut impl Write, part: &[u8], pause_ms: u64, shared: &Shared) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 201 x\r\nupload-offset: 0\r\na: ")?;
    while !shared.has_ended.load(Ordering::Relaxed) {
        stream.write_all(part)?;
        stream.flush()?;
        std::thread::sleep(Duration::from_millis(pause_ms));
    }
    Ok(())
}
