// SPDX-License-Identifier: Apache-2.0
//! The result of a comparison.

use std::collections::BTreeMap;

/// How often which method was called.
pub(super) type Counts = BTreeMap<String, u64>;

/// What the comparison of a run came to.
pub(super) enum Outcome {
    /// There is no difference that may not be.
    Equal(Equal),
    /// What differs, and at what depth of calls.
    Different(String, usize),
    /// Not comparable, and why.
    Skipped(String),
}

/// What was compared.
#[derive(Default)]
pub(super) struct Equal {
    /// Steps of the reference.
    pub(super) events: usize,
    /// How often which method was in the reference only.
    pub(super) missing: Counts,
    /// … and in the recording only.
    pub(super) additional: Counts,
    /// Threads other than the main thread.
    pub(super) threads: usize,
    /// Whether it took a second run.
    pub(super) again: bool,
    /// Whether it took the reference that has been verified ahead.
    pub(super) verified: bool,
}

impl Outcome {
    /// Both must hold.
    pub(super) fn and(self, other: impl FnOnce() -> Outcome) -> Outcome {
        let Outcome::Equal(mut equal) = self else {
            return self;
        };
        match other() {
            Outcome::Equal(more) => {
                equal.events += more.events;
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
