// SPDX-License-Identifier: Apache-2.0
//! What a process notes about its crash, so that it is known also if nobody could be told.

use core::sync::atomic::{AtomicU64, Ordering};

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
