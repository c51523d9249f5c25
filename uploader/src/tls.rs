// SPDX-License-Identifier: Apache-2.0
//! Connections to the collector: TLS 1.3, certificates of one file, and a time limit for all of a request.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::error::SendError;
use crate::http::{parse_head, Head};

/// The collector, and how to reach it.
#[derive(Clone, Debug)]
pub struct Collector {
    config: Arc<ClientConfig>,
    host: String,
    port: u16,
    deadline: Duration,
}

/// A client that trusts the certificates in this file and no others.
///
/// # Errors
/// If the file has none, or the host has no valid name: a message for people.
pub fn client(ca: &Path, host: &str, port: u16, deadline: Duration) -> Result<Collector, String> {
    let problem = |e: &dyn std::fmt::Display| format!("--ca {}: {e}", ca.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).map_err(|e| problem(&e))? {
        let certificate = certificate.map_err(|e| problem(&e))?;
        roots.add(certificate).map_err(|e| problem(&e))?;
    }
    if roots.is_empty() {
        return Err(problem(&"there is no certificate in it"));
    }
    ServerName::try_from(host.to_owned()).map_err(|e| format!("--collector: {e}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Collector {
        config: Arc::new(config),
        host: host.to_owned(),
        port,
        deadline,
    })
}

/// A connection that fails when its time is over, however slowly bytes come and go.
struct Timed {
    stream: TcpStream,
    until: Instant,
}

impl Timed {
    fn limit(&self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                "the time for a request is over",
            ));
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.set_write_timeout(Some(left))
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Collector {
    fn connect(&self) -> io::Result<StreamOwned<ClientConnection, Timed>> {
        let until = Instant::now() + self.deadline;
        let mut last = io::Error::new(ErrorKind::NotFound, "the collector's host has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            let left = until.saturating_duration_since(Instant::now());
            match TcpStream::connect_timeout(&address, left.max(Duration::from_millis(1))) {
                Ok(stream) => {
                    let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
                    let connection = ClientConnection::new(Arc::clone(&self.config), name);
                    let connection = connection.map_err(io::Error::other)?;
                    return Ok(StreamOwned::new(connection, Timed { stream, until }));
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Sends a request on a connection of its own, and reads the head of its response.
    pub(crate) fn request(&self, lines: &str, body: &[u8]) -> Result<Head, SendError> {
        let mut stream = self.connect().map_err(SendError::Network)?;
        let length = body.len();
        let host = &self.host;
        let head = format!(
            "{lines}\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        let sent = stream.write_all(head.as_bytes());
        let sent = sent
            .and_then(|()| stream.write_all(body))
            .and_then(|()| stream.flush());
        let mut bytes = Vec::new();
        loop {
            if let Some(head) = parse_head(&bytes).map_err(SendError::Protocol)? {
                return Ok(head);
            }
            let mut buffer = [0; 2048];
            match stream.read(&mut buffer) {
                // A collector that refuses a request early answers before it has read all.
                Ok(0) => {
                    let cut =
                        || io::Error::new(ErrorKind::UnexpectedEof, "the response was cut off");
                    return Err(SendError::Network(sent.err().unwrap_or_else(cut)));
                }
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let over = "the time for a request is over";
                    return Err(SendError::Network(io::Error::new(
                        ErrorKind::TimedOut,
                        over,
                    )));
                }
                Err(e) => return Err(SendError::Network(e)),
            }
        }
    }
}
