// SPDX-License-Identifier: Apache-2.0
//! The counter in models: each reading is the next number.

use std::cell::Cell;

use loom::sync::atomic::{AtomicU64, Ordering};

loom::lazy_static! {
    static ref NOW: AtomicU64 = AtomicU64::new(1);
}

thread_local! {
    /// Set by the test; loom runs all threads of a model on the test's own thread.
    static PROMPT: Cell<bool> = const { Cell::new(false) };
}

/// Sets whether a reading makes all earlier stores visible to later readings, as happens on real machines after
/// some time. If not, readings order nothing: the memory model of C11 has no time.
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
