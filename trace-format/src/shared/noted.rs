// SPDX-License-Identifier: Apache-2.0
//! Reads the note of a crash.

use std::mem::offset_of;

use super::crash::{Crash, CrashKind, CrashNote};
use super::layout::{Header, SHARED_MAGIC};
use super::source::{Copied, ReadAt};

/// The crash that the owner of this memory has noted; `None`: there was none, or the memory cannot be read. The process may say
/// anything.
pub fn read_crash(memory: &(impl ReadAt + ?Sized)) -> Option<Crash> {
    let mut magic = [0; SHARED_MAGIC.len()];
    memory.read_at(0, &mut magic).ok()?;
    let mut words = [0; size_of::<CrashNote>()];
    memory
        .read_at(offset_of!(Header, crash) as u64, &mut words)
        .ok()?;
    let words = Copied(&words);
    let what = words.u64(offset_of!(CrashNote, what));
    let kind = match what as u8 {
        1 => CrashKind::UncaughtException,
        2 => CrashKind::Signal((what >> 8) as u8),
        _ => return None,
    };
    (magic == SHARED_MAGIC).then_some(Crash {
        kind,
        tid: (what >> 32) as u32,
        at_boottime_ns: words.u64(offset_of!(CrashNote, at_boottime_ns)),
    })
}
