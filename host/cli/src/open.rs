// SPDX-License-Identifier: Apache-2.0
//! `hindsight open`: a trace in the Perfetto UI.
//!
//! The UI, a web page, fetches the trace from a server that this program runs on the loopback device. An
//! installed copy of the UI is served from there, too; otherwise the page is ui.perfetto.dev.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, ensure, Context, Result};
use clap::Args;
use hindsight_export::Format;
use tiny_http::{Header, Method, Request, Response, Server, StatusCode};

use crate::input::{ensure_file, Input};
use crate::output::OutputError;
use crate::select::Select;
use crate::{damage, progress};

/// Where the UI lives on the network.
const ONLINE: &str = "https://ui.perfetto.dev";
/// The only local port that ui.perfetto.dev may fetch from, by its content security policy.
const ONLINE_PORT: u16 = 9001;
/// With `--once`: the server ends when no request came for this long after the trace.
const QUIET: Duration = Duration::from_secs(2);
/// Threads that answer requests: a browser asks for several files at once.
const WORKERS: usize = 4;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Folder of a Perfetto UI; default: the one that scripts/perfetto/setup has put into the cache, if any
    #[arg(long, value_name = "FOLDER", env = "HINDSIGHT_PERFETTO_UI", value_hint = clap::ValueHint::DirPath)]
    ui: Option<PathBuf>,
    /// Use ui.perfetto.dev even if there is a UI on this machine
    #[arg(long, conflicts_with = "ui")]
    online: bool,
    /// Only print the address
    #[arg(long)]
    no_browser: bool,
    /// End when the trace has been fetched, rather than on Ctrl-C
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    select: Select,
}

/// The files that are served.
struct Site {
    trace: File,
    trace_bytes: u64,
    /// The trace's path, which cannot be guessed: other users of this machine can connect, too.
    trace_path: String,
    /// An installed UI.
    ui: Option<PathBuf>,
    /// Host names that are answered. Others are refused: a page of another site could point its own name to this
    /// machine (DNS rebinding).
    hosts: [String; 2],
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let ui = match (&arguments.ui, arguments.online) {
        (Some(folder), _) => {
            ensure!(
                is_ui(folder),
                "{}: this is not a Perfetto UI: it has no index.html and no folder for a version",
                folder.display()
            );
            Some(folder.clone())
        }
        (None, true) => None,
        (None, false) => installed_ui(),
    };
    let (trace, trace_bytes) = perfetto_trace(arguments)?;

    let port = if ui.is_some() { 0 } else { ONLINE_PORT };
    let server = Server::http(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).map_err(|e| {
        anyhow!(
            "cannot listen on local port {port}: {e}. ui.perfetto.dev may fetch from no other port: end the program that \
             uses it (such as another `hindsight open`, or trace_processor), or install the UI (scripts/perfetto/setup)"
        )
    })?;
    let port = server
        .server_addr()
        .to_ip()
        .map(|address| address.port())
        .context("the server has no port")?;
    let name = arguments.input.file.file_stem().and_then(OsStr::to_str);
    let name = format!("{}.pftrace", name.unwrap_or("trace"));
    let secret = RandomState::new().build_hasher().finish();
    let trace_path = format!("/{secret:016x}/{}", escape(&name));
    let trace_url = format!("http://127.0.0.1:{port}{trace_path}");
    let origin = match ui {
        Some(_) => format!("http://127.0.0.1:{port}"),
        None => ONLINE.to_owned(),
    };
    let address = format!("{origin}/#!/?url={}", escape(&trace_url));
    let site = Arc::new(Site {
        trace,
        trace_bytes,
        trace_path,
        ui,
        hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
    });

    // Flushed, so that a program that reads our output through a pipe gets the address at once.
    let mut out = io::stdout().lock();
    writeln!(out, "{address}")
        .and_then(|()| out.flush())
        .map_err(OutputError)?;
    drop(out);
    if !arguments.no_browser {
        if let Err(e) = ::open::that_detached(&address) {
            anstream::eprintln!(
                "note: no browser could be started ({e}); open the address in one yourself"
            );
        }
    }
    if !arguments.once {
        anstream::eprintln!("serving {name}; Ctrl-C ends");
    }
    serve(Arc::new(server), &site, arguments.once);
    Ok(())
}

/// The trace in a format that Perfetto reads, and its length in bytes. Perfetto's own formats are served as they are.
fn perfetto_trace(arguments: &Arguments) -> Result<(File, u64)> {
    let path = &arguments.input.file;
    ensure_file(path)?;
    let cannot_read = || format!("cannot open {}", path.display());
    let is_foreign = {
        let mut start = [0; 1];
        let mut file = File::open(path).with_context(cannot_read)?;
        // Perfetto's traces begin with the tag of their first packet, JSON with a brace or bracket.
        file.read(&mut start).with_context(cannot_read)? == 1 && b"\x0a{[".contains(&start[0])
    };
    if is_foreign {
        let file = File::open(path).with_context(cannot_read)?;
        let bytes = file.metadata().with_context(cannot_read)?.len();
        return Ok((file, bytes));
    }
    let trace = arguments.input.read()?;
    damage::note(&trace, path);
    let trace = arguments.select.apply(trace, path)?;
    let _spinner = progress::spinner("exporting for Perfetto".to_owned());
    // A file without a name: the system removes it, however this program ends.
    let file = tempfile::tempfile().context("cannot make a temporary file for the export")?;
    let mut out = io::BufWriter::with_capacity(1 << 20, file);
    let written = hindsight_export::write(&trace, Format::Perfetto, &mut out)?;
    let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.seek(SeekFrom::Start(0))?;
    crate::export::note_differences(&written);
    Ok((file, written.bytes))
}

/// The newest UI that `scripts/perfetto/setup` has put into the cache.
fn installed_ui() -> Option<PathBuf> {
    let cache = match std::env::var_os("HINDSIGHT_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".cache/hindsight"),
    };
    let folders = std::fs::read_dir(cache.join("perfetto")).ok()?;
    folders
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| name.starts_with("ui-")) && is_ui(path)
        })
        .max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok())
}

/// Whether a Perfetto UI is in the folder: a page, and a folder named for a version.
fn is_ui(folder: &Path) -> bool {
    let is_version = |name: &OsStr| {
        let mut name = name.to_str().unwrap_or_default().chars();
        name.next() == Some('v') && name.next().is_some_and(|c| c.is_ascii_digit())
    };
    folder.join("index.html").is_file()
        && std::fs::read_dir(folder).is_ok_and(|entries| {
            entries
                .flatten()
                .any(|entry| is_version(&entry.file_name()) && entry.path().is_dir())
        })
}

/// Answers requests: with `once` until the trace has been fetched and no more requests come, else forever.
fn serve(server: Arc<Server>, site: &Arc<Site>, once: bool) {
    let (answered, answers) = mpsc::channel();
    for _ in 0..WORKERS {
        let (server, site, answered) = (Arc::clone(&server), Arc::clone(site), answered.clone());
        std::thread::spawn(move || work(&server, &site, &answered));
    }
    drop(answered);
    let mut fetched = false;
    loop {
        let answer = if fetched {
            answers.recv_timeout(QUIET)
        } else {
            answers.recv().map_err(RecvTimeoutError::from)
        };
        match answer {
            Ok(was_trace) => fetched |= was_trace && once,
            Err(_) => return,
        }
    }
}

/// Answers requests, and sends for each whether it was for the trace.
fn work(server: &Server, site: &Site, answered: &Sender<bool>) {
    while let Ok(request) = server.recv() {
        let was_trace = matches!(answer(site, request), Ok(true));
        if answered.send(was_trace).is_err() {
            return;
        }
    }
}

/// Answers a request; returns whether it got the trace.
fn answer(site: &Site, request: Request) -> io::Result<bool> {
    let host = header(&request, "Host").unwrap_or_default();
    if !site.hosts.contains(&host) {
        return refuse(request, 403);
    }
    let path = request.url().split(['?', '#']).next().unwrap_or_default();
    let is_trace = path == site.trace_path;
    match request.method() {
        Method::Options if is_trace => {
            let response = Response::empty(204)
                .with_header(field("Access-Control-Allow-Methods", "GET, HEAD"))
                // Chrome asks before a page from the network may fetch from this machine.
                .with_header(field("Access-Control-Allow-Private-Network", "true"));
            request.respond(allow_ui(response))?;
            return Ok(false);
        }
        Method::Get | Method::Head => {}
        _ => return refuse(request, 405),
    }
    let is_get = *request.method() == Method::Get;
    if is_trace {
        let body = FromStart {
            file: &site.trace,
            at: 0,
        };
        let length = usize::try_from(site.trace_bytes).ok();
        let headers = vec![field("Content-Type", "application/octet-stream")];
        let response = Response::new(StatusCode(200), headers, body, length, None)
            // Sent with its length, by which the browser shows progress.
            .with_chunked_threshold(usize::MAX);
        request.respond(allow_ui(response))?;
        return Ok(is_get);
    }
    let Some(path) = site.ui.as_ref().and_then(|ui| file_in(ui, path)) else {
        return refuse(request, 404);
    };
    let Ok(file) = File::open(&path) else {
        return refuse(request, 404);
    };
    let response = Response::from_file(file)
        .with_header(field("Content-Type", content_type(&path)))
        .with_header(field("Cache-Control", "no-cache"));
    request.respond(response)?;
    Ok(false)
}

fn refuse(request: Request, code: u16) -> io::Result<bool> {
    request.respond(Response::empty(code)).map(|()| false)
}

/// Lets ui.perfetto.dev, and no other site, read the answer.
fn allow_ui<R: Read>(response: Response<R>) -> Response<R> {
    response
        .with_header(field("Access-Control-Allow-Origin", ONLINE))
        .with_header(field("Cache-Control", "no-store"))
}

fn header(request: &Request, name: &'static str) -> Option<String> {
    let found = request.headers().iter().find(|h| h.field.equiv(name));
    Some(found?.value.as_str().to_owned())
}

/// A header. Names and values are constants of this module, all of them ASCII.
fn field(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).unwrap_or_else(|()| unreachable!("{name}: {value}"))
}

/// The file at `path` below `folder`, if it exists and the path does not lead out of the folder.
fn file_in(folder: &Path, path: &str) -> Option<PathBuf> {
    let path = Path::new(path.strip_prefix('/')?);
    let stays = path.components().all(|c| matches!(c, Component::Normal(_)));
    let path = match path.as_os_str().is_empty() {
        true => folder.join("index.html"),
        false => folder.join(path),
    };
    (stays && path.is_file()).then_some(path)
}

fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(OsStr::to_str) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json" | "map") => "application/json",
        Some("wasm") => "application/wasm",
        Some("png") => "image/png",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

/// Percent-encodes all bytes except letters, digits and `-._~`.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// Reads a file from its start, with a position of its own: several requests read it at once.
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_do_not_lead_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let ui = folder.path().join("ui");
        std::fs::create_dir_all(ui.join("v1")).unwrap();
        for file in ["ui/index.html", "ui/v1/a.js", "secret"] {
            std::fs::write(folder.path().join(file), "x").unwrap();
        }
        assert!(is_ui(&ui));
        assert_eq!(file_in(&ui, "/"), Some(ui.join("index.html")));
        assert_eq!(file_in(&ui, "/v1/a.js"), Some(ui.join("v1/a.js")));
        let absolute = format!("/{}", folder.path().join("secret").display());
        for path in [
            "/../secret",
            "/v1/../../secret",
            &absolute,
            "/v1",
            "",
            "index.html",
        ] {
            assert_eq!(file_in(&ui, path), None, "{path}");
        }
    }

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(
            escape("http://127.0.0.1:9001/a b"),
            "http%3A%2F%2F127.0.0.1%3A9001%2Fa%20b"
        );
        assert_eq!(escape("ö"), "%C3%B6");
    }
}
