// SPDX-License-Identifier: Apache-2.0
//! A collector for tests of the uploader, on the loopback interface: honest, or hostile in one of many ways. docs/upload.md has
//! the protocol. Items are kept in memory.

mod certificates;
mod model;
mod serve;

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use certificates::Certificates;
use model::{locked, Configs, Shared};

pub use model::{Mode, Received};

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
