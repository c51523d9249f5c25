// SPDX-License-Identifier: Apache-2.0
//! The rules of a message of the service, as the detectors use them.

use hindsight_trace_format::protocol::{
    AppDetector, DetectorRule, DetectorRules, MAX_SLOW_METHODS,
};

use crate::host::MessageLimits;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// A limit, and the time after which it may be reported again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    /// The longest time that is allowed, ns; 0: the detector is off.
    pub(crate) ns: u64,
    /// No report within this time after another one, ns.
    pub(crate) quiet_ns: u64,
}

/// The rules that are in force, of all detectors but the Java watchdog. By default all are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AppRules {
    /// The latest end of a frame after its vsync.
    pub(crate) late_frame: Limit,
    /// So many late frames in a row are reported.
    pub(crate) frames: u64,
    /// The longest answer to a touch or key.
    pub(crate) input: Limit,
    /// The longest time from the process's start to its first frame.
    pub(crate) start: Limit,
    /// What takes longer is no start, ns.
    pub(crate) start_most_ns: u64,
    /// The longest wait for a lock.
    pub(crate) lock: Limit,
    /// The longest transaction.
    pub(crate) binder: Limit,
    /// How long collections may stop the process within a window.
    pub(crate) gc: Limit,
    /// Length of the window, ns.
    pub(crate) gc_window_ns: u64,
    /// So many collections within the window are reported; 0: their number does not count.
    pub(crate) collections: u64,
    /// At SIGQUIT the main thread must have been busy for so long.
    pub(crate) anr: Limit,
    /// Whether [`anr`](Self::anr) is on, as its limit may be 0.
    pub(crate) is_anr_on: bool,
    /// Names and limits of methods that are watched: numbers of names of the trace.
    pub(crate) methods: [(u32, Limit); MAX_SLOW_METHODS],
}

fn find(rules: &DetectorRules, detector: AppDetector) -> Option<&DetectorRule> {
    let name = detector.spec().name;
    rules.rules.iter().find(|rule| rule.name == name)
}

/// The parameters of a detector, by their place; `None` if it is off.
fn numbers(rules: &DetectorRules, detector: AppDetector) -> Option<[u64; 4]> {
    let rule = find(rules, detector)?;
    let spec = detector.spec();
    Some([0, 1, 2, 3].map(|place| rule.number(spec, place)))
}

fn limit(numbers: Option<[u64; 4]>) -> Limit {
    numbers.map_or_else(Limit::default, |[ms, quiet, ..]| Limit {
        ns: ms * MS,
        quiet_ns: quiet * SECOND,
    })
}

impl AppRules {
    /// The rules of a message. `methods` are the numbers of the names of its methods, in order.
    pub(crate) fn new(rules: &DetectorRules, methods: &[u32]) -> Self {
        let of = |detector| numbers(rules, detector);
        let [_, _, frames, _] = of(AppDetector::LateFrames).unwrap_or_default();
        let [_, _, most_ms, _] = of(AppDetector::SlowStart).unwrap_or_default();
        let [_, _, window, collections] = of(AppDetector::GcPressure).unwrap_or_default();
        let mut all = AppRules {
            late_frame: limit(of(AppDetector::LateFrames)),
            frames,
            input: limit(of(AppDetector::SlowInput)),
            start: limit(of(AppDetector::SlowStart)),
            start_most_ns: most_ms * MS,
            lock: limit(of(AppDetector::LongLockWait)),
            binder: limit(of(AppDetector::LongBinderWait)),
            gc: limit(of(AppDetector::GcPressure)),
            gc_window_ns: window * SECOND,
            collections,
            anr: limit(of(AppDetector::Anr)),
            is_anr_on: of(AppDetector::Anr).is_some(),
            methods: Default::default(),
        };
        let spec = AppDetector::SlowMethod.spec();
        let watched = watched_methods(rules).zip(methods);
        for (to, (rule, number)) in all.methods.iter_mut().zip(watched) {
            let numbers = [0, 1, 2, 3].map(|place| rule.number(spec, place));
            *to = (*number, limit(Some(numbers)));
        }
        all
    }

    /// The limits of the watchdog of the main looper.
    pub(crate) fn message_limits(rules: &DetectorRules) -> MessageLimits {
        let slow = numbers(rules, AppDetector::SlowMessage);
        let stuck = numbers(rules, AppDetector::StuckMessage);
        let quiet = [slow, stuck].into_iter().flatten().map(|n| n[1]).min();
        MessageLimits {
            slow_ms: slow.map_or(0, |n| n[0]),
            stuck_ms: stuck.map_or(0, |n| n[0]),
            quiet_ms: quiet.unwrap_or(0) * 1000,
        }
    }

    /// How long a detector is quiet after a report, ns; 0: each finding is reported.
    pub(crate) fn quiet_ns(&self, detector: AppDetector) -> u64 {
        let limit = match detector {
            AppDetector::LateFrames => self.late_frame,
            AppDetector::SlowInput => self.input,
            AppDetector::SlowStart => self.start,
            AppDetector::LongLockWait => self.lock,
            AppDetector::LongBinderWait => self.binder,
            AppDetector::GcPressure => self.gc,
            AppDetector::Anr => self.anr,
            AppDetector::SlowMethod => self.methods[0].1,
            _ => Limit::default(),
        };
        limit.quiet_ns
    }
}

/// The rules of a message that watch a method.
pub(crate) fn watched_methods(rules: &DetectorRules) -> impl Iterator<Item = &DetectorRule> {
    let name = AppDetector::SlowMethod.spec().name;
    let all = rules.rules.iter();
    all.filter(move |rule| rule.name == name && !rule.method.is_empty())
        .take(MAX_SLOW_METHODS)
}

/// What a detector has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Which one.
    pub(crate) detector: AppDetector,
    /// Kernel id of the thread that it is about.
    pub(crate) tid: u32,
    /// What it measured.
    pub(crate) measured: Measured,
}

/// What a detector measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measured {
    /// So long, over the limit; ns.
    Time { took: u64, limit: u64 },
    /// So many late frames in a row, the worst so late; ns.
    Frames { frames: u64, worst: u64, limit: u64 },
    /// From the touch to its delivery, and from there to the answer; ns.
    Input { delivery: u64, app: u64, limit: u64 },
    /// Collections within a window, and how long they stopped the process; ns.
    Gc {
        collections: u64,
        stopped: u64,
        window: u64,
    },
    /// A method with this name's number took so long; ns.
    Method { name: u32, took: u64, limit: u64 },
}

impl Found {
    /// What was found, for people. `name` has the text of a method's number.
    pub(crate) fn reason(&self, name: impl FnOnce(u32) -> String) -> String {
        let ms = |ns: u64| ns / MS;
        match (self.detector, self.measured) {
            (AppDetector::SlowStart, Measured::Time { took, limit }) => {
                // As fleets count them.
                let class = took / (500 * MS);
                format!(
                    "the start took {} ms to the first frame, over {} ms: class {class} ({} to {} ms)",
                    ms(took),
                    ms(limit),
                    class * 500,
                    class * 500 + 500
                )
            }
            (AppDetector::Anr, Measured::Time { took, .. }) => format!(
                "the system asked for stacks (SIGQUIT) while the main thread was busy for {} ms",
                ms(took)
            ),
            (AppDetector::LongLockWait, Measured::Time { took, limit }) => format!(
                "the main thread waited {} ms for a lock, over {} ms",
                ms(took),
                ms(limit)
            ),
            (_, Measured::Time { took, limit }) => format!(
                "the main thread waited {} ms for another process, over {} ms",
                ms(took),
                ms(limit)
            ),
            (_, Measured::Frames { frames, worst, limit }) => format!(
                "{frames} frames in a row ended over {} ms after their vsync, the worst after {} ms",
                ms(limit),
                ms(worst)
            ),
            (_, Measured::Input { delivery, app, limit }) => format!(
                "the answer to an input event took {} ms, over {} ms: {} ms to its delivery, {} ms in the app",
                ms(delivery + app),
                ms(limit),
                ms(delivery),
                ms(app)
            ),
            (_, Measured::Gc { collections, stopped, window }) => format!(
                "{collections} garbage collections stopped the main thread for {} ms in {} s",
                ms(stopped),
                window / SECOND
            ),
            (_, Measured::Method { name: number, took, limit }) => format!(
                "{} took {} ms, over {} ms",
                name(number),
                ms(took),
                ms(limit)
            ),
        }
    }
}
