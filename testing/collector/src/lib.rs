// SPDX-License-Identifier: Apache-2.0
//! A collector for tests of the uploader, on the loopback interface: honest, or hostile in one of many ways. docs/upload.md has
//! the protocol. Items are kept in memory.

mod certificates;
mod serve;

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;

use certificates::Certificates;

/// How the collector behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As the protocol says.
    #[default]
    Honest,
    /// Honest, but each second piece is kept and never answered: the connection ends.
    ForgetsToAnswer,
    /// A byte of the response every few milliseconds, without end.
    Slow,
    /// Takes connections, and never says anything.
    Silent,
    /// A head of many lines without end.
    EndlessHead,
    /// A line of the head without end.
    EndlessLine,
    /// `301`, to another host.
    Redirect,
    /// Ends the connection in the middle of the head, without the end of TLS.
    CutsTheHead,
    /// Speaks no TLS.
    Plain,
    /// Another authority has signed its certificate.
    WrongAuthority,
    /// Its certificate is of another host.
    WrongHost,
    /// Has bytes after the item's end.
    OffsetAfterTheEnd,
    /// Has fewer bytes than before.
    OffsetStays,
    /// Does not say what it has.
    NoOffset,
    /// Says it twice.
    TwoOffsets,
    /// Says it in words.
    OffsetIsNoNumber,
    /// Has all of the item, and not its bytes.
    CompleteWithoutBytes,
    /// `409`, always.
    AlwaysElsewhere,
    /// `500`.
    Fails,
    /// `413`, before it has read the request.
    RefusesEarly,
    /// Another protocol.
    OtherProtocol,
    /// `HTTP/1.1` and nothing that follows from it.
    NoStatus,
}

impl Mode {
    /// All hostile modes: none may make an uploader believe that an item has arrived, hang, or use more memory.
    pub const HOSTILE: [Mode; 20] = [
        Mode::Slow,
        Mode::Silent,
        Mode::EndlessHead,
        Mode::EndlessLine,
        Mode::Redirect,
        Mode::CutsTheHead,
        Mode::Plain,
        Mode::WrongAuthority,
        Mode::WrongHost,
        Mode::OffsetAfterTheEnd,
        Mode::OffsetStays,
        Mode::NoOffset,
        Mode::TwoOffsets,
        Mode::OffsetIsNoNumber,
        Mode::CompleteWithoutBytes,
        Mode::AlwaysElsewhere,
        Mode::Fails,
        Mode::RefusesEarly,
        Mode::OtherProtocol,
        Mode::NoStatus,
    ];
}

/// Something that was uploaded, as far as it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// `text` or `trace`.
    pub kind: String,
    /// Its contents.
    pub bytes: Vec<u8>,
    /// All of it is there, and its hash is right.
    pub is_complete: bool,
    /// Requests that brought bytes.
    pub pieces: u32,
    /// How often all of it was there: never more than once.
    pub completions: u32,
}

#[derive(Default)]
pub(crate) struct Shared {
    mode: Mutex<Mode>,
    items: Mutex<BTreeMap<String, Received>>,
    requests: Mutex<u64>,
    has_ended: AtomicBool,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A collector that serves until it is dropped.
pub struct Collector {
    shared: Arc<Shared>,
    port: u16,
    authority: String,
}

impl Collector {
    /// Serves a free port of 127.0.0.1, as `localhost`.
    ///
    /// # Errors
    /// If there is none, or no certificate can be made.
    pub fn start(mode: Mode) -> io::Result<Self> {
        let made = Certificates::new().map_err(io::Error::other)?;
        let configs = Configs {
            good: made.good,
            wrong_authority: made.wrong_authority,
            wrong_host: made.wrong_host,
        };
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::default());
        *locked(&shared.mode) = mode;
        let (all, configs) = (Arc::clone(&shared), Arc::new(configs));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if all.has_ended.load(Ordering::Relaxed) {
                    return;
                }
                let (shared, configs) = (Arc::clone(&all), Arc::clone(&configs));
                if let Ok(stream) = stream {
                    // A connection that fails is the client's matter.
                    std::thread::spawn(move || serve::connection(&stream, &shared, &configs));
                }
            }
        });
        Ok(Collector {
            shared,
            port,
            authority: made.authority,
        })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Writes the certificate that clients have to trust.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_authority(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, &self.authority)
    }

    /// Behaves differently from the next connection on.
    pub fn set_mode(&self, mode: Mode) {
        *locked(&self.shared.mode) = mode;
    }

    /// What has arrived, by hash.
    pub fn received(&self) -> BTreeMap<String, Received> {
        locked(&self.shared.items).clone()
    }

    /// Number of requests whose head was read.
    pub fn requests(&self) -> u64 {
        *locked(&self.shared.requests)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = std::net::TcpStream::connect(("127.0.0.1", self.port));
    }
}

pub(crate) struct Configs {
    good: Arc<ServerConfig>,
    wrong_authority: Arc<ServerConfig>,
    wrong_host: Arc<ServerConfig>,
}

impl Configs {
    pub(crate) fn of(&self, mode: Mode) -> Arc<ServerConfig> {
        Arc::clone(match mode {
            Mode::WrongAuthority => &self.wrong_authority,
            Mode::WrongHost => &self.wrong_host,
            _ => &self.good,
        })
    }
}
