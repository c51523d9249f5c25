// SPDX-License-Identifier: Apache-2.0
//! Reads what a process has noted in its header: its crash, that it ends by itself, and whom it serves.

use std::mem::offset_of;

use super::crash::{Crash, CrashKind, CrashNote, EXCEPTION, SIGNAL};
use super::layout::{Header, SHARED_MAGIC};
use super::serving::{Served, Serving, SERVING};
use super::source::{Copied, ReadAt};

/// The crash that the owner of this memory has noted; `None`: there was none, or the memory cannot be read. The process may say
/// anything.
pub fn read_crash(memory: &(impl ReadAt + ?Sized)) -> Option<Crash> {
    let words: [u8; size_of::<CrashNote>()] = read_field(memory, offset_of!(Header, crash))?;
    let words = Copied(&words);
    let what = words.u64(offset_of!(CrashNote, what));
    let kind = match what as u8 {
        EXCEPTION => CrashKind::UncaughtException,
        SIGNAL => CrashKind::Signal((what >> 8) as u8),
        _ => return None,
    };
    Some(Crash {
        kind,
        tid: (what >> 32) as u32,
        at_boottime_ns: words.u64(offset_of!(CrashNote, at_boottime_ns)),
    })
}

/// Whether the owner of this memory has noted that it ends by itself. False also if the memory cannot be read.
pub fn has_left(memory: &(impl ReadAt + ?Sized)) -> bool {
    let word: Option<[u8; 8]> = read_field(memory, offset_of!(Header, has_left));
    word.is_some_and(|word| Copied(&word).u64(0) == 1)
}

/// Bytes of the header; `None`: the memory is not ready, or cannot be read.
fn read_field<const N: usize>(memory: &(impl ReadAt + ?Sized), at: usize) -> Option<[u8; N]> {
    let mut magic = [0; SHARED_MAGIC.len()];
    memory.read_at(0, &mut magic).ok()?;
    let mut bytes = [0; N];
    memory.read_at(at as u64, &mut bytes).ok()?;
    (magic == SHARED_MAGIC).then_some(bytes)
}

/// The transactions of other processes that the owner of this memory serves, or has served for long. Empty if the memory cannot be
/// read. The process may say anything.
pub fn read_served(memory: &(impl ReadAt + ?Sized)) -> Vec<Served> {
    const BYTES: usize = SERVING * size_of::<Serving>();
    let places: Option<[u8; BYTES]> = read_field(memory, offset_of!(Header, serving));
    let places = places.unwrap_or([0; BYTES]);
    let noted = places
        .chunks_exact(size_of::<Serving>())
        .filter_map(|place| {
            let place = Copied(place);
            let from = place.u64(offset_of!(Serving, from));
            let ended = place.u64(offset_of!(Serving, ended_ns));
            (from != 0).then_some(Served {
                pid: (from >> 32) as u32,
                uid: from as u32,
                tid: place.u64(offset_of!(Serving, thread)) as u32,
                began_ns: place.u64(offset_of!(Serving, began_ns)),
                ended_ns: Some(ended).filter(|ended| *ended != 0),
            })
        });
    noted.collect()
}
