// SPDX-License-Identifier: Apache-2.0
//! The result of a comparison.

use std::collections::BTreeMap;

/// Numbers of calls by method.
pub(super) type Counts = BTreeMap<String, u64>;

/// The result of the comparison of a run.
pub(super) enum Outcome {
    /// All differences are permitted.
    Equal(Equal),
    /// A description of the difference, and its depth of calls.
    Different(String, usize),
    /// Not comparable, with the reason.
    Skipped(String),
}

/// The size of an equal comparison.
#[derive(Default)]
pub(super) struct Equal {
    /// Steps of the reference.
    pub(super) events: usize,
    /// Calls in the reference only.
    pub(super) missing: Counts,
    /// Calls in the recording only.
    pub(super) additional: Counts,
    /// Calls of trivial methods, which the reference must have, and the recording must not.
    pub(super) left_out: u64,
    /// Threads other than the main thread.
    pub(super) threads: usize,
    /// Whether only a second run was equal.
    pub(super) again: bool,
    /// Whether it was compared with the reference that was verified ahead of time.
    pub(super) verified: bool,
}

impl Outcome {
    /// Equal if both are.
    pub(super) fn and(self, other: impl FnOnce() -> Outcome) -> Outcome {
        let Outcome::Equal(mut equal) = self else {
            return self;
        };
        match other() {
            Outcome::Equal(more) => {
                equal.events += more.events;
                equal.left_out += more.left_out;
                equal.threads += more.threads;
                add(&mut equal.missing, more.missing);
                add(&mut equal.additional, more.additional);
                Outcome::Equal(equal)
            }
            other => other,
        }
    }
}

pub(super) fn add(to: &mut Counts, counts: Counts) {
    for (name, n) in counts {
        *to.entry(name).or_default() += n;
    }
}
