// SPDX-License-Identifier: Apache-2.0
//! What a process notes about its crash, so that it is known also if nobody could be told.

use core::sync::atomic::{AtomicU64, Ordering};
use std::mem::offset_of;

use super::layout::{Header, SHARED_MAGIC};
use super::source::{Copied, ReadAt};

/// Why a process ends by itself, against its will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashKind {
    /// An exception that nothing caught.
    UncaughtException,
    /// A signal that nothing handles, with its number.
    Signal(u8),
}

/// The first crash of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Why.
    pub kind: CrashKind,
    /// Kernel id of the thread.
    pub tid: u32,
    /// When, `CLOCK_BOOTTIME`, ns; 0: the process was killed before it noted that.
    pub at_boottime_ns: u64,
}

/// The words of a [`Header`] for a crash: the thread in the upper half, the signal in bits 8 to 15, 1 or 2 in the lowest bits; and
/// the time, ns.
#[derive(Debug, Default)]
#[repr(C)]
pub struct CrashNote {
    /// 0: there was none.
    pub what: AtomicU64,
    /// See [`Crash::at_boottime_ns`].
    pub at_boottime_ns: AtomicU64,
}

impl CrashNote {
    /// Notes a crash, unless there was one before. May be called in a signal handler.
    pub fn note(&self, crash: &Crash) {
        let kind = match crash.kind {
            CrashKind::UncaughtException => 1,
            CrashKind::Signal(number) => 2 | u64::from(number) << 8,
        };
        let what = u64::from(crash.tid) << 32 | kind;
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let noted = self.what.compare_exchange(0, what, success, failure);
        if noted.is_ok() {
            let at = crash.at_boottime_ns;
            self.at_boottime_ns.store(at, Ordering::Release);
        }
    }
}

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
