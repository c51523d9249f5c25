// SPDX-License-Identifier: Apache-2.0
//! The primitives that the state machines are made of: the standard library's, or those of loom, which
//! tries all interleavings (feature `loom`; see `model`).

#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{
    atomic::{fence, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering},
    Mutex, MutexGuard,
};

#[cfg(feature = "loom")]
pub(crate) use loom::sync::{
    atomic::{fence, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering},
    Mutex, MutexGuard,
};

/// Lets another thread run.
pub(crate) fn spin() {
    #[cfg(not(feature = "loom"))]
    std::thread::yield_now();
    #[cfg(feature = "loom")]
    loom::thread::yield_now();
}
