// SPDX-License-Identifier: Apache-2.0
//! What a process notes about its crash, so that it is known also if nobody could be told.

use core::sync::atomic::{AtomicU64, Ordering};

/// The lowest bits of the first word: an exception.
pub(super) const EXCEPTION: u8 = 1;
/// The same: a signal.
pub(super) const SIGNAL: u8 = 2;

/// Why a process ends by itself, against its will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashKind {
    /// An exception that nothing caught.
    UncaughtException,
    /// A signal that nothing handles, with its number.
    Signal(u8),
}

/// A crash of a process: the one that ends it, as far as it is known.
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

/// A process that goes on for so long after a signal has survived it, ns.
const SURVIVED_NS: u64 = 10_000_000_000;

impl CrashNote {
    /// Notes a crash. May be called in a signal handler: it waits for nobody. A signal replaces an exception, which the process has
    /// survived, and a signal of more than 10 s before; otherwise the first crash stays. Of threads that crash at the same time one
    /// is noted, with the time of any of them.
    pub fn note(&self, crash: &Crash) {
        let kind = match crash.kind {
            CrashKind::UncaughtException => u64::from(EXCEPTION),
            CrashKind::Signal(number) => u64::from(SIGNAL) | u64::from(number) << 8,
        };
        let what = u64::from(crash.tid) << 32 | kind;
        let at = crash.at_boottime_ns;
        let (success, failure) = (Ordering::Release, Ordering::Acquire);
        let mut noted = self.what.load(Ordering::Acquire);
        // Nothing, an exception, a signal: others can come first twice at most.
        for _ in 0..3 {
            if noted != 0 {
                if !self.is_survived(noted, crash) {
                    return;
                }
                // A process that is killed before the next step has no wrong time.
                self.at_boottime_ns.store(0, Ordering::Relaxed);
            }
            let exchanged = self.what.compare_exchange(noted, what, success, failure);
            if exchanged.is_ok() || noted != 0 {
                self.at_boottime_ns.store(at, Ordering::Release);
            }
            match exchanged {
                Ok(_) => return,
                Err(other) => noted = other,
            }
        }
    }

    /// Whether the process has gone on after the crash that these words are of, and now ends by this one.
    fn is_survived(&self, noted: u64, crash: &Crash) -> bool {
        let CrashKind::Signal(_) = crash.kind else {
            return false;
        };
        if noted as u8 == EXCEPTION {
            return true;
        }
        let at = self.at_boottime_ns.load(Ordering::Acquire);
        at != 0 && crash.at_boottime_ns.saturating_sub(at) > SURVIVED_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn crash(kind: CrashKind, tid: u32, seconds: u64) -> Crash {
        Crash {
            kind,
            tid,
            at_boottime_ns: seconds * SECOND_NS,
        }
    }

    /// What the words say, as the service reads them.
    fn noted(note: &CrashNote) -> (u8, u32, u64) {
        let what = note.what.load(Ordering::Relaxed);
        let at = note.at_boottime_ns.load(Ordering::Relaxed);
        (what as u8, (what >> 32) as u32, at / SECOND_NS)
    }

    #[test]
    fn the_crash_that_ends_the_process_is_noted() {
        use CrashKind::{Signal, UncaughtException};
        // Kinds and times of two crashes, and which of them is noted.
        for (first, second, seconds, expected) in [
            (UncaughtException, Signal(11), 101, 2),
            (UncaughtException, Signal(11), 700, 2),
            (UncaughtException, UncaughtException, 700, 1),
            (Signal(11), UncaughtException, 700, 1),
            // The second thread crashes, too, or the handler of the first one does.
            (Signal(11), Signal(6), 110, 1),
            (Signal(11), Signal(6), 111, 2),
        ] {
            let note = CrashNote::default();
            assert_eq!(noted(&note), (0, 0, 0));
            let both = [crash(first, 1, 100), crash(second, 2, seconds)];
            both.iter().for_each(|crash| note.note(crash));
            let crash = both[expected - 1];
            let kind = match crash.kind {
                UncaughtException => EXCEPTION,
                Signal(_) => SIGNAL,
            };
            let seconds = crash.at_boottime_ns / SECOND_NS;
            let case = (first, second, seconds);
            assert_eq!(noted(&note), (kind, crash.tid, seconds), "{case:?}");
        }
    }

    #[test]
    fn threads_that_crash_at_the_same_time_leave_one_whole_crash() {
        for _ in 0..200 {
            let note = CrashNote::default();
            std::thread::scope(|scope| {
                scope.spawn(|| note.note(&crash(CrashKind::UncaughtException, 9, 200)));
                for tid in 1..=3 {
                    let crash = crash(CrashKind::Signal(11), tid, 200);
                    let note = &note;
                    scope.spawn(move || note.note(&crash));
                }
            });
            let (kind, tid, seconds) = noted(&note);
            assert_eq!((kind, seconds), (SIGNAL, 200));
            assert!((1..=3).contains(&tid));
        }
    }
}
