// SPDX-License-Identifier: Apache-2.0
//! The detectors of the main thread: pure functions of their state, an event and the time.

use hindsight_trace_format::protocol::AppDetector;
use hindsight_trace_format::slot::Extension;

use super::rules::{AppRules, Limit, Measured};

/// Kinds of waits ([`hindsight_trace_format::catalogue::WAIT_KINDS`]).
const LOCK: u64 = 0;
const PARK: u64 = 3;
const GC: u64 = 4;
/// Frames that are further apart than this are no row, ns.
const ROW_NS: u64 = 1_000_000_000;

/// An event, and when it happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    pub(super) kind: Extension,
    pub(super) payload: &'a [u64],
    /// CLOCK_MONOTONIC, ns.
    pub(super) now_ns: u64,
}

impl Event<'_> {
    /// Of waits: whether it is for a monitor, or for the owner of a lock of `java.util.concurrent`.
    fn is_lock(&self) -> bool {
        matches!(self.word(0) & 0xff, LOCK | PARK)
    }

    /// A word of the payload; 0 if it has none there.
    fn word(&self, at: usize) -> u64 {
        self.payload.get(at).copied().unwrap_or(0)
    }
}

/// A touch or key that is being answered.
#[derive(Clone, Copy, Debug, Default)]
struct Input {
    /// When it happened and was delivered, ns; 0: there is none.
    at: u64,
    delivered: u64,
    sequence: u32,
    /// The app asked for a frame since: that frame is the answer.
    wants_frame: bool,
    /// The app has handled it, and its frame is missing.
    is_handled: bool,
}

/// What the detectors know of the main thread. By default they know nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MainThread {
    /// Late frames in a row, the worst one's lateness, and the end of the last one; ns.
    late: u64,
    worst: u64,
    last_frame: u64,
    input: Input,
    /// When the wait for a lock, or for another process, began; ns. 0: there is none.
    lock_began: u64,
    binder: (u64, u64),
}

impl MainThread {
    /// The main thread records an event.
    pub(super) fn event(
        &mut self,
        rules: &AppRules,
        event: &Event<'_>,
    ) -> Option<(AppDetector, Measured)> {
        let now = event.now_ns;
        match event.kind {
            Extension::FrameEnd => {
                let input = self.answered(rules, now);
                let late = self.frame(rules, event.word(0), now);
                return input.or(late);
            }
            Extension::InputBegin => {
                self.input = Input {
                    at: event.word(1),
                    delivered: now,
                    sequence: event.word(0) as u32,
                    ..Input::default()
                };
            }
            Extension::TraversalScheduled | Extension::CallbackPosted => {
                self.input.wants_frame |= !self.input.is_handled;
            }
            Extension::InputEnd if self.input.sequence == event.word(0) as u32 => {
                self.input.is_handled = true;
                if !self.input.wants_frame {
                    return self.answered(rules, now);
                }
            }
            Extension::WaitBegin if event.is_lock() => self.lock_began = now,
            Extension::WaitEnd if event.is_lock() => {
                let began = std::mem::take(&mut self.lock_began);
                let took = over(rules.lock, began, now)?;
                return Some((AppDetector::LongLockWait, took));
            }
            Extension::BinderSend if event.word(1) >> 32 & 1 == 0 => {
                self.binder = (event.word(0), now);
            }
            Extension::BinderReply if event.word(0) == self.binder.0 => {
                let (_, began) = std::mem::take(&mut self.binder);
                let took = over(rules.binder, began, now)?;
                return Some((AppDetector::LongBinderWait, took));
            }
            _ => {}
        }
        None
    }

    fn frame(&mut self, rules: &AppRules, vsync: u64, now: u64) -> Option<(AppDetector, Measured)> {
        let limit = rules.late_frame.ns;
        let lateness = now.saturating_sub(vsync);
        let is_row = vsync.saturating_sub(self.last_frame) < ROW_NS;
        self.last_frame = now;
        if limit == 0 || vsync == 0 || lateness <= limit {
            (self.late, self.worst) = (0, 0);
            return None;
        }
        if !is_row {
            (self.late, self.worst) = (0, 0);
        }
        self.late += 1;
        self.worst = self.worst.max(lateness);
        if self.late < rules.frames {
            return None;
        }
        let frames = std::mem::take(&mut self.late);
        let worst = std::mem::take(&mut self.worst);
        let measured = Measured::Frames {
            frames,
            worst,
            limit,
        };
        Some((AppDetector::LateFrames, measured))
    }

    /// How long the wait for a lock took that this event may end, ns.
    pub(super) fn in_lock_ns(&self, event: &Event<'_>) -> u64 {
        match self.lock_began {
            began if began != 0 && event.is_lock() => event.now_ns.saturating_sub(began),
            _ => 0,
        }
    }

    /// How long the transaction took that this event may end, ns.
    pub(super) fn in_binder_ns(&self, event: &Event<'_>) -> u64 {
        match self.binder {
            (id, began) if began != 0 && id == event.word(0) => event.now_ns.saturating_sub(began),
            _ => 0,
        }
    }

    /// The frame after an input event has ended, or the event without one.
    fn answered(&mut self, rules: &AppRules, now: u64) -> Option<(AppDetector, Measured)> {
        if !self.input.is_handled {
            return None;
        }
        let input = std::mem::take(&mut self.input);
        over(rules.input, input.at, now)?;
        let delivery = input.delivered.saturating_sub(input.at);
        let measured = Measured::Input {
            delivery,
            app: now.saturating_sub(input.at) - delivery.min(now.saturating_sub(input.at)),
            limit: rules.input.ns,
        };
        Some((AppDetector::SlowInput, measured))
    }
}

/// The first frame of a process has ended.
pub(super) fn slow_start(
    rules: &AppRules,
    started: u64,
    first_frame: u64,
) -> Option<(AppDetector, Measured)> {
    let took = over(rules.start, started, first_frame)?;
    let is_start = first_frame.saturating_sub(started) <= rules.start_most_ns;
    is_start.then_some((AppDetector::SlowStart, took))
}

/// The time since `began`, if that is known, and longer than the limit.
fn over(limit: Limit, began: u64, now: u64) -> Option<Measured> {
    let took = now.saturating_sub(began);
    let is_over = began != 0 && limit.ns != 0 && took > limit.ns;
    is_over.then_some(Measured::Time {
        took,
        limit: limit.ns,
    })
}

/// Seconds of the longest window of collections.
const SECONDS: usize = 64;
const SECOND_NS: u64 = 1_000_000_000;

/// Garbage collections of the last seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collections {
    /// Of each second, by its number modulo [`SECONDS`]: the second, its collections, and how long they stopped the main thread, ns.
    seconds: [(u64, u64, u64); SECONDS],
    /// When the pause, and the main thread's wait, began; ns. 0: there is none.
    pause_began: u64,
    wait_began: u64,
}

impl Default for Collections {
    fn default() -> Self {
        Collections {
            seconds: [(0, 0, 0); SECONDS],
            pause_began: 0,
            wait_began: 0,
        }
    }
}

impl Collections {
    /// Whether it looks at such an event of the main thread, or of another one.
    pub(super) fn is_about(kind: Extension, payload: &[u64], is_main: bool) -> bool {
        let is_gc = || payload.first().is_some_and(|word| word & 0xff == GC);
        match kind {
            Extension::GcPauseBegin | Extension::GcPauseEnd => true,
            Extension::WaitBegin | Extension::WaitEnd => is_main && is_gc(),
            _ => false,
        }
    }

    /// A thread records an event that [`is_about`](Self::is_about) collections. Returns how long it stopped the main thread, ns,
    /// and what was found.
    pub(super) fn event(
        &mut self,
        rules: &AppRules,
        event: &Event<'_>,
    ) -> (u64, Option<(AppDetector, Measured)>) {
        let now = event.now_ns;
        let (count, began) = match event.kind {
            Extension::GcPauseBegin => {
                self.pause_began = now;
                return (0, None);
            }
            Extension::WaitBegin => {
                self.wait_began = now;
                return (0, None);
            }
            Extension::GcPauseEnd => (1, std::mem::take(&mut self.pause_began)),
            _ => (0, std::mem::take(&mut self.wait_began)),
        };
        if began == 0 {
            return (0, None);
        }
        let stopped = now.saturating_sub(began);
        let number = now / SECOND_NS;
        let second = &mut self.seconds[number as usize % SECONDS];
        if second.0 != number {
            *second = (number, 0, 0);
        }
        second.1 += count;
        second.2 += stopped;
        (stopped, self.is_too_much(rules, now))
    }

    fn is_too_much(&mut self, rules: &AppRules, now: u64) -> Option<(AppDetector, Measured)> {
        if rules.gc.ns == 0 {
            return None;
        }
        let first = (now.saturating_sub(rules.gc_window_ns)) / SECOND_NS;
        let within = self
            .seconds
            .iter()
            .filter(|(second, ..)| *second > first || *second == now / SECOND_NS);
        let (collections, stopped) = within.fold((0, 0), |(count, sum), second| {
            (count + second.1, sum + second.2)
        });
        let is_often = rules.collections != 0 && collections >= rules.collections;
        if stopped <= rules.gc.ns && !is_often {
            return None;
        }
        self.seconds = [(0, 0, 0); SECONDS];
        let measured = Measured::Gc {
            collections,
            stopped,
            window: rules.gc_window_ns,
        };
        Some((AppDetector::GcPressure, measured))
    }
}
