// SPDX-License-Identifier: Apache-2.0
//! The counter of models: each reading is the next number.

use std::cell::Cell;

use loom::sync::atomic::{AtomicU64, Ordering};

loom::lazy_static! {
    static ref NOW: AtomicU64 = AtomicU64::new(1);
}

thread_local! {
    /// Of the test: loom runs all of a model's threads on one.
    static PROMPT: Cell<bool> = const { Cell::new(false) };
}

/// From here on, what was written before a reading is visible after a later one, as it is on real
/// machines after some time. Otherwise readings order nothing: C11's memory knows no time.
#[cfg_attr(not(test), allow(dead_code, reason = "for models"))]
pub(crate) fn be_prompt(prompt: bool) {
    PROMPT.set(prompt);
}

/// The next reading.
pub(crate) fn tick() -> u64 {
    let order = if PROMPT.get() {
        Ordering::AcqRel
    } else {
        Ordering::Relaxed
    };
    NOW.fetch_add(1, order)
}
