// SPDX-License-Identifier: Apache-2.0
//! `hindsight open` serves a trace, and a UI, only to browsers on this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use predicates::prelude::*;

struct Answer {
    code: u16,
    head: String,
    body: Vec<u8>,
}

/// Sends a request to 127.0.0.1:`port`.
fn ask(port: u16, method: &str, path: &str, host: &str) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    Answer {
        code: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_lowercase(),
        body: answer[end + 4..].to_vec(),
    }
}

struct Opened {
    child: Child,
    port: u16,
    trace_path: String,
    address: String,
}

/// Starts `hindsight open --once`, and waits for its address.
fn open(folder: &Path, arguments: &[&str]) -> Opened {
    let mut child = Command::new(cargo_bin("hindsight"))
        .arg("open")
        .args(arguments)
        .args(["--no-browser", "--once"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut address)
        .unwrap();
    let address = address.trim_end().to_owned();
    let (page, url) = address.split_once("/#!/?url=").unwrap();
    let port: u16 = page.rsplit(':').next().unwrap().parse().unwrap();
    assert_eq!(page, format!("http://127.0.0.1:{port}"));
    let url = url.replace("%3A", ":").replace("%2F", "/");
    let trace_path = url.strip_prefix(page).unwrap().to_owned();
    Opened {
        child,
        port,
        trace_path,
        address,
    }
}

/// A folder with a trace and the files of a UI.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    hindsight_testkit::stall()
        .write(&at("t.hindsight"))
        .unwrap();
    std::fs::create_dir_all(at("ui/v1.0")).unwrap();
    std::fs::write(at("ui/index.html"), "<html>the UI</html>").unwrap();
    std::fs::write(at("ui/v1.0/engine.wasm"), "\0asm").unwrap();
    folder
}

#[test]
fn a_browser_gets_the_ui_and_the_trace_and_then_it_ends() {
    let folder = folder();
    let export = assert_cmd::Command::new(cargo_bin("hindsight"))
        .args(["export", "t.hindsight", "-o", "-"])
        .current_dir(folder.path())
        .output()
        .unwrap()
        .stdout;
    let mut opened = open(folder.path(), &["t.hindsight", "--ui", "ui"]);
    let host = format!("127.0.0.1:{}", opened.port);
    let port = opened.port;

    let page = ask(port, "GET", "/", &host);
    assert_eq!(
        (page.code, &page.body[..]),
        (200, &b"<html>the UI</html>"[..])
    );
    assert!(
        page.head.contains("content-type: text/html"),
        "{}",
        page.head
    );
    let wasm = ask(port, "GET", "/v1.0/engine.wasm?x=1", &host);
    assert_eq!((wasm.code, &wasm.body[..]), (200, &b"\0asm"[..]));
    assert!(wasm.head.contains("application/wasm"), "{}", wasm.head);

    // Other host names are refused.
    assert_eq!(
        ask(port, "GET", &opened.trace_path, "evil.example").code,
        403
    );
    assert_eq!(ask(port, "GET", "/t.pftrace", &host).code, 404);
    assert_eq!(ask(port, "GET", "/../t.hindsight", &host).code, 404);
    assert_eq!(ask(port, "POST", &opened.trace_path, &host).code, 405);

    let allowed = "access-control-allow-origin: https://ui.perfetto.dev";
    let preflight = ask(port, "OPTIONS", &opened.trace_path, &host);
    assert_eq!(preflight.code, 204);
    assert!(preflight.head.contains(allowed), "{}", preflight.head);
    assert!(preflight
        .head
        .contains("access-control-allow-private-network: true"));
    let head = ask(port, "HEAD", &opened.trace_path, &host);
    assert_eq!((head.code, head.body.len()), (200, 0));

    // The trace can be fetched twice before the server ends.
    for _ in 0..2 {
        let trace = ask(port, "GET", &opened.trace_path, &host);
        assert_eq!(trace.code, 200);
        assert!(trace.head.contains(allowed), "{}", trace.head);
        assert!(trace
            .head
            .contains(&format!("content-length: {}", export.len())));
        assert!(trace.body == export);
    }
    assert!(opened.child.wait().unwrap().success());
    assert!(
        opened.address.ends_with("%2Ft.pftrace"),
        "{}",
        opened.address
    );
}

#[test]
fn part_of_a_trace_and_traces_of_perfetto_can_be_opened() {
    let folder = folder();
    let mut opened = open(
        folder.path(),
        &["t.hindsight", "--ui", "ui", "--thread", "notes-sync"],
    );
    let host = format!("localhost:{}", opened.port);
    let part = ask(opened.port, "GET", &opened.trace_path, &host).body;
    opened.child.wait().unwrap();
    std::fs::write(folder.path().join("part.pftrace"), &part).unwrap();
    let text = String::from_utf8_lossy(&part);
    assert!(text.contains("NoteFile.syncToFlash") && !text.contains("NoteStore.find"));

    let mut opened = open(folder.path(), &["part.pftrace", "--ui", "ui"]);
    let again = ask(
        opened.port,
        "GET",
        &opened.trace_path,
        &host.replace("localhost", "127.0.0.1"),
    );
    // It has another port.
    assert_eq!(again.code, 403);
    let host = format!("localhost:{}", opened.port);
    assert!(ask(opened.port, "GET", &opened.trace_path, &host).body == part);
    opened.child.wait().unwrap();
}

#[test]
fn errors_name_the_remedy() {
    let folder = folder();
    let hindsight = |arguments: &[&str]| {
        let mut command = assert_cmd::Command::new(cargo_bin("hindsight"));
        command.arg("open").args(arguments).arg("--no-browser");
        command.current_dir(folder.path());
        command
    };
    let fails = |arguments: &[&str], said: &str| {
        hindsight(arguments)
            .assert()
            .code(1)
            .stdout("")
            .stderr(predicate::str::contains(said));
    };
    fails(&["t.hindsight", "--ui", "."], "not a Perfetto UI");
    fails(&["missing.hindsight", "--ui", "ui"], "missing.hindsight");
    std::fs::write(folder.path().join("text"), "hello").unwrap();
    fails(&["text", "--ui", "ui"], "text");
    // The port may be in use already; if not, this test uses it now.
    let _taken = TcpListener::bind(("127.0.0.1", 9001));
    fails(&["t.hindsight", "--online"], "9001");
    hindsight(&["t.hindsight", "--online", "--ui", "ui"])
        .assert()
        .code(2);
}
