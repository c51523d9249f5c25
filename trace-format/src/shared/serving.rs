// SPDX-License-Identifier: Apache-2.0
//! Which processes a process works for: the transactions that it serves now, or has served for long. The service reads it when
//! one of those processes has a report.

use core::sync::atomic::{AtomicU64, Ordering};

/// Transactions that are noted at a time. Of more, some are not.
pub const SERVING: usize = 32;
/// A transaction that has ended is noted if it took so long, ns.
pub const LONG_SERVING_NS: u64 = 100_000_000;

/// So often a thread looks for a place of a transaction that has ended.
const TRIES: usize = 4;

/// A transaction of another process that is not one-way.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Serving {
    /// The process in the upper half and its user id in the lower one, by the kernel's account to the process that serves. 0: none
    /// is noted.
    pub from: AtomicU64,
    /// Kernel id of the thread that serves it; 0: the place is free.
    pub thread: AtomicU64,
    /// When it began, `CLOCK_BOOTTIME`, ns.
    pub began_ns: AtomicU64,
    /// When it ended; 0: it has not.
    pub ended_ns: AtomicU64,
}

/// The transactions of a process, as a reader found them. The process may say anything, and what it changes meanwhile may be
/// mixed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The process that sent the transaction.
    pub pid: u32,
    /// Its user id.
    pub uid: u32,
    /// Kernel id of the thread that served it.
    pub tid: u32,
    /// When it began, `CLOCK_BOOTTIME`, ns.
    pub began_ns: u64,
    /// When it ended, ns; `None`: it has not.
    pub ended_ns: Option<u64>,
}

/// A thread begins to serve a transaction. Returns the number of its place, for [`end`]; `None`: all places are in use, or
/// other threads were faster. Takes no lock.
pub fn begin(places: &[Serving; SERVING], served: &Served) -> Option<usize> {
    let (set, get) = (Ordering::Acquire, Ordering::Relaxed);
    let thread = u64::from(served.tid.max(1));
    let free = places.iter().position(|place| {
        let is_free = place.thread.load(get) == 0;
        is_free && place.thread.compare_exchange(0, thread, set, get).is_ok()
    });
    // Another thread may have been faster.
    let number = free.or_else(|| (0..TRIES).find_map(|_| oldest(places)))?;
    let place = &places[number];
    place.from.store(0, Ordering::Relaxed);
    place.thread.store(thread, Ordering::Relaxed);
    place.began_ns.store(served.began_ns, Ordering::Relaxed);
    place.ended_ns.store(0, Ordering::Relaxed);
    let from = u64::from(served.pid) << 32 | u64::from(served.uid);
    place.from.store(from, Ordering::Release);
    Some(number)
}

/// Takes the place whose transaction ended first.
fn oldest(places: &[Serving; SERVING]) -> Option<usize> {
    let ended = |place: &Serving| place.ended_ns.load(Ordering::Relaxed);
    let all = places.iter().enumerate();
    let ended = all.map(|(number, place)| (ended(place), number));
    let (at, number) = ended.filter(|(at, _)| *at != 0).min()?;
    // Only one thread gets it.
    let (set, get) = (Ordering::Acquire, Ordering::Relaxed);
    let place = &places[number].ended_ns;
    let is_mine = place.compare_exchange(at, 0, set, get).is_ok();
    is_mine.then_some(number)
}

/// The thread that began this transaction has served it. A short one is not noted any more.
pub fn end(places: &[Serving; SERVING], number: usize, now_ns: u64) {
    let Some(place) = places.get(number) else {
        return;
    };
    let began = place.began_ns.load(Ordering::Relaxed);
    if now_ns.saturating_sub(began) >= LONG_SERVING_NS {
        place.ended_ns.store(now_ns, Ordering::Release);
    } else {
        place.from.store(0, Ordering::Relaxed);
        place.thread.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(pid: u32, began_ns: u64) -> Served {
        Served {
            pid,
            uid: 10_001,
            tid: 7,
            began_ns,
            ended_ns: None,
        }
    }

    fn noted(places: &[Serving; SERVING]) -> Vec<(u64, u64)> {
        let of = |place: &Serving| {
            let from = place.from.load(Ordering::Relaxed) >> 32;
            (from, place.ended_ns.load(Ordering::Relaxed))
        };
        places.iter().map(of).filter(|(pid, _)| *pid != 0).collect()
    }

    #[test]
    fn open_and_long_transactions_are_noted() {
        let places: [Serving; SERVING] = Default::default();
        let long = begin(&places, &served(1, 1000)).unwrap();
        let short = begin(&places, &served(2, 2000)).unwrap();
        assert_eq!(noted(&places), [(1, 0), (2, 0)]);
        let end_ns = 1000 + LONG_SERVING_NS;
        end(&places, long, end_ns);
        end(&places, short, 1999 + LONG_SERVING_NS);
        assert_eq!(noted(&places), [(1, end_ns)]);
        end(&places, SERVING, 5);
    }

    #[test]
    fn the_one_that_ended_first_makes_room() {
        let places: [Serving; SERVING] = Default::default();
        let all: Vec<usize> = (1..=SERVING as u32)
            .map(|pid| begin(&places, &served(pid, 1)).unwrap())
            .collect();
        assert_eq!(begin(&places, &served(100, 1)), None);
        end(&places, all[3], 2 * LONG_SERVING_NS);
        end(&places, all[5], 2 * LONG_SERVING_NS - 1);
        assert_eq!(begin(&places, &served(100, 1)), Some(all[5]));
        assert_eq!(begin(&places, &served(101, 1)), Some(all[3]));
        assert_eq!(begin(&places, &served(102, 1)), None);
        assert_eq!(noted(&places)[all[5]], (100, 0));
    }

    #[test]
    fn no_two_threads_get_one_place() {
        let places: [Serving; SERVING] = Default::default();
        std::thread::scope(|scope| {
            for tid in 1..=8_u32 {
                let places = &places;
                scope.spawn(move || {
                    for round in 0..2000_u64 {
                        let mine = Served {
                            tid,
                            ..served(tid, 1)
                        };
                        let Some(number) = begin(places, &mine) else {
                            continue;
                        };
                        let place = &places[number];
                        assert_eq!(place.thread.load(Ordering::Relaxed), u64::from(tid));
                        assert_eq!(place.from.load(Ordering::Relaxed) >> 32, u64::from(tid));
                        // Long and short ones, so that both ways to a place are taken.
                        end(
                            places,
                            number,
                            1 + (round % 2 + 1) * (LONG_SERVING_NS - 1) + round,
                        );
                    }
                });
            }
        });
    }
}
