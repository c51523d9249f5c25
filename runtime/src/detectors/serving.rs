// SPDX-License-Identifier: Apache-2.0
//! Notes in the shared memory for which other process a thread serves a transaction: the service looks there when the other
//! process has a report.

use std::sync::atomic::{AtomicU64, Ordering};

use hindsight_trace_format::catalogue::{Field, Spec};
use hindsight_trace_format::shared::{begin_serving, end_serving, Served, Serving, SERVING};
use hindsight_trace_format::slot::Extension;

/// An end that did not come within this time after the begin is taken for lost when the thread serves the next transaction, ns.
const LOST_NS: u64 = 60_000_000_000;

/// What a thread serves. Only the thread itself changes it.
#[derive(Debug, Default)]
pub(super) struct Serves {
    /// Transactions within each other that it serves.
    depth: AtomicU64,
    /// The one of them that is noted, from 1 on; 0: none is.
    noted: AtomicU64,
    /// 1 + the number of its place.
    place: AtomicU64,
    /// When the last one began, CLOCK_BOOTTIME, ns.
    began_ns: AtomicU64,
}

/// A field of the event that begins a transaction.
fn field(payload: &[u64], name: &str) -> u64 {
    let spec = Spec::from_number(Extension::BinderServe as u32);
    let field: Option<&Field> = spec.and_then(|spec| spec.field(name));
    field.map_or(0, |field| field.get(payload))
}

impl Serves {
    fn get(of: &AtomicU64) -> u64 {
        of.load(Ordering::Relaxed)
    }

    /// Whether the thread serves a transaction, as far as it is known.
    #[inline]
    pub(super) fn is_serving(&self) -> bool {
        Self::get(&self.depth) != 0
    }

    /// The thread begins to serve a transaction, which has a payload of several words, or has served one. `is_on`: there is a
    /// service that may want to know.
    pub(super) fn event(
        &self,
        places: &[Serving; SERVING],
        tid: u32,
        payload: &[u64],
        now_ns: u64,
        is_on: bool,
    ) {
        if payload.len() <= 1 {
            self.end(places, now_ns);
        } else if is_on || self.is_serving() {
            self.begin(places, tid, payload, now_ns);
        }
    }

    fn begin(&self, places: &[Serving; SERVING], tid: u32, payload: &[u64], now_ns: u64) {
        let is_lost = now_ns.saturating_sub(Self::get(&self.began_ns)) > LOST_NS;
        if self.is_serving() && is_lost {
            // When it ended is not known: taken for its end, this time would be one that nobody has waited for.
            self.stop(places, 0);
        }
        let depth = Self::get(&self.depth) + 1;
        self.depth.store(depth, Ordering::Relaxed);
        self.began_ns.store(now_ns, Ordering::Relaxed);
        let pid = field(payload, "from process") as u32;
        let is_other = pid != 0 && pid != std::process::id();
        if !is_other || field(payload, "one-way") != 0 || Self::get(&self.noted) != 0 {
            return;
        }
        let served = Served {
            pid,
            uid: field(payload, "from user") as u32,
            tid,
            began_ns: now_ns,
            ended_ns: None,
        };
        if let Some(place) = begin_serving(places, &served) {
            self.place.store(place as u64 + 1, Ordering::Relaxed);
            self.noted.store(depth, Ordering::Relaxed);
        }
    }

    fn end(&self, places: &[Serving; SERVING], now_ns: u64) {
        let depth = Self::get(&self.depth);
        if depth != 0 && depth == Self::get(&self.noted) {
            self.give_back(places, now_ns);
        }
        self.depth.store(depth.saturating_sub(1), Ordering::Relaxed);
    }

    /// The thread serves nothing any more.
    pub(super) fn stop(&self, places: &[Serving; SERVING], now_ns: u64) {
        self.give_back(places, now_ns);
        self.depth.store(0, Ordering::Relaxed);
    }

    fn give_back(&self, places: &[Serving; SERVING], now_ns: u64) {
        self.noted.store(0, Ordering::Relaxed);
        if let Some(place) = self.place.swap(0, Ordering::Relaxed).checked_sub(1) {
            end_serving(places, place as usize, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_trace_format::shared::LONG_SERVING_NS;

    fn serve(pid: u32, one_way: bool) -> [u64; 3] {
        let spec = Spec::from_number(Extension::BinderServe as u32).unwrap();
        let mut payload = [0; 3];
        let fields = [("from process", u64::from(pid)), ("from user", 10_001)];
        for (name, number) in fields.into_iter().chain([("one-way", one_way.into())]) {
            spec.field(name).unwrap().set(&mut payload, number);
        }
        payload
    }

    /// Processes of all transactions that are noted, and whether they have ended.
    fn noted(places: &[Serving; SERVING]) -> Vec<(u64, bool)> {
        let of = |place: &Serving| {
            let ended = place.ended_ns.load(Ordering::Relaxed);
            (place.from.load(Ordering::Relaxed) >> 32, ended != 0)
        };
        places.iter().map(of).filter(|(pid, _)| *pid != 0).collect()
    }

    #[test]
    fn the_outermost_transaction_of_another_process_is_noted() {
        let places: [Serving; SERVING] = Default::default();
        let serves = Serves::default();
        let begin = |payload: [u64; 3]| serves.event(&places, 5, &payload, 1000, true);
        let end = |now_ns| serves.event(&places, 5, &[0], now_ns, true);
        // One-way, and of this process: nobody waits, or it is known.
        begin(serve(77, true));
        begin(serve(std::process::id(), false));
        assert_eq!(noted(&places), []);
        begin(serve(70, false));
        begin(serve(71, false));
        assert_eq!(noted(&places), [(70, false)]);
        end(2 * LONG_SERVING_NS);
        assert_eq!(noted(&places), [(70, false)]);
        end(2 * LONG_SERVING_NS);
        assert_eq!(noted(&places), [(70, true)]);
        end(1001);
        end(1001);
        assert!(!serves.is_serving());
        // An end too many.
        end(1001);
        begin(serve(72, false));
        assert_eq!(noted(&places), [(70, true), (72, false)]);
    }

    #[test]
    fn an_end_that_is_lost_does_not_last() {
        let places: [Serving; SERVING] = Default::default();
        let serves = Serves::default();
        let begin = |pid, now_ns, is_on| {
            serves.event(&places, 5, &serve(pid, false), now_ns, is_on);
        };
        begin(70, 1000, false);
        assert_eq!(noted(&places), []);
        begin(70, 1000, true);
        begin(71, LOST_NS, true);
        assert_eq!(noted(&places), [(70, false)]);
        begin(72, 3 * LOST_NS, true);
        assert_eq!(
            noted(&places),
            [(72, false)],
            "nobody knows how long it took"
        );
        serves.stop(&places, 3 * LOST_NS + 1);
        assert_eq!(noted(&places), []);
    }
}
