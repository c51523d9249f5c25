// SPDX-License-Identifier: Apache-2.0
//! The running costs of two stop protocols: with checkpoints, a trace point reads only the cursor; with the lock-free
//! protocol as published, it also reads a stop word, and each return from native code executes a fence.
//!
//! Hindsight's own form of the lock-free protocol (`handshake/request.rs`) avoids both: the second word is the stub's
//! address, which is read anyway, and the control thread pays for the fence (`membarrier`). `cargo xtask bench control`
//! measures the costs of a start and a stop in ART, by both protocols.
//!
//! `cargo run --release -p hindsight-runtime --example stop_protocols`
//!
//! The two forms take turns in one run. Rust's compiler translates the same source for both trace points, except for the
//! second word; both wrap with a mask instead of a guard page.

use std::hint::black_box;
use std::sync::atomic::{fence, AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

use hindsight_runtime::clock;

const SLOTS: usize = 1 << 15;
const CALLS: usize = 200_000;
const ROUNDS: usize = 101;

/// The words of a thread object.
#[derive(Default)]
struct Words {
    cursor: AtomicUsize,
    stop: AtomicU32,
    native: AtomicU32,
}

/// A ring aligned to its size, so that the cursor can wrap with a mask.
struct Ring {
    memory: Vec<u64>,
}

impl Ring {
    fn new() -> Self {
        Ring {
            memory: vec![0; 2 * SLOTS],
        }
    }

    fn base(&self) -> usize {
        (self.memory.as_ptr() as usize).next_multiple_of(SLOTS * 8)
    }
}

#[inline(always)]
fn next(at: usize) -> usize {
    const MASK: usize = SLOTS * 8 - 1;
    (at & !MASK) | ((at + 8) & MASK)
}

#[inline(always)]
fn point<const LOCK_FREE: bool>(words: &Words, low: u64) {
    let at = words.cursor.load(Ordering::Relaxed);
    if at == 0 {
        return;
    }
    if LOCK_FREE && words.stop.load(Ordering::Relaxed) != 0 {
        stop(words);
        return;
    }
    // SAFETY: inside the ring.
    unsafe { (at as *mut u64).write(clock::counter() << 32 | low) };
    words.cursor.store(next(at), Ordering::Relaxed);
}

#[cold]
#[inline(never)]
fn stop(words: &Words) {
    words.cursor.store(0, Ordering::Relaxed);
}

/// A method with both its trace points, and a little work.
#[inline(never)]
fn call<const LOCK_FREE: bool>(words: &Words, n: u64) -> u64 {
    point::<LOCK_FREE>(words, 0x7000_1000);
    let n = black_box(n) ^ 1;
    point::<LOCK_FREE>(words, 0);
    n
}

fn calls<const LOCK_FREE: bool>(words: &Words) {
    let mut n = 0;
    for _ in 0..CALLS {
        n = call::<LOCK_FREE>(words, n);
    }
    black_box(n);
}

fn native_calls<const LOCK_FREE: bool>(words: &Words) {
    for _ in 0..CALLS {
        if LOCK_FREE {
            words.native.store(1, Ordering::Release);
        }
        black_box(());
        if LOCK_FREE {
            words.native.store(0, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if words.stop.load(Ordering::Acquire) != 0 {
                stop(words);
            }
        }
    }
}

/// Median ns a call of each.
fn compare(a: impl Fn(), b: impl Fn()) -> (f64, f64) {
    let time = |f: &dyn Fn()| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64() * 1e9 / CALLS as f64
    };
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Neither always goes first.
        if round % 2 == 0 {
            of_a.push(time(&a));
            of_b.push(time(&b));
        } else {
            of_b.push(time(&b));
            of_a.push(time(&a));
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    (median(&mut of_a), median(&mut of_b))
}

fn main() {
    let ring = Ring::new();
    let words = Words::default();
    println!("ns a call (median of {ROUNDS} rounds)   checkpoint  lock-free  ratio");
    let report = |what: &str, (a, b): (f64, f64)| {
        println!("{what:38}{a:10.2}{b:11.2}{:7.3}", b / a);
    };
    report(
        "two trace points, off",
        compare(|| calls::<false>(&words), || calls::<true>(&words)),
    );
    words.cursor.store(ring.base(), Ordering::Relaxed);
    report(
        "two trace points, on",
        compare(|| calls::<false>(&words), || calls::<true>(&words)),
    );
    report(
        "native call and return, nothing else",
        compare(
            || native_calls::<false>(&words),
            || native_calls::<true>(&words),
        ),
    );
}
