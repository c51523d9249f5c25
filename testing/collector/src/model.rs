// SPDX-License-Identifier: Apache-2.0
//! How a collector behaves, and what it has.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;

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
    pub(crate) mode: Mutex<Mode>,
    pub(crate) items: Mutex<BTreeMap<String, Received>>,
    pub(crate) requests: Mutex<u64>,
    pub(crate) has_ended: AtomicBool,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Configs {
    pub(crate) good: Arc<ServerConfig>,
    pub(crate) wrong_authority: Arc<ServerConfig>,
    pub(crate) wrong_host: Arc<ServerConfig>,
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
