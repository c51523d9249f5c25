// SPDX-License-Identifier: Apache-2.0
//! Synchronization primitives of the model-checked code: the standard library's or, with the feature `loom`, loom's,
//! which tries all interleavings.

#[cfg(all(not(feature = "loom"), feature = "lock-free"))]
pub(crate) use std::sync::atomic::fence;
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering},
    Mutex, MutexGuard,
};

#[cfg(all(feature = "loom", feature = "lock-free"))]
pub(crate) use loom::sync::atomic::fence;
#[cfg(feature = "loom")]
pub(crate) use loom::sync::{
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering},
    Mutex, MutexGuard,
};

/// Lets another thread run, in a model that waits.
#[cfg(all(test, feature = "loom"))]
pub(crate) fn spin() {
    loom::thread::yield_now();
}

/// Locks one of the standard library's mutexes. A panic of an earlier owner does not matter: panics are caught where
/// they end tracing, and the data is valid between any two statements.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
